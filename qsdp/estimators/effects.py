"""Main effects and pairwise interactions: contributions of columns and pairs of columns to a quadratic function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS
from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Rows, Summarized, Summary, first_few, format_number, format_percent
from qsdp._utils.validation import (
    FloatArray,
    ReadOnlyArrays,
    check_integer,
    check_matrix,
    check_sample_weight,
    read_only,
)
from qsdp.estimators.centring import InputMoments
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks.quadratic_form import QuadraticForm

__all__ = ["Effect", "Effects", "contributions_about"]

#: Maximum number of effects in a summary.
_LISTED = 8

#: Sizes and constants below this fraction of the largest size of an output are rounding errors: of means that are zero
#: but for rounding, for example. They are ten thousand times smaller.
_NEGLIGIBLE = 1e-12


class Effect(NamedTuple):
    """Row of the table of effects.

    Attributes
    ----------
    columns : tuple of str
        One name for a main effect, two for an interaction.
    size : float
        Standard deviation of the effect over the data, in the units of the output.
    fraction : float
        Squared size, divided by the sum of the squared sizes of all effects of the output.
    """

    columns: tuple[str, ...]
    size: float
    fraction: float

    @property
    def name(self) -> str:
        """Columns as text, such as ``age`` or ``age * income``."""
        return " * ".join(self.columns)


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Summarized, ReadOnlyArrays):
    r"""Exact decomposition of a quadratic function into a constant, main effects and pairwise interactions.

    .. math:: f(x) = c + \sum_a f_a(x_a) + \sum_{a < b} f_{ab}(x_a, x_b), \qquad
        f_a = z_a^T S_{aa} z_a + \ell_a^T z_a - m_a, \quad f_{ab} = 2 z_a^T S_{ab} z_b

    Here :math:`z = x - \bar x` for the (weighted) means :math:`\bar x` of the data, :math:`\ell = s + 2 S \bar x`, and
    :math:`m_a` is such that :math:`f_a` has mean zero. :math:`x_a` is column a, or all inputs that encode it. `of`
    computes the decomposition.

    Attributes
    ----------
    columns : tuple of str
        Names of the G columns.
    outputs : tuple of str
        Names of the C outputs; one name for a scalar function. Those of classifiers are "class setosa", and so on; the
        only score of two classes has the name of the second one, for which it is positive.
    constant : ndarray of shape () or (C,)
    main : ndarray of shape (G,) or (C, G)
        Sizes of the main effects: their standard deviations over the data.
    interactions : ndarray of shape (G, G) or (C, G, G)
        Sizes of the interactions, symmetric with zero diagonal.

    Notes
    -----
    A main effect has mean zero over the data. An interaction has mean zero for any fixed value of either column. If the
    columns were independent with the same marginal distributions, :math:`c` would be the mean of f, the effects would
    be uncorrelated, and their variances would sum to the variance of f. This is the functional analysis of variance
    (Hoeffding, Sobol) for the product of the columns' distributions. It depends only on f as a function of the columns,
    not on the inputs that encode them. The sizes are computed on the data, where columns depend on each other, so
    shares compare effects but do not divide the variance of f. Sizes and constants below 1e-12 of the largest size of
    an output are rounding errors, and count as zero.

    Examples
    --------
    >>> import qsdp
    >>> form = qsdp.QuadraticForm([[0.0, 1.0], [1.0, 0.0]], s=[0.0, 1.0])
    >>> X = [[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]]
    >>> effects = qsdp.Effects.from_network(form, X, columns=["age", "dose"])
    >>> for effect in effects.table():
    ...     print(f"{effect.name:10}  {effect.size:.2f}  {effect.fraction:.2f}")
    dose        1.50  0.53
    age         1.00  0.24
    age * dose  1.00  0.24
    >>> effects.contributions([[2.0, 1.0]]), effects.constant
    (array([[1. , 1.5, 1. ]]), array(1.5))
    """

    columns: tuple[str, ...]
    outputs: tuple[str, ...]
    constant: FloatArray
    main: FloatArray
    interactions: FloatArray
    _terms: _Terms

    @classmethod
    def from_network(
        cls,
        network: Any,
        X: Any,
        *,
        sample_weight: Any = None,
        columns: Sequence[str] | None = None,
        groups: Any = None,
        outputs: Sequence[str] | None = None,
    ) -> Effects:
        """Decompose a network into effects, centred and measured on data.

        Parameters
        ----------
        network : BilinearNetwork, PolynomialNetwork or QuadraticForm
            Any object with `to_quadratic_form` and d inputs.
        X : array-like of shape (n, d)
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows. A row of weight k counts as k equal rows.
        columns : sequence of str, optional
            Names of the columns, by default x1, x2, ...
        groups : array-like of int of shape (d,), optional
            Number of the column, from 0, that each input encodes, for example as one bit of a category. By default,
            every input is a column.
        outputs : sequence of str, optional
            Names of the outputs, such as "class setosa", by default "output 0", "output 1", ...
        """
        if not hasattr(network, "to_quadratic_form"):
            hint = "; call its effects(X)" if hasattr(network, "effects") else ""
            raise InvalidTypeError(f"network must have to_quadratic_form; got {type(network).__name__}{hint}")
        form: QuadraticForm = network.to_quadratic_form()
        data = check_matrix("X", X, n_columns=form.n_inputs)
        weights = check_sample_weight(sample_weight, len(data))
        at = _checked_groups(groups, form.n_inputs)
        names = _checked_names("columns", columns, [f"x{j + 1}" for j in range(int(at.max()) + 1)])
        if groups is None and len(names) != form.n_inputs:
            raise InvalidInputError(f"columns must be {form.n_inputs} names, one for each input; got {len(names)}")
        if at.max() >= len(names):
            raise InvalidInputError(f"groups must be numbers of the {len(names)} columns, from 0; got {at.max()}")
        labels = _checked_names("outputs", outputs, [f"output {k}" for k in range(form.n_outputs)])
        if len(labels) != form.n_outputs:
            raise InvalidInputError(f"outputs must be {form.n_outputs} names, one for each output; got {len(labels)}")
        if weights is not None:
            data, weights = data[weights > 0.0], weights[weights > 0.0]
        terms, sizes = _decompose(form, data, weights, at, len(names))
        negligible = _NEGLIGIBLE * sizes.max(axis=(1, 2), keepdims=True)
        sizes[sizes <= negligible] = 0.0
        main, interactions = np.diagonal(sizes, axis1=1, axis2=2), sizes * (1.0 - np.eye(len(names)))
        constants = terms.constant + terms.means.sum(axis=1)
        constants[np.abs(constants) <= negligible[:, 0, 0]] = 0.0
        parts = (constants, main, interactions)
        constant, main, interactions = (read_only(np.array(squeezed(part, form.output_shape))) for part in parts)
        return cls(names, labels, constant, main, interactions, terms)

    @property
    def terms(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each effect: first every single column, then every pair of columns."""
        return (*((name,) for name in self.columns), *combinations(self.columns, 2))

    @property
    def importances(self) -> FloatArray:
        """Importance of each column: its share of the sum of squared sizes over all effects and outputs, shape (G,).

        Half of each interaction counts for either column. Importances are zero if the function is constant.
        """
        largest = max(float(self.main.max()), float(self.interactions.max()))
        if largest == 0.0:
            return np.zeros(len(self.columns))
        of_output = (self.main / largest) ** 2 + 0.5 * np.sum((self.interactions / largest) ** 2, axis=-1)
        total = of_output.reshape(-1, len(self.columns)).sum(axis=0)
        importances: FloatArray = total / total.sum()
        return importances

    def number(self, output: int | str) -> int:
        """Resolve an output, specified by index or name, to its index."""
        if not isinstance(output, str):
            return check_integer("output", output, minimum=0, maximum=len(self.outputs) - 1)
        if output not in self.outputs:
            names = first_few([repr(name) for name in self.outputs])
            raise InvalidInputError(f"output must be its number, from 0, or one of {names}; got {output!r:.60}")
        return self.outputs.index(output)

    def output(self, output: int | str) -> Effects:
        """Return the effects of one output, specified by index or name, as for a scalar function."""
        k, C, G = self.number(output), len(self.outputs), len(self.columns)
        parts = self.constant.reshape(C), self.main.reshape(C, G), self.interactions.reshape(C, G, G)
        constant, main, interactions = (read_only(np.array(part[k])) for part in parts)
        return Effects(self.columns, self.outputs[k : k + 1], constant, main, interactions, self._terms.output(k))

    def table(self, output: int | str = 0) -> list[Effect]:
        """List the effects of one output, specified by index or name, the largest first."""
        single = self.output(output)
        sizes = np.concatenate([single.main, single.interactions[np.triu_indices(len(self.columns), 1)]])
        fractions = (sizes / (sizes.max() or 1.0)) ** 2
        fractions /= fractions.sum() or 1.0
        terms = self.terms
        return [
            Effect(terms[index], float(sizes[index]), float(fractions[index]))
            for index in np.argsort(-sizes, kind="stable").tolist()
        ]

    def contributions(self, X: Any) -> FloatArray:
        """Compute the contribution of each effect to the output for every row of X, shape (n, T) or (n, C, T).

        The T effects are in the order of `terms`. Their sum plus `constant` is the value of the function.
        """
        data = check_matrix("X", X, n_columns=len(self._terms.order))
        contributions: FloatArray = squeezed(self._terms.contributions(data), self.constant.shape, axis=1)
        return contributions

    def main_effect(self, column: int, X: Any) -> FloatArray:
        """Compute the main effect of one column, by its number, for every row of X, shape (n,) or (n, C)."""
        column = check_integer("column", column, minimum=0, maximum=len(self.columns) - 1)
        data = check_matrix("X", X, n_columns=len(self._terms.order))
        effects: FloatArray = squeezed(self._terms.main(column, data), self.constant.shape, axis=1)
        return effects

    def _summary(self) -> Summary:
        rows: Rows = [("columns", str(len(self.columns)))]
        if self.constant.shape:
            listed = [(f"{output}: ", self.table(k)[0]) for k, output in enumerate(self.outputs[:_LISTED])]
        else:
            rows += [("output", name) for name in self.outputs if name != "output 0"]
            listed = [("", effect) for effect in self.table()[:_LISTED]]
        rows += [
            (f"{which}{effect.name}", f"{format_number(effect.size, 4)}, {format_percent(effect.fraction)}")
            for which, effect in listed
        ]
        return Summary("Effects", rows)

    def __repr__(self) -> str:
        return f"Effects({len(self.columns)} columns{outputs_text(self.constant.shape)})"


