"""Optimal decision trees and sparse scores, whose packages need environments of their own.

- STreeD (`pystreed`) and ConTree (`pycontree`): decision trees, optimal for their depth and number of splits
- FasterRisk (`fasterrisk`): integers added up over thresholds, for two classes; found by a beam search, without a proof

The packages need other versions of NumPy or break one another. `python -m benchmarks.methods.proven_rivals` makes an
environment for each, in the folder that the variable QSDP_RIVALS names, or in `.venv-rivals` beside `benchmarks`. The
models come back as text, from which the test rows are predicted again, so what the bits count suffices to predict.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.methods import bits as sizes
from benchmarks.methods.models import Measured, Sample
from qsdp._utils.validation import FloatArray
from qsdp.exceptions import MissingPackageError, StorageError
from qsdp.networks.weights import bits_of

#: Packages and their pinned versions, by the names of the rivals.
PACKAGES = {
    "STreeD": ("pystreed", "1.4.0"),
    "ConTree": ("pycontree", "1.0.8"),
    "FasterRisk": ("fasterrisk", "0.1.10"),
}
TREES, SCORES = ("STreeD", "ConTree"), "FasterRisk"
#: CPU seconds of a rival. Half as many end FasterRisk before scores of five terms.
LIMIT = 10.0
#: Largest integer of a score, the default of FasterRisk.
LARGEST = 5


@dataclass(frozen=True)
class Tree:
    """Decision tree: a class, or a column, a threshold, the tree of rows up to it, and the tree of the others."""

    root: Any

    @classmethod
    def parsed(cls, text: Any, n_columns: int, n_classes: int) -> Tree:
        """Return the tree of an answer; splits whose sides agree are left out."""

        def parse(node: Any) -> Any:
            if isinstance(node, int) and not isinstance(node, bool) and 0 <= node < n_classes:
                return node
            if not (isinstance(node, list) and len(node) == 4 and node[0] in range(n_columns) and np.isfinite(node[1])):
                raise StorageError(f"a tree has no node {node!r}: there are {n_columns} columns, {n_classes} classes")
            below, above = parse(node[2]), parse(node[3])
            return below if below == above else (int(node[0]), float(node[1]), below, above)

        return cls(parse(text))

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""

        def count(node: Any) -> int:
            return 1 if isinstance(node, int) else count(node[2]) + count(node[3])

        return count(self.root)

    def predict(self, X: FloatArray) -> np.ndarray:
        """Return classes."""

        def classes(node: Any, rows: FloatArray) -> np.ndarray:
            if isinstance(node, int):
                return np.full(len(rows), node)
            below = rows[:, node[0]] <= node[1]
            found = np.empty(len(rows), dtype=int)
            found[below], found[~below] = classes(node[2], rows[below]), classes(node[3], rows[~below])
            return found

        return classes(self.root, X)


@dataclass(frozen=True)
class Score:
    """Sparse score: the second class if the constant and the integers of the terms that hold add up to more than 0."""

    constant: float
    #: Column, threshold and integer of every term, which holds up to the threshold.
    terms: list[tuple[int, float, int]]

    @classmethod
    def parsed(cls, constant: Any, terms: Any, n_columns: int) -> Score:
        """Return the score of an answer."""
        for column, threshold, integer in terms:
            if column not in range(n_columns) or not np.isfinite(threshold) or not 0 < abs(integer) <= LARGEST:
                raise StorageError(f"a score has no term {[column, threshold, integer]!r} on {n_columns} columns")
        return cls(float(constant), [(int(j), float(t), int(w)) for j, t, w in terms])

    def predict(self, X: FloatArray) -> np.ndarray:
        """Return classes."""
        total = np.full(len(X), self.constant)
        for column, threshold, integer in self.terms:
            total += integer * (X[:, column] <= threshold)
        return (total > 0.0).astype(int)


def rival(name: str) -> Callable[[Sample], Measured]:
    """Return the family of one rival."""
    return partial(_rival, name)


def _rival(name: str, sample: Sample) -> Measured:
    yield name, measured(name, sample, answered(name, sample))


def measured(name: str, sample: Sample, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measurements of an answer; its model must predict what the rival predicted."""
    split = sample.split
    n_columns = split.X.shape[1]
    if name in TREES:
        model: Tree | Score = Tree.parsed(answer["tree"], n_columns, split.n_classes)
        size = sizes.node_bits(model.n_leaves, n_columns, bits_of(split.n_classes))
    else:
        model = Score.parsed(answer["constant"], answer["terms"], n_columns)
        size = sizes.score_bits(len(model.terms), n_columns, LARGEST)
    classes = model.predict(split.X_test)
    if (wrong := int(np.sum(classes != np.array(answer["predictions"])))) > 0:
        raise StorageError(f"the model of {name} differs from its predictions in {wrong} of {len(classes)} rows")
    more = {key: answer[key] for key in ("chosen", "settings", "last", "proven", "version") if key in answer}
    return {**sample.measured(classes, size, answer["seconds"]), **more}


def answered(name: str, sample: Sample) -> dict[str, Any]:
    """Return the answer of a rival, computed in its environment on one thread."""
    interpreter, split = python_of(name), sample.split
    folds = {}
    for k, (train, valid) in enumerate(sample.folds):
        folds |= {f"train_{k}": train, f"valid_{k}": valid}
    script, (package, _) = Path(__file__).with_name("proven_fit.py"), PACKAGES[name]
    with tempfile.TemporaryDirectory() as home:
        problem, answer = Path(home, "problem.npz"), Path(home, "answer.json")
        rows = {"X": split.X, "y": split.y, "X_test": split.X_test}
        np.savez(problem, **rows, limit=LIMIT, folds=len(sample.folds), **folds)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # Packages of this environment must not hide those of the rival's environment.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | threads
        command = [str(interpreter), str(script), package, str(problem), str(answer)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or ["no message"]
            raise RuntimeError(f"{name} ended with exit status {ran.returncode}: {last[0]}")
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


# -- environments ----------------------------------------------------------------------------------------


def folder() -> Path:
    """Return the folder of the environments."""
    return Path(os.environ.get("QSDP_RIVALS") or Path(__file__).resolve().parents[2] / ".venv-rivals").expanduser()


def python_of(name: str) -> Path:
    """Return the interpreter of a rival's environment; raise `MissingPackageError` if there is none."""
    found = interpreter_in(folder() / PACKAGES[name][0])
    if not found.is_file():
        rivals = ", ".join(f"{package} {version}" for package, version in PACKAGES.values())
        raise MissingPackageError(
            f"no environments of the rivals ({rivals}) in {folder()}; make them with `python -m"
            " benchmarks.methods.proven_rivals`, or set QSDP_RIVALS to their folder"
        )
    return found


def interpreter_in(environment: Path) -> Path:
    """Return the path of the interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environments() -> None:
    """Make the environments of all rivals that have none, with the pinned versions."""
    for package, version in PACKAGES.values():
        home = folder() / package
        if not interpreter_in(home).is_file():
            venv.create(home, with_pip=True)
        command = [str(interpreter_in(home)), "-m", "pip", "install", "--quiet", f"{package}=={version}"]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    make_environments()
    sys.stdout.write(f"environments of {', '.join(PACKAGES)} in {folder()}\n")
