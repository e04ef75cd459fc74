"""Exported JavaScript equals Python in Node and in Chromium, names what is wrong with a row, and stays small."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fast_options import FAST, NUMBERS
from javascript_engines import ENGINES, MAX_CODE, call, call_each, needs
from mixed_table import mixed_table
from networks.random_networks import random_network
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import TableEncoder
from qsdp.encoding.reading_rule import read_column
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError
from qsdp.export import describe, to_js

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

needs_node = needs("node")


def table(rng, n):
    """Return a frame with a column of every type, and whatever may be missing missing."""
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 4000 * 86400, n), unit="s")
    frame = pd.DataFrame(
        {
            "number": rng.standard_t(2, n) * 10.0,
            "whole": rng.integers(-50, 50, n),
            "holes": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "flag": rng.random(n) < 0.5,
            "words": rng.choice(["true", "false"], n),
            "town": rng.choice(["Oslo", "Rome", "</script>", "Zü\u2028rich", ""], n, p=[0.4, 0.3, 0.1, 0.1, 0.1]),
            "gap": np.where(rng.random(n) < 0.3, None, rng.choice(["a", "b"], n)),
            "code": pd.Categorical(rng.integers(0, 4, n)),
            "mixed": rng.choice(np.array(["seven", "7", 7, 7.5, None], dtype=object), n),
            "rare": rng.choice([f"level {k}" for k in range(40)], n, p=np.r_[0.5, np.full(39, 0.5 / 39)]),
            "day": days.strftime("%Y-%m-%d"),
            "moment": days.strftime("%Y-%m-%dT%H:%M:%S.125+02:30"),
            "stamp": np.where(rng.random(n) < 0.1, np.datetime64("NaT"), days.to_numpy()),
            "rate": rng.random(n),
            "constant": 1.5,
        }
    )
    years = (days - pd.Timestamp("2015-01-01")).days / 1000.0
    score = frame["number"].clip(-20, 20) / 10 + frame["holes"].fillna(0.5) * (frame["town"] == "Rome") + frame["flag"]
    return frame, score + 0.5 * years - 0.3 * (frame["gap"] == "a") + 0.2 * rng.normal(size=n)


def rows_of(frame):
    """Return the rows of a frame as JSON writes them: dates as ISO text, missing entries as null."""

    def entry(value):
        if value is None or value is pd.NaT or value != value:
            return None
        if isinstance(value, pd.Timestamp):
            return value.isoformat()
        return value.item() if hasattr(value, "item") else value

    return [{name: entry(value) for name, value in row.items()} for row in frame.to_dict("records")]


def close(found, expected, scale=None):
    """Compare numbers to 1e-12 of the largest one."""
    found, expected = np.array(found, dtype=np.float64), np.asarray(expected)
    assert found.shape == expected.shape
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * (scale or max(1.0, np.abs(expected).max())))


def check(model, X, rows, folder, engine="node"):
    """Compare all functions of the module of a model with the model itself on rows."""
    module = to_js(model)
    assert module.n_code <= MAX_CODE
    option = {"unknown": "ignore"}
    names = [name for name in module.exports if name not in {"classes", "columns"}]
    # Explanations are long texts.
    counts = {name: min(len(rows), 300) if name == "contributions" else len(rows) for name in names}
    calls = [[name, row, option] for name in names for row in rows[: counts[name]]]
    answers = iter(call(module, calls, folder, engine))
    found = {name: [next(answers) for _ in range(count)] for name, count in counts.items()}
    classifier, probable = hasattr(model, "decision_function"), hasattr(model, "predict_proba")
    explained = {"contributions"} if describe(model).moments is not None else set()
    assert set(found) == {"predict"} | explained | ({"scores"} if classifier else set()) | (
        {"predictProba"} if probable else set()
    )
    expected = model.predict(X)
    if classifier:
        assert found["predict"] == expected.tolist()
        close(found["scores"], model.decision_function(X))
    else:
        close(found["predict"], expected)
    if probable:
        close(found["predictProba"], model.predict_proba(X))
    if explained:
        check_contributions(model, X[: counts["contributions"]], found["contributions"])
    return module


def check_contributions(model, X, found):
    """Compare the effects of a pipeline's last step, whose columns may have other names, or of an estimator."""
    final, transformed = (model[-1], model[:-1].transform(X)) if hasattr(model, "steps") else (model, X)
    effects, expected = final.effects(), final.contributions(transformed)
    constants = np.atleast_1d(effects.constant)
    if expected.ndim == 2:
        expected = expected[:, None]
    assert [part["output"] for part in found[0]] == list(effects.outputs)
    close([[part["constant"] for part in row] for row in found], np.tile(constants, (len(found), 1)))
    names = [tuple(term["columns"]) for term in found[0][0]["terms"]]
    own = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    renamed = dict(zip(own, effects.columns, strict=True))
    places = [effects.terms.index(tuple(renamed[name] for name in pair)) for pair in names]
    values = [[[term["value"] for term in part["terms"]] for part in row] for row in found]
    close(values, expected[:, :, places])
    # What is left out are the effects of columns that no input encodes.
    assert not np.delete(expected, places, axis=2).any()


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    others, _ = table(rng, 1_000)
    others.loc[::7, "rare"] = "of no training row"
    others.loc[::11, "town"] = None
    return *table(rng, 400), others


