"""Amplification of the inputs of a network: Jacobians of its layers and of the network, and range of the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from benchmarks.methods.activations import DIFFERENTIABLE, Activation
from benchmarks.methods.layers import activation_of
from qsdp._utils.validation import FloatArray, check_integer, check_matrix
from qsdp.baselines._layers import TrainedLayer
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

__all__ = ["amplification", "input_jacobian", "layer_jacobian", "output_change", "output_range"]


def layer_jacobian(form: QuadraticForm, X: FloatArray) -> FloatArray:
    r"""Return the derivatives :math:`2 Q_k x + w_k` of a layer's outputs with respect to its inputs, (B, m, n).

    Parameters
    ----------
    form : QuadraticForm
        Form of m outputs in n inputs. For Fan's neurons, the derivatives are
        :math:`\mathrm{diag}(V) W^r + \mathrm{diag}(U) W^g + 2 W^b \mathrm{diag}(x)`.
    X : ndarray of shape (B, n)
    """
    X = check_matrix("X", X, n_columns=form.n_inputs)
    S, s = form.S.reshape(-1, *form.S.shape[-2:]), form.s.reshape(-1, form.n_inputs)
    jacobian: FloatArray = 2.0 * np.einsum("kij,bj->bki", S, X) + s
    return jacobian


def input_jacobian(layers: Sequence[TrainedLayer], X: FloatArray) -> FloatArray:
    """Return the derivatives of a network's outputs with respect to its inputs, (B, C, d).

    Raises
    ------
    InvalidInputError
        The derivative of an activation is not known.
    """
    H = check_matrix("X", X)
    whole: FloatArray | None = None
    for layer in layers:
        activation = activation_of(layer)
        if not isinstance(activation, Activation) or activation.name not in DIFFERENTIABLE:
            raise InvalidInputError(
                f"layers must have activations relu, tanh, sigmoid or none; got {layer.activation!r}"
            )
        form = layer.form.to_quadratic_form()
        here = layer_jacobian(form, H)
        H = layer.apply(form.predict(H).reshape(len(H), -1))
        here = activation.backward(here, H[:, :, None])
        whole = here if whole is None else here @ whole
    if whole is None:
        raise InvalidInputError("layers must hold at least one layer; got none")
    return whole


def amplification(layers: Sequence[TrainedLayer]) -> FloatArray:
    r"""Return the factor of every layer in the bound on the network's gradient at zero, with small activations.

    .. math::

        \|\partial f / \partial x\|_{x = 0} \le
        \prod_h \|\mathrm{diag}(b^{h,g}) W^{h,r} + \mathrm{diag}(b^{h,r}) W^{h,g}\|_F

    for quadratic networks, and :math:`\prod_h \|W^h\|_F` for conventional ones: equations (30) and (32) of Fan et al.
    Both are norms of the linear parts of the layers.

    Notes
    -----
    With unit Gaussian parameters, the root mean square of a factor is :math:`\sqrt 2` times that of a conventional
    layer. Equation (33) prints 2, the bound from the triangle inequality.
    """
    return np.array([np.linalg.norm(layer.form.s) for layer in layers])


def output_change(layers: Sequence[TrainedLayer], x: FloatArray) -> FloatArray:
    """Return the outputs of a network of one input and one output at ascending inputs, less that at zero.

    Notes
    -----
    The outputs are integrated from the derivative by the trapezoidal rule. Their differences are therefore found even
    where they are far below the rounding errors of the outputs themselves.
    """
    slopes = input_jacobian(layers, x[:, None])
    if slopes.shape[1] != 1:
        raise InvalidInputError(f"layers must end in one output; got {slopes.shape[1]}")
    values = scipy.integrate.cumulative_trapezoid(slopes[:, 0, 0], x, initial=0)
    change: FloatArray = values - np.interp(0.0, x, values)
    return change


def output_range(layers: Sequence[TrainedLayer], low: float = -1.0, high: float = 1.0, n_points: int = 1001) -> float:
    """Return the largest minus the smallest output of a network of one input and one output, on an interval."""
    values = output_change(layers, np.linspace(low, high, check_integer("n_points", n_points, minimum=2)))
    return float(values.max() - values.min())
