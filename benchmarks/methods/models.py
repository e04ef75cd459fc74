"""The models of the comparison, each with a name, accuracy on the test set, bits and CPU time.

Every hyper-parameter is chosen on the validation folds of the suite, inside the training set. The models of a family
share a fit: other sizes of `encoding="standard"` are sampled from its solution, rounded models use the float one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import qsdp
from benchmarks.machinery.common import timed
from benchmarks.methods import bits as sizes
from benchmarks.methods.rounding import PRECISIONS, best_rounded, fit_logistic, fit_squares
from benchmarks.uci.data import Split, validation_splits
from qsdp._utils.parallel import blas_threads
from qsdp.estimators.classes import choose_classes
from qsdp.networks import QuadraticForm

#: Pairs of a name and its measurements.
Measured = Iterator[tuple[str, dict[str, Any]]]

#: Neurons per output of the networks that are sampled.
SIZES = (8, 16, 32, 64, 128)
#: Penalties of the additive models of few bits, as shares of `beta_max`.
SHARES = ("50%", "30%", "20%", "10%", "5%", "3%", "2%", "1%")
#: Numbers of leaves of the decision trees of fixed size.
LEAVES = (4, 16, 64, 256)
_STRENGTHS = np.logspace(-4, 4, 9).tolist()
_MAX_STAGES = 300


@dataclass(frozen=True)
class Sample:
    """A split of a set, the folds on which hyper-parameters are chosen, and its number, used as the seed."""

    split: Split
    folds: Any
    seed: int

    @classmethod
    def from_split(cls, split: Split, seed: int) -> Sample:
        """Return the sample with the folds of the suite."""
        return cls(split, validation_splits(split.y, seed), seed)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a model: one for two classes."""
        return 1 if self.split.n_classes == 2 else self.split.n_classes

    def test(self, classes: np.ndarray) -> float:
        """Return the accuracy of predicted classes on the test set."""
        return float(np.mean(classes == self.split.y_test))

    def measured(self, classes: np.ndarray, bits: int, seconds: float, encoding_bits: int = 0) -> dict[str, Any]:
        """Return accuracy on the test set, bits (including those of the encoding) and seconds."""
        bits += encoding_bits
        return {"test": self.test(classes), "bits": bits, "encoding_bits": encoding_bits, "seconds": seconds}

    def searched(self, model: Any, grid: Any, X: np.ndarray) -> tuple[Any, float]:
        """Return the best model of a grid on the folds, fitted to all rows, and the CPU time."""
        from sklearn.model_selection import GridSearchCV

        search = GridSearchCV(model, grid, cv=self.folds, error_score="raise")
        return timed(lambda: search.fit(X, self.split.y))

    def models_of(self, family: Callable[[Sample], Measured]) -> dict[str, Any]:
        """Return the measurements of all models of a family by name, on one thread."""
        with blas_threads(1), warnings.catch_warnings():
            # Warnings about small classes, gaps and steps are ignored: the measurements show their effects.
            warnings.simplefilter("ignore")
            return dict(family(self))


# -- ours ------------------------------------------------------------------------------------------------


def fitted(
    sample: Sample, encoding: str = "auto", beta: str = "auto"
) -> tuple[qsdp.QuantizedNetworkClassifier, dict[str, Any]]:
    """Return a network fitted to the training rows with an encoding and a beta, and its measurements."""
    model = qsdp.QuantizedNetworkClassifier(encoding=encoding, beta=beta, random_state=sample.seed)
    _, seconds = timed(lambda: model.fit(sample.split.X, sample.split.y))
    return model, {**measured_network(sample, model), "seconds": seconds}


def default_network(sample: Sample) -> Measured:
    """Yield the default network, and models of its inputs or bits."""
    model, default = fitted(sample)
    yield "default", default
    yield from logistic_of_inputs(sample, model.encoder_.inputs_, "default logistic")
    yield from boosting_of_size(sample, default["bits"], "boosting, bits of default")


def few_bits(sample: Sample) -> Measured:
    """Yield default networks with larger penalties, which leave fewer weights and neurons."""
    for share in SHARES:
        yield f"default, beta = {share}", fitted(sample, beta=share)[1]


