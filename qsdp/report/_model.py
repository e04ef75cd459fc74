"""Access to the model of a report: estimators as `qsdp.load` returns them, and their rows in a table."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from qsdp.certificates import Certificate
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.networks import Effects
from qsdp.problem import TrainingProblem
from qsdp.report._scored import ScoredRows, scored_rows
from qsdp.tabular import TabularModel, read_table, versions

__all__ = [
    "Judged",
    "as_estimator",
    "class_names",
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
    """A model on the rows of a table.

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


def class_names(model: Any) -> list[str] | None:
    """Return the labels of a classifier as text, or None for a regressor."""
    return [str(label) for label in model.classes_] if hasattr(model, "classes_") else None


def solution_of(model: Any) -> Any:
    """Return the solution that networks are sampled from, or None."""
    known = model._solution_of_relaxation()
    return None if known is None else known[0]


def loss_and_beta(model: Any) -> str:
    """Return the loss and the beta of the problem as text."""
    known = model._solution_of_relaxation()
    return get_loss(model.loss).name + (f", beta {known[1]:g}" if known else "")


def options_of(model: Any) -> list[tuple[str, str]]:
    """Return the options of training."""
    source, solution = table_of(model), solution_of(model)
    facts = [] if source is None else source.facts
    facts += [] if solution is None else [("regulariser", solution.regularization)]
    options = {name: value for name, value in model.get_params(deep=False).items() if name not in _OF_THE_RUN}
    return [*facts, *((name.replace("_", " "), str(value)) for name, value in options.items())]


def refinement_of(model: Any) -> str:
    """Return how the network was refined after sampling."""
    return str(getattr(model, "refined_", model.refine if hasattr(model, "refine") else "none"))


def column_names(model: Any) -> list[str]:
    """Return the names of the columns that a model takes."""
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])]


def table_of(model: Any) -> Any:
    """Return what a model knows of the table that it was trained on, or None for a model trained on arrays."""
    return getattr(model, "table_", None)


def judge(model: Any, data_file: str | os.PathLike[str]) -> Judged:
    """Return a model on the rows of a file; its objective is computed if the model was trained on them."""
    if not isinstance(model, _ModelOfTable):
        raise InvalidInputError(
            "the model was saved in Python and does not know which column is its target: data are for models of "
            "`qsdp fit`"
        )
    stored = model.stored
    table = read_table(data_file, frozenset(stored.markers))
    parts, trained = scored_rows(stored, table)
    if trained and stored.objective is None:
        model = _ModelOfTable(stored.evaluated(table))
    whole = stored.split(table)[0] if trained else table.known(stored.target.name)
    return Judged(model, parts, stored.effects(whole), stored.problem(table) if trained else None)


def as_estimator(model: Any) -> Any:
    """Return a model with the attributes of an estimator."""
    return _ModelOfTable(model) if isinstance(model, TabularModel) else model


class _ModelOfTable:
    """A model of the command line's own kind of file, with the attributes of an estimator that reports use."""

    def __init__(self, stored: TabularModel) -> None:
        self.stored, self.network_, self.loss, self.allocation = stored, stored.network, stored.loss, stored.allocation
        self.certificate_ = Certificate(stored.lower_bound, math.nan if stored.objective is None else stored.objective)
        if stored.target.classes is not None:
            self.classes_ = stored.target.classes
        self.encoder_ = SimpleNamespace(encoding_=stored.encoder.encoding, dropped_=stored.encoder.dropped)
        self.target_scaling_ = stored.target.scaling
        self.refined_ = stored.provenance.get("refine", "none")
        self.provenance_ = {name: text for name, text in stored.provenance.items() if name in versions()}
        weighting, holdout = stored.weighting, stored.holdout
        weights = ", ".join(text for text in (weighting.column, weighting.class_weight) if text) or "none"
        held = f"{100 * holdout.test_size:g} % of the rows, chosen by seed {holdout.seed}"
        self.table_ = SimpleNamespace(
            target=stored.target.name, weights=weighting.column, digest=stored.digest, seed=holdout.seed,
            facts=[("held out", held), ("weights of rows", weights)],
        )  # fmt: skip

    def _solution_of_relaxation(self) -> tuple[Any, float]:
        return self.stored.solution, self.stored.beta

    def get_params(self, deep: bool) -> dict[str, str]:
        return {name: text for name, text in self.stored.provenance.items() if name not in self.provenance_}
