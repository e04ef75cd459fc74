"""The page of a report on which a model is tried: what it shows is what Python predicts, by keyboard, for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import browser, messages, needs_browser, overflows, resize, serious_findings

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.report import make_report

pytestmark = [
    needs_browser,
    pytest.mark.filterwarnings("ignore:the certified gap is:qsdp.QSDPWarning"),
    pytest.mark.filterwarnings("ignore:entries outside the categories:qsdp.QSDPWarning"),
]

SETTINGS: dict[str, Any] = {"refine": "none", "beta": "5%", "random_state": 0}


def table(n: int = 120) -> pd.DataFrame:
    """A frame with a column of every type, and missing entries."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "rate": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "member": rng.random(n) < 0.7,
            "town": rng.choice(np.array(["Oslo", "Rome", "</script>", None]), n, p=[0.5, 0.2, 0.2, 0.1]),
            "since": (pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 999, n), unit="D")).astype(str),
            "share": rng.random(n).round(3),
        }
    )


def targets(frame: pd.DataFrame) -> dict[str, Any]:
    score = (frame["age"] - 50) / 20 * np.where(frame["member"], 1, -0.5) + frame["rate"].fillna(0.5)
    three = np.select([score < -0.5, score < 0.5], ["low", "middle"], "high")
    return {
        "two": np.where(score > 0, "yes", "no"),
        "three": three,
        "numbers": np.column_stack([score, -10.0 * frame["age"]]),
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Models of all kinds of targets, and the folder of their pages."""
    folder, frame = tmp_path_factory.mktemp("pages"), table()
    found: dict[str, Any] = {"folder": folder}
    for name, target in targets(frame).items():
        kind = QuantizedNetworkRegressor if name == "numbers" else QuantizedNetworkClassifier
        # Networks of the squared loss have scores alone, those of the logistic loss probabilities, too.
        loss = "logistic" if name == "two" else "auto"
        model = found[name] = kind(30, encoding="standard", loss=loss, **SETTINGS).fit(frame, target)
        model.save(folder / f"{name}.qsdp")
        make_report(folder / f"{name}.qsdp").save(folder / f"{name}.html")
    return found


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as opened:
        yield opened


def address(models: dict[str, Any], name: str) -> str:
    return Path(models["folder"], f"{name}.html").as_uri()


#: What the page shows, read at once: entries of the controls, the answer, bars of a kind, and the sum.
SHOWN = """
const section = document.getElementById("trial");
const entry = (one) => one.type === "checkbox" ? one.checked : one.selectedOptions?.[0].text ?? one.value;
const bars = (kind) => [...section.querySelectorAll(`.${kind} .bar`)].map((one) => one.innerText.split(/\\n+/));
return {
  row: [...section.querySelectorAll(".field > :last-child")].map((one) => [one.labels[0].firstChild.data, entry(one)]),
  answer: section.querySelector("output").innerText,
  chances: bars("chances"), effects: bars("effects"), sum: section.querySelector(".sum").innerText,
};
"""


def number(text: str) -> float:
    return float(re.sub("[,+%]", "", text).replace("\u2212", "-"))


def shown_by(driver: Any) -> dict[str, Any]:
    """What the page shows, with its row as Python takes it and numbers of bars."""
    found = driver.execute_script(SHOWN)
    row = dict(found["row"])
    for name in ("age", "rate"):
        row[name] = float(row[name] or np.nan)
    row["share"], row["since"] = float(row["share"]), row["since"] or None
    row["town"] = None if row["town"] == "(missing)" else row["town"]
    frame = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in row.items()})
    found["row"] = frame.astype({"age": float, "rate": float, "share": float, "member": bool})
    for kind in ("chances", "effects"):
        found[kind] = [(name, number(value)) for name, value in found[kind]]
    return found


def check_answers(driver: Any, model: Any) -> pd.Series:
    """Compare all that the page shows with the model, to the digits shown, and return the row."""
    page = shown_by(driver)
    row, shown = page["row"], page["answer"]
    (answer,), own = model.predict(row), 0
    if not hasattr(model, "classes_"):
        assert [number(one) for one in shown.split(", ")] == pytest.approx(np.atleast_1d(answer), rel=1e-3)
    else:
        assert shown == str(answer)
        own = model.classes_.tolist().index(answer) if len(model.classes_) > 2 else 0
    if hasattr(model, "predict_proba"):
        chances = 100.0 * model.predict_proba(row)[0]
        assert [name for name, _ in page["chances"]] == [str(one) for one in model.classes_]
        assert [value for _, value in page["chances"]] == pytest.approx(chances.tolist(), abs=0.051)
    effects = model.effects()
    values = model.contributions(row)[0].reshape(len(effects.outputs), -1)[own]
    order = np.argsort(-np.abs(values), kind="stable")[:10]
    expected = [values[place] for place in order if values[place]]
    assert [value for _, value in page["effects"]] == pytest.approx(expected, rel=6e-3)
    assert sorted(page["effects"][0][0].split(" \u00d7 ")) == sorted(effects.terms[order[0]])
    total = number(re.search(r": ([\u2212\d.,e-]+)\. ", page["sum"])[1])
    assert total == pytest.approx(np.atleast_1d(effects.constant)[own] + values.sum(), rel=1e-3, abs=1e-9)
    return row.iloc[0]


@pytest.mark.parametrize("name", ["two", "three", "numbers"])
def test_answers_are_those_of_python_by_keyboard(driver: Any, models: dict[str, Any], name: str) -> None:
    from selenium.webdriver.common.keys import Keys

    driver.get(address(models, name))
    model = models[name]
    # It starts with medians and the most frequent categories.
    start = check_answers(driver, model)
    assert list(start.index) == list(table())
    assert start["age"] == pytest.approx(table()["age"].median(), abs=1.0)
    assert (start["town"], start["member"]) == ("Oslo", True)

    def press(keys: str) -> pd.Series:
        driver.switch_to.active_element.send_keys(keys)
        return check_answers(driver, model)

    # From the top of the page, every control is reached by the tabulator, in the order of the columns.
    driver.find_element("tag name", "body").send_keys(Keys.TAB)
    for column in start.index:
        control = driver.switch_to.active_element
        text = driver.execute_script("return arguments[0].closest('.field').innerText.trim()", control)
        assert text.startswith(column)
        if column in {"age", "rate", "share"}:
            assert control.get_attribute("type") == "range"
            assert press(Keys.ARROW_RIGHT * 9)[column] != start[column]
            control.send_keys(Keys.TAB)
        if column == "rate":
            assert np.isnan(press(Keys.CONTROL + "a" + Keys.NULL + Keys.DELETE)["rate"])
            assert press("-1.75")["rate"] == -1.75
        if column == "member":
            assert not press(Keys.SPACE)["member"]
        if column == "town":
            # The last option stands for every other text.
            assert press(Keys.END)["town"] == "(another)"
            assert press(Keys.ARROW_UP)["town"] is None
        if column == "since":
            assert press("03142016")["since"] == "2016-03-14"
        # A date has a stop for each of its parts.
        control = driver.switch_to.active_element
        while driver.switch_to.active_element == control:
            control.send_keys(Keys.TAB)
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    driver.execute_async_script("setTimeout(arguments[0], 50)")
    pd.testing.assert_series_equal(check_answers(driver, model), start)
    assert messages(driver) == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_any_output_is_explained(driver: Any, models: dict[str, Any]) -> None:
    from selenium.webdriver.common.keys import Keys

    for name in ("three", "numbers"):
        driver.get(address(models, name))
        outputs, select = list(models[name].effects().outputs), driver.find_element("name", "output")
        values = models[name].contributions(shown_by(driver)["row"])[0]
        select.send_keys(Keys.END)
        for place in range(len(outputs) - 1, -1, -1):
            page = shown_by(driver)
            assert page["effects"][0][1] == pytest.approx(values[place][np.argmax(np.abs(values[place]))], rel=6e-3)
            assert f"of {outputs[place]}: " in page["sum"]
            select.send_keys(Keys.ARROW_UP)


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (480, True)])
@pytest.mark.parametrize("name", ["three", "numbers"])
def test_everybody_can_use_it(driver: Any, models: dict[str, Any], name: str, dark: bool, width: int) -> None:
    driver.get(address(models, name))
    resize(driver, width, dark=dark)
    assert serious_findings(driver) == []
    assert not overflows(driver)
    output = driver.find_element("tag name", "output")
    assert (output.aria_role, output.get_attribute("aria-live")) == ("status", "polite")
    for one in driver.find_elements("css selector", "#trial :is(input, select, button)"):
        assert one.accessible_name or not one.is_displayed()


def test_what_is_wrong_is_said(driver: Any, tmp_path: Path) -> None:
    """A model without fills needs every number, and says so in place of an answer."""
    from selenium.webdriver.common.keys import Keys

    X, y = qsdp.datasets.load_bundled("iris")
    model = QuantizedNetworkClassifier(30, encoding="none", **SETTINGS).fit(X, y)
    model.save(tmp_path / "iris.qsdp")
    make_report(tmp_path / "iris.qsdp").save(tmp_path / "iris.html")
    driver.get((tmp_path / "iris.html").as_uri())
    before = driver.find_element("tag name", "output").text
    field = driver.find_element("css selector", "input[type=number]")
    entry = field.get_property("value")
    field.send_keys(Keys.CONTROL + "a" + Keys.NULL + Keys.DELETE)
    assert driver.find_element("tag name", "output").text == 'column "x0" must be a finite number; got null'
    assert not driver.find_elements("css selector", "#trial .bar")
    assert not driver.find_element("class name", "sum").text
    field.send_keys(entry)
    assert driver.find_element("tag name", "output").text == before
    assert serious_findings(driver) == []


def test_without_scripts_it_is_the_report(models: dict[str, Any], driver: Any) -> None:
    driver.get(address(models, "three"))
    hidden = driver.execute_script("const it = document.getElementById('trial'); it.remove(); return it.innerText")
    expected = driver.find_element("tag name", "body").text
    assert "Start again" in hidden
    with browser(scripts=False) as plain:
        plain.get(address(models, "three"))
        assert plain.find_element("tag name", "body").text == expected
        assert "Start again" not in expected


def test_no_other_script_runs(driver: Any, models: dict[str, Any], tmp_path: Path) -> None:
    """The policy stops a script of which a letter differs, handlers in attributes and all loading."""
    text = Path(models["folder"], "three.html").read_text("utf-8")
    for old, new in (
        ("/** A step of", "/** a step of"),
        ("</main>", "</main><script>document.title = 'ran'</script>"),
        ("</main>", "</main><img src='none.png' onerror=\"document.title = 'ran'\">"),
    ):
        changed = text.replace(old, new, 1)
        assert changed != text
        (tmp_path / "changed.html").write_text(changed, "utf-8")
        driver.get((tmp_path / "changed.html").as_uri())
        assert driver.find_element("id", "trial").is_displayed() == (old == "</main>")
        assert driver.title == "three"
        assert "Content Security Policy" in " ".join(messages(driver))
