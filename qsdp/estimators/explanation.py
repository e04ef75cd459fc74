"""Explanations of a fitted network in terms of the user's columns: effects, importances and a formula."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.summary import Rows, Summarized, Summary, first_few, format_number, format_percent
from qsdp._utils.validation import FloatArray
from qsdp.encoding.additive_blocks import AdditiveBlocks
from qsdp.encoding.expressions import Expression
from qsdp.encoding.fitting import CUT
from qsdp.encoding.steps import identity, through_steps
from qsdp.encoding.table_encoding import Encoding
from qsdp.estimators.centring import InputMoments
from qsdp.estimators.effects import Effect, Effects, contributions_about
from qsdp.estimators.input_encoding import makes_blocks
from qsdp.estimators.quantized_network import _QuantizedNetwork
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.networks import QuadraticForm
from qsdp.networks.quadratic_form import check_digits

__all__ = ["Explained", "ExplainedColumn", "Explanation"]


class ExplainedColumn(NamedTuple):
    """What one column does to an output.

    Attributes
    ----------
    name : str
    size, fraction : float
        Those of its main effect, as in the table of `Effects`.
    weights : tuple of (str, float)
        Terms of the column, such as ``age`` or ``age > 42.5``, and their coefficients in the linear part of the
        network, unless zero: what the output gains as the term grows by one, all products aside.
    curve : tuple of (value, float)
        Values of the column, and its main effect there, with the part of neurons: its categories, or numbers from the
        lower to the upper limit of the encoding, both sides of thresholds among them. None stands for a missing entry.
    """

    name: str
    size: float
    fraction: float
    weights: tuple[tuple[str, float], ...]
    curve: tuple[tuple[Any, float], ...]

    def _points(self) -> list[str]:
        """Return the effects of missing entries and categories, or of a few numbers, as texts."""
        texts = [
            f"{format_number(effect, 4)} {where}" for (_, effect), where in zip(self.curve, self._places(), strict=True)
        ]
        count = sum(type(value) is float for value, _ in self.curve)
        chosen = np.linspace(0, count - 1, min(count, _SHOWN)).astype(int).tolist()
        return [*(texts[k] for k in chosen), *texts[count:]]

    def _places(self) -> list[str]:
        """Return where the points of the curve are, as texts."""
        places, before = [], np.nan
        for value, _ in self.curve:
            if type(value) is float:
                # The upper side of a threshold is the next number.
                above = value == np.nextafter(before, np.inf)
                places.append(f"above {format_number(before, 4)}" if above else f"at {format_number(value, 4)}")
                before = value
            else:
                places.append("if missing" if value is None else f"at {value}")
        return places


@dataclass(frozen=True)
class Explanation(Summarized):
    """Explanation of one output of a model: weights and curves of columns, then interactions.

    Printing it shows all parts whose size is not zero, and how large they are: for a column, also its weights and some
    points of its curve, which has the part of the neurons, too.

    Attributes
    ----------
    output : str
        Name of the output, as in `Effects`.
    constant : float
        The output is the sum of this constant and of all effects.
    columns : tuple of ExplainedColumn
        Columns by the size of their main effects, the largest first.
    interactions : tuple of Effect
        Interactions of two columns by size, the largest first.

    Examples
    --------
    >>> import qsdp
    >>> data = qsdp.datasets.load_bundled("iris")
    >>> model = qsdp.QuantizedNetworkRegressor(encoding="additive", beta="20%", random_state=0)
    >>> explanation = model.fit(data.X[:, [0, 2]], data.X[:, 3]).explain(names=["length", "petal"])
    >>> [column.name for column in explanation.columns]
    ['petal', 'length']
    """

    output: str
    constant: float
    columns: tuple[ExplainedColumn, ...]
    interactions: tuple[Effect, ...]

    def _summary(self) -> Summary:
        rows: Rows = [("output", self.output), ("constant", format_number(self.constant, 4))]
        rows.append(("effects", "size, that is, standard deviation over the data, and fraction of the squared sizes"))
        for column in self.columns:
            if column.size > 0.0:
                rows.append((column.name, f"{format_number(column.size, 4)}, {format_percent(column.fraction)}"))
                rows += [("", f"{format_number(weight, 4)} for {term}") for term, weight in column.weights]
                rows.append(("", f"curve: {first_few(column._points())}"))
        shown = [effect for effect in self.interactions if effect.size > 0.0]
        rows += [
            (effect.name, f"{format_number(effect.size, 4)}, {format_percent(effect.fraction)}") for effect in shown
        ]
        return Summary("Explanation", rows)

    def __str__(self) -> str:
        return self._summary().text()


class Explained(_QuantizedNetwork):
    """Base class of estimators whose network is a polynomial of degree two, which it explains."""

    @property
    def feature_importances_(self) -> FloatArray:
        """Importance of each column in the effects on the training set, shape (d,); importances add up to one.

        A share is the variance of the column's main effect plus half the variances of its interactions, divided by the
        sum over all columns. Several targets count as if they had the same variance. A constant network has zeros. Not
        available if a transformer other than those of `qsdp.encoding`, scalers and selectors makes the inputs.
        """
        check_is_fitted(self)
        if (known := vars(self).get("_importances")) is not None:
            importances: FloatArray = known
            return importances
        if self.network_.blocks is not None and not isinstance(self.encoder_, AdditiveBlocks):
            raise AttributeError(
                "feature_importances_ requires a network on columns: qsdp.plotting.FiltersDisplay shows the neurons of "
                "one on blocks of images or series"
            )
        form = self._form()
        if any(term.position == _MIXED for term in _describe(self._columns_encoder, self._names(None), form.n_inputs)):
            raise AttributeError(
                "feature_importances_ requires an encoding whose inputs are known to be made of one column each; use "
                f"effects().importances, those of the outputs of {type(self.encoder_).__name__}"
            )
        return self._effects(form).importances

    def effects(self, X: Any = None, *, sample_weight: Any = None, names: Sequence[str] | None = None) -> Effects:
        """Return main effects and interactions of pairs of columns, which add up to predictions with a constant.

        The effects explain `predict` of a regressor, in the units of the targets, or `decision_function` of a
        classifier. All inputs derived from a column count as that column. With a transformer other than those of
        `qsdp.encoding`, scalers and selectors, the effects are those of its outputs, called as its
        `get_feature_names_out` says.

        Parameters
        ----------
        X : array-like of shape (n, d), optional
            Data on which effects are centred and their sizes computed; by default the training set, with its weights,
            which loaded and pickled estimators lack.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows of X.
        names : sequence of str, optional
            Names of the columns; by default those of the data frame passed to `fit`, otherwise x0, x1, ...
        """
        check_is_fitted(self)
        if X is None and sample_weight is not None:
            raise InvalidInputError("sample_weight requires X, since the training data have their own weights")
        return self._effects(self._form(self.target_scaling_), X, sample_weight, names)

    def explain(
        self,
        X: Any = None,
        *,
        output: int | str = 0,
        sample_weight: Any = None,
        names: Sequence[str] | None = None,
    ) -> Explanation:
        """Explain one output, by name or number: weights and curves of columns, then interactions by size.

        Sizes and curves are those of ``effects(X, ...)``, with the same parameters.

        Raises
        ------
        InvalidInputError
            An input is made of several columns or of unknown ones, as by a transformer of another package.
        """
        check_is_fitted(self)
        self._encoding_of(self._names(names))
        return self._explanation(self.effects(X, sample_weight=sample_weight, names=names), output)

    def _encoding_of(self, columns: Sequence[str]) -> Encoding:
        """Return the inputs as expressions in the columns; raise InvalidInputError if one is made of several."""
        try:
            return through_steps(identity(columns), [self._columns_encoder])
        except ExportError as error:
            raise InvalidInputError(
                f"explain requires inputs that are made of one column each ({error}); "
                "effects() has sizes of effects of the outputs of a transformer"
            ) from None

    def _explanation(self, effects: Effects, output: int | str) -> Explanation:
        """Explain one output by its effects."""
        form, columns = self._form(self.target_scaling_), effects.columns
        encoding, k = self._encoding_of(columns), effects.number(output)
        selected = effects.output(k)
        slopes = form.parts[1][k]
        # By number, since names of columns may repeat.
        numbers = tuple(map(str, range(len(columns))))
        parts = {effect.columns: effect for effect in replace(selected, columns=numbers).table()}
        explained = []
        for position, name in enumerate(columns):
            inputs = [(j, term) for j, term in enumerate(encoding.expressions) if term.position == position]
            weights = [(term.name, float(slopes[j] / term.scale)) for j, term in inputs if slopes[j]]
            values = _values_of(encoding.columns[position].categories, [term for _, term in inputs])
            # Other columns have no part in the effect.
            table = [
                np.full(len(values), np.nan) if column.categories is None else np.full(len(values), None, dtype=object)
                for column in encoding.columns
            ]
            table[position] = values
            curve = selected.main_effect(position, encoding.encode(table)).tolist() if inputs else []
            _, size, fraction = parts[(numbers[position],)]
            shown = [None if value != value else value for value in values.tolist()]
            explained.append(
                ExplainedColumn(name, size, fraction, tuple(weights), tuple(zip(shown, curve, strict=True)))
            )
        ordered = sorted(explained, key=lambda column: -column.size)
        pairs = tuple(
            effect._replace(columns=tuple(columns[int(number)] for number in effect.columns))
            for effect in parts.values()
            if len(effect.columns) == 2
        )
        return Explanation(selected.outputs[0], float(selected.constant), tuple(ordered), pairs)

    def contributions(self, X: Any) -> FloatArray:
        """Return the contribution of each effect to the predictions for rows of X, shape (n, T) or (n, C, T).

        The effects are ``effects()``, those on the training set, in the order of its `terms`. With its `constant`,
        they add up to `predict` of a regressor or `decision_function` of a classifier.
        """
        check_is_fitted(self)
        form, moments = self._form(self.target_scaling_), self._input_moments
        if moments is None:
            return self.effects().contributions(self._rows(X))
        groups = self._groups(form.n_inputs)
        return contributions_about(moments, form, groups, self.n_features_in_, self._rows(X))

    def to_expression(self, names: Sequence[str] | None = None, *, digits: int = 4, threshold: float = 0.0) -> Any:
        """Return `predict` or `decision_function` as a formula in the columns, or a list with one for each output.

        Standardised columns are written with their means, as ``(age - 40.2)``, and bits of an encoding as
        ``(age > 42.5)``, which is 0 or 1. A number outside the limits of the encoding, `Expression.low` and
        `Expression.high`, counts as the nearer limit. Variables are the outputs of a transformer where `effects` are.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the columns; by default those of the data frame given to `fit`, otherwise x0, x1, ...
        digits : int, default=4
            Significant digits of coefficients and means. The coefficients make up for the rounding of the means.
        threshold : float, default=0
            Terms whose coefficient is at most this in magnitude are left out.
        """
        check_is_fitted(self)
        digits = check_digits(digits)
        form, texts = self._written(names, digits)
        return form.to_expression(texts, digits=digits, threshold=threshold)

    def _written(self, names: Sequence[str] | None, digits: int) -> tuple[QuadraticForm, list[str]]:
        """Return predictions or decisions as a quadratic form in terms of the columns, and the terms as text."""
        form = self._form(self.target_scaling_)
        inputs = _describe(self._columns_encoder, self._names(names), form.n_inputs)
        center, scale = (np.array([getattr(term, field) for term in inputs]) for field in ("center", "scale"))
        bits = np.array([term.is_bit for term in inputs])
        rounded = np.array([float(f"{value:.{digits}g}") for value in center.tolist()])
        shown = np.where(bits | (np.abs(center) < 10.0**-digits * scale), 0.0, rounded)
        # An input is (term - center) / scale, and the formula is one in term - shown. Differences that rounding of
        # coefficients exceeds would only add terms.
        moved = (shown - center) / scale
        moved[np.abs(moved) < 10.0**-digits] = 0.0
        form = _simplified(form.composed(1.0 / scale, moved), inputs)
        return form, [_factor(term.name, about, digits) for term, about in zip(inputs, shown.tolist(), strict=True)]

    def __str__(self) -> str:
        return "\n".join([repr(self), *self._formulas()])

    def _summary(self) -> Summary | None:
        summary = super()._summary()
        if summary is None:
            return None
        return Summary(summary.title, [*summary.rows, *(("formula", formula) for formula in self._formulas())])

    def _formulas(self) -> list[str]:
        """Return the formulas of the outputs of a fitted additive model; none if they have many terms."""
        if not hasattr(self, "network_") or not isinstance(self.encoder_, AdditiveBlocks):
            return []
        form, texts = self._written(None, _DIGITS)
        S, s, _ = form.parts
        upper = np.triu_indices(S.shape[-1])
        if np.count_nonzero(S[:, upper[0], upper[1]]) + np.count_nonzero(s) > _MAX_TERMS:
            return []
        formulas = form.to_expression(texts, digits=_DIGITS)
        return [formulas] if isinstance(formulas, str) else list(formulas)

    def _form(self, scaling: TargetScaling | None = None) -> QuadraticForm:
        """Return predictions or decisions as a quadratic form in the encoded columns; a scaling converts units."""
        if self.network_.blocks is not None:
            if not isinstance(self.encoder_, AdditiveBlocks):
                raise InvalidInputError(
                    "a network on blocks of images or series has no effects of columns and no formula in them: "
                    "qsdp.plotting.FiltersDisplay shows its neurons"
                )
            form = self.encoder_.quadratic_form(self.network_)
        else:
            form = self.network_.to_quadratic_form()
            form = form.with_last(self.constant_) if self._appends_constant else form
        if scaling is not None:
            form = form.rescaled(scaling.offset, scaling.scale)
        # The score of two classes is a difference.
        if is_classifier(self) and form.output_shape == (2,):
            return QuadraticForm(*(part[1] - part[0] for part in (form.S, form.s, form.s0)))
        return form

    def _effects(
        self, form: QuadraticForm, X: Any = None, sample_weight: Any = None, names: Sequence[str] | None = None
    ) -> Effects:
        columns = self._names(names)
        inputs = _describe(self._columns_encoder, columns, form.n_inputs)
        groups = [term.position for term in inputs]
        if _MIXED in groups:
            columns, groups = [term.name for term in inputs], list(range(len(inputs)))
        if X is None:
            if not hasattr(self, "result_"):
                raise AttributeError(
                    "sizes of effects require the training data, which neither files nor pickles hold: pass a table as "
                    "X, such as that of the training"
                )
            problem = self.result_.rows
            additive = isinstance(self.encoder_, AdditiveBlocks)
            data = self.encoder_.inputs_of(problem.X) if additive else problem.X[:, : form.n_inputs]
            sample_weight = problem.sample_weight
        else:
            data = self._rows(X)
        outputs = None
        if is_classifier(self):
            # A single output is that of the second class.
            outputs = [f"class {label}" for label in self.classes_.tolist()[-form.n_outputs :]]
        return Effects.from_network(
            form, data, sample_weight=sample_weight, columns=columns, groups=groups, outputs=outputs
        )

    def _moments(self, columns: FloatArray, weights: FloatArray | None) -> InputMoments | None:
        """Return the moments by which effects are centred, or None if an input depends on several columns."""
        groups = self._groups(columns.shape[1])
        return None if _MIXED in groups else InputMoments.from_inputs(columns, weights, groups)

    def _groups(self, width: int) -> list[int]:
        """Return the column that each of the encoder's outputs is made of, by its position, or `_MIXED`."""
        return [term.position for term in _describe(self._columns_encoder, self._names(None), width)]

    def _rows(self, X: Any) -> FloatArray:
        """Return rows of a table as inputs of the network, without the constant input."""
        checked = self._checked(X)
        rows: FloatArray = self.encoder_.samples(checked) if makes_blocks(self.encoder_) else self._encoded(checked)
        return rows

    def _names(self, names: Sequence[str] | None) -> list[str]:
        known = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        columns = [str(name) for name in (known if names is None else names)]
        if len(columns) != self.n_features_in_:
            raise InvalidInputError(f"names must be {self.n_features_in_}, one for each column; got {len(columns)}")
        return columns


