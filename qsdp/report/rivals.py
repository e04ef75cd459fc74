"""What a user would take instead of a network: a linear model in 8 bits, and boosted trees.

Modules that load scikit-learn are imported where they are needed: the options of commands do not need them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.report.sizes import LINEAR_BITS, boosting_bits, encoding_bits, rounded_linear
from qsdp.tables.scored import ScoredRows

__all__ = ["Rival", "linear_model", "mean_and_error", "rivals_of"]

#: Rows and iterations of the linear model: enough for a comparison.
_ROWS, _ITERATIONS = 20_000, 300


@dataclass(frozen=True, eq=False)
class Rival:
    """A model that was trained on the rows of the network.

    Attributes
    ----------
    name : str
    predictions : list of ndarray
        Class numbers, or numbers in the units of the network's outputs, for training and test rows.
    bits : int
        Size, with what turns columns into inputs.
    """

    name: str
    predictions: list[npt.NDArray[Any]]
    bits: int


def rivals_of(parts: list[ScoredRows], weights: FloatArray | None) -> list[Rival]:
    """Train rivals on the first part, with the sample weights of the fit, and let them predict all parts."""
    with warnings.catch_warnings():
        # The fit has warned of odd entries and rare classes.
        warnings.simplefilter("ignore")
        return [_linear(parts, weights), _boosting(parts, weights)]


def linear_model(fitted: ScoredRows, weights: FloatArray | None) -> Any:
    """Train logistic regression, or ridge regression for numbers, on the inputs of the network."""
    from sklearn.linear_model import LogisticRegression, RidgeCV

    classes = hasattr(fitted.model, "classes_")
    linear = LogisticRegression(max_iter=_ITERATIONS) if classes else RidgeCV(np.logspace(-3, 4, 15))
    inputs = fitted.inputs
    some = slice(None, None, max(1, len(inputs) // _ROWS))
    with warnings.catch_warnings():
        # It need not have converged.
        warnings.simplefilter("ignore")
        return linear.fit(inputs[some], fitted.truth[some], None if weights is None else weights[some])


def _linear(parts: list[ScoredRows], weights: FloatArray | None) -> Rival:
    """Return the linear model, rounded."""
    model = parts[0].model
    rounded, bits = rounded_linear(linear_model(parts[0], weights))
    name = f"{'logistic' if hasattr(model, 'classes_') else 'ridge'} regression in {LINEAR_BITS} bits"
    encoding = getattr(model._columns_encoder, "encoding_", None)
    bits += 0 if encoding is None else encoding_bits(encoding, 1)
    return Rival(name, [rounded.predict(part.inputs) for part in parts], bits)


def _boosting(parts: list[ScoredRows], weights: FloatArray | None) -> Rival:
    """Train boosted trees on the columns: numbers as they are, and a 0/1 column for each category."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    from qsdp.encoding import TableEncoder

    fitted = parts[0]
    kind = HistGradientBoostingClassifier if hasattr(fitted.model, "classes_") else HistGradientBoostingRegressor
    columns = TableEncoder("standard", cut=None).fit(fitted.table)
    boosted = kind(random_state=0).fit(columns.transform(fitted.table), fitted.truth, weights)
    predictions = [boosted.predict(columns.transform(part.table)) for part in parts]
    return Rival("boosted trees", predictions, boosting_bits(boosted))


def mean_and_error(values: FloatArray, weights: FloatArray | None = None) -> tuple[float, float]:
    """Return the weighted mean of values of rows, and its standard error."""
    fractions = np.full(len(values), 1.0 / len(values)) if weights is None else weights / weights.sum()
    mean = float(fractions @ values)
    spread = float(np.sum((fractions * (values - mean)) ** 2))
    return mean, float(np.sqrt(spread * len(values) / max(len(values) - 1, 1)))
