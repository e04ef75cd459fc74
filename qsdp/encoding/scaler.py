"""The scaler of inputs as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import LabelBinarizer, StandardScaler
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    check_choice,
    check_integer,
    check_random_state,
    check_sample_weight,
    errors_of,
)
from qsdp.encoding.scales import fit_scales
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.problem import TrainingProblem

__all__ = ["SupervisedScaler"]

_TARGETS = ("auto", "continuous", "classes")


class SupervisedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale every column by a power of two that suits a target, according to its worth in coarse relaxations.

    Parameters
    ----------
    norm : float, default=1.5
        Root mean square of the row norms, see `row_scale`.
    n_rounds : int, default=1
        Number of relaxations to solve. With 0, all columns have the same scale, `row_scale`.
    fraction : float, default=0.05
        Beta of the relaxations, as a share of `qsdp.beta_max`; > 0.
    loss : str or Loss, default="squared"
    activation : str, (a, b, c), PolynomialActivation or None, default="relu_like"
    exponent, limit : float, default=0.5, 8.0
        See `supervised_scales`.
    target_type : {"auto", "continuous", "classes"}, default="auto"
        Whether y holds numbers or classes; "auto" treats anything but fractions as classes.
    max_samples : int, default=2000
        Largest number of rows for the relaxations, chosen at random.
    tol : float, default=1e-3
        Tolerance of each solve.
    time_limit : float, optional
        Seconds for each solve.
    random_state : int, Generator, RandomState or None, default=0
        Random numbers for the choice of rows.

    Attributes
    ----------
    scales_ : ndarray of shape (d,)
        Powers of two.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    See Also
    --------
    supervised_scales : The rule for the scales.
    Encoding.scaled : An encoding with these scales.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.encoding import SupervisedScaler
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> scaler = SupervisedScaler().fit(X, X[:, 0] > 0.0)
    >>> bool(scaler.scales_[0] > scaler.scales_[1:].max())
    True
    """

    n_features_in_: int

    def __init__(
        self,
        *,
        norm: float = 1.5,
        n_rounds: int = 1,
        fraction: float = 0.05,
        loss: str | Loss = "squared",
        activation: Any = "relu_like",
        exponent: float = 0.5,
        limit: float = 8.0,
        target_type: str = "auto",
        max_samples: int = 2000,
        tol: float = 1e-3,
        time_limit: float | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.norm = norm
        self.n_rounds = n_rounds
        self.fraction = fraction
        self.loss = loss
        self.activation = activation
        self.exponent = exponent
        self.limit = limit
        self.target_type = target_type
        self.max_samples = max_samples
        self.tol = tol
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SupervisedScaler:
        """Find the scales for data (n, d) and targets (n,) or (n, C), with sample weights (n,) >= 0 if given."""
        kind = check_choice("target_type", self.target_type, _TARGETS)
        most, loss = check_integer("max_samples", self.max_samples, minimum=2), get_loss(self.loss)
        data, targets = self._checked(X, y=y, multi_output=True, dtype=np.float64)
        weights = check_sample_weight(sample_weight, len(data))
        rows = np.arange(len(data)) if weights is None else np.flatnonzero(weights)
        if len(rows) > most:
            rows = np.sort(check_random_state(self.random_state).choice(rows, most, replace=False))
        problem = TrainingProblem(
            data[rows],
            _coded(targets[rows], loss, kind),
            beta=1.0,
            loss=loss,
            activation=self.activation,
            sample_weight=None if weights is None else weights[rows],
        )
        self.scales_: FloatArray = fit_scales(
            problem,
            norm=self.norm,
            n_rounds=self.n_rounds,
            fraction=self.fraction,
            exponent=self.exponent,
            limit=self.limit,
            tol=self.tol,
            time_limit=self.time_limit,
        )
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the scaled columns, shape (n, d)."""
        check_is_fitted(self)
        scaled: FloatArray = self._checked(X, dtype=np.float64, reset=False) * self.scales_
        return scaled

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return the original columns, exactly."""
        check_is_fitted(self)
        columns: FloatArray = self._checked(X, dtype=np.float64, reset=False) / self.scales_
        return columns

    def _checked(self, X: Any, **options: Any) -> Any:
        with errors_of("X or y"):
            return validate_data(self, X, **options)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _coded(y: npt.NDArray[Any], loss: Loss, kind: str) -> npt.NDArray[Any]:
    """Return targets for a loss: standardised numbers, or classes as -1 and +1, as rows of them, or as numbers."""
    if kind == "continuous" or (kind == "auto" and type_of_target(y).startswith("continuous")):
        if loss.labels or loss.coupled:
            raise InvalidInputError(f"loss must be a loss of real targets if y holds numbers; got {loss!r}")
        numbers: FloatArray = StandardScaler().fit_transform(np.asarray(y, dtype=np.float64).reshape(len(y), -1))
        return numbers.reshape(np.shape(y))
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError(f"y holds only one class, {classes.tolist()[0]!r:.60}; there is nothing to learn")
    if loss.coupled:
        return codes
    coded: FloatArray = LabelBinarizer(neg_label=-1).fit_transform(y).astype(np.float64)
    return coded[:, 0] if coded.shape[1] == 1 else coded