#: Number of points of a curve of numbers that a summary shows.
_SHOWN = 5


#: Number of evenly spaced points of a curve.
_POINTS = 13


def _values_of(categories: Sequence[Any] | None, terms: Sequence[Expression]) -> npt.NDArray[Any]:
    """Return values of a column between which its effect is a constant or a parabola."""
    if not terms:
        return np.zeros(0)
    if categories is not None:
        values = np.empty(len(categories), dtype=object)
        values[:] = categories
        return values
    thresholds = np.array([term.value for term in terms if term.kind == "above"], dtype=np.float64)
    points = [thresholds, np.nextafter(thresholds, np.inf)]
    for term in terms:
        if term.kind == "value":
            low = term.center - CUT * term.scale if term.low is None else term.low
            high = term.center + CUT * term.scale if term.high is None else term.high
            points.append(np.linspace(low, high, _POINTS))
    missing = [np.nan] if any(term.kind == "missing" for term in terms) else []
    return np.append(np.unique(np.concatenate(points)), missing)


#: Significant digits of formulas in summaries.
_DIGITS = 4

#: Number of terms up to which a summary shows the formula of an additive model.
_MAX_TERMS = 10

#: Position of an input that is made of several columns, or of unknown ones.
_MIXED = -1


def _describe(encoder: Any, names: Sequence[str], n_inputs: int) -> Sequence[Expression]:
    """Return the inputs that an encoder computes from named columns as expressions.

    Those of a transformer that `through_steps` does not know are its outputs, and `_MIXED`.
    """
    try:
        return through_steps(identity(names), [encoder]).expressions
    except ExportError:
        return [Expression(name, _MIXED, "value") for name in _output_names(encoder, names, n_inputs)]