def standard_networks(sample: Sample) -> Measured:
    """Yield networks of standardised columns of several sizes, and the forms of their relaxation."""
    model, own = fitted(sample, "standard")
    yield "standard", own
    yield from relaxed_forms(sample, model, "standard")
    yield from boosting_of_size(sample, own["bits"], "boosting, bits of standard")
    for size in SIZES:
        m = size * sample.n_outputs
        _, seconds = timed(partial(model.resample, m, random_state=sample.seed))
        yield f"standard {size}", {**measured_network(sample, model), "seconds": seconds}


def measured_network(sample: Sample, model: qsdp.QuantizedNetworkClassifier) -> dict[str, Any]:
    """Return accuracy, bits, gap and neurons of a model's network."""
    return {
        "test": sample.test(model.predict(sample.split.X_test)),
        "bits": sizes.model_bits(model),
        "encoding_bits": sizes.places_bits(model),
        "gap": model.certificate_.relative_gap,
        "neurons": model.network_.n_neurons,
    }


def relaxed_forms(sample: Sample, model: qsdp.QuantizedNetworkClassifier, prefix: str) -> Measured:
    """Yield the quadratic form of the relaxation from which the network was sampled, float and rounded."""
    relaxation, encoding = model.result_.relaxation, model.encoder_.encoding_
    problem = relaxation.problem
    K, size = relaxation.Z_stack.shape[:2]
    inputs = model.encoder_.transform(sample.split.X_test)
    target = problem.y.reshape(len(problem.y), K)

    def scores(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return QuadraticForm.of_lift(2.0 * Z.reshape(K, size, size), problem.activation).predict(X)

    def measured(Z: np.ndarray, constant: float | np.ndarray, seconds: float, precision: int) -> dict[str, Any]:
        outputs = scores(inputs, Z) + constant
        places = sizes.encoding_bits(encoding, sizes.FLOAT if precision == sizes.REAL else sizes.QUADRATIC)
        decoded = model.target_scaling_.decode(outputs)
        return sample.measured(choose_classes(decoded), sizes.form_bits(Z, size, precision), seconds, places)

    weights = relaxation.Z_stack.reshape(K, -1)
    yield f"{prefix} relaxed", measured(weights, 0.0, 0.0, sizes.REAL)
    for precision in PRECISIONS:
        rounding = partial(best_rounded, weights, precision, partial(scores, problem.X), fit_squares(target))
        (rounded, constant), seconds = timed(rounding)
        yield f"{prefix} relaxed, {precision} bits", measured(rounded, constant, seconds, precision)


# -- linear models -----------------------------------------------------------------------------------------


def logistic_of_inputs(sample: Sample, encoder: Any, name: str) -> Measured:
    """Yield logistic regression on the inputs of a network, divided by their largest deviation."""
    inputs, tests = (encoder.transform(rows) for rows in (sample.split.X, sample.split.X_test))
    unit = float(inputs.std(axis=0).max())
    yield from logistic(sample, inputs / unit, tests / unit, name, partial(sizes.encoding_bits, encoder.encoding_))


def logistic_of_columns(sample: Sample) -> Measured:
    X, X_test = sample.split.X, sample.split.X_test
    yield from logistic(sample, X, X_test, "logistic", lambda places: sizes.POSITION_BITS * places * X.shape[1])


def logistic(
    sample: Sample, X: np.ndarray, X_test: np.ndarray, name: str, encoding_bits: Callable[[int], int]
) -> Measured:
    """Yield logistic regression, float and rounded; `encoding_bits` takes the number of places per column."""
    from sklearn.linear_model import LogisticRegression

    y = sample.split.y
    search, seconds = sample.searched(LogisticRegression(max_iter=1000), {"C": _STRENGTHS}, X)
    model = search.best_estimator_

    def measured(weights: np.ndarray, constant: np.ndarray, seconds: float, precision: int) -> dict[str, Any]:
        outputs = X_test @ weights.T + constant
        own = encoding_bits(sizes.FLOAT if precision == sizes.REAL else sizes.LINEAR)
        classes = choose_classes(outputs)
        return sample.measured(classes, sizes.linear_bits(weights, precision), seconds, own)

    found = measured(model.coef_, model.intercept_, seconds, sizes.REAL)
    yield name, {**found, "chosen": {"C": model.C}}
    for precision in PRECISIONS:
        rounding = partial(best_rounded, model.coef_, precision, lambda W: X @ W.T, fit_logistic(y))
        (rounded, constant), seconds = timed(rounding)
        yield f"{name}, {precision} bits", measured(rounded, constant, seconds, precision)


def quadratic_ridge(sample: Sample) -> Measured:
    """Yield ridge regression on all monomials up to degree two, with real coefficients."""
    from benchmarks.uci.quadratic import QuadraticRidgeClassifier

    model = QuadraticRidgeClassifier(sample.folds)
    _, seconds = timed(lambda: model.fit(sample.split.X, sample.split.y))
    monomials, outputs = model.coef_.shape
    bits = sizes.REAL * (monomials + 1) * outputs
    found = sample.measured(model.predict(sample.split.X_test), bits, seconds)
    yield "quadratic ridge", {**found, "chosen": {"lambda": model.lambda_}}


# -- trees -------------------------------------------------------------------------------------------------


def trees(sample: Sample) -> Measured:
    """Yield decision trees of the size that is best on the folds, and of fixed sizes."""
    from sklearn.base import clone
    from sklearn.tree import DecisionTreeClassifier

    X, y = sample.split.X, sample.split.y

    def measured(model: Any, tree: Any, seconds: float) -> dict[str, Any]:
        return sample.measured(model.predict(sample.split.X_test), sizes.tree_bits(tree), seconds)

    tree = DecisionTreeClassifier(random_state=sample.seed)
    grid = {"max_leaf_nodes": [2**k for k in range(1, 12)]}
    search, seconds = sample.searched(tree, grid, X)
    yield "tree", {**measured(search, search.best_estimator_, seconds), "chosen": search.best_params_}
    for leaves in LEAVES:
        model = clone(tree).set_params(max_leaf_nodes=leaves)
        _, seconds = timed(partial(model.fit, X, y))
        yield f"tree, {leaves} leaves", measured(model, model, seconds)


def boosting(sample: Sample) -> Measured:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=sample.seed)
    _, seconds = timed(lambda: model.fit(sample.split.X, sample.split.y))
    yield "boosting", measured_boosting(sample, model, seconds)


