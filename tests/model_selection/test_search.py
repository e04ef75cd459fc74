"""Search on one validation split: what is tried, what is chosen, what is fitted again, and what is refused."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from qsdp.baselines import BackpropClassifier, BackpropRegressor
from qsdp.datasets import load_bundled, make_planted
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.model_selection import ValidationSearch, search_on_validation

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
REAL = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.standard_normal(80)
LABELS = np.where(np.arange(80) < 60, "many", "few")


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts a parameter, and remembers what it was fitted to."""

    fits: list[tuple[float, int]] = []  # noqa: RUF012

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def fit(self, X: Any, y: Any) -> Recorder:
        Recorder.fits.append((self.value, len(X)))
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.value)


def test_candidates_see_one_part_and_the_best_sees_all() -> None:
    Recorder.fits.clear()
    y = np.full(80, 2.0) + 1e-3 * np.arange(80)
    search = search_on_validation(Recorder(), X, y, {"value": [1.0, 2.0, 5.0]}, random_state=0)
    assert Recorder.fits == [(1.0, 60), (2.0, 60), (5.0, 60), (2.0, 80)]
    assert search.best_params_ == {"value": 2.0}
    assert search.n_candidates_ == 3
    np.testing.assert_array_equal(search.predict(X), 2.0)


def test_share_of_validation() -> None:
    Recorder.fits.clear()
    search_on_validation(Recorder(), X, REAL, {"value": [0.0]}, validation=0.1, random_state=0)
    assert [count for _, count in Recorder.fits] == [72, 80]


class Shares(ClassifierMixin, BaseEstimator):
    """Remembers the classes it was fitted to."""

    seen: list[float] = []  # noqa: RUF012

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def fit(self, X: Any, y: Any) -> Shares:
        self.classes_ = np.unique(y)
        Shares.seen.append(float(np.mean(y == "few")))
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), "many")


def test_classes_keep_their_shares() -> None:
    Shares.seen.clear()
    for seed in range(5):
        search_on_validation(Shares(), X, LABELS, {"value": [0.0]}, random_state=seed)
    assert Shares.seen == [0.25] * 10


def test_seeds_decide_the_split() -> None:
    def scores(seed: int) -> np.ndarray:
        search = search_on_validation(Ridge(), X, REAL, {"alpha": [0.1, 10.0]}, random_state=seed)
        return search.cv_results_["mean_test_score"]

    np.testing.assert_array_equal(scores(0), scores(0))
    assert not np.array_equal(scores(0), scores(1))


def test_test_data_play_no_part_and_the_estimator_stays() -> None:
    model = Ridge(alpha=7.0)
    search_on_validation(model, X, REAL, {"alpha": [0.1, 1.0]}, random_state=0)
    assert model.alpha == 7.0
    assert not hasattr(model, "coef_")


def test_seconds_add_up() -> None:
    search = search_on_validation(Ridge(), X, REAL, {"alpha": [0.1, 1.0, 10.0]}, random_state=0)
    fitting = search.cv_results_["mean_fit_time"].sum() + search.cv_results_["mean_score_time"].sum()
    assert search.search_seconds_ >= fitting > 0.0
    assert search.refit_seconds_ == search.refit_time_ > 0.0


def test_random_candidates() -> None:
    grid = {"alpha": loguniform(1e-3, 1e3)}
    searches = [search_on_validation(Ridge(), X, REAL, grid, n_candidates=7, random_state=seed) for seed in (0, 0, 1)]
    tried = [[one["alpha"] for one in search.cv_results_["params"]] for search in searches]
    assert searches[0].n_candidates_ == 7
    assert tried[0] == tried[1] != tried[2]
    assert all(1e-3 <= alpha <= 1e3 for alpha in tried[0])
    some = search_on_validation(Ridge(), X, REAL, {"alpha": [1, 2, 3, 4]}, n_candidates=2, random_state=0)
    assert some.n_candidates_ == 2


