"""Exported C in programs: clean under the strictest flags, defined for every entry, and described by its header."""

import itertools
import re
import shutil
import subprocess
from string import Template

import numpy as np
import pytest
from c_flags import FLAGS
from networks.random_networks import random_network
from sklearn.base import clone

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.export import to_c

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

#: Every test compiles with gcc, and fails without it; the others are tried where they are installed.
COMPILERS = ["gcc", *(name for name in ("clang", "avr-gcc") if shutil.which(name))]

#: What avr-gcc needs besides the flags: a machine. Its arrays have fewer than 2^15 bytes.
MACHINE = {"avr-gcc": ["-mmcu=atmega1284p"], "arm-none-eabi-gcc": ["-mcpu=cortex-m0"]}

#: Compilers for other machines, where the fast integers of C have other widths.
CROSS_COMPILERS = [name for name in MACHINE if shutil.which(name)]

SANITIZED = ["-O1", "-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"]

OPTIONS = {"beta": "5%", "refine": "none", "tol": 0.1, "random_state": 0}

ACTIVATIONS = {
    "bilinear": None,
    "quadratic": (1.0, 0.0, 0.0),
    "relu_like": (0.0937, 0.5, 0.4688),
    "constant": (-0.5, 0.0, 0.3),
    "linear": (0.0, -1.0, 0.5),
}


def uneven_network(m):
    """Return a network of m neurons of equal weight, unevenly divided among ten outputs, as training makes them."""
    rng = np.random.default_rng(m)
    served = np.sort(rng.choice(10, size=m, p=np.arange(1, 11) / 55))
    U, V = (rng.choice([-1, 1], size=(m, 64)) for _ in range(2))
    return qsdp.BilinearNetwork(U, V, 0.3 * (served[:, None] == np.arange(10)))


@pytest.fixture(scope="module")
def tables():
    """Models of arrays and of frames with holes and categories: every encoding and every kind of output."""
    pd = pytest.importorskip("pandas")
    X, y = qsdp.datasets.load_bundled("iris")
    rng = np.random.default_rng(0)
    holes = X.copy()
    holes[::5, 1] = np.nan
    frame = pd.DataFrame(holes, columns=["a b", "a_b", "c", "d"])
    frame = frame.assign(town=rng.choice(["Oslo", "Rome?", 'Pâris"'], 150), on=rng.random(150) < 0.5)
    frame.loc[::7, "town"] = None
    options = {"n_neurons": 20, "loss": "logistic", **OPTIONS}
    numbers = X[:, 2:] * [1.0, 1e4]
    models = {}
    for encoding in ("standard", "thresholds", "both"):
        classifier = QuantizedNetworkClassifier(encoding=encoding, **options)
        models[f"classes_{encoding}"] = clone(classifier).fit(frame, np.array(["x", "y", "z"])[y])
        models[f"sign_{encoding}"] = clone(classifier).fit(holes, y == 1)
        regressor = QuantizedNetworkRegressor(20, encoding=encoding, **OPTIONS)
        models[f"numbers_{encoding}"] = regressor.fit(frame[["town", "a b", "c"]], numbers)
    models["plain"] = QuantizedNetworkRegressor(20, encoding="none", **OPTIONS).fit(X[:, :2], y)
    # Fixed-point numbers are hundredths of entries, which are divided.
    models["large"] = QuantizedNetworkRegressor(20, encoding="standard", **OPTIONS).fit(X[:, :2] * 1e7, y)
    return models


#: A network whose sums fit into 64 bits for all integers of 32 bits.
SINGLE = qsdp.BilinearNetwork([[-1]], [[1]], [0.5])
INTEGERS = (-(2**31), 2**31 - 1)


@pytest.fixture(scope="module")
def every_kind(tables):
    """Return code of every kind, for all tests that compile it."""
    return list(kinds_of_code(tables))


