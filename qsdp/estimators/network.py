"""scikit-learn estimators over the pipeline, and what those with cross-validation share with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from qsdp._utils.options import documented
from qsdp._utils.summary import Summary, SummaryBelowDiagram
from qsdp._utils.validation import FloatArray, RandomState, check_targets, warn
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.encoding.columns import is_frame
from qsdp.estimators.classes import (
    PROBABILISTIC,
    centres,
    choose_classes,
    class_probabilities,
    class_scores,
    encode_classes,
    weighted_by_class,
)
from qsdp.estimators.explanation import Explained
from qsdp.estimators.inputs import AUTO_ENCODINGS, check_targets_of_frame, fit_encoder, rows_of
from qsdp.estimators.options import ClassifierOptions, EstimatorOptions
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.lifting import append_constant, power_of_two
from qsdp.losses import Loss, get_loss
from qsdp.pipeline import QSDPResult, run_pipeline
from qsdp.problem import check_sample_weight

__all__ = ["QuantizedNetworkClassifier", "QuantizedNetworkRegressor"]

#: Certified gap, as a share of the objective, beyond which an estimator warns.
GAP_TO_WARN_OF = 0.5

#: Ratio of column deviations beyond which standardising is suggested.
_WILD_RATIO = 100.0


@dataclass(frozen=True)
class Samples:
    """Checked data and targets with the weights of the samples, None if each is one.

    Attributes
    ----------
    X : ndarray or data frame of shape (n, d)
    y : ndarray of shape (n,) or (n, C)
    weights : ndarray of shape (n,) or None
    """

    X: Any
    y: npt.NDArray[Any]
    weights: FloatArray | None

    @property
    def counting(self) -> Samples:
        """Those of positive weight."""
        if self.weights is None or np.all(self.weights > 0.0):
            return self
        kept = np.flatnonzero(self.weights > 0.0)
        return Samples(rows_of(self.X, kept), self.y[kept], self.weights[kept])


class _QuantizedNetwork(Explained, SummaryBelowDiagram, BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share: parameters, data checks, fitting on coded targets."""

    result_: QSDPResult
    n_features_in_: int
    constant_: float
    encoder_: Any
    target_scaling_: TargetScaling

    _options_class: ClassVar[type[EstimatorOptions]] = EstimatorOptions

    def __init__(
        self,
        n_neurons: int | None = EstimatorOptions.n_neurons,
        *,
        beta: float | str = EstimatorOptions.beta,
        loss: str | Loss = EstimatorOptions.loss,
        activation: str | Sequence[float] | PolynomialActivation | None = EstimatorOptions.activation,
        levels: int = EstimatorOptions.levels,
        encoding: Any = EstimatorOptions.encoding,
        constant_column: bool = EstimatorOptions.constant_column,
        solver: str = EstimatorOptions.solver,
        shaping: str = EstimatorOptions.shaping,
        refine: str = EstimatorOptions.refine,
        tol: float = EstimatorOptions.tol,
        allocation: str = EstimatorOptions.allocation,
        time_limit: float | None = EstimatorOptions.time_limit,
        n_jobs: int | None = EstimatorOptions.n_jobs,
        random_state: RandomState = EstimatorOptions.random_state,
        verbose: bool = EstimatorOptions.verbose,
    ) -> None:
        self._keep(locals())

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Store the arguments of a constructor as they are, as scikit-learn wants it."""
        self.__dict__.update({name: value for name, value in arguments.items() if name != "self"})

    def _options(self) -> EstimatorOptions:
        """Return the parameters, checked."""
        return self._options_class.of(self.get_params(deep=False))

    def _validated(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> Samples:
        with _errors_of("X or y"):
            if self._takes_frames and is_frame(X):
                # Text, categories and missing entries are the encoder's to read.
                validate_data(self, X, skip_check_array=True)
                data, target = X, check_targets_of_frame(X, y, **options)
            else:
                data, target = validate_data(self, X, y, **self._numbers, **options)
        return Samples(data, target, check_sample_weight(sample_weight, data.shape[0]))

    @property
    def _takes_frames(self) -> bool:
        return not isinstance(self.encoding, str) or self.encoding != "none"

    @property
    def _numbers(self) -> dict[str, Any]:
        """Return how arrays are checked: by name encodings have bits for missing entries."""
        holes = isinstance(self.encoding, str) and self._takes_frames
        return {"dtype": np.float64, "ensure_all_finite": "allow-nan" if holes else True}

    def _fit(
        self, samples: Samples, target: FloatArray, weights: FloatArray | None, options: EstimatorOptions, **routed: Any
    ) -> None:
        """Fit to the coded targets and final weights of the samples that count."""
        counting = samples.counting
        self.target_scaling_ = self._scaling(target, weights)
        coded = self.target_scaling_.encode(target)
        if options.encoding == "auto":
            self.encoder_, options = self._chosen_encoder(counting, coded, weights, options)
        else:
            self.encoder_ = fit_encoder(options.encoding, counting.X, counting.weights)
        if self.encoder_ is None:
            warn_of_scales(counting.X)
        self.constant_ = _constant(self._encoded(counting.X), counting.weights)
        self.result_ = self._train(samples, coded, weights, options, **routed)
        warn_of_gap(self.result_)
        self._expose()

    def _train(
        self, samples: Samples, target: FloatArray, weights: FloatArray | None, options: Any, **routed: Any
    ) -> QSDPResult:
        return run_pipeline(self._inputs(samples.counting.X), target, options, weights)

    def _chosen_encoder(
        self, counting: Samples, coded: FloatArray, weights: FloatArray | None, options: Any
    ) -> tuple[Any, Any]:
        """Return the encoder of `AUTO_ENCODINGS` that does best on samples held out, and the options with its beta."""
        encoders = [fit_encoder(name, counting.X, counting.weights) for name in AUTO_ENCODINGS]
        inputs = [encoder.transform(counting.X) for encoder in encoders]
        if len({own.shape for own in inputs}) == 1:
            return encoders[0], options
        problems = [options.problem(self._with_constant(own, counting.weights), coded, weights) for own in inputs]
        best, options = options.best_problem(problems)
        return encoders[best], options

    def _scaling(self, target: FloatArray, weights: FloatArray | None) -> TargetScaling:
        """Return the units of the targets in training."""
        return TargetScaling.of(target, weights)

    def _expose(self) -> None:
        self.network_ = self.result_.network
        self.certificate_ = self.result_.certificate

    def _summary(self) -> Summary | None:
        return self.result_._summary() if hasattr(self, "result_") else None

    def resample(
        self, n_neurons: int, random_state: RandomState = EstimatorOptions.random_state, *, levels: int | None = None
    ) -> Any:
        """Replace the fitted network by one of another size or number of levels, without another solve.

        Parameters
        ----------
        n_neurons : int
            m >= 1. The parameters of the estimator stay as they were.
        random_state : int, Generator, RandomState or None
        levels : int, optional
            See `QSDPResult.resample`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.result_ = self.result_.resample(
            n_neurons,
            random_state,
            levels=levels,
            allocation=self.allocation,
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self._expose()
        return self

    def _output(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return self.target_scaling_.decode(self.network_.predict(self._inputs(self._checked(X)), n_jobs=self.n_jobs))

    def _checked(self, X: Any) -> Any:
        """Return rows of the user's table, checked."""
        if self._takes_frames and is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            return X
        return validate_data(self, X, reset=False, **self._numbers)

    def _encoded(self, X: Any) -> FloatArray:
        encoded: FloatArray = X if self.encoder_ is None else self.encoder_.transform(X)
        return encoded

    def _inputs(self, X: FloatArray) -> FloatArray:
        encoded = self._encoded(X)
        return append_constant(encoded, self.constant_) if self._appends_constant else encoded

    def _with_constant(self, encoded: FloatArray, weights: FloatArray | None) -> FloatArray:
        return append_constant(encoded, _constant(encoded, weights)) if self._appends_constant else encoded

    @property
    def _appends_constant(self) -> bool:
        activation = get_activation(self.activation)
        return self.constant_column and (activation is None or not activation.lifted)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_frames
        return tags


@documented(EstimatorOptions)
class QuantizedNetworkRegressor(RegressorMixin, _QuantizedNetwork):  # type: ignore[misc]
    r"""Regression by a network with quantized first-layer weights and a certified gap to the global optimum.

    Fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)` with :math:`u_j, v_j \in \{\pm1\}^D`,
    where :math:`\tilde x` is the lift of the activation for encoded and scaled x, to standardised targets.

    Parameters
    ----------
    n_neurons, beta, loss, activation, levels, encoding, constant_column, solver, shaping, refine, tol, allocation,
    time_limit, n_jobs, random_state, verbose
        See `EstimatorOptions`.

    Attributes
    ----------
    network_ : BilinearNetwork
        The fitted network of encoded inputs; with the constant column it has one more.
    encoder_ : transformer or None
        Makes inputs of columns, see `encoding`.
    target_scaling_ : TargetScaling
        Offset and scale of the targets in training.
    constant_ : float
        Entry of the constant column, where there is one: the power of two nearest to the largest root mean square of an
        input.
    certificate_ : Certificate
        Its objective and the lower bound on that of every network, for the same inputs and scaled targets.
    result_ : QSDPResult
        Problem, relaxation, covariance and timings.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    See Also
    --------
    qsdp.solve_and_sample : The same for data and targets as they are, with the defaults of the paper.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4, model.certificate_.relative_gap < 0.1
    (True, True)
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantizedNetworkRegressor:
        """Fit the network to data (n, d) and targets (n,) or (n, C), of samples with weights (n,) >= 0 if given."""
        return self._fit_to(X, y, sample_weight)

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkRegressor:
        options = self._options()
        loss = get_loss(self.loss)
        if loss.labels or loss.coupled:
            raise InvalidInputError(f"loss must be one of real targets for a regressor; got {self.loss!r}")
        samples = self._validated(X, y, sample_weight, y_numeric=True, multi_output=True)
        counting = samples.counting
        target = check_targets("y", counting.y, length=len(counting.y))
        self._fit(samples, target, counting.weights, options, **routed)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return predictions of shape (n,) or (n, C)."""
        return self._output(X)


def _gives_probabilities(estimator: _QuantizedNetwork) -> bool:
    if not isinstance(get_loss(estimator.loss), PROBABILISTIC):
        raise AttributeError(
            "predict_proba needs a loss that models probabilities, 'logistic' or 'cross_entropy'; "
            f"got {estimator.loss!r}"
        )
    return True


@documented(ClassifierOptions)
class QuantizedNetworkClassifier(ClassifierMixin, _QuantizedNetwork):  # type: ignore[misc]
    r"""Classification by a network with quantized first-layer weights and a certified gap.

    Two classes: fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)`,
    :math:`u_j, v_j \in \{\pm1\}^D`, :math:`\tilde x` as for `QuantizedNetworkRegressor`, to the labels coded as -1
    (first class in sorted order) and +1, and predicts by its sign. More classes: one output for each, fitted to one-hot
    rows ("squared", "absolute", "huber"), to one class against the rest (-1 and +1; "logistic", "hinge",
    "squared_hinge") or jointly ("cross_entropy"), and predicts by the largest.

    Parameters
    ----------
    n_neurons, beta, loss, class_weight, activation, levels, encoding, constant_column, solver, shaping, refine, tol,
    allocation, time_limit, n_jobs, random_state, verbose
        See `ClassifierOptions`.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Labels of the samples of positive weight, sorted.
    network_ : BilinearNetwork
        The fitted network of encoded inputs; with the constant column it has one more.
    encoder_ : transformer or None
        Makes inputs of columns, see `encoding`.
    target_scaling_ : TargetScaling
        Offset and scale of the targets in training.
    constant_ : float
        Entry of the constant column, where there is one: the power of two nearest to the largest root mean square of an
        input.
    certificate_ : Certificate
        Its objective and the lower bound on that of every network, for the same inputs and scaled targets.
    result_ : QSDPResult
        Problem, relaxation, covariance and timings.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    >>> model = qsdp.QuantizedNetworkClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.9, model.network_.n_bits
    (True, 2048)
    """

    _options_class: ClassVar[type[EstimatorOptions]] = ClassifierOptions

    def __init__(
        self,
        n_neurons: int | None = ClassifierOptions.n_neurons,
        *,
        beta: float | str = ClassifierOptions.beta,
        loss: str | Loss = ClassifierOptions.loss,
        class_weight: Any = ClassifierOptions.class_weight,
        activation: str | Sequence[float] | PolynomialActivation | None = ClassifierOptions.activation,
        levels: int = ClassifierOptions.levels,
        encoding: Any = ClassifierOptions.encoding,
        constant_column: bool = ClassifierOptions.constant_column,
        solver: str = ClassifierOptions.solver,
        shaping: str = ClassifierOptions.shaping,
        refine: str = ClassifierOptions.refine,
        tol: float = ClassifierOptions.tol,
        allocation: str = ClassifierOptions.allocation,
        time_limit: float | None = ClassifierOptions.time_limit,
        n_jobs: int | None = ClassifierOptions.n_jobs,
        random_state: RandomState = ClassifierOptions.random_state,
        verbose: bool = ClassifierOptions.verbose,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantizedNetworkClassifier:
        """Fit the network to data (n, d) and labels (n,), of samples with weights (n,) >= 0 if given.

        Labels are of any kind, and of two classes or more among the samples of positive weight.
        """
        return self._fit_to(X, y, sample_weight)

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkClassifier:
        options = self._options()
        samples = self._validated(X, y, sample_weight)
        try:
            check_classification_targets(samples.y)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"y is not valid: {error}") from None
        counting = samples.counting
        self.classes_, codes = np.unique(counting.y, return_inverse=True)
        labels = self.classes_.tolist()
        if len(labels) < 2:
            raise InvalidInputError(
                f"Classifier can't train when only one class is present; y holds only {labels[0]!r}"
                f"{'' if counting is samples else ' among the samples of positive weight'}."
            )
        weights = weighted_by_class(self.class_weight, labels, codes, counting.weights)
        self._fit(samples, encode_classes(codes, len(labels), get_loss(self.loss)), weights, options, **routed)
        return self

    def _scaling(self, target: FloatArray, weights: FloatArray | None) -> TargetScaling:
        return TargetScaling.of(target, weights, centre=centres(get_loss(self.loss)), scale=False)

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores: (n,) for two classes, positive ones meaning ``classes_[1]``; (n, C) for more."""
        return class_scores(self._output(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted labels of shape (n,)."""
        chosen = choose_classes(self._output(X))
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n, C) in the order of ``classes_``.

        For the cross-entropy the softmax of the outputs; for the logistic loss the logistic function of the
        output, and with more than two classes that of every output divided by their sum.
        """
        return class_probabilities(self._output(X), get_loss(self.loss))


@contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Turn errors of scikit-learn's validation into those of this package."""
    try:
        yield
    except TypeError as error:
        raise InvalidTypeError(f"{what} is not valid: {error}") from None
    except (ValueError, OverflowError) as error:
        # The first line says what is wrong, those of scikit-learn's advice are not about this package.
        raise InvalidInputError(f"{what} is not valid: {str(error).splitlines()[0]}") from None


def _constant(X: FloatArray, weights: FloatArray | None) -> float:
    """Return the power of two nearest to the largest root mean square of a column."""
    largest = float(np.abs(X).max()) or 1.0
    squares = np.average((X / largest) ** 2, axis=0, weights=weights)
    return power_of_two(largest * float(np.sqrt(squares.max())))


def warn_of_gap(result: QSDPResult) -> None:
    """Warn where the certificate leaves a large part of the objective open, and say what helps."""
    gap = result.certificate.relative_gap
    if gap <= GAP_TO_WARN_OF:
        return
    remedies = ["more neurons", "a larger beta"]
    if result.refine == "none":
        remedies.insert(0, "refine='polish'")
    warn(
        f"the certified gap is {100 * gap:.0f} % of the objective: the network may be far from the best one; "
        f"{', '.join(remedies[:-1])} or {remedies[-1]} makes it smaller"
    )


def warn_of_scales(X: FloatArray) -> None:
    """Warn where columns differ so much in scale that quantized weights cannot make up for it."""
    # Divided first, so that squares of extreme values stay finite; those are refused later, by name.
    largest = float(np.abs(X).max()) or 1.0
    varying = X.max(axis=0) > X.min(axis=0)
    deviations = np.std(X[:, varying] / largest, axis=0)
    # What a scaler leaves of a constant column is rounding, no column of small scale.
    deviations = deviations[deviations > 1e-6 * np.abs(X[:, varying] / largest).max(axis=0, initial=0.0)]
    if deviations.size and deviations.max() > _WILD_RATIO * deviations.min() > 0.0:
        warn(
            f"the columns of X differ in scale by a factor of {deviations.max() / deviations.min():.0f}; quantized "
            "weights cannot make up for it: use encoding='standard'"
        )
