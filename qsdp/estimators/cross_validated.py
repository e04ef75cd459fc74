"""scikit-learn estimators that choose beta by cross-validation along regularisation paths."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from joblib import delayed
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _check_method_params

from qsdp._utils import deadline
from qsdp._utils.options import documented
from qsdp._utils.parallel import CountedParallel, count_jobs
from qsdp._utils.progress import progress
from qsdp._utils.tuning import INNER
from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    check_random_state,
    warn,
)
from qsdp.activations import PolynomialActivation
from qsdp.encoding.frames import is_frame
from qsdp.estimators.classes import are_objects
from qsdp.estimators.classifier import QuantizedNetworkClassifier
from qsdp.estimators.folds import PathPlan, Split, plan_paths
from qsdp.estimators.options import ClassifierCrossValidationOptions, CrossValidationOptions, EstimatorOptions
from qsdp.estimators.regressor import QuantizedNetworkRegressor
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import Loss
from qsdp.pipeline import QSDPResult, sample_from
from qsdp.relaxation.backends import Settings
from qsdp.statistics.collections import RowBatches, Rows, is_collection

__all__ = ["QuantizedNetworkClassifierCV", "QuantizedNetworkRegressorCV"]


class _CrossValidated:
    """Mixin with the cross-validation of the classifier and the regressor."""

    def fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Any:
        """Choose beta and fit the network to data (n, d) and targets.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), for regression also (n, C)
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the samples, in training and in the scores; None gives every sample weight one.
        **params
            Metadata for the splitter and the scorer, such as ``groups``, if scikit-learn's metadata routing is on.

        Returns
        -------
        self
        """
        if is_collection(X) or is_collection(y) or isinstance(X, RowBatches):
            raise InvalidTypeError(
                f"X and y must be held in memory for cross-validation; got {type(X).__name__}, which "
                f"{type(self).__name__.removesuffix('CV')} takes"
            )
        score = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not get_config()["enable_metadata_routing"]:
            if params:
                raise InvalidInputError(
                    f"fit takes {', '.join(params)} only with sklearn.set_config(enable_metadata_routing=True)"
                )
            return self._fit_to(X, y, sample_weight, split={}, score=score)
        routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
        if self.scoring is not None:
            score = routed.scorer.score
        return self._fit_to(X, y, sample_weight, split=routed.splitter.split, score=score)

    def get_metadata_routing(self: Any) -> MetadataRouter:
        """Return the routing: weights to `fit`, metadata to the splitter and, if there is one, the scorer."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        if self.scoring is not None:
            router.add(scorer=self._scorer(self), method_mapping=MethodMapping().add(caller="fit", callee="score"))
        return router

    def _train(
        self: Any,
        samples: Rows,
        inputs: FloatArray,
        target: FloatArray,
        weights: FloatArray | None,
        options: Any,
        **routed: Any,
    ) -> QSDPResult:
        rng = check_random_state(options.random_state)
        problem = options.problem(inputs, target, weights, samples.repetitions)
        member = self._member(named=is_frame(samples.X))
        scorer, splits, score = self._scorer(member), self._splits(samples, routed["split"]), routed["score"]
        if "sample_weight" in score:
            _check_weighs(scorer)
            score = {**score, "sample_weight": samples.weights}
        # The problem drops rows of weight zero, so the rows of the splits are renumbered.
        number = np.arange(len(samples.y)) if samples.weights is None else np.cumsum(samples.weights > 0.0) - 1
        kept = [(number[train], number[test]) for train, test in splits]
        held_out = [
            (_safe_indexing(samples.X, test), samples.y[test], _check_method_params(samples.y, score, test))
            for _, test in splits
        ]
        with options.limit():
            settings = Settings(options.tol, device=options.device)
            path, folds = plan_paths(problem, kept, options.betas, solver=options.solver, settings=settings)
            # Scores of neighbouring betas differ by more than that.
            coarse = options.tol / INNER
            folds = [replace(fold, settings=replace(fold.settings, tol=coarse)) for fold in folds]
            turns = -(-len(folds) // count_jobs(options.n_jobs))
            # All folds together may take half of the time.
            seconds = 0.5 / turns * deadline.left()
            with progress(options.verbose) as stages, stages.stage("folds") as bar:
                scores = np.column_stack(
                    CountedParallel(options.n_jobs, bar, len(folds))(
                        delayed(_fold_scores)(fold, seconds, rows, seed, member, scorer)
                        for fold, rows, seed in zip(folds, held_out, rng.spawn(len(splits)), strict=True)
                    )
                )
            best = self._best_of(path.betas, scores)
            with progress(options.verbose) as stages:
                with stages.stage("solve") as bar, deadline.fraction(0.5):
                    one = replace(path, betas=path.betas[best : best + 1])
                    relaxation = one.solve(options.n_jobs, bar)[0]
                # Half of the time left after the folds and the path is for a refinement.
                with deadline.fraction(1.0):
                    return sample_from(relaxation, options, rng)

    def _best_of(self: Any, betas: FloatArray, scores: FloatArray) -> int:
        """Set the attributes of the choice among scores of shape (K, folds), and return the index of the best beta."""
        means = scores.mean(axis=1)
        if not np.any(np.isfinite(means)):
            raise InvalidInputError(f"scoring must give finite scores; got {means[0]} for every beta")
        # Among equal scores, take the largest beta: its network is the simplest.
        best = int(max(np.flatnonzero(means == means[np.isfinite(means)].max()), key=lambda index: betas[index]))
        self.betas_, self.scores_ = betas, scores
        self.beta_, self.best_score_ = float(betas[best]), float(means[best])
        if deadline.left() < np.inf and np.any(np.isnan(means)):
            warn(
                f"the time limit left {np.sum(np.isnan(means))} of {len(means)} betas without a score in every fold; "
                f"beta={self.beta_:g} is the best of the others"
            )
        return best

    def _member(self: Any, *, named: bool) -> Any:
        """Return a copy, fitted except for its network, that scores folds whose columns are `named` or not."""
        member = self._predictor()
        if not named:
            member.__dict__.pop("feature_names_in_", None)
        # Splits may come from a generator, which other processes cannot receive. With `probability`, scorers of
        # probabilities calibrate every member without a warning.
        vars(member).update(cv=None, scoring=None, n_jobs=None, verbose=False, probability=True)
        return member

    def _scorer(self: Any, estimator: Any) -> Callable[..., float]:
        try:
            scorer: Callable[..., float] = check_scoring(estimator, scoring=self.scoring)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"scoring must be None, a scorer's name or a callable: {error}") from None
        return scorer

    def _splits(self: Any, samples: Rows, metadata: dict[str, Any]) -> list[Split]:
        """Return the rows of positive weight of each training part, which has all classes, and each held-out part."""
        y, rows = samples.y, np.arange(len(samples.y))
        if samples.weights is not None:
            rows = np.where(samples.weights > 0.0, rows, -1)
        try:
            if is_classifier(self) and are_objects(y):
                # Splitters of scikit-learn stratify numbers and text only.
                y = np.searchsorted(self.classes_, y)
            splitter = check_cv(self.cv, y, classifier=is_classifier(self))
            splits = [
                tuple(part[part >= 0] for part in (rows[train], rows[test]))
                for train, test in splitter.split(samples.X, y, **metadata)
            ]
        except (ValueError, TypeError, IndexError) as error:
            raise InvalidInputError(
                f"cv must be a number of folds, a splitter or an iterable of splits that suits the data: {error}"
            ) from None
        if not splits:
            raise InvalidInputError("cv must give at least one split; got none")
        if not all(part.size for both in splits for part in both):
            raise InvalidInputError("cv must leave a sample of positive weight in every part; got one without")
        if is_classifier(self) and not self._several:
            for train, _ in splits:
                missing = np.setdiff1d(self.classes_, samples.y[train])
                if missing.size:
                    raise InvalidInputError(
                        "cv must leave every class, with a sample of positive weight, in every training part; got one "
                        f"without {missing.tolist()[0]!r}"
                    )
        return splits


