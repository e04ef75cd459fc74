"""The parameters of estimators: training options, and a few additional ones."""

# ruff: noqa: RUF009 -- `option` returns a field, of which every class has its own

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qsdp._utils.options import choice, option, redefined
from qsdp._utils.validation import RandomState, check_flag
from qsdp.activations import PolynomialActivation
from qsdp.estimators.classes import check_class_weight
from qsdp.estimators.inputs import check_encoding
from qsdp.losses import Loss
from qsdp.options import AUTO, REFINEMENT_TIME, TrainingOptions
from qsdp.relaxation.path import check_betas

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
        '{"auto", "standard", "thresholds", "both", "none"} or transformer',
        """
        How columns of X become inputs, see `qsdp.encoding.TableEncoder`: "standard" standardises numbers and cuts what
        is farther than three deviations off, "thresholds" makes bits of them, up to three a column, and "both" puts
        those beside each other. "auto" begins with the first and takes 5 and 20 thresholds a column beside the numbers,
        as long as the errors of ridge regressions at rows left out clearly fall; fewer of tables that are wide, or long
        and of many outputs, and 240 of all columns at most. Inputs without which such regressions are no worse on rows
        held out are left out. Categories of data frames and missing entries become bits.
        All are scaled to rows of norm 1.5 about. Or a transformer of scikit-learn, of which a clone is fitted.
        """,
        check_encoding,
    )
    constant_column: bool = option(
        True,
        "bool",
        """
        Append a constant column, of ones for standardised data and else of their scale, `constant_`; without it a
        bilinear network is even, :math:`f(-x) = f(x)`. Not appended for activations with a linear or constant part,
        which need none.
        """,
        check_flag,
    )
    warm_start: bool = option(
        False,
        "bool",
        """
        Start the solver of the relaxation from the solution of the last `fit`, if inputs and targets have the same
        shape: after a small change of data or beta it needs fewer iterations. What it finds is the same within `tol`.
        """,
        check_flag,
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
        Weights > 0 of the classes, by which those of their samples are multiplied; "balanced" gives all classes the
        same total weight, that of all samples divided by the number of classes. Classes missing in a dict have weight
        one.
        """,
        check_class_weight,
        "balanced gives all classes the same total weight.",
    )


@dataclass(frozen=True, kw_only=True)
class CrossValidationOptions(EstimatorOptions):
    """Options of cross-validated estimators, which choose `beta` themselves."""

    betas: Any = option(
        10,
        "int or array-like of shape (K,)",
        """
        Positive and distinct; or the number of those of a geometric grid from the smallest beta for which zero is
        optimal, `qsdp.beta_max`, to a thousandth of it.
        """,
        lambda name, value: check_betas(value),
    )
    cv: Any = option(
        5,
        "int, splitter or iterable",
        """
        Number of folds, which are not shuffled and for a classifier stratified; a splitter of scikit-learn; or pairs of
        training and held-out rows. Every training part of a classifier must hold all classes.
        """,
    )
    scoring: Any = option(
        None,
        "str, callable or None",
        "See scikit-learn; None is the accuracy of a classifier, the coefficient of determination of a regressor.",
    )
    evaluate: str = choice(
        "relaxation",
        ["relaxation", "network"],
        """
        What is scored on the rows held out: the predictions of the relaxation, which are cheap and do not depend on a
        sample, or those of a network made as the final one, refinement included.
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
        description="Processes, one for a fold at a time; for the final network as without cross-validation.",
    )


@dataclass(frozen=True, kw_only=True)
class ClassifierCrossValidationOptions(CrossValidationOptions, ClassifierOptions):
    """Options of cross-validated classifiers."""
