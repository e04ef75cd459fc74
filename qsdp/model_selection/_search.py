"""Protocol of comparisons: a search for hyperparameters on one validation split and a fit to all data, both timed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import is_classifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, ParameterSampler, ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.progress import progress
from qsdp._utils.summary import Rows, Summary, SummaryBelowDiagram, first_few, format_number, format_seconds
from qsdp._utils.validation import (
    RandomState,
    check_flag,
    check_integer,
    check_jobs,
    check_random_state,
    check_real,
    check_verbose,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning

__all__ = ["ValidationSearch", "search_on_validation"]

Grid = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class ValidationSearch(SummaryBelowDiagram, GridSearchCV):  # type: ignore[misc]
    """Timed grid search of scikit-learn on one validation split, followed by a fit to all data.

    Only the training set is used. A share of it is held out, stratified for classifiers. Every candidate is fitted to
    the other rows and scored on the held-out rows. The best candidate is then fitted to the whole training set. The
    procedure is the same for every method compared, including convex ones. Test data are never used.

    Parameters
    ----------
    estimator : estimator
        Estimator in scikit-learn's sense; it is not modified.
    grid : dict of lists, or sequence of such
        Names of parameters and the values to try. A random search also accepts distributions.
    n_candidates : int, optional
        Number of candidates to draw at random; by default, all are tried.
    validation : float, default=0.25
        Share of the samples that is held out, above 0 and below 1.
    scoring : str, callable, dict or None, default=None
        As in `GridSearchCV`: accuracy or R² by default. With a dict of several measures, one search chooses for each,
        for example for a network before and after rounding. `refit` then names the measure that decides, and
        `best_for` returns the choices of the others.
    refit : bool or str, default=True
        As in `GridSearchCV`.
    n_jobs : int, optional
        Number of candidates fitted at a time, as in joblib.
    random_state : int, Generator, RandomState or None
        Seed of the split and of random candidates.
    verbose : bool or int, default=False
        Show elapsed time and number of candidates on standard error or in the notebook. Progress is not shown, since
        scikit-learn's search does not report it. Progress bars of the estimator's own `verbose` appear below.

    Attributes
    ----------
    search_seconds_ : float
        Wall-clock seconds for fitting and scoring all candidates.
    refit_seconds_ : float
        Wall-clock seconds of the fit to all data; 0 without one.
    n_candidates_ : int
    best_estimator_, best_params_, best_score_, cv_results_, ...
        As in `GridSearchCV`. Predictions are those of the best estimator.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import BackpropClassifier
    >>> from qsdp.model_selection import ValidationSearch
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> grid = {"learning_rate": [0.03, 0.1], "beta": [0.1, 1.0]}
    >>> search = ValidationSearch(BackpropClassifier(20, n_epochs=5), grid, random_state=0).fit(X, y)
    >>> search.n_candidates_, sorted(search.best_params_)
    (4, ['beta', 'learning_rate'])
    >>> search.predict(X[:2]).shape
    (2,)
    """

    def __init__(
        self,
        estimator: Any,
        grid: Grid,
        *,
        n_candidates: int | None = None,
        validation: float = 0.25,
        scoring: Any = None,
        refit: bool | str = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool | int = False,
    ) -> None:
        super().__init__(estimator, grid, scoring=scoring, refit=refit, n_jobs=n_jobs)
        self.grid = grid
        self.n_candidates = n_candidates
        self.validation = validation
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, **params: Any) -> ValidationSearch:
        """Score every candidate on the held-out rows, then fit the best one to all data.

        Raises
        ------
        InvalidInputError
            A name in `grid` is not a parameter of the estimator, a list is empty, or another argument is not allowed.
        """
        share = check_real("validation", self.validation, strict=True)
        if share >= 1.0:
            raise InvalidInputError(f"validation must be a number above 0 and below 1; got {self.validation!r}")
        count = self.n_candidates
        if count is not None:
            count = check_integer("n_candidates", count, minimum=1)
        if not isinstance(self.refit, str):
            check_flag("refit", self.refit)
        check_jobs(self.n_jobs)
        check_verbose(self.verbose)
        _check_grid(self.estimator, self.grid, random=count is not None)
        if is_classifier(self.estimator):
            check_classification_targets(y)
        rng = check_random_state(self.random_state)
        split = StratifiedShuffleSplit if is_classifier(self.estimator) else ShuffleSplit
        cv = split(n_splits=1, test_size=share, random_state=int(rng.integers(2**31)))
        grid = self.grid
        if count is not None:
            drawn = ParameterSampler(self.grid, count, random_state=int(rng.integers(2**31)))
            grid = [{name: [value] for name, value in one.items()} for one in drawn]
        search = GridSearchCV(self.estimator, grid, scoring=self.scoring, refit=self.refit, cv=cv, n_jobs=self.n_jobs)
        start = time.perf_counter()
        with (
            warnings.catch_warnings(),
            progress(self.verbose) as stages,
            stages.stage("search") as bar,
        ):
            bar.count(0, None, f"{count or len(ParameterGrid(grid))} candidates")
            # Some candidates have learning rates that diverge, which their scores show.
            warnings.simplefilter("ignore", QSDPWarning)
            search.fit(X, y, **params)
        seconds = time.perf_counter() - start
        # Copy all fitted attributes of the search, but not its parameters.
        for name, value in vars(search).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self.refit_seconds_ = float(getattr(self, "refit_time_", 0.0))
        self.search_seconds_ = seconds - self.refit_seconds_
        self.n_candidates_ = len(self.cv_results_["params"])
        return self

    def _summary(self) -> Summary | None:
        if not hasattr(self, "n_candidates_"):
            return None
        rows: Rows = [("candidates", str(self.n_candidates_))]
        if hasattr(self, "best_params_"):
            rows.append(("best", first_few([f"{name} = {value!r}" for name, value in self.best_params_.items()])))
        if hasattr(self, "best_score_"):
            rows.append(("its score", format_number(self.best_score_)))
        rows.append(("search", format_seconds(self.search_seconds_)))
        rows.append(("fit to all data", format_seconds(self.refit_seconds_)))
        return Summary("ValidationSearch", rows)

    def best_for(self, measure: str) -> dict[str, Any]:
        """Return the best candidate by one of several measures; ties go to the first."""
        check_is_fitted(self, "cv_results_")
        key = f"rank_test_{measure}"
        if key not in self.cv_results_:
            known = ", ".join(sorted(name[10:] for name in self.cv_results_ if name.startswith("rank_test_")))
            raise InvalidInputError(f"measure must be one of {known}; got {measure!r}")
        best: dict[str, Any] = self.cv_results_["params"][int(self.cv_results_[key].argmin())]
        return best


def search_on_validation(estimator: Any, X: Any, y: Any, grid: Grid, **options: Any) -> ValidationSearch:
    """Fit a `ValidationSearch` of an estimator over a grid, with the given options, and return it.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.model_selection import search_on_validation
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressor(random_state=0)
    >>> search = search_on_validation(model, X[:100], y[:100], {"beta": ["1%", "5%", "20%"]}, random_state=0)
    >>> search.best_params_["beta"] in {"1%", "5%", "20%"}
    True
    """
    return ValidationSearch(estimator, grid, **options).fit(X, y)


def _check_grid(estimator: Any, grid: Any, *, random: bool) -> None:
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise InvalidTypeError(f"estimator must be a scikit-learn estimator; got {type(estimator).__name__}")
    grids = [grid] if isinstance(grid, Mapping) else list(grid) if isinstance(grid, Sequence) else []
    if not grids or not all(isinstance(one, Mapping) and one for one in grids):
        raise InvalidTypeError(f"grid must be a dictionary of parameters and their values, or several; got {grid!r}")
    known = estimator.get_params()
    for name, values in (item for one in grids for item in one.items()):
        if name not in known:
            raise InvalidInputError(
                f"grid must name parameters of {type(estimator).__name__}; got {name!r}, which is none of "
                f"{', '.join(sorted(known))}"
            )
        if random and hasattr(values, "rvs"):
            continue
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or not len(values):
            raise InvalidInputError(f"grid must have a list of values for {name!r}; got {values!r}")