def _check_weighs(scorer: Callable[..., float]) -> None:
    """Raise an error unless a scorer accepts sample weights."""
    parameters = inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
    if "sample_weight" not in parameters and not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        raise InvalidInputError(f"scoring must accept sample_weight if fit is given it; {scorer!r} does not")


def _fold_scores(
    fold: PathPlan,
    seconds: float,
    held_out: tuple[Any, Any, dict[str, Any]],
    rng: np.random.Generator,
    member: Any,
    scorer: Callable[..., float],
) -> FloatArray:
    """Return the scores of one fold, of shape (K,), with nan for betas not solved in time.

    The held-out rows are data, targets and metadata of the scorer.
    """
    scores, evaluate, (X, y, metadata) = np.full(len(fold.betas), np.nan), member.evaluate, held_out
    with deadline.within(seconds):
        with deadline.fraction(0.5 if evaluate == "network" else 1.0):
            path = fold.solve(quiet=True)
        for done, relaxation in enumerate(path):
            member = copy.copy(member)
            if evaluate == "network":
                # Use the same random numbers for every beta, so that scores differ by less than their noise.
                with deadline.fraction(1.0 / (len(path) - done)):
                    member.network_ = sample_from(relaxation, member._options(), copy.deepcopy(rng)).network
            else:
                member.network_ = relaxation
            if is_classifier(member):
                member.calibration_ = member._calibration(relaxation.problem)
            scores[fold.betas == relaxation.problem.beta] = scorer(member, X, y, **metadata)
    return scores


