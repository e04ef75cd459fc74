"""Access to the estimator of a report, and its evaluation on the rows of a table."""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qsdp._utils.numeric import ROUNDING
from qsdp.exceptions import InvalidInputError
from qsdp.networks import Effects
from qsdp.problem import TrainingProblem
from qsdp.tables import read_table
from qsdp.tables.scored import ScoredRows, scored_rows
from qsdp.tables.training import evaluate

__all__ = [
    "Judged",
    "judge",
    "options_of",
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
    problem : TrainingProblem or None
        None if the rows are not those of the training.
    """

    model: Any
    parts: list[ScoredRows]
    problem: TrainingProblem | None

    @cached_property
    def effects(self) -> Effects | None:
        """Effects of the columns on the rows of the first part; None for images and series."""
        # Imported here because it loads scikit-learn, which the options of commands do not need.
        from qsdp.estimators.inputs import makes_blocks

        rows = self.parts[0]
        return None if makes_blocks(self.model.encoder_) else self.model.effects(rows.table, sample_weight=rows.weights)


def options_of(model: Any) -> list[tuple[str, str]]:
    """Return the training options of a model as texts by name."""
    source, solution = getattr(model, "table_", None), model._solution_of_relaxation()
    facts = []
    if source is not None:
        weights = [str(one) for one in (source.weights, getattr(model, "class_weight", None)) if one]
        held = f"{100 * source.test_size:g} % of the rows, chosen by seed {source.seed}"
        facts += [("held out", held), ("weights of rows", ", ".join(weights) or "none")]
    facts += [] if solution is None else [("regulariser", solution.regularization)]
    options = {name: value for name, value in model.get_params(deep=False).items() if name not in _OF_THE_RUN}
    return [*facts, *((name.replace("_", " "), str(value)) for name, value in options.items())]


def judge(model: Any, data_file: str | os.PathLike[str]) -> Judged:
    """Evaluate a model on the rows of a file; if it was trained on them, compute its objective as well."""
    source = getattr(model, "table_", None)
    if source is None:
        return _judge_arrays(model, os.fspath(data_file))
    table = read_table(data_file, source.missing)
    parts, problem = scored_rows(model, table)
    if problem is not None and math.isnan(model.certificate_.objective):
        evaluate(model, problem)
    return Judged(model, parts, problem)


def _judge_arrays(model: Any, data_file: str) -> Judged:
    """Evaluate a model that was saved in Python on arrays X, y and maybe sample_weight."""
    try:
        with np.load(data_file, allow_pickle=False) as archive:
            X, y, weights = archive["X"], archive["y"], archive.get("sample_weight")
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError, TypeError):
        raise InvalidInputError(
            f"{data_file!r} must hold arrays X and y, as numpy.savez(path, X=X, y=y) writes them, since the model was "
            "saved in Python and does not know which column is its target"
        ) from None
    if y.ndim != 1:
        raise InvalidInputError(f"{data_file!r}: y must be of shape (n,), as a report scores one target; got {y.shape}")
    problem = model.training_problem(X, y, weights)
    known = np.ones(len(y), dtype=bool) if weights is None else weights > 0.0
    classes = getattr(model, "classes_", None)
    truth = model.target_scaling_.encode(y[known]) if classes is None else np.searchsorted(classes, y[known])
    trained = math.isclose(problem.objective(model.network_), model.certificate_.objective, rel_tol=ROUNDING)
    name = "training rows" if trained else "rows"
    rows = ScoredRows(name, model, X[known], problem.X, truth, None if weights is None else weights[known])
    return Judged(model, [rows], problem if trained else None)