@pytest.mark.parametrize("engine", ENGINES)
def test_every_type_of_column(tables, tmp_path, engine):
    """A thousand rows with outliers and with categories that training has not seen."""
    frame, score, others = tables
    label = np.where(score > score.median(), "yes", "no")
    # The inputs of "both" are those of "standard" and bits of thresholds.
    model = QuantizedNetworkClassifier(**{**FAST, "encoding": "both", "n_neurons": 60}).fit(frame, label)
    assert model.encoder_.encoding_.unseen(describe(model).columns(others))
    check(model, others, rows_of(others), tmp_path, engine)


def texts_of(rows):
    """Return rows in which all entries are text, as in a CSV file; missing ones in some of their forms."""
    marks = itertools.cycle(["", "NA", " none ", "?", "-"])

    def entry(value):
        return next(marks) if value is None else f" {value}"

    return [{name: entry(value) for name, value in row.items()} for row in rows]


@needs_node
def test_text_is_read_as_in_python(tables, tmp_path):
    frame, score, others = tables
    model = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "both"}).fit(frame, score)
    rows = texts_of(rows_of(others[:500]))
    # The text of a row means in Python what it means in JavaScript.
    read = pd.DataFrame(rows)
    with pytest.warns(qsdp.QSDPWarning, match="set none of the bits"):
        expected = model.predict(read)
    np.testing.assert_array_equal(expected, model.predict(others[:500]))
    check(model, read, rows, tmp_path)


NUMBERS_IN_TEXT = ["1", "-2.5", "+.5", "5.", "3e2", "1E-3", "0", "-0.0", "0.125"]
OTHER_TEXT = [
    "007", "-01", "00.5", "1_000", "1,5", "1,234", "12 kg", "(12)", "5%", "1e999", "inf", "Infinity", "0x10", "1e", ".",
    "\N{FULLWIDTH DIGIT THREE}", "\N{MINUS SIGN}3", "--5", "1 2", "true", "1n",
]  # fmt: skip


@needs_node
def test_numbers_in_text_are_those_of_python(tmp_path):
    frame = pd.DataFrame({"x": np.linspace(-300.0, 300.0, 60)})
    model = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "standard"}).fit(frame, frame["x"] ** 2)
    module = to_js(model)
    found = call(module, [["predict", {"x": text}] for text in NUMBERS_IN_TEXT], tmp_path)
    close(found, [model.predict(pd.DataFrame({"x": [text]}))[0] for text in NUMBERS_IN_TEXT], scale=1e5)
    others = [text for text in OTHER_TEXT if text != "."]
    for text, error in zip(others, call(module, [["predict", {"x": text}] for text in others], tmp_path), strict=True):
        assert error == f'column "x" must be a finite number or null; got {json.dumps(text, ensure_ascii=False)}'
        with pytest.raises(InvalidInputError, match="most of its entries here cannot be read"):
            model.predict(pd.DataFrame({"x": [text]}))


@needs_node
@pytest.mark.parametrize(
    ("activation", "levels"),
    [
        (None, 2),
        (None, 16),
        ((1.0, 0.0, 0.0), 3),
        ((0.0937, 0.5, 0.4688), 2),
        ((0.1, 1.0, 0.0), 5),
        ((0.0, -1.0, 0.5), 16),
    ],
)
@pytest.mark.parametrize("C", [None, 3])
def test_networks(tmp_path, levels, activation, C):
    rng = np.random.default_rng(levels)
    X = rng.normal(size=(40, 7)) * 3.0
    modules, expected = [], []
    for shared in (False, True):
        network = random_network(rng, 25, 7, activation, shared=shared, levels=levels, C=C)
        same = [network]
        if shared:
            same.append(network.to_integer_form())
        if levels == 2 and activation is None:
            same.append(network.to_polynomial())
        for one in same:
            modules.append(to_js(one))
            assert modules[-1].exports == ("columns", "predict")
            expected.append(one.predict(X))
    calls = [["predict", row] for row in X.tolist()]
    for found, outputs in zip(call_each([(one, calls) for one in modules], tmp_path), expected, strict=True):
        close(found, outputs, scale=np.abs(outputs).max() + 25 * 9 * 49)