@documented(ClassifierCrossValidationOptions)
class QuantizedNetworkClassifierCV(_CrossValidated, QuantizedNetworkClassifier):
    r"""Classification by a network with quantized first-layer weights, with beta chosen by cross-validation.

    Computes one regularisation path per fold (see `qsdp.relaxation_path`), takes the beta with the largest mean score
    and fits the network with it to all data. As in a grid search, beta is the same in every fold. It is not scaled with
    the number of samples, although the loss is a sum.

    Parameters
    ----------
    n_neurons, betas, cv, scoring, evaluate, loss, class_weight, probability, activation, levels, encoding,
    max_categories, constant_column, solver, shaping, refine, tol, allocation, time_limit, n_jobs, device, keep_data,
    random_state, verbose
        See `ClassifierCrossValidationOptions`.

    Attributes
    ----------
    beta_ : float
        Chosen beta; the largest one if scores are equal.
    betas_ : ndarray of shape (K,)
    scores_ : ndarray of shape (K, n_folds)
    best_score_ : float
        Mean score of `beta_`.
    classes_, network_, encoder_, target_scaling_, constant_, certificate_, result_, n_features_in_, feature_names_in_
        See `QuantizedNetworkClassifier`.

    Notes
    -----
    For the squared loss, many samples and folds that divide the data, the Gram matrix of a training part is the sum of
    the Gram matrices of the other folds. All paths together then take one pass over the data.

    With m = 1000 or ``refine="refit"``, both values of `evaluate` led to equal accuracies on held-out rows, up to the
    noise of the splits. Scoring networks costs sampling and refinement for every beta and fold. A small sample that is
    not refined is mostly noise, which a larger beta reduces. In that case, score networks.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> model = qsdp.QuantizedNetworkClassifierCV(betas=5, cv=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, model.scores_.shape, model.beta_ in model.betas_
    (True, (5, 3), True)
    """

    _options_class: ClassVar[type[EstimatorOptions]] = ClassifierCrossValidationOptions

    def __init__(
        self,
        n_neurons: int | None = ClassifierCrossValidationOptions.n_neurons,
        *,
        betas: Any = ClassifierCrossValidationOptions.betas,
        cv: Any = ClassifierCrossValidationOptions.cv,
        scoring: Any = ClassifierCrossValidationOptions.scoring,
        evaluate: str = ClassifierCrossValidationOptions.evaluate,
        loss: str | Loss = ClassifierCrossValidationOptions.loss,
        class_weight: Any = ClassifierCrossValidationOptions.class_weight,
        probability: bool = ClassifierCrossValidationOptions.probability,
        activation: str | Sequence[float] | PolynomialActivation | None = ClassifierCrossValidationOptions.activation,
        levels: int = ClassifierCrossValidationOptions.levels,
        encoding: Any = ClassifierCrossValidationOptions.encoding,
        max_categories: int = ClassifierCrossValidationOptions.max_categories,
        constant_column: bool = ClassifierCrossValidationOptions.constant_column,
        solver: str = ClassifierCrossValidationOptions.solver,
        shaping: str = ClassifierCrossValidationOptions.shaping,
        refine: str = ClassifierCrossValidationOptions.refine,
        tol: float = ClassifierCrossValidationOptions.tol,
        allocation: str = ClassifierCrossValidationOptions.allocation,
        time_limit: float | None = ClassifierCrossValidationOptions.time_limit,
        n_jobs: int | None = ClassifierCrossValidationOptions.n_jobs,
        device: str | None = ClassifierCrossValidationOptions.device,
        keep_data: bool = ClassifierCrossValidationOptions.keep_data,
        random_state: RandomState = ClassifierCrossValidationOptions.random_state,
        verbose: bool | int | None = ClassifierCrossValidationOptions.verbose,
    ) -> None:
        self._keep(locals())


