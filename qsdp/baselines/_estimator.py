"""Base classes of the training systems: scikit-learn estimators with a training history and quantization."""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from qsdp._utils.summary import Summary, SummaryBelowDiagram
from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    _show,
    check_choice,
    check_flag,
    check_integer,
    check_random_state,
    check_real,
    check_targets,
    check_verbose,
    errors_of,
)
from qsdp.baselines._history import Callback, History
from qsdp.baselines._layers import QuantizedChain, TrainedLayer, quantize_layers
from qsdp.estimators.classes import choose_classes, class_probabilities, class_scores
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.networks import QuadraticForm

_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def inherit_entries(cls: type) -> None:
    """Add to a class's docstring the parameters and attributes that its bases, but scikit-learn's, describe.

    Entries that the class itself describes are not changed.
    """
    intro, sections = _sections(cls)
    shared = {}
    for title in ("Parameters", "Attributes"):
        entries = _entries(sections.pop(title, ""))
        for base in cls.__mro__[1:]:
            inherited = {} if base.__module__.startswith("sklearn.") else _entries(_sections(base)[1].get(title, ""))
            known = {name for names in entries for name in names}
            entries |= {names: text for names, text in inherited.items() if known.isdisjoint(names)}
        if entries:
            shared[title] = "\n".join(entries.values()) + "\n\n"
    body = "".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in (shared | sections).items())
    cls.__doc__ = (intro + body).rstrip() + "\n"


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """Return the introduction of a class's own docstring, and its sections by title."""
    intro, *rest = _TITLE.split(inspect.cleandoc(vars(cls).get("__doc__") or ""))
    return intro, dict(zip(rest[::2], rest[1::2], strict=True))


def _entries(section: str) -> dict[tuple[str, ...], str]:
    """Return the entries of a docstring section, keyed by the parameter names that each one describes."""
    starts = re.split(r"^(?=\S)", section.strip(), flags=re.MULTILINE)
    return {tuple(start.partition("\n")[0].partition(" :")[0].split(", ")): start.rstrip() for start in starts if start}


Self = TypeVar("Self", bound="Baseline")
Chosen = TypeVar("Chosen", bound="CheckedSettings")


def _check_fraction(name: str, value: object) -> float:
    number = check_real(name, value)
    if number >= 1.0:
        raise InvalidInputError(f"{name} must be from 0 to below 1; got {_show(value)}")
    return number


_positive_integer, _positive_real = partial(check_integer, minimum=1), partial(check_real, strict=True)

#: Checks of the parameters that systems have in common, by name.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("batch_size", "n_epochs", "n_neurons", "patience", "start_epochs"), _positive_integer),
    **dict.fromkeys(("clip", "learning_rate"), _positive_real),
    "dtype": lambda name, value: check_choice(name, value, ("float32", "float64")),
    "momentum": _check_fraction,
    "verbose": lambda name, value: check_verbose(value),
}

#: Parameters that may be None.
_OPTIONAL = ("clip", "patience")


def checked(estimator: Any, *names: str) -> dict[str, Any]:
    """Return the named parameters of an estimator, checked; those not in `_CHECKS` must be booleans."""
    values = {name: getattr(estimator, name) for name in names}
    return {
        name: value if value is None and name in _OPTIONAL else _CHECKS.get(name, check_flag)(name, value)
        for name, value in values.items()
    }


class CheckedSettings:
    """Base class of settings whose fields are also parameters of estimators; creating an object checks them."""

    @classmethod
    def from_parameters(cls: type[Chosen], source: Any, **others: Any) -> Chosen:
        """Return settings from an estimator's parameters or from ``locals()``, with `others` in addition."""
        values = source if isinstance(source, Mapping) else vars(source)
        names = {field.name for field in fields(cls)} - set(others)  # type: ignore[arg-type]
        return cls(**{name: values[name] for name in names}, **others)


def accuracy_of(outputs: FloatArray, codes: npt.NDArray[np.intp]) -> float:
    """Return the fraction of rows whose outputs choose the class number in `codes`."""
    return float(np.mean(choose_classes(outputs) == codes))


def r2_of(outputs: FloatArray, targets: FloatArray) -> float:
    """Return the coefficient of determination, averaged over outputs; nan for a single sample."""
    return float(r2_score(targets, outputs)) if len(targets) > 1 else float("nan")


