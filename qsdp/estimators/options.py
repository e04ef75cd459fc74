"""The parameters of estimators: training options, and a few additional ones."""

# ruff: noqa: RUF009 -- `option` returns a field, of which every class has its own

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qsdp._utils.options import choice, option, redefined
from qsdp._utils.validation import RandomState, check_flag, check_integer
from qsdp.activations import PolynomialActivation
from qsdp.encoding.fitting import ENCODINGS, EncodingRule
from qsdp.estimators.classes import check_class_weight
from qsdp.losses import Loss
from qsdp.options import AUTO, REFINEMENT_TIME, TrainingOptions
from qsdp.relaxation.path import check_betas


def _check_encoding(name: str, value: Any) -> Any:
    # Encoders need scikit-learn, of which options are free.
    from qsdp.estimators.inputs import check_encoding

    return check_encoding(name, value)


__all__ = [
    "ClassifierCrossValidationOptions",
    "ClassifierOptions",
    "CrossValidationOptions",
    "EstimatorOptions",
]


@dataclass(frozen=True, kw_only=True)
class EstimatorOptions(TrainingOptions):
    """Options of estimators without cross-validation, of the command line and of the demo.

    `TrainingOptions` has the defaults of the paper's algorithm for a given problem. The defaults here are for users
    with data: a small, polished network with a beta that suits the data.
    """

    n_neurons: int | None = redefined(TrainingOptions, "n_neurons", None)
    beta: float | str = redefined(TrainingOptions, "beta", AUTO)
    activation: str | Sequence[float] | PolynomialActivation | None = redefined(
        TrainingOptions, "activation", "relu_like"
    )
    refine: str = redefined(TrainingOptions, "refine", "polish")
    # This is far below the gap of a network of the default size.
    tol: float = redefined(TrainingOptions, "tol", 1e-3)
    allocation: str = redefined(TrainingOptions, "allocation", "proportional")
    loss: str | Loss = redefined(
        TrainingOptions,
        "loss",
        TrainingOptions.loss,
        description="""
        "squared" as in the paper, "absolute" or "huber" for regression and classification; "hinge", "squared_hinge",
        "logistic" and "cross_entropy" for classification, of which the last two give probabilities; or a loss object.
        """,
    )
    encoding: Any = option(
        "auto",
        '{"auto", "standard", "thresholds", "both", "none"}, None or transformer',
        """
        How the columns of X become inputs of the network, see `qsdp.encoding.TableEncoder`. "standard" standardises
        numbers and clips them at three standard deviations, "thresholds" turns each number into at most three bits,
        "both" uses both. "auto" starts from "standard" and adds 5, then 20 thresholds per column (with more than 4000
        rows, possibly the best splits of boosted trees instead), as long as the errors of ridge regressions on left-out
        rows clearly fall. Wide tables, and long ones with many outputs, get fewer thresholds, and no table more than
        240. Then inputs are dropped without which these errors do not grow. Categories of data frames and missing
        entries become bits, and inputs are scaled to rows of norm about 1.5. "none" or None uses X unchanged.
        A transformer of scikit-learn is cloned and fitted to X and y as in a pipeline. X has two dimensions and may
        then hold text and missing entries; the output must be numeric and is converted to a dense array. With
        `qsdp.encoding.Patches`, `Windows` or a `Union` of them, X are images or series, and the network is a
        `BlockNetwork`: bilinear, so that `activation` must be None or its default, without a constant column of its
        own. ``refine="exact"`` then proves the optimum without a relaxation if its neurons can be enumerated.
        `qsdp.encoding.TableBlocks` makes such blocks of tables.
        """,
        _check_encoding,
        f"Encoding of numbers: {' | '.join([AUTO, *ENCODINGS])}; auto chooses on held-out rows.",
    )
    max_categories: int = option(
        EncodingRule.max_categories,
        "int",
        """
        Largest number of categories of a text column that get a bit each, >= 2; the most frequent ones do. The other
        categories set none of these bits. Only used with an `encoding` given by name.
        """,
        lambda name, value: check_integer(name, value, minimum=2),
        "Largest number of categories of a column that get a bit each; the most frequent ones do.",
    )
    constant_column: bool = option(
        True,
        "bool",
        """
        Append a constant column, whose value `constant_` is 1 for standardised data and otherwise the scale of the
        data. Without it, a bilinear network is even, :math:`f(-x) = f(x)`. Activations with a linear or constant part
        need none and get none.
        """,
        check_flag,
    )
    warm_start: bool = option(
        False,
        "bool",
        """
        Start the solver of the relaxation from the solution of the last `fit`, if inputs and targets have the same
        shape. After a small change of the data or of beta, it needs fewer iterations; the result is the same within
        `tol`.
        """,
        check_flag,
    )
    keep_data: bool = option(
        False,
        "bool",
        """
        Whether pickles of the fitted estimator hold the training data and all intermediate results (`result_`), which
        `resample`, `qsdp.certify`, `contributions` and effects on the training data need. Without them, a pickle
        is about as small as the network; `predict_proba` and `feature_importances_` still work, since what they need is
        computed before pickling. In memory, a fitted estimator always has them.
        """,
        check_flag,
    )
    verbose: Any = redefined(
        TrainingOptions,
        "verbose",
        None,
        annotation="bool, int or None",
        description="""
        Show a progress bar for every stage, on standard error or in a notebook. None: in notebooks only, once a fit has
        taken two seconds.
        """,
    )
    # As in scikit-learn, every fit differs without a seed.
    random_state: RandomState = redefined(TrainingOptions, "random_state", None)


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(EstimatorOptions):
    """Options of classifiers without cross-validation."""

    class_weight: Any = option(
        None,
        'None, "balanced" or dict',
        """
        Weights > 0 of the classes, which multiply the weights of their samples. "balanced" gives all classes the same
        total weight, that of all samples divided by the number of classes. Classes missing in a dict have weight 1.
        """,
        check_class_weight,
        "balanced gives all classes the same total weight.",
    )
    probability: bool = option(
        False,
        "bool",
        """
        Whether `fit` calibrates probabilities for losses that do not give log odds, such as the squared loss, on
        held-out rows. Otherwise the first `predict_proba` does so, with a warning, if the training data are still
        there. This takes at most a minute, in addition to `time_limit`; the probabilities are the same.
        """,
        check_flag,
    )


