"""The cross-validated estimators: scikit-learn's contract, and a choice that can be done by hand."""

from __future__ import annotations

import copy
import itertools
import pickle
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp import (
    QSDPWarning,
    QuantizedNetworkClassifier,
    QuantizedNetworkClassifierCV,
    QuantizedNetworkRegressor,
    QuantizedNetworkRegressorCV,
    TrainingProblem,
    beta_max,
    solve_relaxation,
)
from qsdp._utils import deadline
from qsdp._utils.deadline import left
from qsdp.datasets import load_bundled
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError, InvalidTypeError, SolverError
from qsdp.lifting import QuadraticMap, append_constant
from qsdp.relaxation.path import path_with

# Small samples that are not refined have large gaps.
pytestmark = pytest.mark.filterwarnings("ignore:the certified gap is:qsdp.QSDPWarning")

Classifier, Regressor = QuantizedNetworkClassifierCV, QuantizedNetworkRegressorCV
PLAIN = {Classifier: QuantizedNetworkClassifier, Regressor: QuantizedNetworkRegressor}
both = pytest.mark.parametrize("estimator", [Classifier, Regressor], ids=["classifier", "regressor"])

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
REAL = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * RNG.standard_normal(60)
CODES = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-0.7, 0.7])
BETAS = [30.0, 0.01, 3.0]

OWN = {"betas": 10, "cv": 5, "scoring": None, "evaluate": "relaxation"}


def target(estimator: type) -> np.ndarray:
    return CODES if estimator is Classifier else REAL


#: The paper's algorithm on the columns as they are: a sampled bilinear network.
SAMPLED = {"activation": None, "encoding": "none", "refine": "none", "tol": 1e-6, "allocation": "equal"}


def quick(estimator: type, **options: Any) -> Any:
    return estimator(**{"n_neurons": 30, "betas": BETAS, "cv": 3, "random_state": 0, **SAMPLED, **options})


@pytest.fixture(scope="module")
def fitted() -> dict[type, Any]:
    return {kind: quick(kind).fit(X, target(kind)) for kind in PLAIN}


@both
def test_parameters(estimator: type) -> None:
    plain = PLAIN[estimator]().get_params()
    del plain["beta"], plain["warm_start"]
    assert estimator().get_params() == plain | OWN
    assert estimator(17).n_neurons == 17
    assert (is_classifier(estimator()), is_regressor(estimator())) == (estimator is Classifier, estimator is Regressor)
    with pytest.raises(TypeError):
        estimator(beta=1.0)


@both
def test_clone_and_pickle(estimator: type, fitted: dict[type, Any]) -> None:
    model = fitted[estimator]
    again = clone(model)
    assert not hasattr(again, "beta_")
    np.testing.assert_array_equal(again.fit(X, target(estimator)).predict(X), model.predict(X))
    for through in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(through.predict(X), model.predict(X))
        np.testing.assert_array_equal(through.betas_, model.betas_)
        assert through.beta_ == model.beta_


@both
def test_unfitted(estimator: type) -> None:
    with pytest.raises(NotFittedError):
        estimator().predict(X)


@both
def test_names_of_columns_and_samples(estimator: type, fitted: dict[type, Any]) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=range(100, 160))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="X .*feature names")
        model = quick(estimator).fit(frame, pd.Series(target(estimator), index=range(7, 67)))
        np.testing.assert_array_equal(model.predict(frame), fitted[estimator].predict(X))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


# -- the choice ----------------------------------------------------------------------------------------


