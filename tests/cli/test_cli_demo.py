"""`qsdp demo`."""

from __future__ import annotations

import re

import pytest
from cli_program import figure, number, refused, run

from qsdp.cli._demo import _choice


@pytest.mark.parametrize(
    ("dataset", "rival", "least"), [("breast-cancer-wisconsin", "logistic", 93.0), ("diabetes", "ridge", 0.3)]
)
def test_demo(dataset: str, rival: str, least: float) -> None:
    result = run("demo", "--dataset", dataset)
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert dataset in figure(text, "data")
    assert 0.0 < number(text, "lower bound") <= number(text, "objective")
    gap = number(text, "objective") - number(text, "lower bound")
    assert number(text, "gap") == pytest.approx(gap, rel=1e-2)
    assert number(text, "relative gap") == pytest.approx(100 * gap / number(text, "objective"), abs=0.1)
    assert number(text, rival) > least
    n_columns = 30 if dataset == "breast-cancer-wisconsin" else 10
    scores = re.findall(r"^(\w+) +([\d.]+)(?: %)? +(?:accuracy|R\^2) on test rows", text, re.MULTILINE)
    assert [name for name, _ in scores] == ["network", rival]
    assert float(scores[0][1]) > least
    # Of each input, thresholds of columns among them, and the constant.
    n_neurons = int(number(text, "network"))
    # Of each input and the constant.
    assert number(text, "size") - 64 == 2 * n_neurons * (n_columns + 1)
    assert f"as {n_neurons} neurons" in figure(text, "size")
    assert "beta" in figure(text, "time")
    rows = text.split("size")[1].splitlines()
    assert f"{32 * (n_columns + 1):,} bits" in rows[4]
    eight_bits = 8 * (n_columns + 1) + 2 * 32
    assert f"{eight_bits:,} bits" in rows[5]
    assert f"{n_neurons} neurons match the relaxation" in figure(text, "why these")
    assert figure(text, "proof").endswith(f"by at most {figure(text, 'relative gap').split('  ')[0]}")
    # The model to choose follows from what is printed above it.
    smallest = min(int(bits.replace(",", "")) for bits in re.findall(r"([\d,]+) bits +as ", text))
    advantage = float(scores[0][1]) - number(text, "in 8 bits")
    rounded = f"{rival} regression in 8 bits"
    assert figure(text, "choose") == _choice(rounded, advantage, smaller=smallest < eight_bits)
    assert "refine" in figure(text, "time")
    assert "qsdp fit" in text.splitlines()[-2]
    assert ".fit(X, y)" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("advantage", "smaller", "chosen"),
    [
        (0.1, False, "this network: more accurate than logistic regression"),
        (0.1, True, "this network: more accurate than logistic regression"),
        (0.0, True, "this network, which is smaller than logistic regression"),
        (-0.1, True, "this network if bits count, else logistic regression"),
        (0.0, False, "logistic regression, unless you need the bound"),
        (-0.1, False, "logistic regression, unless you need the bound"),
    ],
)
def test_choice(advantage: float, smaller: bool, chosen: str) -> None:
    assert _choice("logistic regression", advantage, smaller=smaller) == chosen
    # A line of the report begins with a label of 14 characters.
    assert len(_choice("logistic regression in 8 bits", advantage, smaller=smaller)) <= 80 - 14


@pytest.mark.parametrize(
    ("dataset", "options", "network", "python"),
    [
        ("iris", [], "relu_like, binary weights, 3 outputs, squared loss, beta ", ""),
        (
            "wine",
            ["--levels", 4, "--activation", "bilinear", "--loss", "logistic", "--beta", "1%", "--jobs", 2],
            "bilinear, 4 levels, 3 outputs, logistic loss, beta ",
            ", beta='1%', loss='logistic', activation='bilinear', levels=4",
        ),
        (
            "iris",
            ["--activation", "0.5,-1,0", "--loss", "cross_entropy", "--beta", 1],
            "polynomial 0.5,-1,0, binary weights, 3 outputs, cross_entropy loss, beta 1",
            ", beta=1, loss='cross_entropy', activation=(0.5, -1.0, 0.0)",
        ),
    ],
)
def test_demo_of_several_classes(dataset: str, options: list[str], network: str, python: str) -> None:
    result = run("demo", "--dataset", dataset, "--neurons", 90, "--refine", "none", *options)
    assert result.exit_code == 0
    text = result.stdout
    assert ("Warning: the certified gap is" in result.stderr) == (number(text, "relative gap") > 50.0)
    assert figure(text, "network").startswith(f"90 neurons, {network}")
    call = figure(text, "in Python")
    assert call.startswith(f"qsdp.QuantizedNetworkClassifier(n_neurons=90{python}")
    assert call.endswith("refine='none', encoding='standard').fit(X, y)")
    assert 0.0 < number(text, "lower bound") <= number(text, "objective")
    assert figure(text, "why these") == "90 neurons, as --neurons asks"
    assert float(re.findall(r"^network +([\d.]+) %", text, re.MULTILINE)[0]) > 60.0
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
        (["--dataset", "diabetes", "--loss", "hinge"], "--loss hinge is for classes, but the target of diabetes is a"),
        (["--dataset", "diabetes", "--loss", "cross_entropy"], "use one of squared, absolute, huber"),
        (["--loss", "cubic"], "--loss must be one of"),
        (["--levels", "1"], "levels must be an integer from 2 to 128; got 1"),
        (["--activation", "relylike"], "did you mean 'relu_like'"),
        (["--activation", "1,x,3"], "--activation must be a name or three numbers a,b,c; got '1,x,3'"),
        (["--activation", "1,2"], "three numbers"),
        (["--activation", "0,0,0"], "other than zero"),
        (["--activation", "nan,0,0"], "finite number"),
        (["--allocation", "fair"], "--allocation must be one of"),
        (["--jobs", "0"], "--jobs must be None or an integer other than 0; got 0"),
        (["--dataset", "diabets"], "did you mean 'diabetes'"),
        (["--neurons", "0"], "--neurons must be an integer from 1 to 1000000000; got 0"),
        (["--beta", "-1"], "--beta must be a finite number >= 0; got -1"),
        (["--beta", "nan"], "--beta must be a finite number"),
        (["--seed", "-1"], "--seed must be an integer >= 0"),
    ],
)
def test_demo_refuses(monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.setattr("qsdp.estimators.network.run_pipeline", lambda *arguments, **options: pytest.fail("solved"))
    assert message in refused("demo", *arguments)
