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


@pytest.mark.parametrize(
    ("dataset", "options", "network", "python"),
    [
        ("iris", [], "bilinear, binary weights, 3 outputs, squared loss, beta 10", "(beta=10)"),
        (
            "wine",
            ["--levels", 4, "--activation", "relu", "--loss", "logistic", "--allocation", "proportional", "--jobs", 2],
            "relu, 4 levels, 3 outputs, logistic loss, beta 10",
            "(beta=10, loss='logistic', levels=4, activation='relu')",
        ),
        (
            "iris",
            ["--activation", "0.5,-1,0", "--loss", "cross_entropy", "--beta", 1],
            "polynomial 0.5,-1,0, binary weights, 3 outputs, cross_entropy loss, beta 1",
            "(beta=1, loss='cross_entropy', activation=(0.5, -1.0, 0.0))",
        ),
    ],
)
def test_demo_of_several_classes(dataset: str, options: list[str], network: str, python: str) -> None:
    result = run("demo", "--dataset", dataset, "--neurons", 900, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert figure(text, "network") == f"900 neurons, {network}"
    assert figure(text, "in Python") == f"qsdp.QuantizedNetworkClassifier{python}.fit(X, y)"
    assert 0.0 < number(text, "lower bound") <= number(text, "objective")
    assert number(text, "accuracy") > 80.0
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith(("network", "time", "in Python")))


def test_demo_is_reproducible() -> None:
    first, second = (run("demo", "--dataset", "diabetes", "--seed", 3).stdout for _ in range(2))
    assert [line for line in first.splitlines() if not line.startswith("time")] == [
        line for line in second.splitlines() if not line.startswith("time")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "iris", "--neurons", "2"], "--neurons must be at least 3, one for each class; got 2"),
        (["--dataset", "diabetes", "--loss", "hinge"], "--loss hinge is for classes, the target of diabetes is a"),
        (["--dataset", "diabetes", "--loss", "cross_entropy"], "use one of squared, absolute, huber"),
        (["--loss", "cubic"], "--loss must be one of"),
        (["--levels", "1"], "levels must be an integer from 2 to 128; got 1"),
        (["--activation", "rely"], "did you mean 'relu'"),
        (["--activation", "1,x,3"], "--activation must be a name or three numbers a,b,c; got '1,x,3'"),
        (["--activation", "1,2"], "three numbers"),
        (["--activation", "0,0,0"], "other than zero"),
        (["--activation", "nan,0,0"], "finite number"),
        (["--allocation", "fair"], "--allocation must be one of"),
        (["--jobs", "0"], "--jobs must be an integer >= 1; got 0"),
        (["--dataset", "diabets"], "did you mean 'diabetes'"),
        (["--neurons", "0"], "--neurons must be an integer from 1 to 1000000000; got 0"),
        (["--beta", "-1"], "--beta must be a finite number >= 0; got -1"),
        (["--beta", "nan"], "--beta must be a finite number"),
        (["--seed", "-1"], "--seed must be an integer >= 0"),
    ],
)
def test_demo_refuses(monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.setattr("qsdp.cli._demo.run_pipeline", lambda *arguments, **options: pytest.fail("solved"))
    assert message in refused("demo", *arguments)