def scores_by_hand(estimator: type, y: np.ndarray, loss: str = "squared") -> np.ndarray:
    """Score relaxations, each solved alone."""
    splitter = StratifiedKFold(3) if estimator is Classifier else KFold(3)
    scores = np.empty((len(BETAS), 3))
    inputs = append_constant(X)
    coded = y if estimator is Regressor else 2.0 * y - 1.0
    if estimator is Regressor:
        scaling = TargetScaling.of(coded, None)
    else:
        scaling = TargetScaling.of(coded, None, centre=loss != "logistic", scale=False)
    for k, (train, test) in enumerate(splitter.split(X, y)):
        for i, beta in enumerate(BETAS):
            problem = TrainingProblem(inputs[train], scaling.encode(coded)[train], beta=beta, loss=loss)
            predicted = scaling.decode(solve_relaxation(problem).predict(inputs[test]))
            if estimator is Classifier:
                scores[i, k] = np.mean((predicted > 0) == y[test])
            else:
                scores[i, k] = 1.0 - np.sum((predicted - y[test]) ** 2) / np.sum((y[test] - y[test].mean()) ** 2)
    return scores


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_choice_of_a_regressor_is_that_by_hand(loss: str) -> None:
    model = quick(Regressor, loss=loss).fit(X, REAL)
    expected = scores_by_hand(Regressor, REAL, loss)
    np.testing.assert_allclose(model.scores_, expected, atol=2e-3)
    best = expected.mean(axis=1).argmax()
    assert model.beta_ == BETAS[best]
    assert model.best_score_ == model.scores_[best].mean()
    np.testing.assert_array_equal(model.betas_, BETAS)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_choice_of_a_classifier_is_that_by_hand(loss: str) -> None:
    model = quick(Classifier, loss=loss).fit(X, CODES)
    expected = scores_by_hand(Classifier, CODES, loss)
    # A prediction within the solver's accuracy of zero may go either way.
    assert np.abs(model.scores_ - expected).max() <= 1 / 20 + 1e-12
    means = model.scores_.mean(axis=1)
    assert means[BETAS.index(model.beta_)] == means.max() == model.best_score_


@both
def test_networks_are_scored_as_a_grid_search_scores_them(estimator: type) -> None:
    # The scores of sampled networks of the same relaxations, but for the random numbers: those of many neurons agree.
    y = target(estimator)
    model = quick(estimator, evaluate="network", n_neurons=100_000).fit(X, y)
    plain = PLAIN[estimator](100_000, random_state=1, **SAMPLED)
    search = GridSearchCV(plain, {"beta": BETAS}, cv=3).fit(X, y)
    # With m = 100000 and 40 pairs of seeds mean scores differed by 0.05 at most: false alarms below 5 %.
    np.testing.assert_allclose(model.scores_.mean(axis=1), search.cv_results_["mean_test_score"], atol=0.1)


@both
def test_the_network_is_that_of_the_plain_estimator(estimator: type, fitted: dict[type, Any]) -> None:
    model, y = fitted[estimator], target(estimator)
    plain = PLAIN[estimator](30, beta=model.beta_, random_state=0, **SAMPLED).fit(X, y)
    assert model.network_ is model.result_.network
    assert model.certificate_ is model.result_.certificate
    assert model.network_.n_neurons == 30
    assert model.result_.problem == plain.result_.problem
    assert model.result_.relaxation.problem.beta == model.beta_
    assert model.certificate_.lower_bound == pytest.approx(plain.certificate_.lower_bound, rel=1e-5)
    covariance = qsdp.shape_covariance(model.result_.relaxation)
    network = qsdp.sample_network(covariance, 30, random_state=0)
    np.testing.assert_array_equal(model.network_.U, network.U)
    assert model.n_features_in_ == 3


@both
def test_of_equal_scores_the_largest_beta_wins(estimator: type) -> None:
    model = quick(estimator, betas=[1.0, 4.0, 2.0], scoring=lambda model, X, y: 0.5).fit(X, target(estimator))
    assert model.beta_ == 4.0


@both
def test_scores_that_are_not_finite(estimator: type) -> None:
    y = target(estimator)
    with pytest.raises(InvalidInputError, match="finite scores"):
        quick(estimator, scoring=lambda model, X, y: np.nan).fit(X, y)

    def partly(model: Any, X: np.ndarray, y: np.ndarray) -> float:
        return float("nan") if model.network_.problem.beta > 1.0 else 0.5

    assert quick(estimator, scoring=partly).fit(X, y).beta_ == 0.01


@both
def test_a_number_of_betas(estimator: type) -> None:
    model = quick(estimator, betas=4).fit(X, target(estimator))
    beta = beta_max(model.result_.problem)
    np.testing.assert_allclose(model.betas_, np.geomspace(beta, 1e-3 * beta, 4), rtol=1e-12)
    assert model.scores_.shape == (4, 3)