def kinds_of_code(tables):
    """Yield code of networks in every layout, with every type of counter and number, and of models of tables."""
    ways = [(layout, packed) for layout in ("neurons", "form") for packed in (True, False)]
    for m in (254, 256, 304, 1276):
        for layout, packed in ways[: 3 if m < 1000 else 1]:
            yield to_c(uneven_network(m), name=f"digits_{m}_{layout}_{packed}", input_range=(-8, 8), layout=layout,
                       packed=packed)  # fmt: skip
    rng = np.random.default_rng(0)
    for number, (layout, packed) in enumerate(ways):
        yield to_c(SINGLE, name=f"single_{number}", input_range=INTEGERS, layout=layout, packed=packed)
    ranges = [(-8, 8), (-300, 200), (-(2**18), 2**18)]
    for number, (activation, levels) in enumerate(itertools.product(ACTIVATIONS, (2, 3, 6))):
        for index, (C, shared) in enumerate(itertools.product((None, 3), (True, False))):
            if (number + index) % 2:
                continue
            layout, packed = ways[(number + index) % 4]
            network = random_network(rng, 7, 5, ACTIVATIONS[activation], levels=levels, C=C, shared=shared)
            yield to_c(network, name=f"{activation}_{levels}_{index}", input_range=ranges[(number + index // 2) % 3],
                       layout="form" if activation == "linear" else layout, packed=packed)  # fmt: skip
    for number, (name, model) in enumerate(tables.items()):
        for column_width in (16, 32):
            layout, packed = ways[(number + column_width // 16) % 4]
            yield to_c(model, name=f"{name}_{column_width}", column_width=column_width, layout=layout, packed=packed)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_kind_of_code_is_clean(compiler, every_kind, tmp_path):
    sources = []
    for code in every_kind:
        if compiler == "avr-gcc" and not code.packed and code.model.layout.numbers.size >= 2**15:
            continue
        code.write(tmp_path)
        sources.append(f"{code.name}.c")
    assert len(sources) > 60
    # Clang warns before it generates code.
    options = ["-fsyntax-only"] if compiler == "clang" else ["-O1", "-c"]
    subprocess.run([compiler, *FLAGS, *MACHINE.get(compiler, []), *options, *sources], cwd=tmp_path, check=True)


#: A compiler of C++ that writes nothing.
CPP = ["g++", "-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def test_code_is_cpp_too(every_kind, tmp_path):
    """Projects of microcontrollers often compile everything as C++, without the warnings of C alone."""
    sources = []
    for code in every_kind:
        folder = tmp_path / code.name
        folder.mkdir()
        code.write(folder, example=True)
        sources += [folder / "main.c", folder / f"{code.name}.c"]
    subprocess.run([*CPP, *sources], check=True)


def assert_cpp(code, folder):
    """Compile code and example as C++."""
    code.write(folder, example=True, force=True)
    subprocess.run([*CPP, "main.c", f"{code.name}.c"], cwd=folder, check=True)


def test_neurons_unevenly_divided_among_outputs():
    for m in (254, 256, 304):
        network = uneven_network(m)
        code = to_c(network, input_range=(-8, 8), layout="neurons")
        sizes = code.model.network.neurons.sizes
        assert len(set(sizes.tolist())) > 5
        assert sizes.sum() == m
        X = np.random.default_rng(0).integers(-8, 9, (50, 64))
        np.testing.assert_allclose(code.compile().scores(X), network.predict(X), rtol=1e-12, atol=1e-12)


# -- rounding of entries ---------------------------------------------------------------------------------------


def run_program(folder, program, code, *, compiler="gcc", flags=()):
    """Compile a program with an exported model, strictly and with checks of undefined behaviour, and run it."""
    code.write(folder, force=True)
    (folder / "program.c").write_text(program)
    command = [compiler, *FLAGS, *SANITIZED, *flags, "program.c", f"{code.name}.c", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(["./program"], cwd=folder, capture_output=True, text=True, check=True).stdout


def special_numbers(scale, most):
    """Return infinities, nan, and numbers at zero, between two integers, at both ends of a type and far beyond."""
    rng = np.random.default_rng(0)
    around = [most - 1.0, most - 0.5, most, most + 0.5, most + 1.0]
    beyond = [2.0**31, 2.0**32 + 7.0, 2.0**63, 1e10]
    steps = [0.0, 0.5, 0.49999999999999994, 1.5, 2.5, 1e-300, *around, *beyond, *rng.uniform(0.0, 2.0 * most, 50)]
    ends = np.array([*(np.array(steps) / scale), 1e6, 1e300])
    ends = np.concatenate([ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf), [1.7e308, np.inf]])
    return np.concatenate([ends, -ends, [np.nan]])


def c_number(value):
    """Return a number as an exact expression of C."""
    if np.isnan(value):
        return "NAN"
    return value.hex() if np.isfinite(value) else "INFINITY" if value > 0.0 else "-INFINITY"


ROUNDING = Template("""
#include <math.h>
#include <stdio.h>
#include "net.h"

static const double entry[$n][4] = {
$rows
};

int main(void)
{
    unsigned i;

    for (i = 0; i < $n; i++) {
        const $column column[] = {
            NET_FIXED_x0(entry[i][0]), NET_FIXED_x1(entry[i][1]), NET_FIXED_x2(entry[i][2]), NET_FIXED_x3(entry[i][3])
        };
        int64_t output[1];

        net_outputs(column, output);
        printf("%ld %ld %ld %ld ", (long)column[0], (long)column[1], (long)column[2], (long)column[3]);
        printf("%lld %d\\n", (long long)output[0], (int)net_class(column));
    }
    return 0;
}
""")


@pytest.mark.parametrize(
    ("encoding", "column_width"), [("standard", 16), ("thresholds", 32), ("both", 16), ("both", 32)]
)
def test_macros_round_as_python_does(tables, encoding, column_width, tmp_path):
    """Also outside the integers of a column, where a conversion is undefined, and halfway between two of them."""
    model = tables[f"sign_{encoding}"]
    code = to_c(model, name="net", column_width=column_width, scales={"x3": 1023 / 3.3})
    scale = [float(one) for one in code.model.inputs.scales]
    values = [special_numbers(one, code.model.inputs.max_entry) for one in scale]
    X = np.column_stack(values)
    rows = ",\n".join(f"{{{', '.join(map(c_number, row))}}}" for row in X.tolist())
    program = ROUNDING.substitute(rows=rows, n=len(X), column=f"int{column_width}_t")
    printed = np.array([line.split() for line in run_program(tmp_path, program, code).splitlines()], dtype=np.int64)
    columns = code.model.columns(X)
    np.testing.assert_array_equal(printed[:, :4], columns)
    np.testing.assert_array_equal(printed[:, 4:5], code.compile().outputs(X))
    np.testing.assert_array_equal(model.classes_[printed[:, 5]], code.compile().predict(X))
    # Only nan is missing, and what is beyond the limits counts as the limit.
    least, most = -code.model.inputs.max_entry, code.model.inputs.max_entry
    np.testing.assert_array_equal(columns == least - 1, np.isnan(X))
    assert columns[~np.isnan(X)].min() == least
    assert columns.max() == most
    np.testing.assert_array_equal(columns[np.isposinf(X)], most)
    finite = np.clip(X, -1e9, 1e9)
    np.testing.assert_array_equal(code.model.columns(finite), columns)
    # The nearest integer wherever it is one of the column's.
    inside = np.abs(finite * scale) < most
    assert np.all(np.abs(columns - finite * scale)[inside] <= 0.5)


def test_a_far_number_is_cut_and_not_missing(tmp_path):
    """Converted as it is, -1e6 times the scale became the number of a missing entry, and another class."""
    X, _ = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    model = QuantizedNetworkRegressor(8, encoding="standard", **OPTIONS).fit(X[:, :1] / 1e3, np.square(X[:, 0] - 14.0))
    code = to_c(model, name="net")
    macro = re.search(r"#define (NET_FIXED_\w+)", code.header)[1]
    program = f"""
#include <stdio.h>
#include "net.h"

int main(void)
{{
    volatile double far = -1e6;
    const int32_t column[] = {{{macro}(far)}};
    int64_t output[1];

    net_outputs(column, output);
    printf("%lld", (long long)output[0]);
    return 0;
}}
"""
    assert "int64_t output[1]" in code.header
    far, low = code.model.outputs(np.array([[-code.model.inputs.max_entry], [code.model.inputs.numbers.low[0]]]))[:, 0]
    assert int(run_program(tmp_path, program, code)) == far == low == code.compile().outputs([[-1e6]])[0, 0]
    assert low != code.compile().outputs([[np.nan]])[0, 0]


# -- what a header says, and the example -----------------------------------------------------------------------


def values_of(header):
    return dict(re.findall(r"^#define (\w+) (.*)$", header, re.MULTILINE))


def test_units_bounds_and_names_are_macros(tables):
    for name, C in (("sign_standard", 1), ("classes_both", 3), ("numbers_both", 2)):
        code = to_c(tables[name], name="net")
        values = values_of(code.header)
        for key, expected in (("UNIT", code.unit), ("ERROR", code.error), ("ROUNDING", code.rounding_error)):
            text = values[f"NET_{key}"]
            assert text.startswith("{") == (C > 1)
            assert [float(one) for one in text.strip("{}").split(",")] == expected.tolist()
    code = to_c(tables["classes_both"], name="net")
    values = values_of(code.header)
    assert values["NET_COLUMN_NAMES"] == '{"a b", "a_b", "c", "d", "town", "on"}'
    assert (values["NET_CLASSES"], values["NET_CLASS_NAMES"]) == ("3", '{"x", "y", "z"}')
    alone = values_of(to_c(uneven_network(20), name="net").header)
    assert not {"NET_ROUNDING", "NET_MISSING", "NET_COLUMN_NAMES", "NET_CLASS_NAMES"} & set(alone)


def entries_of(code, columns):
    """Return the entries that integer columns stand for."""
    inputs, encoding = code.model.inputs, code.model.description.encoding
    entries = np.empty(columns.shape, dtype=object)
    for j, (column, scale) in enumerate(zip(encoding.columns, inputs.scales, strict=True)):
        symbols = [one for one in column.categories or () if one is not None]
        for i, value in enumerate(columns[:, j].tolist()):
            if value == -inputs.max_entry - 1:
                entries[i, j] = None
            elif column.categories is not None:
                entries[i, j] = symbols[value] if value >= 0 else "another"
            else:
                entries[i, j] = 0.0 if scale is None else float(value / scale)
    return entries


def within_bound(code, entries, columns):
    """Check integer outputs against the scores of the model itself."""
    description = code.model.description
    expected, found = description.scores(description.columns(entries)), code.model.scores(code.model.outputs(columns))
    assert np.all(np.abs(found - expected) <= code.rounding_error + 1e-9 * np.abs(expected).max(axis=0))


def test_the_example_agrees_with_the_model(tables, tmp_path):
    """The program has other rows than training had, and notices each wrong number."""
    for name in ("classes_both", "sign_thresholds", "numbers_both", "plain", "large"):
        code = to_c(tables[name], name=name)
        folder = tmp_path / name
        folder.mkdir()
        paths = code.write(folder, example=True)
        assert [path.name for path in paths] == [f"{name}.h", f"{name}.c", "main.c"]
        program = (folder / "main.c").read_text()
        printed = run_program(folder, program, code).splitlines()
        assert len(printed) == 8
        assert all(line.endswith(": agrees") for line in printed)
        # The expected outputs are those of the model at the entries, within the bound.
        rows = re.search(r"rows\[ROWS\]\[\w+\] = \{\n(.*?)\n\};", program, re.DOTALL)[1].replace("(-2147483647 - 1)",
                         str(-(2**31)))  # fmt: skip
        columns = np.array(re.findall(r"-?\d+", rows), dtype=np.int64).reshape(8, -1)
        assert np.array_equal(code.model.columns(entries_of(code, columns)), columns)
        within_bound(code, entries_of(code, columns), columns)
        # Rows differ, and holes and unknown categories are among them.
        assert len(np.unique(columns, axis=0)) == 8
        wrong = re.sub(r"(outputs\[ROWS\]\[\w+\] = \{\n    \{)", r"\g<1>1 + ", program)
        assert wrong != program
        (folder / "main.c").write_text(wrong)
        subprocess.run(["gcc", *FLAGS, "main.c", f"{name}.c", "-o", "main"], cwd=folder, check=True)
        done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stdout.splitlines()[0].endswith(": differs")
        assert done.stdout.count(": agrees") == 7


@pytest.mark.parametrize("compiler", COMPILERS)
def test_examples_are_clean(compiler, tables, tmp_path):
    widths = itertools.cycle((16, 32))
    codes = [to_c(model, name="net", column_width=next(widths)) for model in tables.values()]
    codes += [to_c(uneven_network(20), name="net"), to_c(SINGLE, name="net", input_range=INTEGERS)]
    sources = []
    for number, code in enumerate(codes):
        folder = tmp_path / str(number)
        folder.mkdir()
        code.write(folder, example=True)
        (folder / "main.c").rename(folder / f"main_{number}.c")
        sources.append(f"{number}/main_{number}.c")
    subprocess.run([compiler, *FLAGS, *MACHINE.get(compiler, []), "-c", *sources], cwd=tmp_path, check=True)