@dataclass(frozen=True, kw_only=True)
class CrossValidationOptions(EstimatorOptions):
    """Options of cross-validated estimators, which choose `beta` themselves."""

    betas: Any = option(
        10,
        "int or array-like of shape (K,)",
        """
        Betas to try, positive and distinct; or their number, for a geometric grid from `qsdp.beta_max`, the smallest
        beta for which the zero network is optimal, down to a thousandth of it.
        """,
        lambda name, value: check_betas(value),
    )
    cv: Any = option(
        5,
        "int, splitter or iterable",
        """
        Number of folds, not shuffled, and stratified for a classifier; a splitter of scikit-learn; or pairs of
        training and held-out rows. For a classifier, every training part must contain all classes. The columns are
        encoded once, for all folds: an `encoding` that learns from y makes the scores optimistic.
        """,
    )
    scoring: Any = option(
        None,
        "str, callable or None",
        "See scikit-learn. None: accuracy for a classifier, coefficient of determination for a regressor.",
    )
    evaluate: str = choice(
        "relaxation",
        ["relaxation", "network"],
        """
        What is scored on held-out rows: predictions of the relaxation, which are cheap and do not depend on sampling,
        or those of a network made in the same way as the final one, refinement included.
        """,
    )
    time_limit: float | None = redefined(
        TrainingOptions,
        "time_limit",
        None,
        description=f"""
        Seconds, > 0, for the whole fit, at most half of them for the folds. Each fold solves for betas from large to
        small until its share of the time is over; a beta without a score in every fold is not chosen. None: no limit
        for the relaxations, {REFINEMENT_TIME:.0f} seconds for a refinement by "polish" or "exact"; infinity: no limit.
        """,
    )
    n_jobs: int | None = redefined(
        TrainingOptions,
        "n_jobs",
        None,
        description="Processes, each for one fold at a time; for the final network as without cross-validation.",
    )


@dataclass(frozen=True, kw_only=True)
class ClassifierCrossValidationOptions(CrossValidationOptions, ClassifierOptions):
    """Options of cross-validated classifiers."""
