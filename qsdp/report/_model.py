"""Access to the estimator of a report, and its evaluation on the rows of a table."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.networks import Effects
from qsdp.problem import TrainingProblem
from qsdp.tables import read_table
from qsdp.tables.scored import ScoredRows, scored_rows
from qsdp.tables.training import evaluate, inputs_of, problem_on, split, weights_of, with_target

__all__ = [
    "Judged",
    "column_names",
    "judge",
    "loss_and_beta",
    "options_of",
    "refinement_of",
    "solution_of",
    "table_of",
]

#: Options that do not concern the model.
_OF_THE_RUN = frozenset({"keep_data", "n_jobs", "verbose", "warm_start"})


@dataclass(frozen=True, eq=False)
class Judged:
    """A model with its scores and effects on the rows of a table.

    Attributes
    ----------
    model : estimator
    parts : list of ScoredRows
        Training and test rows, or all rows of another table.
    effects : Effects
        Effects of the columns on the rows of the first part.
    problem : TrainingProblem or None
        None if the table is not the one of the training.
    """

    model: Any
    parts: list[ScoredRows]
    effects: Effects
    problem: TrainingProblem | None


def solution_of(model: Any) -> Any:
    """Return the relaxation's solution, from which networks are sampled, or None if the model has none."""
    return model._solution_of_relaxation()


def loss_and_beta(model: Any) -> str:
    """Return the loss and the beta of the problem as text."""
    return get_loss(model.loss).name + (f", beta {model._trained_beta:g}" if solution_of(model) else "")


def options_of(model: Any) -> list[tuple[str, str]]:
    """Return the training options of a model as texts by name."""
    source, solution = table_of(model), solution_of(model)
    facts = []
    if source is not None:
        weights = [str(one) for one in (source.weights, getattr(model, "class_weight", None)) if one]
        held = f"{100 * source.test_size:g} % of the rows, chosen by seed {source.seed}"
        facts += [("held out", held), ("weights of rows", ", ".join(weights) or "none")]
    facts += [] if solution is None else [("regulariser", solution.regularization)]
    options = {name: value for name, value in model.get_params(deep=False).items() if name not in _OF_THE_RUN}
    return [*facts, *((name.replace("_", " "), str(value)) for name, value in options.items())]


def refinement_of(model: Any) -> str:
    """Return how the network was refined after sampling."""
    return str(model.refined_)


def column_names(model: Any) -> list[str]:
    """Return the names of a model's input columns."""
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])]


def table_of(model: Any) -> Any:
    """Return the description of the table that a model was trained on, or None if it was trained on arrays."""
    return getattr(model, "table_", None)


def judge(model: Any, data_file: str | os.PathLike[str]) -> Judged:
    """Evaluate a model on the rows of a file; if it was trained on them, compute its objective as well."""
    source = table_of(model)
    if source is None:
        raise InvalidInputError(
            "the model was saved in Python and does not know which column is its target: data are for models of "
            "`qsdp fit`"
        )
    table = read_table(data_file, source.missing)
    parts, trained = scored_rows(model, table)
    problem = problem_on(model, table) if trained else None
    if problem is not None and math.isnan(model.certificate_.objective):
        evaluate(model, problem)
    rows = split(source, table)[0] if trained else with_target(source, table)
    weights = weights_of(source, rows) if source.weights in rows.columns else None
    effects = model.effects(inputs_of(model, rows), sample_weight=weights)
    return Judged(model, parts, effects, problem)