def boosting_of_size(sample: Sample, budget: int, name: str) -> Measured:
    """Yield boosted trees within a budget of bits: leaves and learning rate are chosen, the budget sets the trees.

    If not even one split per output fits, there is still one such tree per output.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    X = sample.split.X
    fixed = sizes.REAL * sample.n_outputs
    grid = []
    for leaves in (2, 4, 8, 16, 31):
        tree = sizes.node_bits(leaves, X.shape[1], sizes.REAL)
        stages = min((budget - fixed) // (sample.n_outputs * tree), _MAX_STAGES)
        if stages > 0 or leaves == 2:
            own = {"max_leaf_nodes": leaves, "max_iter": max(stages, 1), "learning_rate": [0.1, 0.3, 1.0]}
            grid.append({key: value if isinstance(value, list) else [value] for key, value in own.items()})
    model = HistGradientBoostingClassifier(early_stopping=False, random_state=sample.seed)
    search, seconds = sample.searched(model, grid, X)
    found = measured_boosting(sample, search.best_estimator_, seconds)
    yield name, {**found, "chosen": search.best_params_, "budget": budget}


def measured_boosting(sample: Sample, model: Any, seconds: float) -> dict[str, Any]:
    return sample.measured(model.predict(sample.split.X_test), sizes.boosting_bits(model), seconds)


def rivals(sample: Sample) -> Measured:
    for family in (logistic_of_columns, trees, boosting, quadratic_ridge):
        yield from family(sample)


FAMILIES: dict[str, Callable[[Sample], Measured]] = {
    "standard": standard_networks,
    "default": default_network,
    "rivals": rivals,
}
