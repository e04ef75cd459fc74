"""Quadratic functions: the base classes of networks, and the explicit form that every network has."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.parallel import chunks, count_jobs
from qsdp._utils.summary import Rows, Summarized, Summary, format_number
from qsdp._utils.validation import (
    FloatArray,
    ReadOnlyArrays,
    check_integer,
    check_matrix,
    check_numbers,
    check_real,
    read_only,
    read_only_copy,
)
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout
from qsdp.blocks import check_blocks
from qsdp.exceptions import InvalidInputError
from qsdp.lifting import quadratic_values
from qsdp.networks.weights import shared_columns
from qsdp.problem import TrainingProblem

__all__ = [
    "BlockFunction",
    "NeuronFunction",
    "QuadraticForm",
    "QuadraticFunction",
    "check_digits",
    "form_of_neurons",
    "packed",
]

#: Maximum number of terms for which a summary shows the formula.
_TERMS = 6


class QuadraticFunction(Summarized, ReadOnlyArrays):
    """Quadratic function of d variables with values of shape () or (C,)."""

    @property
    def blocks(self) -> Layout | None:
        """Sides and kinds of the blocks of a sample; None for a function of columns."""
        return None

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """Number of inputs: the number of columns that `predict` expects."""

    @property
    @abstractmethod
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value at one sample: () or (C,)."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs C; 1 for a scalar function."""
        return math.prod(self.output_shape)

    def predict(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the values of the function.

        Parameters
        ----------
        X : array-like of shape (n, n_inputs)
        n_jobs : int, optional
            Number of threads, as in joblib; None means one. It does not change the values.

        Returns
        -------
        ndarray of shape (n,) or (n, C)
        """
        values: FloatArray = squeezed(self.outputs(X, n_jobs=n_jobs), self.output_shape, axis=1)
        return values

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar function."""
        return self.to_quadratic_form().outputs(X, n_jobs=n_jobs)

    @abstractmethod
    def to_quadratic_form(self) -> QuadraticForm:
        """Return the function as an explicit `QuadraticForm`, ``x' S x + s' x + s0``."""

    def to_expression(self, names: Sequence[str] | None = None, *, digits: int = 4, threshold: float = 0.0) -> Any:
        """Return the formula as text, or a list with one for each output; see `QuadraticForm.to_expression`."""
        return self.to_quadratic_form().to_expression(names, digits=digits, threshold=threshold)


class NeuronFunction(QuadraticFunction):
    """Quadratic function computed by m neurons, with second-layer weights `alpha` of shape (m,) or (m, C)."""

    alpha: FloatArray

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value at one sample: () or (C,)."""
        return self.alpha.shape[1:]

    @property
    def output_weights(self) -> FloatArray:
        """Second-layer weights of shape (m, C), also for a scalar network."""
        return self.alpha.reshape(len(self.alpha), self.n_outputs)

    @property
    def n_neurons(self) -> int:
        """Number of hidden neurons ``m``."""
        return len(self.alpha)

    @property
    def shared_alpha(self) -> bool:
        """Whether neurons are sorted by output, one output each, with equal second-layer weights within an output."""
        return shared_columns(self.output_weights) is not None

    def objective(self, problem: TrainingProblem) -> float:
        """Compute the objective of this network on `problem`: equation (24) or (57), or its analogue for blocks."""
        return problem.objective(self)


class BlockFunction(QuadraticFunction):
    r"""Function :math:`f(x) = \sum_r \langle \mathcal{X}_r, S_r \rangle` of samples in blocks, or of columns.

    Columns are one block, the lift of a sample. In a block of real weights, S is the vector of these.
    """

    layout: Layout
    activation: PolynomialActivation | None

    @cached_property
    @abstractmethod
    def block_forms(self) -> tuple[FloatArray, ...]:
        """Symmetric matrices S of shape (C, N, N) of each block, and vectors (C, N) of linear ones or real weights."""

    @property
    def lifted(self) -> bool:
        """Whether the last row and column belong to the linear and constant part of the activation."""
        return self.activation is not None and self.activation.lifted

    @property
    def n_inputs(self) -> int:
        """Number of columns that `predict` expects, or of packed entries of a sample in blocks."""
        return self.layout.side - self.lifted if self.blocks is None else self.layout.n_entries

    @cached_property
    def entries(self) -> FloatArray:
        """Vectors of shape (C, P) whose inner products with packed entries are the outputs."""
        return read_only(packed(self.block_forms) * self.layout.counts)

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar function."""
        if self.blocks is None:
            return super().outputs(X, n_jobs=n_jobs)
        rows = check_blocks(X, self.blocks).rows
        values = np.empty((len(rows), self.n_outputs))
        for some in chunks(*rows.shape):
            values[some] = rows[some] @ self.entries.T
        return values

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the function of columns as an explicit `QuadraticForm`, ``x' S x + s' x + s0``."""
        return QuadraticForm.of_lift(squeezed(self._of_columns(), self.output_shape), self.activation)

    def _of_columns(self) -> FloatArray:
        """Return the matrices (C, D, D) of a function of columns, or raise `InvalidInputError`."""
        if self.blocks is not None:
            raise InvalidInputError(f"a {type(self).__name__} on blocks has no quadratic form in columns of data")
        return self.block_forms[0]


def packed(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Pack the matrices (C, N, N) or vectors (C, N) of each block into an array (C, P), every entry once."""
    rows = []
    for part in parts:
        first, second = np.triu_indices(part.shape[1])
        rows.append(part if part.ndim == 2 else part[:, first, second])
    return np.concatenate(rows, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class QuadraticForm(QuadraticFunction):
    r"""Quadratic function :math:`f(x) = x^T S x + s^T x + s_0`, or C such functions.

    Parameters
    ----------
    S : array-like of shape (d, d) or (C, d, d)
        Symmetrised and stored read-only.
    s : array-like of shape (d,) or (C, d), optional
    s0 : float or array-like of shape (C,), optional

    Examples
    --------
    >>> import qsdp
    >>> form = qsdp.QuadraticForm([[1.0, 0.5], [0.5, 0.0]], s=[0.0, -2.0], s0=3.0)
    >>> form.to_expression()
    'x1^2 + x1 x2 - 2 x2 + 3'
    >>> form.predict([[1.0, 2.0]])
    array([2.])
    """

    S: FloatArray
    s: FloatArray
    s0: FloatArray

    def __init__(self, S: Any, s: Any = None, s0: Any = 0.0) -> None:
        matrices = check_numbers("S", S, "(d, d) or (C, d, d)")
        if matrices.ndim not in {2, 3} or matrices.shape[-1] != matrices.shape[-2] or matrices.size == 0:
            raise InvalidInputError(f"S must have shape (d, d) or (C, d, d); got {matrices.shape}")
        matrices = 0.5 * (matrices + np.swapaxes(matrices, -1, -2))
        linear = np.zeros(matrices.shape[:-1]) if s is None else check_numbers("s", s, f"{matrices.shape[:-1]}")
        if linear.shape != matrices.shape[:-1]:
            raise InvalidInputError(f"s must have shape {matrices.shape[:-1]}; got {linear.shape}")
        constant = check_numbers("s0", s0, f"{matrices.shape[:-2]}")
        if constant.shape not in {(), matrices.shape[:-2]}:
            raise InvalidInputError(f"s0 must have shape {matrices.shape[:-2]}; got {constant.shape}")
        constant = np.broadcast_to(constant, matrices.shape[:-2])
        vars(self).update(S=read_only_copy(matrices), s=read_only_copy(linear), s0=read_only_copy(constant))

    @classmethod
    def of_lift(cls, S: FloatArray, activation: PolynomialActivation | None) -> QuadraticForm:
        r"""Build the function :math:`\langle \mathcal{X}, S \rangle` from S (D, D) or (C, D, D) and the activation."""
        if activation is None:
            return cls(S)
        a, b, c = activation.coefficients
        if not activation.lifted:
            return cls(a * S)
        return cls(a * S[..., :-1, :-1], 0.5 * b * (S[..., :-1, -1] + S[..., -1, :-1]), c * S[..., -1, -1])

    @property
    def n_inputs(self) -> int:
        """Number of variables d."""
        return int(self.S.shape[-1])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value at one sample: () or (C,)."""
        return self.s0.shape

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Arrays S, s and s0 of shape (C, d, d), (C, d) and (C,), also for a scalar function."""
        C, d = self.n_outputs, self.n_inputs
        return self.S.reshape(C, d, d), self.s.reshape(C, d), self.s0.reshape(C)

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar function."""
        X = check_matrix("X", X, n_columns=self.n_inputs)
        jobs = count_jobs(n_jobs)
        S, s, s0 = self.parts
        values: FloatArray = np.stack([quadratic_values(X, matrix, jobs) for matrix in S], axis=1) + X @ s.T + s0
        return values

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the form itself, so that forms and networks share this method."""
        return self

    def lifted(self) -> FloatArray:
        r"""Return the matrix L of :math:`f(x) = \langle L, \tilde x \tilde x^T \rangle`, :math:`\tilde x = (x, 1)`.

        .. math:: L = \begin{pmatrix} S & s/2 \\ s^T/2 & s_0 \end{pmatrix}

        L has shape (d + 1, d + 1) or (C, d + 1, d + 1). It is the matrix of a bilinear network on data with a last
        column of ones. The column of ones comes last everywhere in this package.

        Examples
        --------
        >>> import qsdp
        >>> qsdp.QuadraticForm([[1.0, 0.5], [0.5, 0.0]], s=[0.0, -2.0], s0=3.0).lifted()
        array([[ 1. ,  0.5,  0. ],
               [ 0.5,  0. , -1. ],
               [ 0. , -1. ,  3. ]])
        """
        d = self.n_inputs
        L = np.empty((*self.S.shape[:-2], d + 1, d + 1))
        L[..., :d, :d] = self.S
        L[..., :d, d] = L[..., d, :d] = 0.5 * self.s
        L[..., d, d] = self.s0
        return L

    def composed(self, scale: FloatArray, shift: FloatArray) -> QuadraticForm:
        """Substitute ``scale * t + shift``, both of shape (d,), for the variables; return the function of t."""
        slope = self.s + 2.0 * (self.S @ shift)
        constant = self.s0 + self.s @ shift + (self.S @ shift) @ shift
        return QuadraticForm(self.S * np.outer(scale, scale), slope * scale, constant)

    def rescaled(self, offset: FloatArray, factor: FloatArray) -> QuadraticForm:
        """Return the function ``offset + factor * f(x)``; `offset` and `factor` have shape () or (C,)."""
        (S, s, s0), factor = self.parts, np.broadcast_to(factor, (self.n_outputs,))
        parts = factor[:, None, None] * S, factor[:, None] * s, offset + factor * s0
        return QuadraticForm(*(squeezed(part, self.output_shape) for part in parts))

    def with_last(self, value: float) -> QuadraticForm:
        """Fix the last variable at `value`, and return the function of the others."""
        slope = self.s[..., :-1] + 2.0 * value * self.S[..., :-1, -1]
        constant = self.s0 + value * self.s[..., -1] + value**2 * self.S[..., -1, -1]
        return QuadraticForm(self.S[..., :-1, :-1], slope, constant)

    def to_expression(self, names: Sequence[str] | None = None, *, digits: int = 4, threshold: float = 0.0) -> Any:
        """Return the formula as text, or a list with one formula per output.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the variables, by default x1, x2, ...
        digits : int, default=4
            Significant digits.
        threshold : float, default=0
            Terms whose coefficients are at most this in magnitude are omitted.
        """
        digits = check_digits(digits)
        threshold = check_real("threshold", threshold)
        names = [f"x{j + 1}" for j in range(self.n_inputs)] if names is None else list(names)
        if len(names) != self.n_inputs:
            raise InvalidInputError(f"names must be {self.n_inputs}, one per variable; got {len(names)}")
        outputs = zip(*self.parts, strict=True)
        formulas = [_formula(S, s, float(s0), names, digits, threshold) for S, s, s0 in outputs]
        return squeezed(formulas, self.output_shape)

    def _summary(self) -> Summary:
        (S, *_), (s, *_), (s0, *_) = self.parts
        which = " of output 0" if self.output_shape else ""
        rows: Rows = [("inputs", str(self.n_inputs)), *(("outputs", str(C)) for C in self.output_shape)]
        if np.count_nonzero(np.triu(S)) + np.count_nonzero(s) + 1 <= _TERMS:
            rows.append((f"formula{which}", QuadraticForm(S, s, s0).to_expression()))
        rows.append((f"norm of S{which}", format_number(float(np.linalg.norm(S)))))
        rows.append((f"norm of s{which}", format_number(float(np.linalg.norm(s)))))
        return Summary("QuadraticForm", rows)

    def __repr__(self) -> str:
        return f"QuadraticForm(n_inputs={self.n_inputs}{outputs_text(self.output_shape)})"


def check_digits(digits: object) -> int:
    """Check a number of significant digits; 17 suffice to distinguish all floats."""
    return check_integer("digits", digits, minimum=1, maximum=17)


def form_of_neurons(left: npt.NDArray[Any], right: npt.NDArray[Any], alpha: FloatArray) -> FloatArray:
    """Compute the symmetric matrices of ``sum_j alpha_jk (w_j . z)(w'_j . z)``, of shape (C, D, D)."""
    D = left.shape[1]
    S = np.zeros((alpha.shape[1], D, D))
    for form, column in zip(S, alpha.T, strict=True):
        served = np.flatnonzero(column)
        for some in chunks(len(served), D):
            rows = served[some]
            form += (left[rows].T * column[rows]) @ right[rows].astype(np.float64)
    symmetric: FloatArray = 0.5 * (S + S.transpose(0, 2, 1))
    return symmetric


def _formula(S: FloatArray, s: FloatArray, s0: float, names: Sequence[str], digits: int, threshold: float) -> str:
    terms = []
    for i, first in enumerate(names):
        for j in range(i, len(names)):
            product = f"{first}^2" if i == j else f"{first} {names[j]}"
            terms.append((float(S[i, j]) * (1.0 if i == j else 2.0), product))
    terms += [(float(value), name) for value, name in zip(s, names, strict=True)]
    terms.append((s0, ""))
    text = ""
    for value, product in terms:
        if value == 0.0 or abs(value) <= threshold:
            continue
        size = f"{abs(value):.{digits}g}"
        body = product if size == "1" and product else f"{size} {product}".rstrip()
        text += (f" {'-' if value < 0 else '+'} " if text else "-" if value < 0 else "") + body
    return text or "0"
