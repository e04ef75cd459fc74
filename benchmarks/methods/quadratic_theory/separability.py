r"""Whether a quadric separates two sets of points: a linear program in the lifted features.

A family whose z is linear in its parameters, :math:`z = \langle \theta, \phi(x) \rangle`, separates points of labels
:math:`y_i = \pm 1` iff :math:`t^* > 0` in

.. math:: t^* = \max_{\theta, t} t \quad\text{s.t.}\quad y_i \langle \theta, \phi(x_i) \rangle \ge t,\ |\theta_j| \le 1,

and otherwise multipliers :math:`\lambda \ge 0`, :math:`\sum \lambda_i = 1` with
:math:`\sum_i \lambda_i y_i \phi(x_i) = 0` prove that it does not: the hulls of both lifted sets share a point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from qsdp._utils.validation import FloatArray, check_choice, check_matrix
from qsdp.exceptions import InvalidInputError, SolverError
from qsdp.networks import QuadraticForm

__all__ = ["LINEAR_IN_PARAMETERS", "Separation", "separate"]

#: Families that the linear program can decide, and the parts of their lifted features: products, squares, inputs, one.
LINEAR_IN_PARAMETERS = {
    "qnn": ("products", "inputs", "one"),
    "form_only": ("products",),
    "fan_compact": ("squares", "inputs", "one"),
    "power_only": ("squares", "one"),
    "linear": ("inputs", "one"),
}

#: Margin above which points count as separated, with features scaled to at most one.
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class Separation:
    """Answer of `separate`.

    Attributes
    ----------
    separable : bool
    margin : float
        t*, for features scaled to at most one in magnitude.
    form : QuadraticForm or None
        A function that is positive on the first set and negative on the second, scaled to at least one in magnitude;
        None if there is no such function.
    multipliers : ndarray of shape (n,) or None
        Weights of the points in the proof that there is no such function; None if there is one.
    """

    separable: bool
    margin: float
    form: QuadraticForm | None
    multipliers: FloatArray | None


def lifted_features(X: FloatArray, family: str) -> FloatArray:
    """Return the features of a family that is linear in its parameters, (n, p)."""
    n, d = X.shape
    rows, columns = np.triu_indices(d)
    parts = {"products": X[:, rows] * X[:, columns], "squares": X * X, "inputs": X, "one": np.ones((n, 1))}
    return np.hstack([parts[part] for part in LINEAR_IN_PARAMETERS[family]])


def separate(X: Any, positive: Any, family: str = "qnn") -> Separation:
    """Decide whether one neuron of a family can tell two sets apart, and return it or a proof that none can.

    Parameters
    ----------
    X : array-like of shape (n, d)
    positive : array-like of shape (n,)
        Booleans, or labels with two values, of which the larger is positive.
    family : {"qnn", "fan_compact", "power_only", "form_only", "linear"}, default="qnn"

    Raises
    ------
    InvalidInputError
        The family is not linear in its parameters, or there are not two sets.

    Examples
    --------
    >>> from benchmarks.data.toys import make_xor
    >>> from benchmarks.methods.quadratic_theory import separate
    >>> X, y = make_xor()
    >>> separate(X, y, "linear").separable, separate(X, y, "qnn").separable
    (False, True)
    """
    check_choice("family", family, LINEAR_IN_PARAMETERS)
    X = check_matrix("X", X)
    labels, codes = np.unique(np.asarray(positive), return_inverse=True)
    if codes.shape != (len(X),) or len(labels) != 2:
        raise InvalidInputError(
            f"positive must be {len(X)} labels of two values, one for each row of X; got shape {codes.shape} and "
            f"{len(labels)} values"
        )
    signs = np.where(codes == 1, 1.0, -1.0)
    features = lifted_features(X, family)
    scales = np.abs(features).max(axis=0)
    scales[scales == 0.0] = 1.0
    signed = signs[:, None] * (features / scales)
    p = features.shape[1]
    answer = scipy.optimize.linprog(
        np.append(np.zeros(p), -1.0),
        A_ub=np.column_stack([-signed, np.ones(len(X))]),
        b_ub=np.zeros(len(X)),
        bounds=[(-1.0, 1.0)] * p + [(None, None)],
        method="highs",
    )
    if answer.status != 0 or answer.x is None:
        raise SolverError(f"the linear program of separability was not solved: {answer.message}")
    # The solver's optimal value is not exact; the margin computed from its weights is.
    weights = answer.x[:p]
    margin = float((signed @ weights).min())
    if margin > _MARGIN:
        return Separation(True, margin, _form(weights / (margin * scales), X.shape[1], family), None)
    multipliers = np.maximum(-answer.ineqlin.marginals, 0.0)
    return Separation(False, max(margin, 0.0), None, multipliers / multipliers.sum())


def _form(weights: FloatArray, d: int, family: str) -> QuadraticForm:
    sizes = {"products": d * (d + 1) // 2, "squares": d, "inputs": d, "one": 1}
    parts, place = {}, 0
    for part in LINEAR_IN_PARAMETERS[family]:
        parts[part] = weights[place : place + sizes[part]]
        place += sizes[part]
    Q = np.diag(parts.get("squares", np.zeros(d)))
    if "products" in parts:
        # `QuadraticForm` symmetrises the matrix.
        Q[np.triu_indices(d)] = parts["products"]
    return QuadraticForm(Q, parts.get("inputs", np.zeros(d)), float(parts.get("one", np.zeros(1))[0]))
