r"""Networks that are constructed, not trained: one layer of C quadratic neurons separates C clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.papers.noel.network import Layer
from qsdp._utils.validation import FloatArray, check_matrix, check_numbers, check_real
from qsdp.exceptions import InvalidInputError

__all__ = ["ellipsoid_neurons"]


def ellipsoid_neurons(X: Any, labels: Any, centres: Any, shapes: Any, *, confidence: float = 0.999) -> Layer:
    r"""Return a layer of C full quadratic neurons, each positive on its own cluster and negative on all others.

    Let :math:`q_k(x) = (x - c_k)^T P_k (x - c_k)` be at most :math:`r_k` on cluster k and at least :math:`R_k > r_k` on
    the others. Neuron k is :math:`z_k = s_k ((r_k + R_k)/2 - q_k(x))` with
    :math:`s_k = 2 \ln((1 - \epsilon)/\epsilon) / (R_k - r_k)`. Its sigmoid is at least :math:`1 - \epsilon` on its own
    cluster and at most :math:`\epsilon` on the others, and the summed cross-entropy of a sample is at most
    :math:`-C \ln(1 - \epsilon)`.

    Parameters
    ----------
    X : array-like of shape (n, d)
    labels : array-like of shape (n,)
        Class numbers 0 to C - 1; each must occur.
    centres : array-like of shape (C, d)
    shapes : array-like of shape (C, d, d)
        Positive definite matrices.
    confidence : float, default=0.999
        1 - epsilon, between 1/2 and 1.

    Returns
    -------
    Layer
        The layer, with sigmoid activation.

    Raises
    ------
    InvalidInputError
        An ellipsoid does not separate its cluster, or a shape is not positive definite. The paper makes the claim for
        all bounded clusters, without this hypothesis.

    Notes
    -----
    This corrects section 6.1 of Noel, Muthiah-Nakarajan and Oswal. Separating ellipsoids are sufficient, not necessary.
    """
    confidence = _confidence(confidence)
    X, centres = check_matrix("X", X), check_matrix("centres", centres)
    C, d = centres.shape
    labels = np.asarray(labels)
    if labels.shape != (len(X),) or not np.array_equal(np.unique(labels), np.arange(C)):
        raise InvalidInputError(f"labels must be {len(X)} class numbers, with each of 0 to {C - 1}")
    P = _definite(shapes, C, d)
    inner, outer = np.empty(C), np.empty(C)
    for k in range(C):
        away = X - centres[k]
        distances = np.einsum("si,ij,sj->s", away, P[k], away)
        inner[k], outer[k] = distances[labels == k].max(), distances[labels != k].min(initial=np.inf)
        if not inner[k] < outer[k]:
            raise InvalidInputError(
                f"the ellipsoid of cluster {k} does not separate it: the farthest of its points is at {inner[k]:.4g}, "
                f"the nearest of another cluster at {outer[k]:.4g}"
            )
    return _layer(centres, P, inner, outer, confidence)


def _layer(centres: FloatArray, P: FloatArray, inner: FloatArray, outer: FloatArray, confidence: float) -> Layer:
    strength = 2.0 * np.log(confidence / (1.0 - confidence))
    # With a single cluster, any finite level works.
    outer = np.where(np.isfinite(outer), outer, inner + strength)
    slopes, levels = strength / (outer - inner), 0.5 * (inner + outer)
    Q = -slopes[:, None, None] * P
    W = -2.0 * np.einsum("kij,kj->ki", Q, centres)
    b = slopes * (levels - np.einsum("ki,kij,kj->k", centres, P, centres))
    return Layer("qnn", {"Q": Q, "W": W, "b": b}, "sigmoid")


def _confidence(confidence: float) -> float:
    confidence = check_real("confidence", confidence)
    if not 0.5 < confidence < 1.0:
        raise InvalidInputError(f"confidence must be a number between 0.5 and 1; got {confidence!r}")
    return confidence


def _definite(shapes: Any, C: int, d: int) -> FloatArray:
    P = check_numbers("shapes", shapes, f"({C}, {d}, {d})")
    if P.shape != (C, d, d) or np.abs(P - np.swapaxes(P, 1, 2)).max() > 1e-10 * np.abs(P).max():
        raise InvalidInputError(f"shapes must be symmetric, of shape {(C, d, d)}; got {P.shape}")
    smallest = np.linalg.eigvalsh(P)[:, 0]
    if not smallest.min() > 0.0:
        raise InvalidInputError(
            f"shapes must be positive definite; that of cluster {smallest.argmin()} has the eigenvalue "
            f"{smallest.min():.4g}"
        )
    symmetric: FloatArray = 0.5 * (P + np.swapaxes(P, 1, 2))
    return symmetric
