r"""Exact recursive least squares of one linear layer, and the form with the average approximation.

They are references for tests, and for layers small enough to afford an M x M system per step. For inputs
:math:`X_s` of shape (M, n), the column of ones included, and targets :math:`Z_s^*` of shape (M, C),

.. math::

    A_s = \lambda A_{s-1} + \tfrac{1}{M} X_s^T X_s, \quad B_s = \lambda B_{s-1} + \tfrac{1}{M} X_s^T Z_s^*, \quad
    \Theta_s = A_s^{-1} B_s, \qquad A_0 = P_0^{-1}, \; B_0 = P_0^{-1} \Theta_0.

Zhang et al. (2021), equations (24)-(41).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.linalg

from qsdp._utils.validation import FloatArray

__all__ = ["averaged_step", "least_squares", "mean_ratio", "woodbury_step"]


def woodbury_step(
    theta: FloatArray, P: FloatArray, X: FloatArray, targets: FloatArray, forgetting: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    r"""Return :math:`\Theta_s` and :math:`P_s` after one minibatch, by the inversion of an M x M matrix.

    :math:`K = P X^T (\lambda M I + X P X^T)^{-1}`, then :math:`P \leftarrow (P - K X P) / \lambda` and
    :math:`\Theta \leftarrow \Theta - K (X \Theta - Z^*)`.

    Parameters
    ----------
    theta : ndarray of shape (n, C)
    P : ndarray of shape (n, n)
    X : ndarray of shape (M, n)
    targets : ndarray of shape (M, C)
    forgetting : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> X, targets = np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([[1.0], [2.0]])
    >>> theta, P = woodbury_step(np.zeros((2, 1)), np.eye(2), X, targets)
    >>> exact, A = least_squares(np.zeros((2, 1)), np.eye(2), [X], [targets])
    >>> bool(np.allclose(theta, exact) and np.allclose(P @ A, np.eye(2)))
    True
    """
    XP = X @ P
    inner = XP @ X.T
    inner[np.diag_indices_from(inner)] += forgetting * len(X)
    # solve(inner, XP) is K': P and the inner matrix are symmetric.
    K = scipy.linalg.solve(inner, XP, assume_a="pos").T
    # Rounding leaves the product K X P not quite symmetric.
    P_next = (P - K @ XP) / forgetting
    return theta - K @ (X @ theta - targets), 0.5 * (P_next + P_next.T)


def least_squares(
    theta: FloatArray,
    P: FloatArray,
    batches: Iterable[FloatArray],
    targets: Iterable[FloatArray],
    forgetting: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    r"""Return :math:`\Theta_s = A_s^{-1} B_s` and :math:`A_s` after all minibatches, from their definition.

    Parameters
    ----------
    theta, P : ndarray of shape (n, C) and (n, n)
        Initial parameters and initial P.
    batches, targets : iterables of ndarray of shape (M, n) and (M, C)
    forgetting : float, default=1.0
    """
    A: FloatArray = np.asarray(np.linalg.inv(P), dtype=np.float64)
    B = A @ theta
    for X, Z in zip(batches, targets, strict=True):
        A = forgetting * A + X.T @ X / len(X)
        B = forgetting * B + X.T @ Z / len(X)
    return scipy.linalg.solve(A, B, assume_a="pos"), A


def averaged_step(
    theta: FloatArray,
    P: FloatArray,
    X: FloatArray,
    targets: FloatArray,
    forgetting: float = 1.0,
    ratio: float = 0.1,
) -> tuple[FloatArray, FloatArray]:
    r"""Return one step of the averaged form, whose gradient is the product of the minibatch's means.

    :math:`\Theta \leftarrow \Theta - \frac{k}{h} u (\bar z - \bar z^*)^T` with :math:`u = P \bar x` and
    :math:`h = \lambda + k \bar x^T u`. The form used for training has :math:`X^T (Z - Z^*) / M` in
    place of :math:`k \bar x (\bar z - \bar z^*)^T`.
    """
    mean = X.mean(axis=0)
    u = P @ mean
    h = forgetting + ratio * float(mean @ u)
    error = mean @ theta - targets.mean(axis=0)
    P_next: FloatArray = P / forgetting - (ratio / (forgetting * h)) * np.outer(u, u)
    return theta - np.outer((ratio / h) * u, error), P_next


def mean_ratio(batches: Sequence[FloatArray]) -> float:
    r"""Return the k for which both sides of the average approximation have the same trace; it is at least 1.

    It is :math:`\sum_s \frac{1}{M} \|X_s\|_F^2 / \sum_s \|\bar x_s\|^2`. By Jensen's inequality, the recommended 0.1
    is not an estimate of it.
    """
    mean_squares = sum(float(np.sum(X * X)) / len(X) for X in batches)
    return mean_squares / sum(float(np.sum(X.mean(axis=0) ** 2)) for X in batches)
