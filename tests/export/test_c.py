"""Exported C: equal to exact integer evaluation, within its bounds, clean, small, and refused where it cannot be."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from c_flags import FLAGS
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.random_networks import random_network

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import TableEncoder
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError, MissingPackageError
from qsdp.export import describe, to_c

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no C compiler is installed")
pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

ACTIVATIONS = {
    "bilinear": None,
    "quadratic": (1.0, 0.0, 0.0),
    "relu_like": (0.0937, 0.5, 0.4688),
    "linear_quadratic": (0.1, 1.0, 0.0),
    "constant": (-0.5, 0.0, 0.3),
    "linear": (0.0, -1.0, 0.5),
}


def inputs(rng, d, low, high, n=2_000):
    """Return random inputs, and all at their extremes."""
    return np.vstack(
        [
            rng.integers(low, high, size=(n, d), endpoint=True),
            np.full((1, d), low),
            np.full((1, d), high),
            rng.choice([low, high], size=(200, d)),
        ]
    )


def exact_outputs(code, network, X):
    """Return the integer outputs by Python's integers: by neurons, or by coefficients of products if there are none."""
    rows, integers = code.model.samples, code.model.network
    x, neurons = X.astype(object), integers.neurons
    z = np.hstack([x * rows.gain, np.full((len(x), 1), rows.constant, object)]) if rows.constant else x
    if neurons is None:
        first, second = np.triu_indices(z.shape[1])
        terms, weights = z[:, first] * z[:, second], integers.forms.T * integers.factors
    else:
        assert neurons.weights.shape == (network.n_neurons, code.model.description.network.n_outputs)
        left, right = (side.astype(object) for side in (neurons.left, neurons.right))
        terms, weights = (z @ left.T) * (z @ right.T), neurons.weights * integers.factors
    sums = [[sum(int(a) * p for a, p in zip(row, products, strict=True)) for row in weights.T] for products in terms]
    return np.array(sums, dtype=object) + np.array(integers.bias, dtype=object)


def within(code, X):
    """Check the integer outputs against the model's scores and the bounds, and return the scores."""
    model = code.model
    columns = model.description.columns(X)
    expected = model.description.scores(columns)
    found = model.scores(model.outputs(model.columns(X)))
    bound = code.rounding_error + 1e-9 * np.abs(expected).max(axis=0)
    assert np.all(np.abs(found - expected) <= bound)
    return expected


@pytest.mark.parametrize("encoding", ["standard", "thresholds"])
def test_header_excludes_thresholds_that_rounding_crosses_from_the_bound(encoding):
    x = np.random.default_rng(0).standard_normal((200, 1))
    model = QuantizedNetworkRegressor(16, encoding=encoding, **OPTIONS).fit(x, x[:, 0] ** 2)
    code, x = to_c(model, column_width=16), np.linspace(-1.0, 1.0, 100_000)[:, None]
    columns = code.model.columns(x)
    (scale,) = (float(one) for one in code.model.inputs.scales)
    found, bound = code.model.scores(code.model.outputs(columns)), code.rounding_error
    assert np.all(np.abs(found[:, 0] - model.predict(columns / scale)) <= bound)
    crossed = np.abs(found[:, 0] - model.predict(x)) > bound
    assert crossed.any() == ("across a threshold" in code.header) == (encoding == "thresholds")


@pytest.mark.parametrize("levels", [2, 3, 6])
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=list(ACTIVATIONS))
def test_integers_are_exact_and_within_the_bound(activation, levels):
    rng = np.random.default_rng(levels)
    for C in (None, 3):
        for shared in (True, False):
            network = random_network(rng, 7, 5, activation, levels=levels, C=C, shared=shared)
            for one in (network, network.to_polynomial()):
                code = to_c(one, input_range=(-300, 200))
                X = inputs(rng, 5, -300, 200, n=100)
                np.testing.assert_array_equal(code.model.outputs(X), exact_outputs(code, one, X))
                within(code, X)
                if shared and C is None and activation in {None, (1.0, 0.0, 0.0)}:
                    assert code.error == 0.0


