"""Constraints of the parameters of the estimators, in the form in which scikit-learn checks them."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError

from qsdp.activations import PolynomialActivation
from qsdp.choosing.options import TrainingOptions
from qsdp.estimators.classes import check_class_weight
from qsdp.estimators.input_encoding import check_encoding, makes_blocks
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss
from qsdp.training_data import MAX_LEVELS

__all__ = ["CONSTRAINTS", "OF_CLASSIFIERS", "training_options"]

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
    "probability": ["boolean"],
}


def training_options(estimator: Any) -> TrainingOptions:
    """Check all parameters of an estimator, and return those of its training.

    Raises
    ------
    InvalidInputError
        A parameter is not allowed; the message names it, its value and what is allowed.
    """
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InvalidInputError(str(error)) from None
    check_encoding("encoding", estimator.encoding)
    check_class_weight("class_weight", getattr(estimator, "class_weight", None))
    parameters = estimator.get_params(deep=False)
    if makes_blocks(estimator.encoding) and isinstance(estimator.activation, str):
        # The default is for rows; networks on blocks are bilinear.
        default = type(estimator)().activation
        parameters["activation"] = None if estimator.activation == default else estimator.activation
    return TrainingOptions.from_values(parameters)
