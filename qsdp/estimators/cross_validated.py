"""scikit-learn estimators that choose beta by cross-validation along regularisation paths."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import delayed
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from qsdp._utils.progress import NO_LINE, CountedParallel, Line, shown_stages
from qsdp._utils.validation import (
    FloatArray,
    check_choice,
    check_flag,
    check_jobs,
    check_random_state,
    check_real,
)
from qsdp.activations import PolynomialActivation
from qsdp.estimators.network import QuantizedNetworkClassifier, QuantizedNetworkRegressor, warn_of_scales
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.pipeline import TIME_LIMIT, RandomState, check_sampling, check_size, sample_from
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation, RelaxationPath, beta_max
from qsdp.relaxation.backends import Settings, check_solver
from qsdp.relaxation.instance import GramReduction, Instance
from qsdp.relaxation.path import FRACTION, check_betas, geometric, path_with, warn_of_gaps
from qsdp.relaxation.reductions import Reductions

__all__ = ["QuantizedNetworkClassifierCV", "QuantizedNetworkRegressorCV"]

EVALUATIONS = ("relaxation", "network")

#: Bytes that the Gram matrices of all folds may take together.
_MEMORY = 2**30

Split = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


class _CrossValidated:
    """What both estimators add to those without cross-validation."""

    _plain: type[QuantizedNetworkClassifier] | type[QuantizedNetworkRegressor]

    def __init__(
        self: Any,
        n_neurons: int = 1000,
        *,
        betas: Any = 20,
        cv: Any = 5,
        scoring: Any = None,
        evaluate: str = "relaxation",
        loss: str | Loss = "squared",
        activation: str | Sequence[float] | PolynomialActivation | None = None,
        levels: int = 2,
        constant_column: bool = True,
        solver: str = "auto",
        shaping: str = "krivine",
        refine: str = "none",
        allocation: str = "equal",
        time_limit: float | None = TIME_LIMIT,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.n_neurons = n_neurons
        self.betas = betas
        self.cv = cv
        self.scoring = scoring
        self.evaluate = evaluate
        self.loss = loss
        self.activation = activation
        self.levels = levels
        self.constant_column = constant_column
        self.solver = solver
        self.shaping = shaping
        self.refine = refine
        self.allocation = allocation
        self.time_limit = time_limit
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self: Any, X: FloatArray, target: FloatArray, y: npt.NDArray[Any]) -> None:
        betas = check_betas(self.betas)
        check_flag("constant_column", self.constant_column)
        check_choice("evaluate", self.evaluate, EVALUATIONS)
        check_sampling(self.n_neurons, self.shaping, self.refine, self.allocation, self.time_limit)
        check_solver(self.solver, get_loss(self.loss))
        settings = Settings(check_real("tol", self.tol, strict=True), "two-block", None)
        check_jobs(self.n_jobs)
        check_flag("verbose", self.verbose)
        rng = check_random_state(self.random_state)
        inputs = self._inputs(X)
        problem = self._problem(inputs, target)
        check_size(self.n_neurons, problem)
        scorer = self._scorer()
        splits = self._splits(X, y)
        warn_of_scales(X)
        if isinstance(betas, int):
            betas = geometric(beta_max(problem), FRACTION, betas)
        reductions, all_reductions = _fold_reductions(problem, splits)
        folds = [
            _Fold(
                self._problem(inputs[train], target[train]), X[test], y[test], replace(settings, reductions=known), seed
            )
            for (train, test), known, seed in zip(splits, reductions, rng.spawn(len(splits)), strict=True)
        ]
        member = self._member()
        with shown_stages(self.verbose) as stages, stages.stage("folds") as line:
            scores = np.column_stack(
                CountedParallel(self.n_jobs, line, len(folds))(
                    delayed(_fold_scores)(fold, betas, member, scorer, self.solver, self.evaluate) for fold in folds
                )
            )
        means = scores.mean(axis=1)
        if not np.any(np.isfinite(means)):
            raise InvalidInputError(f"scoring must give finite scores; got {means[0]} for every beta")
        # Of equal scores that of the largest beta: its network is the simplest.
        best = max(np.flatnonzero(means == means[np.isfinite(means)].max()), key=lambda index: betas[index])
        self.betas_, self.scores_ = betas, scores
        self.beta_, self.best_score_ = float(betas[best]), float(means[best])
        with shown_stages(self.verbose) as stages:
            with stages.stage("path") as line:
                everything = replace(settings, reductions=all_reductions)
                self.path_ = _path(problem, betas, self.solver, everything, self.n_jobs, line)
            warn_of_gaps(self.path_)
            self.result_ = _sampled(member, self.path_[int(best)], rng, self.n_jobs, self.verbose)
        self._expose()

    def _problem(self: Any, inputs: FloatArray, target: FloatArray) -> TrainingProblem:
        return TrainingProblem(inputs, target, beta=1.0, loss=self.loss, activation=self.activation, levels=self.levels)

    def _member(self: Any) -> Any:
        """Return the estimator without cross-validation, fitted but for its network."""
        names = set(self._plain._get_param_names()) - {"beta", "n_jobs"}
        member = self._plain(**{name: getattr(self, name) for name in names})
        member.n_features_in_ = self.n_features_in_
        if is_classifier(self):
            member.classes_ = self.classes_
        return member

    def _scorer(self: Any) -> Callable[..., float]:
        try:
            scorer: Callable[..., float] = check_scoring(self, scoring=self.scoring)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"scoring must be None, a scorer's name or a callable: {error}") from None
        return scorer

    def _splits(self: Any, X: FloatArray, y: npt.NDArray[Any]) -> list[Split]:
        """Return training and held-out rows of every fold, each training part with all classes."""
        try:
            splits = list(check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y))
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                f"cv must be a number of folds, a splitter or an iterable of splits that suits the data: {error}"
            ) from None
        if not splits:
            raise InvalidInputError("cv must give a split at least; got none")
        if is_classifier(self):
            for train, _ in splits:
                missing = np.setdiff1d(self.classes_, y[train])
                if missing.size:
                    raise InvalidInputError(
                        f"cv must leave every class in every training part; got one without {missing.tolist()[0]!r}"
                    )
        return splits


@dataclass(frozen=True)
class _Fold:
    """The problem of a training part, what is held out, and the seed of its networks."""

    problem: TrainingProblem
    X: FloatArray
    y: npt.NDArray[Any]
    settings: Settings
    rng: np.random.Generator


@dataclass(frozen=True)
class _Outputs:
    """A relaxation in the place of a network."""

    relaxation: Relaxation

    def predict(self, X: FloatArray, n_jobs: int | None = None) -> FloatArray:
        return self.relaxation.predict(X)


def _fold_scores(
    fold: _Fold, betas: FloatArray, member: Any, scorer: Callable[..., float], solver: str, evaluate: str
) -> FloatArray:
    """Return the scores of shape (K,) of one fold."""
    scores = np.empty(len(betas))
    for index, relaxation in enumerate(_path(fold.problem, betas, solver, fold.settings, None)):
        member = copy.copy(member)
        if evaluate == "network":
            # The same random numbers for every beta, so that scores differ by less than their noise.
            member.network_ = _sampled(member, relaxation, copy.deepcopy(fold.rng), None).network
        else:
            member.network_ = _Outputs(relaxation)
        scores[index] = scorer(member, fold.X, fold.y)
    return scores


def _path(
    problem: TrainingProblem,
    betas: FloatArray,
    solver: str,
    settings: Settings,
    n_jobs: int | None,
    line: Line = NO_LINE,
) -> RelaxationPath:
    path, stopped = path_with(problem, betas, FRACTION, solver, settings, "tight", n_jobs=n_jobs, line=line)
    if stopped is not None:
        # Without limits and callback only the keyboard ends a path.
        raise KeyboardInterrupt
    return path


def _sampled(
    member: Any, relaxation: Relaxation, rng: np.random.Generator, n_jobs: int | None, verbose: bool = False
) -> Any:
    return sample_from(
        relaxation,
        member.n_neurons,
        shaping=member.shaping,
        refine=member.refine,
        allocation=member.allocation,
        time_limit=member.time_limit,
        n_jobs=n_jobs,
        rng=rng,
        verbose=verbose,
    )


def _fold_reductions(
    problem: TrainingProblem, splits: Sequence[Split]
) -> tuple[list[Reductions | None], Reductions | None]:
    """Return the Gram matrices of all training parts and of all data, for one pass over the data.

    Where the held-out parts divide the data, that of a training part is the sum of those of the other held-out
    parts: sums of what is positive semidefinite, in which nothing cancels.
    """
    nothing: list[Reductions | None] = [None] * len(splits)
    p = problem.size * (problem.size + 1) // 2
    smallest = min(len(train) for train, _ in splits)
    pays = problem.loss.name == "squared" and smallest > p and 8 * p * p * (2 * len(splits) + 1) <= _MEMORY
    if not (pays and GramReduction.pays(problem) and _divide(splits, problem.n_samples)):
        return nothing, None
    instance = Instance.of(problem).normalised()[0]
    targets = instance.target if instance.target.ndim == 2 else instance.target[:, None]

    def part(rows: npt.NDArray[np.intp]) -> Any:
        return replace(instance.map, X=instance.map.X[rows])

    blocks = [part(test).gram(targets[test]) for _, test in splits]

    def total(left_out: int | None) -> tuple[FloatArray, FloatArray]:
        kept = [block for k, block in enumerate(blocks) if k != left_out]
        return np.sum([gram for gram, _ in kept], axis=0), np.sum([products for _, products in kept], axis=0)

    known: list[Reductions | None] = [
        Reductions.of(part(train), targets[train], *total(k)) for k, (train, _) in enumerate(splits)
    ]
    return known, Reductions.of(part(np.arange(problem.n_samples)), targets, *total(None))


def _divide(splits: Sequence[Split], n: int) -> bool:
    """Return whether every row is held out once and trains otherwise."""
    held_out = np.sort(np.concatenate([test for _, test in splits]))
    return np.array_equal(held_out, np.arange(n)) and all(
        np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n)) for train, test in splits
    )


class QuantizedNetworkClassifierCV(_CrossValidated, QuantizedNetworkClassifier):
    r"""Classification by a network with quantized first-layer weights, of a beta chosen by cross-validation.

    For every fold one regularisation path, see `qsdp.relaxation_path`; the beta of the largest mean score is that of
    the network, which is fitted to all data. The same beta in every fold, as a grid search has it, whatever the number
    of samples: the loss is a sum.

    Parameters
    ----------
    n_neurons : int, default=1000
        m.
    betas : int or array-like of shape (K,), default=20
        Positive and distinct; or the number of those of a geometric grid from the smallest beta for which zero is
        optimal, `qsdp.beta_max`, to a thousandth of it.
    cv : int, splitter or iterable, default=5
        Number of stratified folds, a splitter of scikit-learn, or pairs of training and held-out rows. Every training
        part must hold all classes.
    scoring : str, callable or None, default=None
        See scikit-learn; None is the accuracy.
    evaluate : {"relaxation", "network"}, default="relaxation"
        What is scored on the rows held out: the predictions of the relaxation, which are cheap and do not depend on
        a sample, or those of a network made as the final one, refinement included. See the notes.
    n_jobs : int, optional
        Processes, one for a fold at a time; for the final network as in `QuantizedNetworkClassifier`.
    loss, activation, levels, constant_column, solver, shaping, refine, allocation, time_limit, tol, random_state,
    verbose
        See `QuantizedNetworkClassifier`. The time limit is that of one refinement.

    Attributes
    ----------
    beta_ : float
        The beta chosen; of equal scores the largest.
    betas_ : ndarray of shape (K,)
    scores_ : ndarray of shape (K, n_folds)
    best_score_ : float
        The mean score of `beta_`.
    path_ : RelaxationPath
        That of all data, for `betas_`.
    classes_, network_, certificate_, result_, n_features_in_, feature_names_in_
        See `QuantizedNetworkClassifier`.

    Notes
    -----
    For a squared loss of many samples the Gram matrix of a training part is the sum of those of the other folds: all
    paths together take one pass over the data.

    Both ways to evaluate led to equal accuracies on held-out data, but for the noise of the splits, with m = 1000 or
    with ``refine="refit"``; a network costs its sampling and refinement for every beta and fold. A small sample that
    is not refined is mostly noise, which a larger beta makes smaller: score networks then.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> network = qsdp.QuantizedNetworkClassifierCV(5000, betas=5, cv=3, random_state=0)
    >>> model = make_pipeline(StandardScaler(), network).fit(X, y)
    >>> model.score(X, y) > 0.85, network.scores_.shape, network.beta_ in network.betas_
    (True, (5, 3), True)
    """

    _plain = QuantizedNetworkClassifier


class QuantizedNetworkRegressorCV(_CrossValidated, QuantizedNetworkRegressor):
    r"""Regression by a network with quantized first-layer weights, of a beta chosen by cross-validation.

    For every fold one regularisation path, see `qsdp.relaxation_path`; the beta of the largest mean score is that of
    the network, which is fitted to all data.

    Parameters
    ----------
    n_neurons : int, default=1000
        m.
    betas, evaluate, n_jobs
        See `QuantizedNetworkClassifierCV`.
    cv : int, splitter or iterable, default=5
        Number of folds, which are not shuffled, a splitter of scikit-learn, or pairs of training and held-out rows.
    scoring : str, callable or None, default=None
        See scikit-learn; None is the coefficient of determination.
    loss, activation, levels, constant_column, solver, shaping, refine, allocation, time_limit, tol, random_state,
    verbose
        See `QuantizedNetworkRegressor`. The time limit is that of one refinement.

    Attributes
    ----------
    beta_, betas_, scores_, best_score_, path_
        See `QuantizedNetworkClassifierCV`.
    network_, certificate_, result_, n_features_in_, feature_names_in_
        See `QuantizedNetworkRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> network = qsdp.QuantizedNetworkRegressorCV(10_000, betas=8, random_state=0)
    >>> model = make_pipeline(StandardScaler(), network)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """

    _plain = QuantizedNetworkRegressor