@needs_compiler
@pytest.mark.parametrize(
    ("activation", "levels"),
    [(one, levels) for number, one in enumerate(ACTIVATIONS.values()) for levels in ((2, 3), (3, 6))[number % 2]],
    ids=str,
)
def test_compiled_networks_equal_exact_integers(activation, levels):
    rng = np.random.default_rng(levels)
    kinds = [(None, True, False), (3, True, False), (3, False, True)]
    for index, (C, shared, square) in enumerate(kinds):
        network = random_network(rng, 7, 5, activation, levels=levels, C=C, shared=shared)
        # Every kind is evaluated in both ways, with one or the other number of levels.
        by_form = (index + levels) % 2 or activation == ACTIVATIONS["linear"]
        code = to_c(
            network.to_polynomial() if square else network,
            input_range=(-128, 127),
            layout="form" if by_form else "neurons",
            packed=bool((index + levels // 2) % 2),
        )
        X = inputs(rng, 5, -128, 127)
        compiled, outputs = code.compile(), code.model.outputs(X)
        np.testing.assert_array_equal(compiled.outputs(X), outputs)
        assert np.abs(outputs).max() <= code.model.layout.sum_bound < 2**63
        np.testing.assert_array_equal(compiled.classes(X), code.model.description.decide(outputs))
        np.testing.assert_allclose(compiled.predict(X).reshape(outputs.shape), outputs * code.unit)


@needs_compiler
def test_files_may_be_called_as_that_of_all_rows():
    code = to_c(random_network(np.random.default_rng(0), 7, 5), name="rows")
    X = inputs(np.random.default_rng(1), 5, -128, 127)
    np.testing.assert_array_equal(code.compile().outputs(X), code.model.outputs(code.model.columns(X)))


@needs_compiler
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 20),
    d=st.integers(1, 9),
    C=st.sampled_from([None, 1, 2, 4]),
    levels=st.integers(2, 12),
    activation=st.sampled_from([None, (0.0937, 0.5, 0.4688), (1.0, -3.0, 0.0), (1e-4, 1.0, 2.0)]),
    bits=st.integers(1, 16),
    layout=st.sampled_from(["neurons", "form"]),
    packed=st.booleans(),
)
def test_any_small_network(seed, m, d, C, levels, activation, bits, layout, packed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, activation, levels=levels, C=C, shared=bool(seed % 2))
    code = to_c(network, input_range=(-(2**bits), 2**bits - 1), layout=layout, packed=packed)
    X = inputs(rng, d, -(2**bits), 2**bits - 1, n=50)
    np.testing.assert_array_equal(code.compile().outputs(X), code.model.outputs(X.astype(object)).astype(np.int64))
    within(code, X)


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_code_is_clean_and_calls_nothing(compiler, tmp_path):
    rng = np.random.default_rng(0)
    for index, C in enumerate((None, 3)):
        network = random_network(rng, 20, 9, ACTIVATIONS["relu_like"], levels=2 + index, C=C)
        for path in to_c(network, name=f"net{index}").write(tmp_path):
            if path.suffix == ".c":
                subprocess.run([compiler, *FLAGS, "-O2", "-c", path, "-o", tmp_path / "net.o"], check=True)
                names = subprocess.run(["nm", "-u", tmp_path / "net.o"], capture_output=True, text=True, check=True)
                assert names.stdout == ""
            text = path.read_text()
            assert re.findall("#include (.*)", text) in (["<stdint.h>"], [f'"net{index}.h"'])
            assert not re.search(r"\b(float|double|malloc)\b", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("layout", ["neurons", "form"])
@pytest.mark.parametrize("packed", [True, False])
def test_tables_may_live_in_memory_of_another_kind(layout, packed, tmp_path):
    """No pointer to a table is made: it would have to name the kind of memory."""
    network = random_network(np.random.default_rng(0), 9, 5, ACTIVATIONS["relu_like"], C=2)
    code = to_c(network, name="net", layout=layout, packed=packed)
    tables = re.findall(r"^QSDP_TABLE \w+ (\w+)\[", code.source, re.MULTILINE)
    assert tables
    for table in tables:
        assert re.findall(rf"\b{table}\b(?!\[)", code.source) == []
    if shutil.which("avr-gcc"):
        code.write(tmp_path)
        flags = ["-mmcu=atmega1284p", "-DQSDP_TABLE=static const __flash", "-std=gnu99", "-Waddr-space-convert"]
        subprocess.run(["avr-gcc", *flags, *FLAGS[1:], "-Os", "-c", "net.c", "-o", "net.o"], cwd=tmp_path, check=True)


def test_packed_tables_hold_the_weights():
    """Without a compiler: the bits of the source are the weights."""
    rng = np.random.default_rng(1)
    network = random_network(rng, 11, 6, ACTIVATIONS["relu_like"], shared=True)
    code = to_c(network, layout="neurons")
    packed = [int(number) for number in re.search(r"packed\[\d+\] = \{(.*?)\}", code.source, re.DOTALL)[1].split(",")]
    bits = np.unpackbits(np.array(packed, dtype=np.uint8), count=2 * 11 * 7).reshape(11, 2, 7)
    weights = 2 * bits.astype(int) - 1
    np.testing.assert_array_equal(weights, np.stack([network.U, network.V], axis=1))
    assert len(packed) == -(-2 * 11 * 7 // 8)


@pytest.fixture(scope="module")
def cancer():
    X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    return X, np.where(y == 1, "malignant", "benign")


OPTIONS = {"beta": "5%", "refine": "none", "tol": 0.1, "random_state": 0}


@needs_compiler
@pytest.mark.parametrize(
    ("encoding", "column_width"),
    [("standard", None), ("thresholds", 32), ("both", None), ("standard", 16), ("thresholds", 16), ("both", 16)],
)
def test_classifiers_decide_alike(cancer, encoding, column_width, tmp_path):
    X, y = cancer
    holes = X.copy()
    holes[::3, 1::4] = np.nan
    model = QuantizedNetworkClassifier(64, encoding=encoding, **OPTIONS).fit(holes[:400], y[:400])
    code = to_c(model, name="cancer", column_width=column_width)
    compiled, (least, most) = code.compile(), code.model.input_range
    assert f"const int{column_width or 32}_t column[30]" in code.header
    rng = np.random.default_rng(0)
    extremes = np.where(rng.random((500, 30)) < 0.5, -1e6, 1e6) * rng.random((500, 1))
    for data in (X, holes, extremes):
        scores = within(code, data)
        sure = np.abs(scores[:, 0]) > code.rounding_error
        np.testing.assert_array_equal(compiled.predict(data)[sure], model.predict(data)[sure])
        np.testing.assert_array_equal(compiled.outputs(data), code.model.outputs(code.model.columns(data)))
        assert data is extremes or sure.mean() > 0.98
    # Whatever integers columns hold, as a device may read them.
    columns = rng.integers(least, most, size=(1000, 30), endpoint=True)
    columns[500:] = rng.choice([least, most, -1, 0, 1], size=(500, 30))
    np.testing.assert_array_equal(compiled.evaluate(columns), code.model.outputs(columns))
    # Packed bits, and a kibibyte for everything else.
    if encoding == "standard" and shutil.which("gcc") and shutil.which("size"):
        code.write(tmp_path)
        subprocess.run(["gcc", "-std=c99", "-Os", "-c", "cancer.c"], cwd=tmp_path, check=True)
        lines = subprocess.run(["size", "-A", "cancer.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
        sizes = re.findall(r"^\.(?:text|rodata)\S*\s+(\d+)", lines.stdout, re.MULTILINE)
        assert sum(map(int, sizes)) <= min(model.network_.n_bits, model.network_.to_integer_form().n_bits) / 8 + 1024


def test_thresholds_are_exact(cancer):
    """Every value of the data and every threshold itself is on its own side."""
    X, y = cancer
    model = QuantizedNetworkClassifier(
        8, encoding=TableEncoder("thresholds", n_thresholds=5), activation=None, **OPTIONS
    ).fit(X[:400], y[:400])
    code = to_c(model)
    encoding = describe(model).encoding
    ends = np.full((len(encoding.expressions), 30), 0.5)
    for row, one in enumerate(encoding.expressions):
        ends[row, one.position] = one.value
    for data in (X, ends, np.nextafter(ends, np.inf).round(9)):
        expected = encoding.encode(list(data.T))
        inputs = code.model.inputs.encode(code.model.columns(data))
        back = np.empty(inputs.shape)
        back[:, code.model.inputs.order] = inputs
        np.testing.assert_array_equal(back[:, :-1], expected * back[:, :-1].max())
    assert np.all(code.error < 1e-6)


@needs_compiler
def test_several_outputs(cancer):
    X, y = qsdp.datasets.load_bundled("iris")
    options = {"encoding": "standard", **OPTIONS}
    model = QuantizedNetworkClassifier(30, levels=3, loss="logistic", **options).fit(X, y)
    np.testing.assert_array_equal(to_c(model).compile().predict(X), model.predict(X))
    regressor = QuantizedNetworkRegressor(30, **options).fit(X[:, :2], X[:, 2:] * [1.0, 1e4])
    code = to_c(regressor)
    compiled = code.compile().predict(X[:, :2])
    assert np.all(np.abs(compiled - regressor.predict(X[:, :2])) <= code.rounding_error)
    assert np.all(code.rounding_error < 0.02 * np.abs(compiled).max(axis=0))
    scalar = QuantizedNetworkRegressor(30, **options).fit(X[:, :2], y)
    assert to_c(scalar).compile().predict(X[:, :2]).shape == (150,)


def test_a_warning_of_a_bound_beyond_the_range_of_the_scores_names_wider_columns():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = QuantizedNetworkRegressor(20, **OPTIONS).fit(X, X[:, 0] * X[:, 1])
    network = model.network_
    model.network_ = network.with_neurons(network.U, network.V, 1e12 * network.alpha)
    with pytest.warns(qsdp.QSDPWarning, match="about predictions; take column_width=32, or compare"):
        to_c(model, column_width=16)
    with pytest.warns(qsdp.QSDPWarning, match="about predictions; compare"):
        to_c(model, column_width=32)


@needs_compiler
def test_categories_and_scales_of_columns():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    volts, on = rng.normal(1.6, 0.4, 80), rng.random(80) < 0.5
    frame = pd.DataFrame({"volts": volts, "room": rng.choice(["a*/", "b", "c"], 80), "on": on})
    frame.loc[::9, "room"] = None
    frame.loc[::10, "volts"] = np.nan
    y = (volts > 1.5) & on
    model = QuantizedNetworkClassifier(30, encoding="both", **OPTIONS).fit(frame, y)
    code = to_c(model, scales={"volts": 1023 / 3.3})
    np.testing.assert_array_equal(code.compile().predict(frame), model.predict(frame))
    assert "0 a*_, 1 b, 2 c" in code.header
    assert "(entry) * 310.0" in to_c(model, scales={"volts": 310}).header
    counts = code.model.columns(frame)
    assert counts[1, 0] == round(frame["volts"][1] * 1023 / 3.3)
    assert counts[0, 0] == counts[0, 1] == -(2**31)


@needs_compiler
def test_columns_of_which_only_holes_or_nothing_count(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a b": np.where(rng.random(60) < 0.5, np.nan, 1.0), "a_b": 3.0, "on": rng.random(60) < 0.5})
    y = frame["a b"].isna() ^ frame["on"]
    model = QuantizedNetworkClassifier(8, encoding="thresholds", **OPTIONS).fit(frame, y)
    code = to_c(model)
    np.testing.assert_array_equal(code.compile().predict(frame), model.predict(frame))
    assert "Column 1, a_b: not used" in code.header
    assert code.compile().predict(frame[["on", "a_b", "a b"]])[0] == model.predict(frame)[0]


def test_files_are_not_overwritten(tmp_path):
    network = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5])
    paths = to_c(network, name="tiny").write(tmp_path)
    assert sorted(path.name for path in paths) == ["tiny.c", "tiny.h"]
    (tmp_path / "tiny.c").unlink()
    with pytest.raises(InvalidInputError, match=r"tiny\.h' exists; overwrite it with force=True"):
        to_c(network, name="tiny").write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.h"]
    to_c(network, name="tiny").write(tmp_path, force=True)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        to_c(network).write(tmp_path / "none")


def test_bad_input():
    network = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5])
    for options, message in (
        ({"name": "2x"}, "C identifier"),
        ({"input_range": 3}, "must be two integers"),
        ({"packed": 1}, "packed must be True or False"),
        ({"input_range": (3, 1)}, "smaller one first"),
        ({"input_range": (0.5, 1)}, "must be an integer"),
        ({"input_range": (0, 2**40)}, "from -2147483648 to 2147483647"),
        ({"width": 24}, "width must be 16, 32 or 64"),
        ({"layout": "rows"}, "layout must be one of"),
        ({"scales": {"x0": 2.0}}, "scales are for columns; a network alone takes integers"),
        ({"column_width": 16}, "column_width is for columns; a network alone takes integers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            to_c(network, **options)
    with pytest.raises(ExportError, match=r"16 bits .* larger width or a smaller input_range or fewer neurons"):
        to_c(network, width=16)
    with pytest.raises(ExportError, match=r"fit into the 64 bits .*: take a smaller input_range or fewer neurons$"):
        to_c(qsdp.BilinearNetwork([[127] * 9], [[127] * 9], [0.5], levels=128), input_range=(-(2**31), 0))
    with pytest.raises(ExportError, match="layout must be 'form'"):
        to_c(qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5], activation=(0, 1, 0)), layout="neurons")
    with pytest.raises(InvalidTypeError, match="model must be"):
        to_c([1, 2])
    model = to_c(network).model
    assert model.columns([[-(2**15), 2**15 - 1]]).tolist() == [[-(2**15), 2**15 - 1]]
    model = to_c(network, input_range=(0, 9)).model
    with pytest.raises(InvalidInputError, match="integers from 0 to 9; found 10"):
        model.columns([[1, 10]])
    if COMPILERS:
        compiled = to_c(network, input_range=(0, 9)).compile()
        for columns, message in (
            ([[1.0, 2.0]], "integers of shape"),
            ([[1]], "integers of shape"),
            ([[1, -1]], "found -1"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                compiled.evaluate(columns)
    with pytest.raises(MissingPackageError, match="no C compiler was found; install one of nowhere"):
        to_c(network).compile(compiler="nowhere")