@documented(CrossValidationOptions)
class QuantizedNetworkRegressorCV(_CrossValidated, QuantizedNetworkRegressor):
    r"""Regression by a network with quantized first-layer weights, with beta chosen by cross-validation.

    Computes one regularisation path per fold (see `qsdp.relaxation_path`), takes the beta with the largest mean score
    and fits the network with it to all data.

    Parameters
    ----------
    n_neurons, betas, cv, scoring, evaluate, loss, activation, levels, encoding, max_categories, constant_column,
    solver, shaping, refine, tol, allocation, time_limit, n_jobs, device, keep_data, random_state, verbose
        See `CrossValidationOptions`.

    Attributes
    ----------
    beta_, betas_, scores_, best_score_
        See `QuantizedNetworkClassifierCV`.
    network_, encoder_, target_scaling_, constant_, certificate_, result_, n_features_in_, feature_names_in_
        See `QuantizedNetworkRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressorCV(betas=8, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4
    True
    """

    _options_class: ClassVar[type[EstimatorOptions]] = CrossValidationOptions

    def __init__(
        self,
        n_neurons: int | None = CrossValidationOptions.n_neurons,
        *,
        betas: Any = CrossValidationOptions.betas,
        cv: Any = CrossValidationOptions.cv,
        scoring: Any = CrossValidationOptions.scoring,
        evaluate: str = CrossValidationOptions.evaluate,
        loss: str | Loss = CrossValidationOptions.loss,
        activation: str | Sequence[float] | PolynomialActivation | None = CrossValidationOptions.activation,
        levels: int = CrossValidationOptions.levels,
        encoding: Any = CrossValidationOptions.encoding,
        max_categories: int = CrossValidationOptions.max_categories,
        constant_column: bool = CrossValidationOptions.constant_column,
        solver: str = CrossValidationOptions.solver,
        shaping: str = CrossValidationOptions.shaping,
        refine: str = CrossValidationOptions.refine,
        tol: float = CrossValidationOptions.tol,
        allocation: str = CrossValidationOptions.allocation,
        time_limit: float | None = CrossValidationOptions.time_limit,
        n_jobs: int | None = CrossValidationOptions.n_jobs,
        device: str | None = CrossValidationOptions.device,
        keep_data: bool = CrossValidationOptions.keep_data,
        random_state: RandomState = CrossValidationOptions.random_state,
        verbose: bool | int | None = CrossValidationOptions.verbose,
    ) -> None:
        self._keep(locals())