def _output_names(encoder: Any, names: Sequence[str], n_inputs: int) -> list[str]:
    try:
        # An encoder that was fitted to a data frame insists on the names of the frame.
        known = getattr(encoder, "feature_names_in_", names)
        return [str(name) for name in encoder.get_feature_names_out(known)]
    except (AttributeError, ValueError):
        # Not every transformer names its outputs, and steps of some pipelines do not.
        return [f"input {k}" for k in range(n_inputs)]


def _simplified(form: QuadraticForm, inputs: Sequence[Expression]) -> QuadraticForm:
    """Return the same function of columns with fewer terms.

    A bit equals its square, and the product of two bits for values of a column is zero, since an entry has one value.
    """
    bits = np.array([term.is_bit for term in inputs])
    squares = np.diagonal(form.S, axis1=-2, axis2=-1) * bits
    S = form.S - squares[..., None] * np.eye(form.n_inputs)
    columns = np.array([term.position for term in inputs])
    values = np.array([term.kind in {"equals", "missing"} for term in inputs])
    exclusive = (columns[:, None] == columns) & values[:, None] & values
    return QuadraticForm(np.where(exclusive, 0.0, S), form.s + squares, form.s0)


def _factor(term: str, center: float, digits: int) -> str:
    """Format ``term - center`` as a factor of a product, in parentheses if needed."""
    if center:
        return f"({term} {'-' if center > 0.0 else '+'} {abs(center):.{digits}g})"
    return term if re.fullmatch(r"[\w.]+", term) else f"({term})"
