"""The kind of curve on which a quadratic function of two variables vanishes."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils.validation import check_real
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

__all__ = ["classify_conic", "classify_conics"]


def classify_conic(form: Any, *, tol: float = 1e-9) -> str:
    r"""Return the kind of the curve :math:`x^T S x + s \cdot x + s_0 = 0` in the plane.

    Parameters
    ----------
    form : QuadraticForm
        Function of two variables with one output.
    tol : float, default=1e-9
        Determinants below it, relative to the size of their entries, count as zero.

    Returns
    -------
    str
        "ellipse", "hyperbola" or "parabola"; for degenerate curves "crossing lines", "parallel lines", "double line",
        "point" or "line"; without a curve "empty", or "plane" for the zero function.

    Examples
    --------
    >>> import qsdp
    >>> from benchmarks.papers.noel.conics import classify_conic
    >>> classify_conic(qsdp.QuadraticForm([[1.0, 0.0], [0.0, 4.0]], s0=-1.0))
    'ellipse'
    """
    tol = check_real("tol", tol)
    form = form.to_quadratic_form()
    if form.n_inputs != 2 or form.output_shape:
        raise InvalidInputError(f"form must have two variables and one output; got {form!r}")
    S, half, s0 = np.array(form.S), 0.5 * np.array(form.s), float(form.s0)
    # Scale the linear and constant parts to the size of the quadratic part; the kind does not depend on the scale.
    size = float(np.abs(S).max())
    if size <= tol * max(float(np.abs(half).max()), abs(s0)):
        if np.abs(half).max() > tol * abs(s0):
            return "line"
        return "empty" if s0 else "plane"
    unit = max(float(np.abs(half).max()) / size, float(np.sqrt(abs(s0) / size))) or 1.0
    S, half, s0 = S / size, half / (size * unit), s0 / (size * unit * unit)
    whole = np.block([[S, half[:, None]], [half[None, :], np.array([[s0]])]])
    minor, determinant = float(np.linalg.det(S)), float(np.linalg.det(whole))
    if minor > tol:
        if abs(determinant) <= tol:
            return "point"
        return "ellipse" if determinant * np.trace(S) < 0.0 else "empty"
    if minor < -tol:
        return "hyperbola" if abs(determinant) > tol else "crossing lines"
    if abs(determinant) > tol:
        return "parabola"
    return _parallel(S, half, s0, tol)


def _parallel(S: Any, half: Any, s0: float, tol: float) -> str:
    """Return the kind of curve of a function that varies in one direction only."""
    values, vectors = np.linalg.eigh(S)
    main = int(np.abs(values).argmax())
    a, h = float(values[main]), float(vectors[:, main] @ half)
    discriminant = h * h - a * s0
    if abs(discriminant) <= tol:
        return "double line"
    return "parallel lines" if discriminant > 0.0 else "empty"


def classify_conics(form: QuadraticForm, *, tol: float = 1e-9) -> list[str]:
    """Return the kind of curve of each output of a form in two variables."""
    form = form.to_quadratic_form()
    outputs = zip(*form.parts, strict=True)
    return [classify_conic(QuadraticForm(S, s, float(s0)), tol=tol) for S, s, s0 in outputs]