def hold_out(fraction: object, n: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Split n samples at random; return the indices of the training samples, at least one, and of the held-out ones."""
    held = _check_fraction("validation_fraction", fraction)
    n_held = round(held * n)
    if n_held >= n:
        raise InvalidInputError(f"validation_fraction must leave a sample to train on; got {held:g} of {n}")
    order = rng.permutation(n) if n_held else np.arange(n)
    return order[n_held:], order[:n_held]


def _has_single_layer(estimator: Baseline) -> bool:
    check_is_fitted(estimator)
    layers = estimator.layers_
    if len(layers) != 1:
        raise AttributeError(
            f"{type(estimator).__name__} has {len(layers)} layers and is not a single quadratic function; distill() "
            "approximates it layer by layer, and layers_ holds the quadratic form of each layer"
        )
    return True


class _Fitted:
    """Declarations of the attributes that `fit` sets on every baseline."""

    history_: History
    n_features_in_: int


@dataclass(eq=False, repr=False, kw_only=True)
class Baseline(SummaryBelowDiagram, _Fitted, BaseEstimator):  # type: ignore[misc]
    """Base class of all baselines: checked parameters and data, training history, and the trained layers.

    The parameters of a system are the fields of its class, described by the first class that has them. A system
    defines `_train`, which fills the history and sets what is learned, `_outputs`, and the property `layers_`.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        Seed of the initial weights and of the order of samples.
    verbose : bool or int, default=False
        Show a progress bar.
    callback : callable, optional
        Called with the history after every epoch; training stops when it returns True.

    Attributes
    ----------
    history_ : History
        Loss and score on the training data after every epoch.
    layers_ : sequence of TrainedLayer
        The network as a chain of quadratic or affine functions.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherit_entries(cls)

    random_state: RandomState = None
    verbose: bool | int = False
    callback: Callback | None = None

    @abstractmethod
    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        """Check the parameters, then train on checked data and fill `history`."""

    @abstractmethod
    def _outputs(self, X: FloatArray) -> FloatArray:
        """Return the network's outputs: (n,), or (n, C)."""

    @abstractmethod
    def _score(self, outputs: FloatArray, targets: FloatArray) -> float:
        """Return the score for the history; targets are as in `_train`."""

    @property
    @abstractmethod
    def layers_(self) -> Sequence[TrainedLayer]:
        """The trained network as a chain of layers, from the inputs to the outputs or a monotone function of them."""

    @available_if(_has_single_layer)  # type: ignore[untyped-decorator]
    def to_quadratic_form(self) -> QuadraticForm:
        """Return the pre-activations of a network of one layer as a quadratic function."""
        return self.layers_[0].form.to_quadratic_form()

    def distill(self, X: Any, n_neurons: int | Sequence[int] = 1000, **options: Any) -> QuantizedChain:
        """Approximate every layer of the trained network by a quantized network on given data.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Data on which the outputs are matched.
        n_neurons : int or sequence of int, default=1000
            Neurons of the quantized network of every layer, or of each layer in turn.
        **options
            Options of `qsdp.distill`, such as ``random_state`` and ``verbose``.

        Returns
        -------
        QuantizedChain
            The quantized networks, applied one after another.
        """
        check_is_fitted(self)
        return quantize_layers(self.layers_, self._checked(X), n_neurons, **options)

    def _summary(self) -> Summary | None:
        return self.history_._summary() if hasattr(self, "history_") else None

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[FloatArray, npt.NDArray[Any]]:
        with errors_of("X or y"):
            data, target = validate_data(self, X, y, dtype=np.float64, **options)
        return data, target

    def _checked(self, X: Any) -> FloatArray:
        """Return data for prediction as a checked array."""
        check_is_fitted(self)
        checked: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return checked


class BaselineRegressor(RegressorMixin, Baseline):  # type: ignore[misc]
    """Base class of regressors for one target or several."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _score(self, outputs: FloatArray, targets: FloatArray) -> float:
        return r2_of(outputs, targets)

    def fit(self: Self, X: Any, y: Any) -> Self:
        """Train on data (n, d) and targets (n,) or (n, C)."""
        X, y = self._validated(X, y, y_numeric=True, multi_output=True)
        targets = check_targets("y", y, length=len(X))
        self.history_ = History(measure="r2")
        self._train(X, targets, self.history_, check_random_state(self.random_state))
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return predictions of shape (n,) or (n, C)."""
        return self._outputs(self._checked(X))


def _has_probabilities(estimator: BaselineClassifier) -> bool:
    estimator._probability_loss()
    return True


class BaselineClassifier(ClassifierMixin, Baseline):  # type: ignore[misc]
    """Base class of classifiers for two classes or more.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    """

    classes_: npt.NDArray[Any]

    def _encode(self, codes: npt.NDArray[np.intp], n_classes: int) -> FloatArray:
        """Return the targets for class numbers; one-hot rows unless a system overrides it."""
        return np.eye(n_classes)[codes]

    def _score(self, outputs: FloatArray, targets: FloatArray) -> float:
        codes = np.argmax(targets, axis=1) if targets.ndim == 2 else (targets > 0.0).astype(np.intp)
        return accuracy_of(outputs, codes)

    def fit(self: Self, X: Any, y: Any) -> Self:
        """Train on data (n, d) and labels (n,), of any kind."""
        X, y = self._validated(X, y)
        try:
            check_classification_targets(y)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"y is not valid: {error}") from None
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"Classifier can't train when only one class is present; y holds only {self.classes_.tolist()[0]!r}."
            )
        self.history_ = History(measure="accuracy")
        rng = check_random_state(self.random_state)
        self._train(X, self._encode(codes, len(self.classes_)), self.history_, rng)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores: (n,) for two classes, positive ones meaning ``classes_[1]``; (n, C) for more."""
        return class_scores(self._outputs(self._checked(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted labels of shape (n,)."""
        chosen = choose_classes(self._outputs(self._checked(X)))
        return self.classes_[chosen]

    def _probability_loss(self) -> str | Loss:
        """Return the loss that turns the outputs into probabilities, or raise AttributeError with the reason."""
        raise AttributeError(f"{type(self).__name__} does not model probabilities")

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n, C) in the order of ``classes_``, from softmax or from sigmoids.

        Sigmoids of more than two classes are divided by their sum.
        """
        return class_probabilities(self._logits(self._checked(X)), get_loss(self._probability_loss()))

    def _logits(self, X: FloatArray) -> FloatArray:
        """Return the outputs as logits for the loss of `_probability_loss`."""
        return self._outputs(X)