@dataclass(frozen=True, eq=False)
class _Terms(ReadOnlyArrays):
    """C quadratic functions of standardised inputs, in the order of the columns that the inputs encode.

    Attributes
    ----------
    S, slope, constant : ndarray of shape (C, d, d), (C, d) and (C,)
    order, mean, scale : ndarray of shape (d,)
        Numbers of the inputs in that order, their means and standard deviations.
    columns, starts : ndarray of shape (P,)
        Numbers of the columns that have inputs, and the first input of each.
    means : ndarray of shape (C, G)
        Means of the main effects before they are centred.
    """

    S: FloatArray
    slope: FloatArray
    constant: FloatArray
    order: npt.NDArray[np.intp]
    mean: FloatArray
    scale: FloatArray
    columns: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    means: FloatArray

    def output(self, k: int) -> _Terms:
        """Return the terms of output k alone."""
        return replace(self, **{name: getattr(self, name)[k : k + 1] for name in ("S", "slope", "constant", "means")})

    def standardised(self, X: FloatArray) -> FloatArray:
        """Reorder and standardise the inputs to mean zero and standard deviation one."""
        Z: FloatArray = (X[:, self.order] - self.mean) / self.scale
        return Z

    def main(self, column: int, X: FloatArray) -> FloatArray:
        """Compute the main effects (n, C) of one column for rows X (n, d)."""
        effects = np.zeros((len(X), len(self.S)))
        for index in np.flatnonzero(self.columns == column).tolist():
            end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.order)
            inputs = slice(int(self.starts[index]), int(end))
            Z = self.standardised(X)[:, inputs]
            effects = np.einsum("ni,cij,nj->nc", Z, self.S[:, inputs, inputs], Z) + Z @ self.slope[:, inputs].T
        return effects - self.means[:, column]

    def contributions(self, X: FloatArray) -> FloatArray:
        """Compute the contribution (n, C, T) of every effect for rows X (n, d): of columns, then of pairs of them."""
        G = self.means.shape[1]
        first, second = np.triu_indices(G, 1)
        positions = np.diag(np.arange(G))
        positions[first, second] = positions[second, first] = G + np.arange(len(first))
        contributions = np.zeros((len(X), len(self.S), G + len(first)))
        for rows in chunks(len(X), X.shape[1]):
            Z = self.standardised(X[rows])
            for k in range(len(self.S)):
                for a, others, part in self.values(k, Z):
                    contributions[rows, k, positions[a, others]] = part
        contributions[:, :, :G] -= self.means
        return contributions

    def values(self, k: int, Z: FloatArray) -> Iterator[tuple[int, npt.NDArray[np.intp], FloatArray]]:
        """Yield each column a, the columns b from a on, and the effects (n, len(b)) of (a, b) on output k."""
        ends = [*self.starts[1:].tolist(), len(self.order)]
        for index, (start, end) in enumerate(zip(self.starts.tolist(), ends, strict=True)):
            products = (Z[:, start:end] @ self.S[k, start:end, start:]) * Z[:, start:]
            effects = np.add.reduceat(products, self.starts[index:] - start, axis=1)
            effects[:, 1:] *= 2.0
            effects[:, 0] += Z[:, start:end] @ self.slope[k, start:end]
            yield int(self.columns[index]), self.columns[index:], effects


