"""The scikit-learn classifier without cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target

from qsdp._utils.options import documented
from qsdp._utils.progress import progress
from qsdp._utils.validation import FloatArray, RandomState, errors_of, warn
from qsdp.activations import PolynomialActivation
from qsdp.encoding.columns import is_wide
from qsdp.estimators.calibration import Calibration
from qsdp.estimators.classes import (
    are_objects,
    centres,
    check_class_targets,
    check_label_columns,
    check_labels,
    choose_classes,
    class_factors,
    class_logits,
    class_scores,
    encode_classes,
)
from qsdp.estimators.collections import rows_here
from qsdp.estimators.explanation import Explained
from qsdp.estimators.offsets import decision_offsets
from qsdp.estimators.options import ClassifierOptions, EstimatorOptions
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Logistic, Loss, get_loss
from qsdp.problem import TrainingProblem
from qsdp.statistics.collections import Rows, is_collection

__all__ = ["QuantizedNetworkClassifier"]


@documented(ClassifierOptions)
class QuantizedNetworkClassifier(ClassifierMixin, Explained):  # type: ignore[misc]
    r"""Classification by a network with quantized first-layer weights and a certified gap.

    For two classes, fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)`,
    :math:`u_j, v_j \in \{\pm1\}^D`, :math:`\tilde x = (x, c)`, to the labels coded as -1 (first class in sorted
    order) and +1, and predicts by the sign of f. More classes, or the cross-entropy, have one output per class, fitted
    to one-hot rows ("squared", "absolute", "huber"), to one class against the rest (-1 and +1; "logistic", "hinge",
    "squared_hinge") or jointly ("cross_entropy"). The largest output decides. Several labels (y of zeros and
    ones, one column per label) have one output per label, each fitted as for two classes.

    Parameters
    ----------
    n_neurons, beta, loss, class_weight, probability, activation, levels, encoding, max_categories, constant_column,
    solver, shaping, refine, tol, allocation, time_limit, n_jobs, device, random_state, warm_start, keep_data, verbose
        See `ClassifierOptions`.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Sorted labels of the samples with positive weight; column numbers for multi-label targets.
    network_ : BilinearNetwork or BlockNetwork
        Fitted network on the encoded inputs; the constant column, if appended, is one more input.
    constant_ : float
        Entry of the constant column: the power of two nearest to the largest root mean square of an input.
    encoder_ : transformer or None
        Fitted transformer of columns to inputs.
    target_scaling_ : TargetScaling
        Map from outputs of the network to targets.
    certificate_ : Certificate
        Objective of the network and the lower bound on the objective of every network.
    result_ : QSDPResult
        Relaxation, covariance and timings.
    calibration_ : Calibration or None
        Map from scores to log odds, for losses that do not give log odds; see `predict_proba`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Notes
    -----
    Units of columns do not matter, except with ``encoding="none"`` or a transformer: columns of very different scale
    then give quantized weights unequal effects.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    >>> model = qsdp.QuantizedNetworkClassifier(beta="5%", random_state=0)
    >>> model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.85
    True
    >>> model.predict_proba(X[400:]).shape
    (169, 2)
    """

    _options_class: ClassVar[type[EstimatorOptions]] = ClassifierOptions

    def __init__(
        self,
        n_neurons: int | None = ClassifierOptions.n_neurons,
        *,
        beta: float | str = ClassifierOptions.beta,
        loss: str | Loss = ClassifierOptions.loss,
        class_weight: Any = ClassifierOptions.class_weight,
        probability: bool = ClassifierOptions.probability,
        activation: str | Sequence[float] | PolynomialActivation | None = ClassifierOptions.activation,
        levels: int = ClassifierOptions.levels,
        encoding: Any = ClassifierOptions.encoding,
        max_categories: int = ClassifierOptions.max_categories,
        constant_column: bool = ClassifierOptions.constant_column,
        solver: str = ClassifierOptions.solver,
        shaping: str = ClassifierOptions.shaping,
        refine: str = ClassifierOptions.refine,
        tol: float = ClassifierOptions.tol,
        allocation: str = ClassifierOptions.allocation,
        time_limit: float | None = ClassifierOptions.time_limit,
        n_jobs: int | None = ClassifierOptions.n_jobs,
        device: str | None = ClassifierOptions.device,
        random_state: RandomState = ClassifierOptions.random_state,
        warm_start: bool = ClassifierOptions.warm_start,
        keep_data: bool = ClassifierOptions.keep_data,
        verbose: bool | int | None = ClassifierOptions.verbose,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuantizedNetworkClassifier:
        """Fit the network to data (n, d), or images or series, and labels (n,), with sample weights (n,) >= 0 if given.

        Labels may be of any kind that can be sorted, such as text, numbers or the intervals of ``pandas.cut``, with at
        least two classes among the samples with positive weight. Zeros and ones of shape (n, k) stand for k labels, of
        which a sample may have any number. All may be Dask collections; X may also be `qsdp.RowBatches`, which
        come with their labels and weights.
        """
        return self._fit_to(X, y, sample_weight)

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkClassifier:
        options = self._options()
        X, y, sample_weight, of_collections = rows_here(X, y, sample_weight, missing=self._takes_frames)
        y = y.to_list() if is_wide(y) else y
        check_labels(y)
        with errors_of("y"):
            self._several = _is_multilabel(y)
        y = y.toarray() if self._several and hasattr(y, "toarray") else y
        samples = self._validated(X, y, sample_weight)
        with errors_of("y"):
            check_class_targets(samples.y)
        self._learn_classes(samples.counting)
        self._fit(samples, options, **of_collections, **routed)
        return self

    @property
    def _targets(self) -> dict[str, Any]:
        return {"multi_output": self._several}

    def _learn_classes(self, counting: Rows) -> None:
        """Learn the labels and the weight factors of the classes."""
        loss, self._class_factors = get_loss(self.loss), None
        if self._several:
            if self.class_weight is not None:
                raise InvalidInputError(f"class_weight must be None for several labels; got {self.class_weight!r:.60}")
            if loss.coupled:
                raise InvalidInputError(f"loss must be a sum over the labels if there are several; got {self.loss!r}")
            check_label_columns(counting.y, loss)
            self.classes_ = np.arange(counting.y.shape[1])
            return
        self.classes_, codes = np.unique(counting.y, return_inverse=True)
        labels = self.classes_.tolist()
        if len(labels) < 2:
            raise InvalidInputError(
                f"Classifier can't train when only one class is present; y holds only {labels[0]!r} among the samples "
                "of positive weight."
            )
        self._class_factors = class_factors(self.class_weight, labels, codes, counting.weights)

    def _coded(self, samples: Rows) -> tuple[FloatArray, FloatArray | None]:
        if self._several:
            return 2.0 * samples.y - 1.0, samples.weights
        try:
            codes = np.minimum(np.searchsorted(self.classes_, samples.y), len(self.classes_) - 1)
            unknown = self.classes_[codes] != samples.y
        except TypeError:
            # Text and numbers have no order.
            unknown = np.array([label not in self.classes_.tolist() for label in samples.y.tolist()])
        if np.any(unknown):
            raise InvalidInputError(
                f"y must hold labels that the sampled rows have, {self.classes_.tolist()!r:.60}; got "
                f"{samples.y[unknown].tolist()[0]!r}"
            )
        weights = samples.weights
        if self._class_factors is not None:
            weights = self._class_factors[codes] * (1.0 if weights is None else weights)
        return encode_classes(codes, len(self.classes_), get_loss(self.loss)), weights

    def _class_means(self) -> Any:
        return None if len(self.classes_) == 2 or self._several else self.target_scaling_.offset

    def _fit(self, samples: Rows, options: Any, **routed: Any) -> None:
        super()._fit(samples, options, **routed)
        left_out = None if self.result_.choice is None else self.result_.choice.left_out
        if left_out is not None and self._class_means() is not None:
            self.target_scaling_ = self.target_scaling_.deciding_by(
                decision_offsets(left_out, self.target_scaling_.offset)
            )
        self.calibration_ = self._calibration(self.result_.rows)
        if self.calibration_ is not None and options.probability:
            with progress(options.verbose) as stages, stages.stage("calibrate"):
                _ = self.calibration_.lines

    def _calibration(self, problem: TrainingProblem) -> Calibration | None:
        if get_loss(self.loss).probabilistic:
            return None
        return Calibration(problem, self.target_scaling_, one_each=len(self.classes_) > 2 and not self._several)

    def _scaling(self, target: FloatArray, weights: FloatArray | None) -> TargetScaling:
        return TargetScaling.of(target, weights, centre=centres(get_loss(self.loss)), scale=False)

    def decision_function(self, X: Any) -> Any:
        """Return scores of shape (n,) for two classes, positive for ``classes_[1]``, or (n, C) for more.

        For several labels, the shape is (n, k), and a positive score means that a sample has the label.
        """
        if is_collection(X):
            width = len(self.classes_)
            return self._of_collection(
                "decision_function", X, np.float64, *([width] if self._several or width > 2 else [])
            )
        outputs = self._output(X)
        return outputs if self._several else class_scores(outputs)

    def predict(self, X: Any) -> Any:
        """Return the predicted labels of shape (n,), or zeros and ones of shape (n, k) for several labels.

        A Dask array gives an array, a Dask data frame a series or data frame with its index, as in other methods.
        """
        if is_collection(X):
            kind = np.int64 if self._several else self.classes_.dtype
            return self._of_collection("predict", X, kind, *([len(self.classes_)] if self._several else []))
        outputs = self._output(X)
        if self._several:
            return (outputs > 0.0).astype(np.int64)
        chosen = choose_classes(outputs)
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, the (weighted) fraction of rows of X whose labels y are predicted."""
        labels = y if hasattr(y, "dtype") else np.asarray(y)
        if is_collection(y) or hasattr(y, "toarray") or not are_objects(np.asarray(labels)):
            accuracy: float = super().score(X, y, sample_weight)
            return accuracy
        # The metrics of scikit-learn know numbers and text only.
        right = [label == one for label, one in zip(np.asarray(labels), self.predict(X), strict=True)]
        return float(np.average(right, weights=sample_weight))

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of shape (n, C) in the order of ``classes_``, or (n, k) of the labels.

        For the cross-entropy, they are the softmax of the outputs; for the logistic loss, the logistic function of
        the output. For other losses, outputs are calibrated on held-out rows by Platt's method: in `fit` with
        ``probability=True``, else when probabilities are first requested. With more than two classes, probabilities of
        one against the rest are divided by their sum.

        Warns
        -----
        QSDPWarning
            This first request calibrates, which may take as long as `fit` did.
        """
        if is_collection(X):
            return self._of_collection("predict_proba", X, np.float64, len(self.classes_))
        logits = self._logits(X)
        probabilities: FloatArray = expit(logits) if self._several else softmax(logits, axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of `predict_proba`, finite where the probabilities are zero."""
        if is_collection(X):
            return self._of_collection("predict_log_proba", X, np.float64, len(self.classes_))
        logits = self._logits(X)
        logarithms: FloatArray = log_expit(logits) if self._several else log_softmax(logits, axis=1)
        return logarithms

    def _logits(self, X: Any) -> FloatArray:
        outputs, loss = self._output(X), get_loss(self.loss)
        if self.calibration_ is not None:
            self._warn_of_calibration()
            outputs, loss = self.calibration_.log_odds(outputs), Logistic()
        return outputs if self._several else class_logits(outputs, loss)

    def _warn_of_calibration(self) -> None:
        if not self.probability and self.calibration_ is not None and not self.calibration_.is_fitted:
            warn(
                f"calibrating probabilities of loss={get_loss(self.loss).name!r} on held-out rows, once; "
                "probability=True does it in fit"
            )

    def _without_data(self, state: dict[str, Any]) -> dict[str, Any]:
        if self.calibration_ is not None:
            state["calibration_"] = self.calibration_.without_data()
        return super()._without_data(state)

    def _predictor(self, method: str = "predict") -> Any:
        predictor = super()._predictor(method)
        predictor.calibration_ = None
        if "proba" in method and self.calibration_ is not None:
            # The calibration is fitted once, here, and its data stay here.
            self._warn_of_calibration()
            predictor.calibration_ = self.calibration_.without_data()
        return predictor

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _is_multilabel(y: Any) -> bool:
    """Return whether the targets have one column for each of at least two labels."""
    if y is None or (hasattr(y, "dtype") and not hasattr(y, "toarray") and are_objects(np.asarray(y))):
        return False
    # Later checks refuse missing labels.
    with np.errstate(invalid="ignore"):
        kind = type_of_target(y, input_name="y")
    if kind.endswith("multioutput"):
        raise ValueError(f"labels of several columns must be zeros and ones, a column for each; got {kind} targets")
    return bool(kind == "multilabel-indicator")
