"""Constraints of the parameters of the estimators, in the form in which scikit-learn checks them."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError

from qsdp.activations import PolynomialActivation, get_activation
from qsdp.choosing.options import AUTO, TrainingOptions
from qsdp.encoding.additive_blocks import AdditiveBlocks
from qsdp.encoding.fitting import ADDITIVE
from qsdp.estimators.classes import check_class_weight
from qsdp.estimators.input_encoding import check_encoding, makes_blocks
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.relaxation.backends import check_solver
from qsdp.training_data import MAX_LEVELS

__all__ = [
    "CONSTRAINTS",
    "OF_CLASSIFIERS",
    "activation_of",
    "encoding_of",
    "is_additive",
    "is_auto",
    "training_options",
]

#: Constraints of the parameters of both estimators. Names and beta are checked further by the options of the training,
#: which suggest the nearest name.
CONSTRAINTS: dict[str, list[Any]] = {
    "n_neurons": [Interval(Integral, 1, None, closed="left"), None],
    "beta": [Real, str],
    "loss": [str, Loss],
    "activation": [str, "array-like", PolynomialActivation, None],
    "levels": [Interval(Integral, 2, MAX_LEVELS, closed="both")],
    "encoding": [str, HasMethods(["fit", "transform"]), None],
    "max_categories": [Interval(Integral, 2, None, closed="left")],
    "constant_column": ["boolean"],
    "solver": [str],
    "refine": [str],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "allocation": [str],
    "time_limit": [Interval(Real, 0, None, closed="right"), None],
    "n_jobs": [Integral, None],
    "device": [str, None],
    "random_state": ["random_state", np.random.Generator],
    "warm_start": ["boolean"],
    "verbose": ["verbose", None],
}

#: Constraints of the parameters that only the classifier has.
OF_CLASSIFIERS: dict[str, list[Any]] = {
    "class_weight": [str, Mapping, None],
}


def training_options(estimator: Any) -> TrainingOptions:
    """Check all parameters of an estimator, and return those of its training.

    Raises
    ------
    InvalidInputError
        A parameter is not allowed; the message names it, its value and what is allowed.
    SolverError
        The solver does not support the loss or additive models, or is not installed.
    """
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InvalidInputError(str(error)) from None
    check_encoding("encoding", estimator.encoding)
    check_class_weight("class_weight", getattr(estimator, "class_weight", None))
    parameters = estimator.get_params(deep=False)
    parameters["activation"] = activation_of(estimator)
    parameters["loss"] = estimator._loss
    additive = is_additive(estimator)
    if additive:
        _check_additive(estimator)
    if additive or isinstance(estimator.encoding, AdditiveBlocks):
        check_solver(estimator.solver, get_loss(estimator._loss), real_weights=True)
    return TrainingOptions.from_values(parameters)


def activation_of(estimator: Any) -> Any:
    """Return the parameter `activation`, and for "auto" that of ReLU on rows; networks on blocks are bilinear."""
    if not is_auto(estimator.activation):
        return estimator.activation
    return None if makes_blocks(estimator.encoding) or is_additive(estimator) else "relu_like"


def encoding_of(estimator: Any) -> Any:
    """Return the parameter `encoding`, and for "auto" that of an additive model, unless other parameters exclude it.

    They do if they ask for an activation, for more than two levels, or for a loss without second derivatives, or if the
    rows come in batches.
    """
    if not is_auto(estimator.encoding):
        return estimator.encoding
    activation, loss = estimator.activation, estimator.loss
    additive = (
        not estimator._in_batches
        and estimator.levels == 2
        and (is_auto(activation) or get_activation(activation) is None)
        and (is_auto(loss) or get_loss(loss).has_curvature)
    )
    return ADDITIVE if additive else "standard"


def is_additive(estimator: Any) -> bool:
    """Whether an estimator fits an additive model with interactions."""
    encoding = encoding_of(estimator)
    return isinstance(encoding, str) and encoding == ADDITIVE


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value == AUTO


def _check_additive(estimator: Any) -> None:
    """Check that activation and levels are those of networks on blocks, and that the loss has second derivatives."""
    if get_activation(activation_of(estimator)) is not None:
        raise InvalidInputError(
            f'activation must be "auto" or None for encoding="additive"; got {estimator.activation!r:.60}'
        )
    if estimator.levels != 2:
        raise InvalidInputError(f'levels must be 2 for encoding="additive"; got {estimator.levels}')
    loss = get_loss(estimator._loss)
    if not loss.has_curvature:
        raise InvalidInputError(f'loss must have second derivatives for encoding="additive"; got {loss.name!r}')