def contributions_about(
    moments: InputMoments, form: QuadraticForm, groups: Sequence[int], n_columns: int, X: FloatArray
) -> FloatArray:
    """Compute the contributions of `Effects` for rows X (n, d), centred by the moments of other rows.

    Parameters
    ----------
    moments : InputMoments
    form : QuadraticForm
    groups : sequence of int
        Number of the column that each input encodes.
    n_columns : int
    X : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n, T) or (n, C, T)
    """
    means = np.zeros((n_columns, form.n_outputs))
    np.add.at(means, np.asarray(groups), moments.effects(form, groups)[1].T)
    terms = _terms_about(form, moments.mean, np.ones(form.n_inputs), np.asarray(groups), means.T)
    contributions: FloatArray = squeezed(terms.contributions(X), form.output_shape, axis=1)
    return contributions


def _terms_about(
    form: QuadraticForm, mean: FloatArray, scale: FloatArray, groups: npt.NDArray[np.intp], means: FloatArray
) -> _Terms:
    """Return the terms of a form in inputs with a mean and a scale (d,), and the means (C, G) of main effects."""
    order = np.argsort(groups, kind="stable")
    columns, starts = np.unique(groups[order], return_index=True)
    S, slope, constant = form.composed(scale, mean).parts
    arrays = (S[:, order][:, :, order], slope[:, order], constant, order, mean[order], scale[order], columns, starts)
    return _Terms(*arrays, means=means)


