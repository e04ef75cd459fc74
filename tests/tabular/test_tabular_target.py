"""What the output of the network stands for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tabular_data import table

from qsdp.tabular import Target


@pytest.mark.parametrize(
    ("entries", "task", "classes"),
    [
        (["b", "a", "b", "a"], "auto", ("a", "b")),
        (["10", "9", "10", "9"], "auto", ("9", "10")),
        (["1", "1.0", "0", "0.0"], "auto", ("0", "1")),
        (["1", "2", "3", "4"], "auto", None),
        (["0", "1", "0", "1"], "regression", None),
        (["0", "1", "1", "0"], "classification", ("0", "1")),
    ],
)
def test_task_and_classes(entries: list[str | None], task: str, classes: tuple[str, str] | None) -> None:
    target = Target.fit(table({"y": entries}), "y", task, range(4))
    assert target.classes == classes
    if classes is None:
        numbers = np.array([float(entry or "nan") for entry in entries])
        assert (target.mean, target.scale) == (numbers.mean(), numbers.std())
        np.testing.assert_allclose(target.decode(target.encode(table({"y": entries}))), numbers)


def test_scores() -> None:
    classes = Target("y", ("a", "b"))
    encoded = classes.encode(table({"y": ["a", "b", "other", "b"]}))
    assert classes.score(np.array([-1.0, 2.0, 3.0, -1.0]), encoded) == 0.5
    number = Target("y", None, 1.0, 2.0)
    assert number.score(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 1.0
    assert math.isnan(number.score(np.array([1.0, 2.0]), np.array([2.0, 2.0])))
