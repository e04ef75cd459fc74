"""The scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from qsdp._utils.validation import FloatArray, RandomState, errors_of
from qsdp.activations import PolynomialActivation
from qsdp.encoding.reading_rule import is_wide
from qsdp.estimators.classes import (
    are_objects,
    centres,
    check_class_targets,
    check_labels,
    choose_classes,
    class_factors,
    class_logits,
    class_scores,
    encode_classes,
)
from qsdp.estimators.dask_fits import rows_here
from qsdp.estimators.explanation import Explained
from qsdp.estimators.parameters import CONSTRAINTS, OF_CLASSIFIERS, is_additive, is_auto
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.statistics.dask_rows import is_collection
from qsdp.statistics.sample import Rows

__all__ = ["QuantizedNetworkClassifier"]


class QuantizedNetworkClassifier(ClassifierMixin, Explained):  # type: ignore[misc]
    r"""Classification by a network with quantized first-layer weights and a certified gap.

    For two classes, fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)`,
    :math:`u_j, v_j \in \{\pm1\}^D`, :math:`\tilde x = (x, c)`, to the labels coded as -1 (first class in sorted
    order) and +1, and predicts by the sign of f. More classes, or the cross-entropy, have one output per class, fitted
    to one-hot rows ("squared", "absolute", "huber"), to one class against the rest (-1 and +1; "logistic", "hinge",
    "squared_hinge") or jointly ("cross_entropy"). The largest output decides. By default, :math:`\tilde x` are the
    inputs without c, and f also has real weights on them and on thresholds of the columns.

    Parameters
    ----------
    n_neurons : int or None, default=None
        Number of neurons m; of an additive model, those that round to zero in eight bits are left out, so that fewer
        may remain. None: for additive models, those that lower the objective by more than a hundredth; otherwise for
        each output, the smallest power of two from 8 to 128 for which the refined network matches the relaxation: the
        loss of the difference of their outputs is below 4 % of the expected loss (less with many rows). `resample`
        changes m later; sampling noise falls as :math:`1/\sqrt m`.
    beta : float or str, default="auto"
        Weight of the regulariser :math:`\beta D \sum_j \|\alpha_j\|_1`, which is added to a loss summed over samples:
        a number > 0; a fraction, such as "5%", of `qsdp.beta_max`, above which the zero network is optimal; or
        "auto": for additive models, the fraction with the smallest loss on held-out rows; otherwise the one for which
        the relaxation should leave a gradient of the loss as large as the best quadratic ridge regression leaves.
    loss : str or Loss, default="auto"
        "squared" as in the paper, "absolute" or "huber"; "hinge", "squared_hinge", "logistic" and "cross_entropy", of
        which the last two give probabilities; or a loss object of `qsdp.losses`. "auto": for additive models,
        "logistic" for two classes and "cross_entropy" for more; otherwise "squared".
    class_weight : None, "balanced" or dict, default=None
        Weights > 0 of the classes, which multiply the weights of their samples. "balanced" gives all classes the same
        total weight, that of all samples divided by the number of classes. Classes missing in a dict have weight 1.
    activation : None, str, (a, b, c) or PolynomialActivation, default="auto"
        None or "bilinear": the network :math:`\sum_j \alpha_j (x^T u_j)(x^T v_j)`. A polynomial: a network that
        ``network_.to_polynomial()`` converts exactly to a standard one with that activation. "auto": None for
        additive models and for networks on blocks, otherwise "relu_like".
    levels : int, default=2
        Number M + 1 of values -M, -M + 2, ..., M of a first-layer weight, 2 (binary) to 128. Levels are useful for
        activations with a linear or constant part, and for a fixed number of neurons.
    encoding : {"auto", "additive", "standard", "thresholds", "both", "none"}, None or transformer, default="auto"
        How the columns of X become inputs of the network. "additive": real weights on inputs and thresholds, and
        neurons on the same inputs (`qsdp.encoding.AdditiveBlocks`), with 0 or 19 thresholds per column and beta
        chosen by the loss on held-out rows. "standard", "thresholds" and "both" have neurons only, on the inputs of
        `qsdp.encoding.TableEncoder`: "standard" standardises numbers and clips them at three standard deviations,
        "thresholds" turns each number into at most three bits, "both" uses both, and inputs are scaled to rows of norm
        about 1.5. "auto" is "additive", or "standard" where a network cannot be additive: with an activation, more than
        two levels or a loss without second derivatives, and for Dask collections. Categories of data frames and missing
        entries become bits. "none" or None uses X unchanged.
        A transformer of scikit-learn is cloned and fitted to X and y as in a pipeline. X has two dimensions and may
        then hold text and missing entries; the output must be numeric and is converted to a dense array. With
        `qsdp.encoding.Patches` or `Windows`, X are images or series, and the network is one on blocks: bilinear, so
        that `activation` must be None or "auto", without a constant column of its own. ``refine="exact"`` then
        proves the optimum without a relaxation if its neurons can be enumerated.
    max_categories : int, default=50
        Largest number of categories of a text column that get a bit each, >= 2; the most frequent ones do. The other
        categories set none of these bits. Only used with an `encoding` given by name.
    constant_column : bool, default=True
        Append a constant column, whose value `constant_` is 1 for standardised data and otherwise the scale of the
        data. Without it, a bilinear network is even, :math:`f(-x) = f(x)`. Activations with a linear or constant part
        need none and get none.
    solver : str, default="auto"
        See `qsdp.solve_relaxation`.
    refine : {"none", "refit", "polish", "exact"}, default="polish"
        What happens to the sampled network. "refit" optimises the second layer again, which leaves at most n neurons
        per output (`qsdp.refit`). "polish" improves single bits at equal storage (`qsdp.polish`). "exact" continues
        until a network of any width is proven globally optimal, if the time limit allows (`qsdp.column_generation`).
        Additive models are not sampled unless `n_neurons` is set: all but "none" round their weights to eight bits.
    tol : float, default=1e-3
        Relative gap at which the solver of the relaxation stops; see `qsdp.solve_relaxation`. The default is far
        below the gap of a network of the default size.
    allocation : {"equal", "proportional"}, default="proportional"
        How neurons are divided among several outputs; see `qsdp.sample_network`. Functions default to "equal", as the
        paper's algorithm; in proportion, the outputs of unequal classes are sampled with less noise.
    time_limit : float or None, default=None
        Seconds, > 0, for the whole fit, at least half of them for a refinement by "polish" or "exact". None: no limit
        for the relaxation, 120 seconds for such a refinement. Infinity: no limit at all. The limit is checked between
        iterations; the current step is finished, and its best result so far is used. Then the certificate is
        computed, which is still valid.
    n_jobs : int or None, default=None
        Processes for the relaxations of several outputs, threads for sampling, polish and predictions; see
        `qsdp.solve_relaxation`, `qsdp.sample_network` and `qsdp.polish`. The results do not depend on it, unless a
        time limit ends the polish.
    device : str or None, default=None
        Torch device, such as "cuda", for the Gram matrix of the data, if the solver computes one, and for statistics of
        Dask collections. None: NumPy on the CPU.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sampling and the polish; None draws a new one. The rest is deterministic.
    warm_start : bool, default=False
        Start the solver of the relaxation from the solution of the last `fit`, if inputs and targets have the same
        shape. After a small change of the data or of beta, it needs fewer iterations; the result is the same within
        `tol`.
    verbose : bool, int or None, default=None
        Show a progress bar for every stage, on standard error or in a notebook. None: in notebooks only, once a fit
        has taken two seconds. Functions default to False because loops call them.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Sorted labels of the samples with positive weight.
    network_ : BilinearNetwork
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**CONSTRAINTS, **OF_CLASSIFIERS}

    def __init__(
        self,
        n_neurons: int | None = None,
        *,
        beta: float | str = "auto",
        loss: str | Loss = "auto",
        class_weight: Any = None,
        activation: str | Sequence[float] | PolynomialActivation | None = "auto",
        levels: int = 2,
        encoding: Any = "auto",
        max_categories: int = 50,
        constant_column: bool = True,
        solver: str = "auto",
        refine: str = "polish",
        tol: float = 1e-3,
        allocation: str = "proportional",
        time_limit: float | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: bool | int | None = None,
    ) -> None:
        self.n_neurons = n_neurons
        self.beta = beta
        self.loss = loss
        self.class_weight = class_weight
        self.activation = activation
        self.levels = levels
        self.encoding = encoding
        self.max_categories = max_categories
        self.constant_column = constant_column
        self.solver = solver
        self.refine = refine
        self.tol = tol
        self.allocation = allocation
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantizedNetworkClassifier:
        """Fit the network to data (n, d), or images or series, and labels (n,), with sample weights (n,) >= 0 if given.

        Labels may be of any kind that can be sorted, such as text, numbers or the intervals of ``pandas.cut``, with at
        least two classes among the samples with positive weight. All may be Dask collections. For several
        labels of a row, use `sklearn.multioutput.MultiOutputClassifier`.
        """
        with self._restored_on_error():
            return self._fit_to(X, y, sample_weight)

    @property
    def _loss(self) -> str | Loss:
        if not is_additive(self) or not is_auto(self.loss):
            return super()._loss
        return "logistic" if len(getattr(self, "classes_", ())) == 2 else "cross_entropy"

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkClassifier:
        options = self._options(in_batches=is_collection(X))
        X, y, sample_weight, of_collections = rows_here(X, y, sample_weight, missing=self._takes_frames)
        y = y.to_list() if is_wide(y) else y
        check_labels(y)
        samples = self._validated(X, y, sample_weight)
        with errors_of("y"):
            check_class_targets(samples.y)
        self._learn_classes(samples.counting)
        self._fit(samples, replace(options, loss=self._loss), **of_collections, **routed)
        return self

    @property
    def _targets(self) -> dict[str, Any]:
        return {"multi_output": False}

    def _learn_classes(self, counting: Rows) -> None:
        """Learn the labels and the weight factors of the classes."""
        self.classes_, codes = np.unique(counting.y, return_inverse=True)
        labels = self.classes_.tolist()
        if len(labels) < 2:
            raise InvalidInputError(
                f"Classifier can't train when only one class is present; y holds only {labels[0]!r} among the samples "
                "of positive weight."
            )
        self._class_factors = class_factors(self.class_weight, labels, codes, counting.weights)

    def _coded(self, samples: Rows) -> tuple[FloatArray, FloatArray | None]:
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
        return encode_classes(codes, len(self.classes_), get_loss(self._loss)), weights

    def _scaling(self, target: FloatArray, weights: FloatArray | None) -> TargetScaling:
        return TargetScaling.from_targets(target, weights, centre=centres(get_loss(self._loss)), scale=False)

    def decision_function(self, X: Any) -> Any:
        """Return scores of shape (n,) for two classes, positive for ``classes_[1]``, or (n, C) for more."""
        if is_collection(X):
            width = len(self.classes_)
            return self._of_collection("decision_function", X, np.float64, *([width] if width > 2 else []))
        return class_scores(self._output(X))

    def predict(self, X: Any) -> Any:
        """Return the predicted labels of shape (n,).

        A Dask array gives an array, a Dask data frame a series or data frame with its index, as in other methods.
        """
        if is_collection(X):
            return self._of_collection("predict", X, self.classes_.dtype)
        chosen = choose_classes(self._output(X))
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, the (weighted) fraction of rows of X whose labels y are predicted."""
        labels = y if hasattr(y, "dtype") else np.asarray(y)
        if is_collection(y) or hasattr(y, "toarray") or not are_objects(np.asarray(labels)):
            accuracy: float = super().score(X, y, sample_weight)
            return accuracy
        # The metrics of scikit-learn know numbers and text only.
        right = [label == predicted for label, predicted in zip(np.asarray(labels), self.predict(X), strict=True)]
        return float(np.average(right, weights=sample_weight))

    def _gives_probabilities(self) -> bool:
        loss = get_loss(self._loss)
        if not loss.probabilistic:
            raise AttributeError(
                f"probabilities need the loss 'logistic' or 'cross_entropy'; got {loss.name!r}: choose one of these, "
                "or calibrate with sklearn.calibration.CalibratedClassifierCV"
            )
        return True

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of shape (n, C) in the order of ``classes_``.

        For the cross-entropy, they are the softmax of the outputs; for the logistic loss, the logistic function of
        the output, and with more than two classes these divided by their sum. Other losses do not model probabilities,
        and their models do not have this method: `sklearn.calibration.CalibratedClassifierCV` calibrates them.
        """
        if is_collection(X):
            return self._of_collection("predict_proba", X, np.float64, len(self.classes_))
        probabilities: FloatArray = softmax(self._logits(X), axis=1)
        return probabilities

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of `predict_proba`, finite where the probabilities are zero."""
        if is_collection(X):
            return self._of_collection("predict_log_proba", X, np.float64, len(self.classes_))
        logarithms: FloatArray = log_softmax(self._logits(X), axis=1)
        return logarithms

    def _logits(self, X: Any) -> FloatArray:
        return class_logits(self._output(X), get_loss(self._loss))
