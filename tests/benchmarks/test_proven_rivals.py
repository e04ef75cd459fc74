"""Optimal trees and sparse scores: bits by hand, models parsed from text, and a run with a stand-in of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.methods import bits, proven_fit, proven_rivals
from benchmarks.methods.models import Sample
from benchmarks.uci.data import Split
from qsdp.exceptions import StorageError

#: Three classes by two thresholds: up to 0.5 of column 1, then up to -1 of column 0.
TREE = [1, 0.5, [0, -1.0, 0, 1], 2]
ROWS = np.array([[-2.0, 0.5], [-1.0, 0.0], [0.0, 0.0], [-2.0, 0.6]])


def sample(n_classes: int = 2) -> Any:
    """Return a sample whose class is 1 where column 0 exceeds 0."""
    X = np.column_stack([np.linspace(-1.0, 1.0, 20), np.zeros(20)])
    split = Split(X, X[::3], (X[:, 0] > 0).astype(int), (X[::3, 0] > 0).astype(int), n_classes)
    return Sample(split, [(np.arange(0, 20, 2), np.arange(1, 20, 2)), (np.arange(1, 20, 2), np.arange(0, 20, 2))], 0)


# -- bits ------------------------------------------------------------------------------------------------


def test_a_term_of_a_score_counts_a_column_a_threshold_and_an_integer() -> None:
    # A constant of 32 bits, and a bit that ends the list.
    assert bits.score_bits(0, 20, 5) == 33
    # A bit, one of 20 columns (5), 16 for the threshold, and one of the ten integers from -5 to 5 but zero (4).
    assert bits.score_bits(3, 20, 5) == 33 + 3 * (1 + 5 + 16 + 4)


def test_measured_bits_are_those_of_the_parsed_model() -> None:
    split = sample().split
    predictions = (split.X_test[:, 0] > 0).astype(int).tolist()
    answer = {"tree": [0, 0.0, 0, 1], "predictions": predictions, "seconds": 1.5, "proven": True, "version": "1"}
    found = proven_rivals.measured("ConTree", sample(), answer)
    # A split: a bit, one of two columns (1), a threshold (16); two leaves of a bit and one of two classes each.
    assert found == {"test": 1.0, "bits": 18 + 4, "encoding_bits": 0, "seconds": 1.5, "proven": True, "version": "1"}
    # The score is positive beyond 0: the term takes away what the constant gives.
    answer = {"constant": 2, "terms": [[0, 0.0, -3]], "predictions": predictions, "seconds": 1.5}
    assert proven_rivals.measured("FasterRisk", sample(), answer)["bits"] == 33 + (1 + 1 + 16 + 4)


def test_models_must_predict_what_their_package_predicted() -> None:
    wrong = [1, *(sample().split.X_test[1:, 0] > 0).astype(int).tolist()]
    with pytest.raises(StorageError, match="ConTree differs from its predictions in 1 of 7 rows"):
        proven_rivals.measured("ConTree", sample(), {"tree": [0, 0.0, 0, 1], "predictions": wrong, "seconds": 1.0})


# -- parsers ---------------------------------------------------------------------------------------------


def test_trees_predict_from_their_text() -> None:
    tree = proven_rivals.Tree.parsed(TREE, 2, 3)
    assert tree.n_leaves == 3
    assert tree.predict(ROWS).tolist() == [0, 0, 1, 2]
    assert proven_rivals.Tree.parsed(1, 2, 3).predict(ROWS).tolist() == [1] * 4


@pytest.mark.parametrize("text", [3, -1, True, "0", None, [0, 0.5, 0], [2, 0.5, 0, 1], [0, float("nan"), 0, 1]])
def test_other_trees_are_refused(text: Any) -> None:
    for whole in (text, [0, 0.0, text, 1]):
        with pytest.raises(StorageError, match="a tree has no node"):
            proven_rivals.Tree.parsed(whole, 2, 3)


def test_scores_predict_from_their_text() -> None:
    score = proven_rivals.Score.parsed(-1, [[0, -1.0, 3], [1, 0.0, -2]], 2)
    # -1 + 3, -1 + 3 - 2, -1 - 2, -1 + 3: a score of 0 is the first class.
    assert score.predict(ROWS).tolist() == [1, 0, 0, 1]
    assert proven_rivals.Score.parsed(0.0, [], 2).predict(ROWS).tolist() == [0] * 4


@pytest.mark.parametrize("term", [[2, 0.0, 1], [0, float("inf"), 1], [0, 0.0, 0], [0, 0.0, 6], [0, 0.0, -6]])
def test_other_scores_are_refused(term: list[Any]) -> None:
    with pytest.raises(StorageError, match="a score has no term"):
        proven_rivals.Score.parsed(0.0, [term], 2)


# -- choice ----------------------------------------------------------------------------------------------


class Constant:
    """Rival whose settings predict one class; every fit takes a second of the clock."""

    settings = ({"class": 0}, {"class": 1}, {"class": 1, "size": 2})

    def __init__(self) -> None:
        self.seconds = 0.0
        self.limits: list[float] = []

    def fit(self, X: Any, y: Any, setting: dict[str, int], seconds: float) -> int:
        self.seconds += 1.0
        self.limits.append(seconds)
        return setting["class"]

    def predict(self, model: int, X: Any) -> Any:
        return np.full(len(X), model)

    def spent(self) -> float:
        return self.seconds

    def wall_of(self, seconds: float) -> float:
        return seconds


def test_settings_are_chosen_on_the_folds_while_there_is_time() -> None:
    X, y = np.zeros((6, 1)), np.array([0, 1, 1, 1, 1, 0])
    folds = [(np.arange(3), np.arange(3, 6)), (np.arange(3, 6), np.arange(3))]
    plenty = Constant()
    scores = proven_fit.choose(plenty, X, y, folds, 30.0, plenty)
    assert scores == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    # A third of the limit is kept for the last fit; what is left of the rest is divided among the folds.
    assert plenty.limits[:3] == [10.0, 19.0, 9.0]
    # Six seconds: four fits in the first four, and the third setting has no time.
    short = Constant()
    assert proven_fit.choose(short, X, y, folds, 6.0, short) == pytest.approx([1 / 3, 2 / 3])
    # A setting counts only with all of its folds.
    shorter = Constant()
    assert proven_fit.choose(shorter, X, y, folds, 4.5, shorter) == pytest.approx([1 / 3])


# -- environments ----------------------------------------------------------------------------------------

#: A module that stands in for the package: its trees split column 0 at the best midpoint.
STAND_IN = """
import numpy as np