@needs_node
@pytest.mark.parametrize(
    ("loss", "n_classes"), [("squared", 2), ("logistic", 2), ("logistic", 3), ("cross_entropy", 3)]
)
def test_classifiers(iris, tmp_path, loss, n_classes):
    X, y = (part[iris[1] < n_classes] for part in iris)
    model = QuantizedNetworkClassifier(**{**FAST, "loss": loss, "activation": "relu_like"}).fit(X, y)
    check(model, X, X.tolist(), tmp_path)
    check(QuantizedNetworkClassifier(**{**FAST, "loss": loss}).fit(X, y), X, X.tolist(), tmp_path)


@needs_node
@pytest.mark.parametrize("encoding", ["none", "thresholds"])
def test_encodings_and_several_targets(iris, tmp_path, encoding):
    X, y = iris
    check(QuantizedNetworkClassifier(**{**FAST, "encoding": encoding}).fit(X, y), X, X.tolist(), tmp_path)
    for target in (X[:, 3], X[:, 2:] * [1.0, 50.0]):
        model = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": encoding}).fit(X[:, :2], target)
        check(model, X[:, :2], X[:, :2].tolist(), tmp_path)


@needs_node
@pytest.mark.parametrize("labels", [["b", "a"], [True, False], [2.0, -1.0], ["</script>", "\u2028"]])
def test_labels_of_every_type(iris, tmp_path, labels):
    X, y = iris
    target = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[(y > 0).astype(int)]
    module = check(QuantizedNetworkClassifier(**FAST).fit(X, target), X, X.tolist(), tmp_path)
    assert "</script>" not in module.source
    assert module.source.isascii()


@needs_node
@pytest.mark.parametrize(
    "steps",
    [[StandardScaler()], [MinMaxScaler(clip=True)], [StandardScaler(), TableEncoder("thresholds", n_thresholds=2)]],
    ids=str,
)
def test_pipelines(iris, tmp_path, steps):
    X, y = iris
    model = make_pipeline(*steps, QuantizedNetworkClassifier(**{**FAST, "encoding": "none"})).fit(X, y)
    module = check(model, 1.5 * X, (1.5 * X).tolist(), tmp_path)
    # The estimator knows the bits of a threshold encoder as columns of their own.
    assert ("contributions" in module.exports) == (len(model[-1].effects().columns) == 4)


#: A row of `mixed_table`, and entries that make it wrong.
RIGHT = {"size": 50.0, "town": "Oslo", "old": True, "rate": 1}
WRONG = [
    ({"size": "50,0"}, 'column "size" must be a finite number or null; got "50,0"'),
    ({"size": True}, 'column "size" must be a finite number or null; got true'),
    ({"rate": {}}, 'column "rate" must be a finite number or null; got an object'),
    ({"town": "Bern"}, 'column "town" has no category "Bern"; its categories: "Oslo", "Paris", "Rome", null'),
    ({"town": ["Rome"]}, 'column "town" has no category an object; its categories: "Oslo", "Paris", "Rome", null'),
    ({"old": 1}, 'column "old" has no category 1; its categories: false, true'),
    ({"old": None}, 'column "old" has no category null; its categories: false, true'),
    ({"old": "yes"}, 'column "old" has no category "yes"; its categories: false, true'),
]
WRONG = [
    *(({**RIGHT, **entry}, message) for entry, message in WRONG),
    ({"size": 1, "town": "Oslo", "old": True}, 'column "rate" is missing; give null for a missing entry'),
    ([1.0, "Rome", 1, True], "a row must have 5 entries, one for each column; got 4"),
    (None, "a row must be an object or an array; got null"),
    ("Rome", 'a row must be an object or an array; got "Rome"'),
]


@pytest.fixture(scope="module")
def mixed():
    frame, label = mixed_table()
    return to_js(QuantizedNetworkClassifier(**{**FAST, "loss": "logistic"}).fit(frame, label))


@needs_node
def test_rows_that_are_wrong(mixed, tmp_path):
    for name in ("predict", "scores", "predictProba", "contributions"):
        found = call(mixed, [[name, row, {"unknown": "error"}] for row, _ in WRONG], tmp_path)
        assert found == [message for _, message in WRONG]
    right = {"size": " 1e0", "town": None, "old": " True", "rate": None, "name": "of no column"}
    assert call(mixed, [["predict", right], ["predict", [1, None, None, True, None]]], tmp_path)[0] in {"no", "yes"}