def test_one_search_chooses_for_several_measures() -> None:
    data, labels = load_bundled("breast-cancer-wisconsin")
    data = StandardScaler().fit_transform(data)[:200]

    def rounded(model: BackpropClassifier, rows: np.ndarray, y: np.ndarray) -> float:
        outputs = model.quantized(scale="shared").predict(model.network_inputs(rows))
        return accuracy_score(y, model.classes_[(outputs > 0).astype(int)])

    search = search_on_validation(
        BackpropClassifier(20, second_layer="fixed", n_epochs=5, random_state=0),
        data,
        labels[:200],
        {"learning_rate": [1e-4, 0.1], "beta": [0.1, 1e5]},
        scoring={"float": "accuracy", "rounded": rounded},
        refit="float",
        random_state=0,
    )
    assert search.best_for("float") == search.best_params_
    for measure in ("float", "rounded"):
        scores = search.cv_results_[f"mean_test_{measure}"]
        assert search.best_for(measure) == search.cv_results_["params"][int(np.argmax(scores))]
    assert search.best_params_["beta"] == 0.1
    with pytest.raises(InvalidInputError, match="measure must be one of float, rounded; got 'exact'"):
        search.best_for("exact")


def test_convex_systems_go_through_the_same_protocol() -> None:
    planted = make_planted(n=80, d=4, n_neurons=2, random_state=0)
    model = make_pipeline(StandardScaler(), qsdp.QuantizedNetworkRegressor(random_state=0))
    grid = {"quantizednetworkregressor__beta": [0.1, 1e6]}
    search = search_on_validation(model, planted.X, planted.y, grid, random_state=0)
    assert search.best_params_ == {"quantizednetworkregressor__beta": 0.1}
    assert search.score(planted.X, planted.y) > 0.5


def test_divergent_candidates_lose_quietly() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = search_on_validation(
            BackpropRegressor(10, clip=None, n_epochs=20, random_state=0),
            X,
            REAL,
            {"learning_rate": [1e40, 0.05]},
            random_state=0,
        )
    assert search.best_params_ == {"learning_rate": 0.05}


def test_without_a_last_fit() -> None:
    search = search_on_validation(Ridge(), X, REAL, {"alpha": [1.0]}, refit=False, random_state=0)
    assert search.refit_seconds_ == 0.0
    assert not hasattr(search, "best_estimator_")


def test_several_grids() -> None:
    grid = [{"alpha": [0.1, 1.0]}, {"alpha": [2.0], "fit_intercept": [True, False]}]
    assert search_on_validation(Ridge(), X, REAL, grid, random_state=0).n_candidates_ == 4


def test_searches_are_estimators() -> None:
    search = ValidationSearch(LogisticRegression(), {"C": [0.1, 1.0]}, random_state=0)
    assert set(search.get_params(deep=False)) == {
        "estimator",
        "grid",
        "n_candidates",
        "validation",
        "scoring",
        "refit",
        "n_jobs",
        "random_state",
        "verbose",
    }
    copy = pickle.loads(pickle.dumps(clone(search).fit(X, LABELS)))
    assert set(copy.classes_) == {"few", "many"}
    assert copy.predict_proba(X).shape == (80, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(search, on_skip=None, on_fail=None)
    # Sets too small to hold out a share of each class; GridSearchCV has the same trouble with them.
    few = {"check_classifiers_one_label_sample_weights", "check_fit2d_1sample"}
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] == "failed"]
    assert not [one for one in failed if one.split(":")[0] not in few], failed
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": {"alfa": [1.0]}}, "grid must name parameters of Ridge; got 'alfa'"),
        ({"grid": {"alpha": []}}, "grid must have a list of values for 'alpha'"),
        ({"grid": {"alpha": 1.0}}, "grid must have a list of values for 'alpha'"),
        ({"grid": {"solver": "auto"}}, "grid must have a list of values for 'solver'"),
        ({"grid": {}}, "grid must be a dictionary"),
        ({"grid": "alpha"}, "grid must be a dictionary"),
        ({"grid": {"alpha": loguniform(1, 2)}}, "grid must have a list of values"),
        ({"validation": 1.0}, "validation must be a number above 0 and below 1"),
        ({"validation": 0.0}, "validation must be"),
        ({"n_candidates": 0}, "n_candidates must be"),
        ({"refit": 1}, "refit must be True or False"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        search_on_validation(Ridge(), X, REAL, **{"grid": {"alpha": [1.0]}, **options})


def test_estimators_only() -> None:
    with pytest.raises(InvalidTypeError, match="estimator must be a scikit-learn estimator; got str"):
        search_on_validation("ridge", X, REAL, {"alpha": [1.0]})