class Node:
    def __init__(self, label=None, threshold=None, left=None, right=None):
        self.label, self.threshold, self.left, self.right = label, threshold, left, right
    def is_leaf_node(self): return self.threshold is None
    def get_label(self): return self.label
    def get_split_feature(self): return 0
    def get_split_threshold(self): return self.threshold
    def get_left(self): return self.left
    def get_right(self): return self.right

class ConTree:
    def __init__(self, max_depth, complexity_cost, time_limit):
        print("what a package prints is no answer")
        self._config = self
    def is_within_time_limit(self): return True
    def fit(self, X, y):
        ends = np.sort(X[:, 0])
        cuts = (ends[1:] + ends[:-1]) / 2
        best = max(cuts, key=lambda cut: np.mean((X[:, 0] > cut) == y))
        self.tree = Node(None, best, Node(0), Node(1))
        return self
    def predict(self, X): return (X[:, 0] > self.tree.threshold).astype(int)
    def get_tree(self): return self.tree
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of environments with a stand-in of ConTree, version 9.8."""
    code = tmp_path / "code"
    (code / "pycontree-9.8.dist-info").mkdir(parents=True)
    (code / "pycontree.py").write_text(STAND_IN, encoding="utf-8")
    (code / "pycontree-9.8.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pycontree\nVersion: 9.8\n")
    interpreter = tmp_path / "pycontree" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text(f'#!/bin/sh\nPYTHONPATH="{code}" exec "{sys.executable}" "$@"\n', encoding="utf-8")
    interpreter.chmod(0o755)
    monkeypatch.setenv("QSDP_RIVALS", str(tmp_path))
    return code


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_rival_runs_in_its_environment(stand_in: Path) -> None:
    [(name, found)] = proven_rivals.rival("ConTree")(sample())
    assert (name, found["test"], found["proven"], found["version"]) == ("ConTree", 1.0, True, "9.8")
    assert found["bits"] == 22
    # All nine settings are as good: the first is chosen, which is the smallest.
    assert (found["settings"], found["chosen"], found["last"]) == (9, {"depth": 1, "cost": 0.0}, False)
    assert 0.0 < found["seconds"] < 10.0
