"""Distillation: approximate a trained model or a layer by a quantized network."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_matrix, check_sample_weight, check_targets
from qsdp.activations import PolynomialActivation
from qsdp.choosing.options import TrainingOptions
from qsdp.exceptions import InvalidTypeError
from qsdp.pipeline import QSDPResult, solve_and_sample

__all__ = ["distill"]


def distill(
    model: Any,
    X: Any,
    n_neurons: int | None = TrainingOptions.n_neurons,
    beta: float | str = "0.1%",
    *,
    activation: str | Sequence[float] | PolynomialActivation | None = "auto",
    **options: Any,
) -> QSDPResult:
    r"""Match the outputs of a trained model on data by a quantized network, with a certificate.

    .. math::

        \min_{m, u, v, \alpha} \sum_i w_i \|f(x_i) - g(x_i)\|^2 + \beta D \sum_j \|\alpha_j\|_1
        \quad\text{over quantized } f, \text{ for the model } g.

    This is `solve_and_sample` with the outputs of the model as targets. The loss is a sum over outputs, so the neurons
    of a layer are matched one at a time, with a lower bound for each: that of neuron k is
    ``result.relaxation.lower_bounds[k]``.

    Parameters
    ----------
    model : QuadraticForm, network, estimator or function
        If it has a method ``to_quadratic_form``, as every network of this package has, its outputs are those of that
        form. Otherwise, they are ``decision_function(X)`` of a classifier that has it, ``predict(X)`` of any other
        object, or ``model(X)`` of a function.
    X : array-like of shape (n, d)
        Data on which the outputs are matched. No targets are needed.
    n_neurons : int or None, default=250
        See `solve_and_sample`.
    beta : float or str, default="0.1%"
        See `solve_and_sample`. The default is smaller than for data, because outputs of a model have no noise.
    activation : "auto", None, str, (a, b, c) or PolynomialActivation, default="auto"
        "auto" is bilinear for a model :math:`x^T S x`. For any other model, it is (1, 2, 1), with the lift
        :math:`(x, 1)(x, 1)^T`, which gives every quadratic function.
    **options
        Further arguments of `solve_and_sample`, such as ``sample_weight``, ``levels``, ``refine`` and ``random_state``.

    Returns
    -------
    QSDPResult
        Its certificate bounds the summed squared mismatch plus regulariser of *every* quantized network.
        ``result.relaxation.predict(X)`` is the limit of many neurons.

    Raises
    ------
    InvalidTypeError
        The model has no outputs on arrays.

    Notes
    -----
    Section 6 of Bartan and Pilanci suggests this, layer by layer, for the quantization of a trained network.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> match = qsdp.distill(lambda X: np.maximum(X[:, :2], 0.0), X, n_neurons=4000)
    >>> match.predict(X).shape
    (200, 2)
    >>> match.certificate.lower_bound <= match.certificate.objective
    True
    """
    automatic = isinstance(activation, str) and activation == "auto"
    # Options are checked before the model computes its outputs.
    TrainingOptions.from_values(
        {**options, "n_neurons": n_neurons, "beta": beta, "activation": None if automatic else activation}
    )
    allowed = signature(solve_and_sample).parameters.keys() - {"X", "y"}
    if unknown := [name for name in options if name not in allowed]:
        raise InvalidTypeError(
            f"{unknown[0]!r} is not an option of distill; it must be one of {', '.join(sorted(allowed))}. The targets "
            "are the outputs of the model"
        )
    X = check_matrix("X", X)
    check_sample_weight(options.get("sample_weight"), len(X))
    outputs, has_affine_part = _outputs(model, X)
    if automatic:
        activation = (1.0, 2.0, 1.0) if has_affine_part else None
    return solve_and_sample(X, outputs, n_neurons, beta, activation=activation, **options)


def _outputs(model: Any, X: FloatArray) -> tuple[FloatArray, bool]:
    """Compute the outputs of the model on X; also return whether the model may have a linear or constant part."""
    if hasattr(model, "to_quadratic_form"):
        form = model.to_quadratic_form()
        return form.predict(X), bool(np.any(form.s) or np.any(form.s0))
    if hasattr(model, "decision_function") and _is_classifier(model):
        return check_targets("the model's decision function", model.decision_function(X), length=len(X)), True
    if hasattr(model, "predict"):
        return check_targets("the model's predictions", model.predict(X), length=len(X)), True
    if callable(model) and type(model).__module__.partition(".")[0] != "torch":
        return check_targets("the model's outputs", model(X), length=len(X)), True
    raise InvalidTypeError(
        "model must be a quadratic form, a network, a function of arrays, or have a method predict; got "
        f"{type(model).__module__}.{type(model).__name__}: take qsdp.QuadraticForm(S) for a matrix S, or a function "
        "that computes the outputs as an array, such as lambda X: module(torch.tensor(X)).detach().numpy()"
    )


def _is_classifier(model: Any) -> bool:
    if not hasattr(model, "__sklearn_tags__"):
        return False
    from sklearn.base import is_classifier

    return bool(is_classifier(model))
