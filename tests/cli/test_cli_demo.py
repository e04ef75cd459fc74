"""`qsdp demo`."""

from __future__ import annotations

import re

import pytest
from cli_program import figure, number, refused, run


@pytest.mark.parametrize(("dataset", "score"), [("breast-cancer-wisconsin", "accuracy"), ("diabetes", "R^2")])
def test_demo(dataset: str, score: str) -> None:
    result = run("demo", "--dataset", dataset)
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert dataset in figure(text, "data")
    assert 0.0 < number(text, "lower bound") <= number(text, "objective")
    gap = number(text, "objective") - number(text, "lower bound")
    assert number(text, "gap") == pytest.approx(gap, rel=1e-2)
    assert number(text, "relative gap") == pytest.approx(100 * gap / number(text, "objective"), abs=0.1)
    assert number(text, score) > (80.0 if score == "accuracy" else 0.3)
    assert re.search(r"^ +[\d.]+( %)? +test rows$", text, re.MULTILINE)
    n_inputs = 31 if dataset == "breast-cancer-wisconsin" else 11
    assert number(text, "size") == 2 * 2500 * n_inputs + 64
    assert figure(text, "size").endswith("64 times smaller than the same network in float64")
    assert "solve" in figure(text, "time")
    assert "qsdp fit" in text.splitlines()[-2]
    assert ".fit(X, y)" in text.splitlines()[-1]


def test_demo_is_reproducible() -> None:
    first, second = (run("demo", "--dataset", "diabetes", "--seed", 3).stdout for _ in range(2))
    assert [line for line in first.splitlines() if not line.startswith("time")] == [
        line for line in second.splitlines() if not line.startswith("time")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "iris"], "more than two classes"),
        (["--dataset", "diabets"], "did you mean 'diabetes'"),
        (["--neurons", "0"], "--neurons must be an integer >= 1; got 0"),
        (["--beta", "-1"], "--beta must be a finite number >= 0; got -1"),
        (["--beta", "nan"], "--beta must be a finite number"),
        (["--seed", "-1"], "--seed must be an integer >= 0"),
    ],
)
def test_demo_refuses(arguments: list[str], message: str) -> None:
    assert message in refused("demo", *arguments)
