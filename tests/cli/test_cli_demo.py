"""`qsdp demo`."""

from __future__ import annotations

import re

import pytest
from cli_program import figure, number, refused, run

import qsdp


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
    scores = re.findall(r"^(\w+) +([\d.]+)(?: %)? +(?:accuracy|R²) on test rows", text, re.MULTILINE)
    assert [name for name, _ in scores] == ["network", rival]
    assert float(scores[0][1]) > least
    # Of each input, thresholds of columns among them, and the constant.
    n_neurons = int(number(text, "network"))
    # Of each input and the constant.
    assert number(text, "size") - 32 == 2 * n_neurons * (n_columns + 1)
    assert f"as {n_neurons} neurons" in figure(text, "size")
    assert "beta" in figure(text, "time")
    rows = text.split("size")[1].splitlines()
    assert f"{32 * (n_columns + 1):,} bits" in rows[2]
    eight_bits = 8 * (n_columns + 1) + 2 * 32
    assert f"{eight_bits:,} bits" in rows[3]
    assert f"{n_neurons} neurons match the relaxation" in figure(text, "why these")
    assert figure(text, "proof").endswith(f"by at most {figure(text, 'relative gap').split('  ')[0]}")
    # On 114 and 89 test rows, the two models are as good.
    n_test = int(re.findall(r"(\d+) test rows", text)[0])
    assert figure(text, "choose").startswith("either")
    assert f"{n_test} test rows" in figure(text, "choose")
    assert "refine" in figure(text, "time")
    assert "qsdp fit" in text.splitlines()[-2]
    assert ".fit(X, y)" in text.splitlines()[-1]


def test_demo_of_a_proven_optimum() -> None:
    result = run("demo", "--refine", "exact")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "globally optimal" in result.stdout
    n_neurons = int(number(result.stdout, "network"))
    assert f"{n_neurons} neurons" in figure(result.stdout, "why these")
    assert number(result.stdout, "relative gap") == pytest.approx(0.0, abs=1e-3)


def test_demo_of_several_classes() -> None:
    result = run("demo", "--refine", "none", "--seed", 1)
    assert result.exit_code == 0
    text = result.stdout
    assert ("Warning: the certified gap is" in result.stderr) == (number(text, "relative gap") > 50.0)
    assert "relu_like, binary weights, 3 outputs, squared loss, beta " in figure(text, "network")
    call = figure(text, "in Python")
    assert call == "qsdp.QuantizedNetworkClassifier(encoding='standard', refine='none', random_state=1).fit(X, y)"
    X, _, y, _ = qsdp.datasets.load_bundled("iris").split(1)
    model = eval(call, {"qsdp": qsdp, "X": X, "y": y})
    assert f"{model.certificate_.objective:.6g}" == figure(text, "objective").split()[0]
    assert 0.0 < number(text, "lower bound") <= number(text, "objective")
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
        (["--dataset", "diabets"], "did you mean 'diabetes'"),
        (["--refine", "fully"], "--refine must be one of"),
        (["--seed", "-1"], "--seed must be an integer >= 0"),
    ],
)
def test_demo_refuses(arguments: list[str], message: str) -> None:
    assert message in refused("demo", *arguments)
