"""A new back end: quasi-Newton steps on factors of the two blocks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from qsdp.losses import Loss
from qsdp.relaxation import RawSolution
from qsdp.relaxation.backends import Backend, Settings


def solve(instance: Any, settings: Settings) -> RawSolution:
    r"""Minimise over factors of the two blocks.

    They are :math:`V + Z = 2 \rho P P^T` and
    :math:`V - Z = 2 \rho N N^T`; the rows of T = [P, N] have length 1.
    """
    start = time.perf_counter()
    fit, data, N = instance.fit, instance.map, instance.size
    signs = np.repeat([1.0, -1.0], N)

    def unpack(x):
        rows = x[1:].reshape(N, 2 * N)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return x[0], rows / lengths, lengths

    def objective(x):
        rho, T, lengths = unpack(x)
        K = (signs * T) @ T.T
        yhat = 2.0 * rho * data.forward(K)[:, None]
        # The chain rule backwards: the loss in yhat = 2 <X_i, rho K>,
        # K in T, T in rows of any length.
        slope = 2.0 * data.adjoint(fit.gradient(yhat)[:, 0])
        d_rho = instance.penalty + np.sum(slope * K)
        d_T = 2.0 * rho * slope @ (signs * T)
        d_rows = (
            d_T - T * np.sum(T * d_T, axis=1, keepdims=True)
        ) / lengths
        return fit.value(yhat) + instance.penalty * rho, np.concatenate(
            [[d_rho], d_rows.ravel()]
        )

    # At the start, P spans the directions in which the gradient at zero
    # decreases the loss, and N those in which it increases it.
    values, vectors = np.linalg.eigh(
        data.adjoint(instance.zero_dual[:, 0])
    )
    rows = np.hstack(
        [
            vectors * np.sqrt(np.maximum(part, 0.0))
            for part in (values, -values)
        ]
    )
    rows += (
        0.1
        * np.abs(rows).max()
        * np.random.default_rng(0).standard_normal(rows.shape)
    )

    options = {
        "maxiter": settings.max_iter or 5000,
        "maxfun": 10**6,
        "maxcor": 30,
    }
    found = minimize(
        objective,
        np.concatenate([[0.1], rows.ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] + [(None, None)] * rows.size,
        options={**options, "ftol": 1e-15, "gtol": settings.tol},
    )

    rho, T, _ = unpack(found.x)
    Z, V = rho * (signs * T) @ T.T, rho * T @ T.T
    nu = -fit.gradient(2.0 * data.forward(Z)[:, None])
    z = np.sum(T * (data.adjoint(nu[:, 0]) @ (signs * T)), axis=1)
    seconds = {"solve": time.perf_counter() - start}
    return RawSolution(
        Z[None],
        V[None],
        V[None],
        nu,
        z[None],
        found.message,
        found.nit,
        seconds,
    )


def unfit(loss: Loss) -> str | None:
    """Return what a loss lacks, or None."""
    return (
        None
        if loss.smooth and not loss.coupled
        else "to be smooth, of outputs that do not interact"
    )


BACKEND = Backend(
    name="factors",
    solve=solve,
    package="scipy",
    install="pip install scipy",
    time_limit=False,
    unfit=unfit,
)
