"""Verilog: what modules compute, simulated where Icarus Verilog is installed, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import qsdp
from qsdp.exceptions import ExportError, InvalidInputError, MissingPackageError
from qsdp.export import BitModel, VerilogSource, describe, to_verilog
from qsdp.export._verilog.verilog_text import _planes

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")


def network(kind: str) -> Any:
    rng = np.random.default_rng(3)
    U, V = (rng.choice([-1, 1], (12, 6)) for _ in range(2))
    several = np.eye(3)[np.arange(12) % 3] * [0.5, 0.7, 0.4]
    if kind == "polynomial":
        return qsdp.BilinearNetwork(
            U, V, np.full(12, 0.3), activation=qsdp.PolynomialActivation(1, 0, 0)
        ).to_polynomial()
    if kind == "levels":
        U = rng.choice([-3, -1, 1, 3], (12, 6))
        return qsdp.BilinearNetwork(U, U.copy(), rng.normal(size=12), levels=4)
    return qsdp.BilinearNetwork(U, V, several if kind == "several" else np.full(12, -0.25))


@pytest.mark.parametrize("kind", ["single", "several", "levels", "polynomial"])
@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 1.0)])
def test_the_polynomial_is_the_network(kind: str, values: tuple[float, float]) -> None:
    model = network(kind)
    every = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T
    X = np.where(every, values[1], values[0])
    exact = model.predict(X).reshape(len(X), -1)
    for digits in (4, 8, 20):
        found = to_verilog(model, digits=digits, values=values)
        np.testing.assert_array_equal(found.model.bits(X), every)
        outputs = found.model.outputs(every)
        assert np.all(np.abs(found.model.scores(outputs) - exact) <= found.error)
        low, high = found.model.bounds
        assert low <= outputs.min() <= outputs.max() <= high
        assert -(2 ** (found.width - 1)) <= low <= high < 2 ** (found.width - 1)
    assert found.error.max() < 0.01


def planes_of(model: BitModel, k: int, bits: np.ndarray) -> np.ndarray:
    """Return an output as the module adds it up, for some bits."""
    constant, planes = _planes(model, k)
    total = np.full(len(bits), constant)
    for power, texts in planes.items():
        for text in texts:
            inner = text.removeprefix("!(").removesuffix(")")
            product = np.ones(len(bits), dtype=np.int64)
            for factor in inner.split(" & "):
                product &= bits[:, int(factor.removeprefix("x[").removesuffix("]"))]
            total += ((1 - product) if text.startswith("!") else product) << power
    return total


@pytest.mark.parametrize("kind", ["single", "several", "levels"])
def test_what_is_added_up(kind: str) -> None:
    model = to_verilog(network(kind), values=(-1, 1)).model
    bits = np.random.default_rng(0).integers(0, 2, (1000, 6))
    for k, outputs in enumerate(model.outputs(bits).T):
        np.testing.assert_array_equal(planes_of(model, k, bits), outputs)


def table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(40, 12, 150).round(1), "city": rng.choice(["Rome", "Oslo", "Bern"], 150)})
    frame.loc[::11, "age"] = np.nan
    frame.loc[::13, "city"] = None
    return frame, np.where(frame.age.fillna(40) > 42, "old", np.where(frame.city == "Rome", "roman", "other"))


def fitted(**options: Any) -> tuple[Any, pd.DataFrame]:
    X, y = table()
    given = {"encoding": "thresholds", "beta": "3%", "refine": "none", "n_neurons": 60, "random_state": 0, **options}
    return qsdp.QuantizedNetworkClassifier(**given).fit(X, y), X


@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_an_estimator_of_bits(activation: str | None) -> None:
    model, X = fitted(activation=activation)
    verilog = to_verilog(model, name="people", digits=10)
    bits = verilog.model.bits(X)
    scores = verilog.model.scores(verilog.model.outputs(bits))
    exact = describe(model).scores(describe(model).columns(X))
    assert np.all(np.abs(scores - exact) <= verilog.error)
    chosen = verilog.model.description.decide(verilog.model.outputs(bits))
    margin = -np.diff(np.sort(exact)[:, -2:])[:, 0]
    sure = np.abs(margin) > 2.0 * verilog.error.max()
    assert sure.mean() > 0.5
    assert verilog.model.description.predictions(chosen)[sure].tolist() == model.predict(X)[sure].tolist()
    names = verilog.model.names
    assert all(f"x[{place}]: {name}" in verilog.source for place, name in enumerate(names))
    # Bits of a column come from one entry, so none is multiplied with another one of it, but for missing numbers.
    columns = [one.position for one in model.encoder_.encoding_.expressions]
    kinds = [one.kind for one in model.encoder_.encoding_.expressions]
    for _, i, j in np.argwhere(verilog.model.pairs).tolist():
        assert columns[i] != columns[j] or {kinds[i], kinds[j]} == {"above", "missing"}


@needs_icarus
@pytest.mark.parametrize("kind", ["single", "several", "levels", "classes"])
def test_simulated(kind: str) -> None:
    verilog = to_verilog(fitted()[0]) if kind == "classes" else to_verilog(network(kind), values=(-1, 1))
    bits = np.random.default_rng(0).integers(0, 2, (1000, verilog.model.n_bits))
    expected = verilog.model.outputs(bits)
    for registered in (False, True):
        outputs, chosen = verilog.simulate(bits, registered=registered)
        np.testing.assert_array_equal(outputs, expected)
        np.testing.assert_array_equal(chosen, verilog.model.description.decide(expected))


@pytest.fixture(scope="module")
def people() -> tuple[Any, pd.DataFrame, VerilogSource]:
    """Return a model of numbers and symbols with missing entries, its table, and its Verilog."""
    model, X = fitted()
    return model, X, to_verilog(model, name="people", digits=12)


def test_words_of_columns_are_the_bits_of_the_encoding(people: tuple[Any, pd.DataFrame, VerilogSource]) -> None:
    model, X, verilog = people
    assert verilog.words is not None
    # Ages of one decimal between, below and above all thresholds, missing ones, and cities that training did not have.
    ages = np.append(np.linspace(-50.0, 150.0, 2001).round(1), np.nan)
    wide = pd.DataFrame({"age": ages, "city": np.resize(["Rome", "Oslo", "Bern", "Nice", None], len(ages))})
    for rows in (X, wide):
        words = verilog.words.columns(rows)
        np.testing.assert_array_equal(verilog.words.bits(words), verilog.model.bits(rows))
        for one in verilog.words.words:
            assert np.all(np.abs(words[:, one.position] + 0.5) < 2 ** (one.width - 1))
    thresholds = [one.value for one in model.encoder_.encoding_.expressions if one.kind == "above"]
    steps = 10 ** (1 + max(len(str(value).partition(".")[2]) for value in thresholds))
    age = verilog.words.words[0]
    assert f"columns[0 +: {age.width}], {age.missing + 1} to {-age.missing - 1}: age, scale {steps}" in verilog.source
    assert "city, 0 Bern, 1 Oslo, 2 Rome" in verilog.source


@needs_icarus
def test_macros_are_verilog(people: tuple[Any, pd.DataFrame, VerilogSource], tmp_path: Path) -> None:
    model, _, verilog = people
    verilog.write(tmp_path)
    show = 'module show; initial $display("%s %s %e", `PEOPLE_CLASS_2, `PEOPLE_BIT_0, `PEOPLE_UNIT); endmodule'
    (tmp_path / "show.v").write_text(show)
    command = ["iverilog", "-g2001", "-Wall", "-o", "show", "people.v", "show.v"]
    subprocess.run(command, cwd=tmp_path, check=True)
    shown = subprocess.run(["vvp", "-n", "show"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.startswith(f"{model.classes_[2]} {verilog.model.names[0]} ")
    assert float(shown.split()[-1]) == pytest.approx(verilog.unit, rel=1e-6)


@needs_icarus
def test_names_that_look_like_comments(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal(60)
    frame, y = pd.DataFrame({"*/ wire /*": x, "// b": x**2}), np.where(x > 0.0, "/* yes", "no */")
    model = qsdp.QuantizedNetworkClassifier(encoding="thresholds", n_neurons=8, random_state=0).fit(frame, y)
    verilog = to_verilog(model, name="net")
    verilog.write(tmp_path)
    (tmp_path / "show.v").write_text('module show; initial $display("%s", `NET_CLASS_0); endmodule')
    command = ["iverilog", "-g2001", "-Wall", "-o", "show", "net.v", "show.v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    shown = subprocess.run(["vvp", "-n", "show"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "/* yes"


def test_scales_of_columns() -> None:
    X, y = np.random.default_rng(0).integers(0, 50, (120, 3)).astype(float), np.arange(120) % 2
    model = qsdp.QuantizedNetworkClassifier(encoding="thresholds", beta="20%", refine="none", random_state=0).fit(X, y)
    words = to_verilog(model, scales={"x0": 2}).words
    assert words is not None
    # Thresholds of whole numbers lie half-way between them.
    np.testing.assert_array_equal(words.columns(X)[:5, 0], 2 * X[:5, 0])
    np.testing.assert_array_equal(words.bits(words.columns(X)), to_verilog(model).model.bits(X))
    with pytest.raises(InvalidInputError, match=r"scales must be those of columns.*got 'x7'"):
        to_verilog(model, scales={"x7": 2})
    with pytest.raises(InvalidInputError, match="scales are for columns; a network alone takes bits"):
        to_verilog(network("single"), scales={"x0": 2})


@needs_icarus
@pytest.mark.parametrize("registered", [False, True])
def test_columns_simulated(people: tuple[Any, pd.DataFrame, VerilogSource], registered: bool) -> None:
    _, _, verilog = people
    assert verilog.words is not None
    rng = np.random.default_rng(0)
    age, city = verilog.words.words
    words = np.column_stack([rng.integers(one.missing, -one.missing, 1000) for one in (age, city)])
    expected = verilog.model.outputs(verilog.words.bits(words))
    outputs, chosen = verilog.simulate(words, columns=True, registered=registered)
    np.testing.assert_array_equal(outputs, expected)
    np.testing.assert_array_equal(chosen, verilog.model.description.decide(expected))


@needs_icarus
def test_numbers_are_not_decided() -> None:
    X, bits = np.random.default_rng(0).integers(0, 2, (2, 200, 6))
    y = np.column_stack([X[:, 0] ^ X[:, 1], X[:, 2] | X[:, 3]])
    options: dict[str, Any] = {"encoding": "thresholds", "beta": "5%", "random_state": 0}
    verilog = to_verilog(qsdp.QuantizedNetworkRegressor(**options).fit(X.astype(float), y))
    bits = bits[:, : verilog.model.n_bits]
    outputs, chosen = verilog.simulate(bits)
    np.testing.assert_array_equal(outputs, verilog.model.outputs(bits))
    assert chosen is None


def test_files(tmp_path: Path) -> None:
    verilog = to_verilog(network("single"), name="net")
    assert verilog.write(tmp_path) == tmp_path / "net.v"
    assert (tmp_path / "net.v").read_bytes() == verilog.files()["net.v"]
    with pytest.raises(InvalidInputError, match="exists; overwrite it with force=True"):
        verilog.write(tmp_path)
    verilog.write(tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["net.v"]
    assert "module net (" in verilog.source
    assert "module net_registered (" in verilog.source
    assert isinstance(verilog, VerilogSource)
    assert "6 bits" in verilog._repr_html_()


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("9x", "a-b", "", "module", "table", None):
        with pytest.raises(InvalidInputError, match="identifier of Verilog"):
            to_verilog(network("single"), name=name)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="digits must be"):
        to_verilog(network("single"), digits=0)
    with pytest.raises(InvalidInputError, match="values must be two numbers"):
        to_verilog(network("single"), values=(1, 1))
    with pytest.raises(ExportError, match=r"column 'age' is a numeric input.*encoding='thresholds'"):
        to_verilog(fitted(encoding="standard")[0])
    verilog = to_verilog(network("single"), values=(-1, 1))
    if shutil.which("iverilog"):
        with pytest.raises(InvalidInputError, match="columns must be False for a network alone"):
            verilog.simulate(np.zeros((1, 6), dtype=int), columns=True)
        for wrong in (np.zeros((0, 6), dtype=int), np.zeros((1, 5), dtype=int), np.zeros(6, dtype=int)):
            with pytest.raises(InvalidInputError, match=r"rows must have shape \(n, 6\), n >= 1; got"):
                verilog.simulate(wrong)
    with pytest.raises(InvalidInputError, match="X must hold -1 and 1 only"):
        verilog.model.bits(np.zeros((2, 6)))
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(MissingPackageError, match="install iverilog"):
        verilog.simulate(np.zeros((1, 6), dtype=int))