@pytest.mark.parametrize("scoring", ["roc_auc", "f1", "accuracy"])
def test_scorers_of_a_classifier(scoring: str) -> None:
    model = quick(Classifier, scoring=scoring).fit(X, CODES)
    assert model.best_score_ > 0.5
    assert np.all((model.scores_ >= 0) & (model.scores_ <= 1))


@pytest.mark.parametrize("y", [CODES, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_scorers_of_probabilities(loss: str, y: np.ndarray) -> None:
    model = quick(Classifier, loss=loss, scoring="neg_log_loss").fit(X, y)
    assert model.best_score_ > -np.log(len(np.unique(y)))
    assert model.predict_proba(X).shape == (60, len(np.unique(y)))


@pytest.mark.parametrize("loss", ["squared", "hinge", "cross_entropy"])
def test_labels_of_three_classes(loss: str) -> None:
    names = np.array(["a", "bcd", "e"])[THREE]
    model = quick(Classifier, loss=loss, betas=[30.0, 3.0]).fit(X, names)
    numbers = quick(Classifier, loss=loss, betas=[30.0, 3.0]).fit(X, THREE)
    assert model.classes_.tolist() == ["a", "bcd", "e"]
    assert set(model.predict(X)) <= {"a", "bcd", "e"}
    np.testing.assert_array_equal(model.scores_, numbers.scores_)
    np.testing.assert_array_equal(model.decision_function(X), numbers.decision_function(X))


def test_several_targets() -> None:
    model = quick(Regressor).fit(X, np.stack([REAL, X[:, 0]], axis=1))
    assert model.predict(X).shape == (60, 2)
    assert model.best_score_ > 0.3


# -- reproducibility -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("named", [False, True])
def test_splits_of_a_generator_are_scored_by_several_processes(estimator: type, named: bool) -> None:
    y, splits = target(estimator), list(KFold(3, shuffle=True, random_state=0).split(X))
    scoring = ("accuracy" if is_classifier(estimator()) else "r2") if named else None
    one = quick(estimator, cv=splits, scoring=scoring).fit(X, y)
    other = quick(estimator, cv=(split for split in splits), scoring=scoring, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.scores_, other.scores_)


@both
@pytest.mark.parametrize("evaluate", ["relaxation", "network"])
def test_processes_and_repetitions_change_nothing(estimator: type, evaluate: str) -> None:
    y = target(estimator)
    models = [quick(estimator, evaluate=evaluate, n_jobs=n_jobs).fit(X, y) for n_jobs in (None, None, 2)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.scores_, models[0].scores_)
        np.testing.assert_array_equal(model.network_.U, models[0].network_.U)


@both
@pytest.mark.parametrize("make_state", [np.random.default_rng, np.random.RandomState])
def test_random_states(estimator: type, make_state: Any) -> None:
    y = target(estimator)
    models = [quick(estimator, evaluate="network", random_state=make_state(3)).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(models[0].scores_, models[1].scores_)
    np.testing.assert_array_equal(models[0].network_.U, models[1].network_.U)


@both
def test_resample(estimator: type, fitted: dict[type, Any]) -> None:
    model = copy.deepcopy(fitted[estimator]).resample(77, 1)
    assert model.network_.n_neurons == 77
    assert model.beta_ == fitted[estimator].beta_


@both
@pytest.mark.parametrize("refine", ["refit", "polish", "exact"])
def test_refinements(estimator: type, refine: str) -> None:
    model = quick(estimator, refine=refine, evaluate="network", cv=2, betas=[5.0, 1.0]).fit(X, target(estimator))
    assert model.result_.refine == refine
    assert model.best_score_ > 0.2


# -- splits --------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "cv",
    [2, KFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=0), [(np.arange(40), np.arange(40, 60))]],
    ids=["number", "shuffled", "not a division", "list"],
)
def test_kinds_of_splits(estimator: type, cv: Any) -> None:
    model = quick(estimator, cv=cv).fit(X, target(estimator))
    folds = {2: 2}.get(cv) if isinstance(cv, int) else len(cv) if isinstance(cv, list) else cv.get_n_splits()
    assert model.scores_.shape == (3, folds)


def test_groups_by_their_splits() -> None:
    groups = np.arange(60) // 6
    splits = list(GroupKFold(5).split(X, REAL, groups))
    assert quick(Regressor, cv=splits).fit(X, REAL).scores_.shape == (3, 5)


@pytest.fixture
def rows_of_grams(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note of every Gram matrix that is computed the number of samples."""
    rows: list[int] = []
    original = QuadraticMap.pair_sums

    def counted(self: QuadraticMap, targets: np.ndarray, *options: Any, **named: Any) -> Any:
        rows.append(self.n_rows)
        return original(self, targets, *options, **named)

    monkeypatch.setattr(QuadraticMap, "pair_sums", counted)
    return rows


@both
@pytest.mark.parametrize("options", [{}, {"activation": "relu_like"}, {"levels": 3}])
def test_one_pass_over_the_data_gives_all_gram_matrices(
    estimator: type, options: dict[str, Any], rows_of_grams: list[int]
) -> None:
    quick(estimator, **options).fit(X, target(estimator))
    assert rows_of_grams == [20, 20, 20]


def test_what_cannot_be_shared_between_folds_is_shared_within(rows_of_grams: list[int]) -> None:
    quick(Regressor, cv=ShuffleSplit(2, train_size=45, random_state=0)).fit(X, REAL)
    assert rows_of_grams == [45, 45, 60]


def test_shared_gram_matrices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = quick(Regressor).fit(X, REAL)
    monkeypatch.setattr("qsdp.estimators.folds._MEMORY", 0)
    alone = quick(Regressor).fit(X, REAL)
    np.testing.assert_allclose(shared.scores_, alone.scores_, rtol=1e-9)
    assert shared.result_.relaxation.relative_gap <= 1e-6


# -- errors --------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"betas": 1}, InvalidInputError, "betas must be an integer from 2"),
        ({"betas": [1.0, -1.0]}, InvalidInputError, "betas must be .*got -1"),
        ({"betas": [1.0, 1.0]}, InvalidInputError, "betas must be .*distinct"),
        ({"betas": "many"}, InvalidTypeError, "betas must be .*got 'many'"),
        ({"cv": 1}, InvalidInputError, "cv must be"),
        ({"cv": 100}, InvalidInputError, "cv must be"),
        ({"cv": "many"}, InvalidInputError, "cv must be"),
        ({"cv": []}, InvalidInputError, "cv must give at least one split"),
        ({"cv": [([0, 1, 2], [10**6])]}, InvalidInputError, "cv must be .* index 1000000 is out of bounds"),
        ({"scoring": "beauty"}, InvalidInputError, "scoring must be .*beauty"),
        ({"evaluate": "both"}, InvalidInputError, "evaluate must be one of 'network', 'relaxation'; got 'both'"),
        ({"n_neurons": 0}, InvalidInputError, "n_neurons must be"),
        ({"shaping": "round"}, InvalidInputError, "shaping must be"),
        ({"refine": "fine"}, InvalidInputError, "refine must be"),
        ({"tol": -1.0}, InvalidInputError, "tol must be"),
        ({"solver": "none"}, InvalidInputError, "solver must be"),
        ({"solver": "cvxopt", "loss": "logistic"}, (SolverError, InvalidInputError), "cvxopt|loss must be"),
        ({"constant_column": 2}, InvalidTypeError, "constant_column must be"),
        ({"n_jobs": 0}, InvalidInputError, "n_jobs must be"),
        ({"random_state": "x"}, InvalidTypeError, "random_state must be"),
        ({"levels": 1}, InvalidInputError, "levels must be"),
    ],
)
def test_bad_parameters(
    estimator: type, options: dict[str, Any], error: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise AssertionError("work started")

    monkeypatch.setattr("qsdp.estimators.folds.path_with", explode)
    model = quick(estimator, **options)
    with pytest.raises(error, match=words):
        model.fit(X, target(estimator))
    assert not hasattr(model, "beta_")


def test_training_parts_without_a_class() -> None:
    y = np.where(np.arange(60) == 7, "rare", np.where(CODES == 1, "a", "b"))
    with pytest.raises(InvalidInputError, match=r"cv must leave every class, .*without 'rare'"):
        quick(Classifier, cv=KFold(3)).fit(X, y)


def test_an_interrupt_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.estimators.folds.path_with", lambda *a, **k: (path_with(*a, **k)[0][:2], "interrupted"))
    model = quick(Regressor)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, REAL)
    assert not hasattr(model, "network_")


def test_columns_of_wild_scales_are_warned_of_once() -> None:
    with pytest.warns(QSDPWarning, match="differ in scale") as caught:
        quick(Regressor, betas=[3e4, 1e4], cv=2).fit(X * [1, 1, 300], REAL)
    assert len(caught) == 1


# -- together with scikit-learn ------------------------------------------------------------------------


def test_in_a_pipeline_on_real_data() -> None:
    data, y = load_bundled("breast-cancer-wisconsin")
    model = make_pipeline(StandardScaler(), quick(Classifier, n_neurons=5000, betas=6))
    # 20 seeds gave an accuracy of at least 0.93: false alarms below 5 %.
    assert model.fit(data[:400], y[:400]).score(data[400:], y[400:]) >= 0.88
    assert model[-1].best_score_ > 0.9


def test_grid_search_around_it() -> None:
    search = GridSearchCV(quick(Regressor, betas=2), {"n_neurons": [5, 3000], "levels": [2, 3]}, cv=2)
    search.fit(X, REAL)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_.beta_ in search.best_estimator_.betas_


# -- weights -----------------------------------------------------------------------------------------

COUNTS = np.random.default_rng(1).integers(0, 4, 60)


def by_groups(weighted: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return splits of the rows, or of their repetitions, in which copies stay together."""
    groups = np.arange(60) % 3
    groups = groups if weighted else np.repeat(groups, COUNTS)
    return [(np.flatnonzero(groups != k), np.flatnonzero(groups == k)) for k in range(3)]


@both
def test_weights_are_repeated_rows_in_training_and_scores(estimator: type) -> None:
    y = target(estimator)
    weighted = quick(estimator, cv=by_groups(True)).fit(X, y, COUNTS)
    by_rows = quick(estimator, cv=by_groups(False)).fit(np.repeat(X, COUNTS, axis=0), np.repeat(y, COUNTS))
    np.testing.assert_allclose(weighted.scores_, by_rows.scores_, rtol=1e-6, atol=1e-9)
    assert weighted.beta_ == by_rows.beta_
    assert weighted.certificate_.lower_bound == pytest.approx(by_rows.certificate_.lower_bound, rel=1e-9)
    np.testing.assert_allclose(weighted.predict(X), by_rows.predict(X), rtol=1e-7, atol=1e-9)


def test_gram_matrices_of_weighted_folds_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    gram = QuadraticMap.pair_sums

    def counted(self: QuadraticMap, *arguments: Any, **named: Any) -> Any:
        rows.append(self.n_rows)
        return gram(self, *arguments, **named)

    monkeypatch.setattr(QuadraticMap, "pair_sums", counted)
    weights = np.random.default_rng(2).uniform(0.1, 3.0, 60)
    model = quick(Regressor).fit(X, REAL, weights)
    assert rows == [20, 20, 20]
    monkeypatch.undo()
    train, test = next(iter(KFold(3).split(X)))
    scaling = model.target_scaling_
    coded = scaling.encode(REAL[train])
    problem = TrainingProblem(append_constant(X[train]), coded, beta=BETAS[0], sample_weight=weights[train])
    predicted = scaling.decode(solve_relaxation(problem).predict(append_constant(X[test])))
    assert model.scores_[0, 0] == pytest.approx(r2_score(REAL[test], predicted, sample_weight=weights[test]), abs=1e-3)


def test_class_weights_are_those_of_all_data_and_do_not_score() -> None:
    model = quick(Classifier, class_weight="balanced").fit(X, THREE)
    weights = model.result_.problem.sample_weight
    assert [weights[k == THREE].sum() for k in range(3)] == pytest.approx([20.0] * 3)
    assert np.all(np.round(model.scores_ * 20) == pytest.approx(model.scores_ * 20))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (
            [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))],
            "cv must leave a sample of positive",
        ),
        ([(np.arange(10, 60), np.arange(10)), (np.arange(15), np.arange(15, 60))], "every class.*without 1"),
    ],
)
def test_folds_without_weight_are_refused(splits: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.estimators.cross_validated.plan_paths", lambda *_, **__: pytest.fail("solved"))
    weights = np.ones(60)
    if "sample" in message:
        weights[30:] = 0.0
    else:
        weights[:15][CODES[:15] == 1] = 0.0
    with pytest.raises(InvalidInputError, match=message):
        quick(Classifier, cv=splits).fit(X, CODES, weights)


def test_scorers_that_take_no_weights_are_refused() -> None:
    model = quick(Regressor, scoring=lambda estimator, X, y: 0.0)
    model.fit(X, REAL)
    for scoring in (model.scoring, "neg_max_error"):
        with pytest.raises(InvalidInputError, match="scoring must accept sample_weight"):
            quick(Regressor, scoring=scoring).fit(X, REAL, COUNTS)


def test_metadata_is_routed() -> None:
    with pytest.raises(InvalidInputError, match=r"fit takes groups only with .*enable_metadata_routing"):
        quick(Regressor).fit(X, REAL, groups=np.arange(60))
    plain = quick(Regressor, scoring="r2").fit(X, REAL, COUNTS)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("r2")
        with pytest.raises(ValueError, match="sample_weight"):
            quick(Regressor, scoring=scorer).fit(X, REAL, COUNTS)
        for weighs in (True, False):
            routed = quick(Regressor, scoring=scorer.set_score_request(sample_weight=weighs)).fit(X, REAL, COUNTS)
            assert np.allclose(routed.scores_, plain.scores_) is weighs
        groups = np.arange(60) % 4
        grouped = quick(Regressor, cv=GroupKFold(4)).fit(X, REAL, COUNTS, groups=groups)
        assert grouped.scores_.shape == (3, 4)


@pytest.mark.parametrize("evaluate", ["relaxation", "network"])
def test_betas_not_solved_in_time_are_not_chosen(evaluate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the clock of a fold only the third beta is in time; later ones have no score."""
    X, y = load_bundled("iris")
    asked: list[float] = []

    def stopping(*arguments: Any, **options: Any) -> Any:
        path, _ = path_with(*arguments, **options)
        asked.append(left())
        if len(path) == 1:
            return path, None
        return path[:3], "time limit"

    monkeypatch.setattr("qsdp.estimators.folds.path_with", stopping)
    model = QuantizedNetworkClassifierCV(
        betas=5, cv=3, evaluate=evaluate, time_limit=60.0, encoding="standard", random_state=0
    )
    with pytest.warns(QSDPWarning, match="left 2 of 5 betas without a score"):
        model.fit(X, y)
    assert np.all(np.isnan(model.scores_) == (np.arange(5) > 2)[:, None])
    assert model.beta_ in model.betas_[:3]
    assert model.score(X, y) > 0.9
    share = 0.5 if evaluate == "network" else 1.0
    assert all(0.0 < left <= share * 10.0 for left in asked[:3])


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("limit", [1.0, 10.0, 30.0, 100.0, 300.0])
@pytest.mark.parametrize("evaluate", ["relaxation", "network"])
@both
def test_whichever_check_finds_the_limit_over(
    estimator: type, evaluate: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock advances by a second whenever it is read."""
    seconds = itertools.count(1.0)
    model = quick(estimator, evaluate=evaluate, refine="polish", time_limit=limit)
    monkeypatch.setattr(deadline.time, "monotonic", lambda: next(seconds))
    model.fit(X, target(estimator))
    monkeypatch.undo()
    assert model.beta_ in model.betas_
    assert 0.0 <= model.certificate_.lower_bound <= model.certificate_.objective


def test_a_time_limit_of_cross_validation_is_kept() -> None:
    X, y = qsdp.datasets.make_planted(n=400, d=40, n_neurons=5, random_state=0)
    model = QuantizedNetworkRegressorCV(betas=200, cv=5, solver="splitting", tol=1e-9, time_limit=3.0)
    start = time.monotonic()
    with pytest.warns(QSDPWarning, match="betas without a score"):
        model.fit(X, y)
    # Generous: other work may be done beside it.
    assert time.monotonic() - start < 15.0
    assert np.isnan(model.scores_[-1]).all()
    assert np.isfinite(model.scores_[0]).all()