def _decompose(
    form: QuadraticForm, X: FloatArray, weights: FloatArray | None, groups: npt.NDArray[np.intp], n_columns: int
) -> tuple[_Terms, FloatArray]:
    """Compute the terms of a form and the sizes (C, G, G) of the effects per output, main effects on the diagonal."""
    fractions = np.full(len(X), 1.0 / len(X)) if weights is None else weights / weights.sum()
    d, C = form.n_inputs, form.n_outputs
    terms = _terms_about(form, *_moments(X, fractions), groups, np.zeros((C, n_columns)))
    columns, starts = terms.columns, terms.starts

    covariance = np.zeros((d, d))
    for rows in chunks(len(X), d):
        Z = terms.standardised(X[rows])
        covariance += (Z * fractions[rows, None]).T @ Z
    # The mean of z' A z is the inner product of A and the covariance. Interactions have two blocks of S.
    means = np.add.reduceat(np.add.reduceat(terms.S * covariance, starts, axis=1), starts, axis=2)
    means *= 2.0 - np.eye(len(columns))
    variances = np.zeros((C, len(columns), len(columns)))
    if len(columns) == d:
        _add_variances_of_products(variances, terms, X, fractions, covariance)
    else:
        _add_variances(variances, terms, X, fractions, means)
    # Matrix products are symmetric up to rounding.
    variances = 0.5 * (variances + np.swapaxes(variances, 1, 2))
    sizes = np.zeros((C, n_columns, n_columns))
    sizes[:, columns[:, None], columns] = np.sqrt(variances)
    of_main = np.zeros((C, n_columns))
    of_main[:, columns] = np.diagonal(means, axis1=1, axis2=2)
    terms = replace(terms, means=of_main)
    for array in vars(terms).values():
        read_only(array)
    return terms, sizes


