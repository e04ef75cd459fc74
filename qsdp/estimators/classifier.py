"""The scikit-learn classifier without cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from qsdp._utils.options import documented
from qsdp._utils.validation import FloatArray, RandomState, errors_of
from qsdp.activations import PolynomialActivation
from qsdp.estimators.calibration import Calibration
from qsdp.estimators.classes import (
    PROBABILISTIC,
    centres,
    choose_classes,
    class_logits,
    class_scores,
    encode_classes,
    weighted_by_class,
)
from qsdp.estimators.network import Samples, _QuantizedNetwork
from qsdp.estimators.options import ClassifierOptions, EstimatorOptions
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Logistic, Loss, get_loss
from qsdp.problem import TrainingProblem

__all__ = ["QuantizedNetworkClassifier"]


@documented(ClassifierOptions)
class QuantizedNetworkClassifier(ClassifierMixin, _QuantizedNetwork):  # type: ignore[misc]
    r"""Classification by a network with quantized first-layer weights and a certified gap.

    Two classes: fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)`,
    :math:`u_j, v_j \in \{\pm1\}^D`, :math:`\tilde x = (x, c)`, to the labels coded as -1 (first class in sorted
    order) and +1, and predicts by its sign. More classes: one output for each, fitted to one-hot rows ("squared",
    "absolute", "huber"), to one class against the rest (-1 and +1; "logistic", "hinge", "squared_hinge") or jointly
    ("cross_entropy"), and predicts by the largest. Several labels (y of zeros and ones, a column for each): an output
    for each, as for two classes.

    Parameters
    ----------
    n_neurons, beta, loss, class_weight, activation, levels, encoding, constant_column, solver, shaping, refine, tol,
    allocation, time_limit, n_jobs, random_state, warm_start, verbose
        See `ClassifierOptions`.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Labels of the samples of positive weight, sorted; numbers of the columns of multi-label targets.
    network_ : BilinearNetwork
        The fitted network; with the constant column it has one input more than the data.
    constant_ : float
        Entry of the constant column: the power of two nearest to the largest root mean square of an input.
    encoder_ : transformer or None
        Fitted, from columns to inputs.
    target_scaling_ : TargetScaling
        From outputs of the network to targets.
    certificate_ : Certificate
        Its objective and the lower bound on that of every network.
    result_ : QSDPResult
        Relaxation, covariance and timings.
    calibration_ : Calibration
        From scores to log odds, unless the loss has those; see `predict_proba`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Notes
    -----
    Units of columns do not matter, but with ``encoding="none"`` or a transformer: columns of very different scale make
    quantized weights unequal.

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
        warm_start: bool = ClassifierOptions.warm_start,
        verbose: bool = ClassifierOptions.verbose,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantizedNetworkClassifier:
        """Fit the network to data (n, d) and labels (n,), of samples with weights (n,) >= 0 if given.

        Labels are of any kind, and of two classes or more among the samples of positive weight; or zeros and ones of
        shape (n, k), for k labels of which a sample may have any number.
        """
        return self._fit_to(X, y, sample_weight)

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkClassifier:
        options = self._options()
        with errors_of("y"):
            several = _is_multilabel(y)
        y = y.toarray() if several and hasattr(y, "toarray") else y
        samples = self._validated(X, y, sample_weight, multi_output=several)
        with errors_of("y"):
            check_classification_targets(samples.y)
        counting = samples.counting
        self._several = several
        target, weights = (self._coded_labels if several else self._coded_classes)(counting)
        self._fit(samples, target, weights, options, **routed)
        return self

    def _coded_classes(self, counting: Samples) -> tuple[FloatArray, FloatArray | None]:
        """Return targets and final weights of samples of a class each."""
        self.classes_, codes = np.unique(counting.y, return_inverse=True)
        labels = self.classes_.tolist()
        if len(labels) < 2:
            raise InvalidInputError(
                "Classifier can't train when only one class is present; y holds only "
                f"{labels[0]!r} among the samples of positive weight."
            )
        weights = weighted_by_class(self.class_weight, labels, codes, counting.weights)
        return encode_classes(codes, len(labels), get_loss(self.loss)), weights

    def _coded_labels(self, counting: Samples) -> tuple[FloatArray, FloatArray | None]:
        """Return targets and weights of samples that have any number of labels."""
        if self.class_weight is not None:
            raise InvalidInputError(f"class_weight must be None for several labels; got {self.class_weight!r:.60}")
        if get_loss(self.loss).coupled:
            raise InvalidInputError(f"loss must be one that adds up over several labels; got {self.loss!r}")
        self.classes_ = np.arange(counting.y.shape[1])
        return 2.0 * counting.y - 1.0, counting.weights

    def _fit(self, *arguments: Any, **routed: Any) -> None:
        super()._fit(*arguments, **routed)
        self.calibration_ = self._calibration(self.result_.problem)

    def _calibration(self, problem: TrainingProblem) -> Calibration:
        return Calibration(problem, self.target_scaling_, one_each=problem.y.ndim == 2 and not self._several)

    def _scaling(self, target: FloatArray, weights: FloatArray | None) -> TargetScaling:
        return TargetScaling.of(target, weights, centre=centres(get_loss(self.loss)), scale=False)

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores: (n,) for two classes, positive ones meaning ``classes_[1]``; (n, C) for more.

        Of several labels (n, k), positive ones meaning that a sample has the label.
        """
        outputs = self._output(X)
        return outputs if self._several else class_scores(outputs)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted labels of shape (n,), or zeros and ones of shape (n, k) for several labels."""
        outputs = self._output(X)
        if self._several:
            return (outputs > 0.0).astype(np.int64)
        chosen = choose_classes(outputs)
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n, C) in the order of ``classes_``, or (n, k) of the labels.

        For the cross-entropy the softmax of the outputs; for the logistic loss the logistic function of the output.
        The outputs of other losses are calibrated on samples held out, as Platt has it, when probabilities are asked
        for first. With more than two classes the probabilities of one against the rest are divided by their sum.
        """
        logits = self._logits(X)
        probabilities: FloatArray = expit(logits) if self._several else softmax(logits, axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of what `predict_proba` returns, finite where those are zero."""
        logits = self._logits(X)
        logarithms: FloatArray = log_expit(logits) if self._several else log_softmax(logits, axis=1)
        return logarithms

    def _logits(self, X: Any) -> FloatArray:
        outputs, loss = self._output(X), get_loss(self.loss)
        if not isinstance(loss, PROBABILISTIC):
            outputs, loss = self.calibration_.log_odds(outputs), Logistic()
        return outputs if self._several else class_logits(outputs, loss)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _is_multilabel(y: Any) -> bool:
    """Whether targets are zeros and ones, a column for each label."""
    if y is None:
        return False
    # Missing ones are refused later, by name.
    with np.errstate(invalid="ignore"):
        return bool(type_of_target(y, input_name="y") == "multilabel-indicator")