@needs_node
def test_entries_beyond_the_limits_are_clipped_as_in_python(iris, tmp_path):
    X, y = iris
    far = np.concatenate([X[:20], X[:20] + 1e3, X[:20] - 1e6, 1e9 * np.eye(4)])
    for encoding in ("standard", "both", "thresholds", "none"):
        model = QuantizedNetworkClassifier(**{**FAST, "encoding": encoding}).fit(X, y > 0)
        module = to_js(model)
        shown = replace(module, source=module.source.replace("export {", "const told = () => columns;\nexport { told,"))
        told, *found = call(shown, [["told"], *(["scores", row] for row in far.tolist())], tmp_path)
        expected = model.decision_function(far)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        if encoding in {"thresholds", "none"}:
            assert [one["limits"] for one in told] == [None] * 4
            continue
        for place, one in enumerate(told):
            low, high = one["limits"]
            # Ranges are rounded to twelve digits.
            assert low <= one["range"][0] + 1e-9
            assert one["range"][1] <= high + 1e-9
            # The limits are tight: beyond them no score moves, within them some does.
            rows = np.tile(X[:1], (4, 1))
            rows[:, place] = [low, low - 1.0, high, high + 1.0]
            outputs = model.decision_function(rows)
            assert outputs[0] == outputs[1]
            assert outputs[2] == outputs[3]
            inner = rows.copy()
            inner[:, place] = [low + 1e-3, low + 1e-3, high - 1e-3, high - 1e-3]
            assert np.any(model.decision_function(inner) != outputs)


@needs_node
def test_dates(tmp_path):
    """Every reading of a date equals Python's, and what is none is refused."""
    rng = np.random.default_rng(0)
    days = [f"2{k:03}-0{k % 9 + 1}-{k % 28 + 1:02}" for k in range(200)]
    frame = pd.DataFrame({"day": days})
    model = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "standard"}).fit(frame, rng.normal(size=200))
    module = to_js(model)
    times = [
        "", "T00:00", " 23:59:59", "T12:30:15.123456789", "T12:30Z", "T01:02:03.5-11:30", "T01:02:03+05:45", "T10",
        " 10Z", "T101112", "T10:00+01", "T10:00 +0130", " 10:00:00.1234569+00:00",
    ]  # fmt: skip
    dates = [
        "0000-01-02",
        "0001-01-02",
        "0099-12-31",
        "1969-12-31",
        "1970-01-01",
        "20000229",
        "2024-02-29",
        "9998-12-31",
    ]
    texts = [day + time for day in dates for time in times] + ["2024", "2024-02", "0001", "1969-12"]
    source = module.source.replace("export {", "const days = (text) => daysOf(text);\nexport { days,")
    shown = replace(module, source=source, exports=("days",))
    expected, odd = read_column(np.array(texts, dtype=object), "day", "date")
    assert odd == []
    assert call(shown, [["days", text] for text in texts], tmp_path) == expected.tolist()
    wrong = [
        "2023-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "2024-01-01T24:00", "2024-01-01T10:60",
        "2024-01-01T10:00:60", "31.01.2024", "2024-1-1", "2024/01/01", "2024-01-01T10:00+24:00", "20 24-01-01",
        "202401", "2024-0101", "2024-01-01T10:00:00,5", "2024-01-01t10:00", "2024-01-01T10:00z", "2024-01-01+01:00",
        "12024-01-01", "2024-01-01T1", "2024-W01", "2024-001", "now", "today",
    ]  # fmt: skip
    read, odd = read_column(np.array(wrong, dtype=object), "day", "date")
    assert np.isnan(read).all()
    assert [text for _, text in odd] == wrong
    for text, error in zip(wrong, call(module, [["predict", {"day": text}] for text in wrong], tmp_path), strict=True):
        assert error == f'column "day" must be a date such as 2024-01-31 or null; got {json.dumps(text)}'
    one, other, error = call(module, [["predict", {"day": day}] for day in ("1970-01-03", 2, True)], tmp_path)
    assert one == other
    assert error == 'column "day" must be a date such as 2024-01-31 or null; got true'


def test_declarations_name_what_is_exported(mixed, iris):
    for module in (mixed, to_js(random_network(np.random.default_rng(0), 3, 4))):
        declared = re.findall(r"export declare (?:const|function) (\w+)", module.declarations)
        assert sorted(declared) == list(module.exports)
    assert 'readonly "town": "Oslo" | "Paris" | "Rome" | null;' in mixed.declarations
    assert 'readonly "constant"?:' in mixed.declarations
    assert 'predict(row: Row | Entries, options?: Options): "no" | "yes";' in mixed.declarations


def test_files(mixed, tmp_path):
    assert {path.name: path.read_bytes() for path in mixed.write(tmp_path)} == mixed.files()
    with pytest.raises(InvalidInputError, match="exists"):
        mixed.write(tmp_path)


def test_what_cannot_be_exported(iris):
    X, y = iris
    with pytest.raises(InvalidTypeError, match="model must be a network"):
        to_js("model.qsdp")
    model = QuantizedNetworkClassifier(**FAST).fit(X, np.where(y > 0, 2**53 + 1, 0))
    with pytest.raises(ExportError, match="a label is 9007199254740993, which JavaScript would round"):
        to_js(model)