def _add_variances(
    variances: FloatArray, terms: _Terms, X: FloatArray, fractions: FloatArray, means: FloatArray
) -> None:
    """Add the variances of the effects, computed from the values on all rows."""
    for rows in chunks(len(X), X.shape[1]):
        Z = terms.standardised(X[rows])
        for k in range(len(variances)):
            for index, (_, _, values) in enumerate(terms.values(k, Z)):
                part = fractions[rows] @ (values - means[k, index, index:]) ** 2
                variances[k, index, index:] += part
                variances[k, index + 1 :, index] += part[1:]


def _add_variances_of_products(
    variances: FloatArray, terms: _Terms, X: FloatArray, fractions: FloatArray, covariance: FloatArray
) -> None:
    """Add the variances of the effects if every column is one input, so that interactions are products of two inputs.

    The moments of these products take one matrix product for all outputs, not a pass over the rows for each pair.
    """
    squared = np.zeros_like(covariance)
    diagonal = np.arange(len(covariance))
    for rows in chunks(len(X), X.shape[1]):
        Z = terms.standardised(X[rows])
        squared += (Z**2 * fractions[rows, None]).T @ Z**2
        for k, variance in enumerate(variances):
            curvature = terms.S[k, diagonal, diagonal]
            main = Z**2 * curvature + Z * terms.slope[k] - curvature * np.diagonal(covariance)
            variance[diagonal, diagonal] += fractions[rows] @ main**2
    spread = squared - covariance**2
    # Products that do not vary leave only rounding errors.
    spread[spread <= len(X) * EPS * squared] = 0.0
    spread[diagonal, diagonal] = 0.0
    variances += 4.0 * terms.S**2 * spread


def _moments(X: FloatArray, fractions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute means and standard deviations of columns; for a constant column, its value and one."""
    constant = X.max(axis=0) == X.min(axis=0)
    mean = np.where(constant, X[0], fractions @ X)
    deviation = np.sqrt(sum(fractions[rows] @ (X[rows] - mean) ** 2 for rows in chunks(len(X), X.shape[1])))
    return mean, np.where(constant | (deviation == 0.0), 1.0, deviation)


def _checked_groups(groups: Any, n_inputs: int) -> npt.NDArray[np.intp]:
    """Check `groups`, the column index of each input, and return it as an array."""
    if groups is None:
        return np.arange(n_inputs)
    at = np.asarray(groups)
    if at.dtype.kind not in "iu":
        raise InvalidTypeError(f"groups must be integers, the number of a column for each input; got {groups!r:.60}")
    if at.shape != (n_inputs,) or at.min() < 0:
        raise InvalidInputError(f"groups must be {n_inputs} numbers of columns, from 0; got {groups!r:.60}")
    return at.astype(np.intp)


def _checked_names(name: str, names: Sequence[str] | None, default: Sequence[str]) -> tuple[str, ...]:
    if names is None:
        return tuple(default)
    if isinstance(names, str) or not np.iterable(names):
        raise InvalidTypeError(f"{name} must be names in a sequence; got {names!r:.60}")
    return tuple(str(label) for label in names)
