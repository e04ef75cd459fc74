"""Networks on series as C, sample by sample: equal to exact integers, within their bounds, in a state of fixed size."""

import copy
import ctypes
import re
import subprocess
import warnings

import numpy as np
import pytest
from c_flags import FLAGS
from test_c import COMPILERS, needs_compiler
from test_c_programs import COMPILERS as PROGRAM_COMPILERS
from test_c_programs import CROSS_COMPILERS, MACHINE, assert_cpp

import qsdp
from qsdp import BilinearNetwork, QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export import to_c

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

#: Number of channels, length, and arguments of the encoder.
GEOMETRIES = {
    "one value": (1, 1, {"size": 1}),
    "no constant": (2, 7, {"size": 2, "constant": 0}),
    "segments": (3, 25, {"size": 2, "segments": 3}),
    "strides": (2, 30, {"size": 3, "stride": 4, "segments": 2}),
    "lags": (2, 40, {"size": 4, "stride": 2, "segments": 3, "lags": (5, 1, 2), "constant": 2.5}),
    "counts": (1, 40, {"size": 2, "segments": 3, "standardize": False}),
}


def fitted(rng, geometry):
    channels, length, arguments = GEOMETRIES[geometry]
    series = rng.normal(size=(20, channels, length)) * (10.0 ** np.arange(channels))[:, None] + 3.0
    return Windows(**arguments).fit(np.rint(500 * series) if arguments.get("standardize") is False else series)


def network(rng, encoder, C=None, m=15, exact=True):
    layout = encoder.layout_
    U, V = rng.choice([-1, 1], (2, m, layout.side))
    alpha = rng.normal(size=m if C is None else (m, C))
    if exact:
        alpha = rng.integers(-7, 8, size=alpha.shape) * np.float32(3e-3)
    return BilinearNetwork.on_blocks(layout, U, V, alpha, rng.integers(0, layout.n_blocks, m))


def integers_of(weights, scales):
    """Return the smallest integers of which second-layer weights (m, C) are multiples, from multiples of `scales`."""
    multiples = np.rint(weights / scales).astype(np.int64)
    return multiples // np.gcd.reduce(multiples, axis=0)


def values_at_windows(code, one, columns):
    """Return the sums over windows of the neurons' values (n, m), from the integers of series of equal length."""
    encoder, series = code.model.encoder, code.model.samples
    length = columns.shape[1] // series.channels
    z = code.model.inputs.encode(columns.reshape(-1, series.channels)).reshape(-1, length, series.channels)
    values = np.zeros((len(z), one.n_neurons), dtype=np.int64)
    counts = np.zeros(one.n_neurons, dtype=np.int64)
    for place, lag in enumerate(encoder.lags):
        starts = range(0, length - (encoder.size - 1) * lag, encoder.stride)
        for number, start in enumerate(starts):
            window = [z[:, start + k * lag] for k in range(encoder.size)]
            if encoder.constant:
                window.append(np.full((len(z), 1), series.constant))
            vector = np.hstack(window)
            mine = one.block == place * encoder.segments + number * encoder.segments // len(starts)
            U, V = (side[mine].astype(np.int64) for side in (one.U, one.V))
            values[:, mine] += (vector @ U.T) * (vector @ V.T)
            counts[mine] += 1
    return values, counts


def samples_of(rng, code, n):
    """Return rows of any 16-bit integers, and the extremes."""
    size = (n, code.model.n_columns)
    ends = np.array([[-(2**15)], [2**15 - 1], [0]]) * np.ones(size[1], dtype=np.int64)
    return np.concatenate([rng.integers(-(2**15), 2**15, size), ends, rng.choice([-(2**15), 2**15 - 1], (50, size[1]))])


@needs_compiler
@pytest.mark.parametrize("layout", ["neurons", "form"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_equal_to_neurons_at_every_window(geometry, layout):
    rng = np.random.default_rng(len(geometry))
    encoder = fitted(rng, geometry)
    kinds = ((None, True, 64), (3, True, 64), (2, False, 64), (2, True, 32))
    # Every geometry has every kind in one of its layouts, and every kind both layouts. The first compiler compiles
    # every network, all compilers one network of each geometry, in turn.
    turn = list(GEOMETRIES).index(geometry)
    for number, (C, exact, width) in enumerate(kinds[(turn + (layout == "form")) % 2 :: 2]):
        one = network(rng, encoder, C, exact=exact)
        code = to_c(one, encoder=encoder, layout=layout, width=width)
        assert code.model.layout.sum_width <= width
        columns = samples_of(rng, code, 2_000 if C == 3 else 200)
        compilers = COMPILERS[: None if number == turn // 2 % 2 else 1]
        compiled = [code.compile(compiler=name).evaluate(columns) for name in compilers]
        values, counts = values_at_windows(code, one, columns)
        integers = code.model.network
        for found in compiled:
            np.testing.assert_array_equal(found, code.model.outputs(columns))
        if exact:
            weights = integers_of(one.output_weights, np.float32(3e-3))
            sums = (values * code.model.samples.gains(integers.common)[one.block]) @ weights
            np.testing.assert_array_equal(compiled[0], sums * integers.factors + np.array(integers.bias))
        # Rows are means over windows, of the inputs that the integers stand for.
        scores = (values / counts) @ one.output_weights * code.model.samples.unit**2
        assert np.all(np.abs(compiled[0] * code.unit - scores) <= code.error + 1e-12 * np.abs(scores).max())
        assert np.abs(values).max() <= code.model.layout.projection_bound or layout == "form"
        assert np.abs(compiled[0]).max() <= code.model.layout.sum_bound < 2.0 ** (code.model.layout.sum_width - 1)


@needs_compiler
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_scores_are_within_their_bounds(geometry):
    """The distance from the encoder's answers to series is within the bound of rounded entries."""
    rng = np.random.default_rng(len(geometry))
    encoder = fitted(rng, geometry)
    channels, length, _ = GEOMETRIES[geometry]
    for exact in (True, False):
        one = network(rng, encoder, 2, exact=exact)
        code = to_c(one, encoder=encoder)
        scale = encoder.scale_ if encoder.standardize else np.full(channels, 2e3)
        series = encoder.mean_[:, None] + scale[:, None] * rng.uniform(-12, 12, (300, channels, length))
        expected = encoder.predict(one, series)
        found = code.model.scores(code.model.outputs(code.model.columns(series)))
        slack = 1e-12 * np.abs(expected).max()
        assert np.all(np.abs(found - expected) <= code.rounding_error + slack)
        # The bounds are of the largest entries; those of most series are far smaller.
        assert np.all(code.error <= code.rounding_error)
        far = encoder.mean_[:, None] + encoder.scale_[:, None] * np.full((1, channels, length), 1e6)
        clipped = code.model.columns(far)
        np.testing.assert_array_equal(code.model.outputs(clipped), code.model.outputs(np.full_like(clipped, 2**15 - 1)))


def test_scales_of_sensors():
    """A scale of one takes the integers of a sensor as they are."""
    rng = np.random.default_rng(0)
    series = rng.integers(-3000, 3000, (30, 2, 20))
    encoder = Windows(2).fit(series)
    one = network(rng, encoder)
    scales = {"channel 0": 1, "channel 1": 1}
    code = to_c(one, encoder=encoder, scales=scales)
    np.testing.assert_array_equal(code.model.columns(series), series.transpose(0, 2, 1).reshape(30, -1))
    assert to_c(one, encoder=encoder, column_width=32).model.input_range == (-(2**31), 2**31 - 1)
    with pytest.raises(InvalidInputError, match="scales must be those of columns"):
        to_c(one, encoder=encoder, scales={"x": 1})
    with pytest.raises(ExportError, match=r"channel 0: .* scale 1e\+06 .* mean"):
        to_c(one, encoder=Windows(2).fit(10_000 + series % 10), scales={"channel 0": 1e6})


@pytest.fixture(scope="module")
def waves():
    """Series of two channels in three classes: phases of the second one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    t = np.arange(30) / 3.0 + rng.uniform(0, 6, (120, 1))
    return np.stack([np.sin(t), np.sin(t + 2.0 * y[:, None])], axis=1) + 0.1 * rng.normal(size=(120, 2, 30)), y


def assert_memory_is_stated(code, size):
    """The memory that a device needs is what the compiler says, in the header, the summary and as a number."""
    assert code.state_bytes == size
    assert f"between samples, {size} bytes" in code.header
    assert f"#define {code.name.upper()}_STATE_BYTES {size}\n" in code.header
    assert ("memory", f"{size} bytes between samples") in code.facts()


class Streaming:
    """Exported C whose function is called sample by sample."""

    def __init__(self, code, folder):
        code.write(folder, force=True)
        more = f"unsigned state_size(void) {{ return sizeof({code.name}_state); }}"
        (folder / "more.c").write_text(f'#include "{code.name}.c"\nunsigned state_size(void);\n{more}\n')
        command = ["gcc", *FLAGS, "-O2", "-shared", "-fPIC", "-o", str(folder / "one.so"), str(folder / "more.c")]
        subprocess.run(command, check=True, capture_output=True)
        self.library = library = ctypes.CDLL(str(folder / "one.so"))
        self.push, self.size = getattr(library, f"{code.name}_push"), library.state_size()
        self.state = ctypes.create_string_buffer(self.size)
        self.channels = code.model.samples.channels

    def answers(self, columns):
        rows = np.ascontiguousarray(columns, dtype=np.int16).reshape(-1, self.channels)
        return np.array([self.push(self.state, ctypes.c_void_p(row.ctypes.data)) for row in rows])


@needs_compiler
@pytest.mark.parametrize("kind", ["classes", "sign", "numbers"])
def test_samples_one_after_another(waves, kind, tmp_path):
    X, y = waves
    encoder = Windows(3, segments=2, lags=(1, 4))
    options = {"encoding": encoder, "beta": "3%", "refine": "none", "random_state": 0, "n_neurons": 40}
    if kind == "numbers":
        model = QuantizedNetworkRegressor(**options).fit(X, y.astype(float))
    else:
        labels = np.array(["a", "b", "c"])[y] if kind == "classes" else y > 0
        model = QuantizedNetworkClassifier(**options).fit(X, labels)
    model.save(tmp_path / "model.qsdp")
    code = to_c(qsdp.load(tmp_path / "model.qsdp"), name="waves")
    assert code.source == to_c(model, name="waves").source
    compiled = code.compile()
    assert np.mean(compiled.predict(X) == model.predict(X)) > (0.95 if kind != "numbers" else -1)
    columns = code.model.columns(X)
    streaming = Streaming(code, tmp_path)
    # One state for series after series.
    answers = streaming.answers(columns).reshape(len(X), 30)
    assert np.all(answers[:, :-1] == -1)
    expected = compiled.classes(X) if kind != "numbers" else np.zeros(len(X))
    np.testing.assert_array_equal(answers[:, -1], expected)
    assert_memory_is_stated(code, streaming.size)


@needs_compiler
def test_no_calls_no_floats_no_undefined_behaviour(tmp_path):
    rng = np.random.default_rng(0)
    for number, geometry in enumerate(GEOMETRIES):
        encoder = fitted(rng, geometry)
        for layout in ("neurons", "form")[number % 2 :: 2]:
            code = to_c(network(rng, encoder, 3), encoder=encoder, layout=layout, name="net")
            code.write(tmp_path, example=True, force=True)
            assert not re.search("double|float|malloc|#include <(?!stdint)", code.source)
            sanitized = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
            subprocess.run(["gcc", *FLAGS, *sanitized, "main.c", "net.c", "-o", "main"], cwd=tmp_path, check=True)
            done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (geometry, layout, done.stderr)
            assert_cpp(code, tmp_path)
            assert done.stdout.count(": agrees") == 8
            for compiler in [*CROSS_COMPILERS, *PROGRAM_COMPILERS[::-1]]:
                machine = MACHINE.get(compiler, [])
                subprocess.run([compiler, *FLAGS, *machine, "-O2", "-c", "net.c"], cwd=tmp_path, check=True)
            called = subprocess.run(["nm", "-u", "net.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
            assert not set(called.stdout.split()) - {"U", "memset", "memcpy", "__stack_chk_fail"}


@needs_compiler
def test_bounds_are_reached():
    """The largest sum that can occur occurs, so that no narrower integer would do."""
    encoder = Windows(2, standardize=False, constant=1.0).fit(np.ones((1, 1, 9)))
    ones = np.ones((1, 3))
    code = to_c(BilinearNetwork.on_blocks(encoder.layout_, ones, ones, [1.0], [0]), encoder=encoder, layout="neurons")
    (most,) = code.compile().evaluate(np.full((1, 9), 2**15 - 1)).ravel()
    assert most == 8 * (2 * (2**15 - 1) + 1) ** 2
    assert most <= code.model.network.totals <= (1 + 1e-8) * most
    # Integers of a sensor without standardisation are taken as they are.
    assert code.error[0] <= 1e-12 * most * code.unit[0]
    assert code.model.layout.sum_width == 64


@pytest.mark.filterwarnings("ignore:the proven error bound:qsdp.QSDPWarning")
@pytest.mark.parametrize("length", [60, 2000])
def test_a_refusal_names_the_largest_length_that_fits(waves, length):
    X = np.tile(waves[0], -(-length // 30))[:, :, :length]
    encoder = Windows(3, segments=2, lags=(1, 4)).fit(X)
    one = network(np.random.default_rng(0), encoder, exact=False)

    def fits(count):
        # The moments of training stay, so that only the number of windows differs.
        shorter = copy.copy(encoder)
        shorter.length_ = count
        try:
            return to_c(one, encoder=shorter, width=32).model.layout.sum_width <= 32
        except ExportError:
            return False

    with pytest.raises(ExportError, match="take a larger width or fewer neurons or series of") as caught:
        to_c(one, encoder=encoder, width=32)
    largest = int(re.search(r"series of (\d+) samples", str(caught.value))[1])
    assert fits(largest)
    assert ("(the largest number up to 1024 that fits)" in str(caught.value)) == (length == 2000)
    # Segments of equal length fit where shorter series do not.
    assert not any(map(fits, range(largest + 1, 60)))
    if length == 60:
        # The length is named also where only the last sample is too much.
        encoder.length_ = largest + 1
        with pytest.raises(ExportError, match=rf"series of {largest} samples \(the largest number that fits\)"):
            to_c(one, encoder=encoder, width=32)


@pytest.mark.parametrize("length", [30, 53])
def test_a_bound_beyond_the_range_of_the_scores_is_a_warning(waves, length, tmp_path):
    X, y = np.tile(waves[0], 2)[:, :, :length], waves[1]
    options = {"beta": "3%", "refine": "none", "random_state": 0, "n_neurons": 40}
    model = QuantizedNetworkClassifier(encoding=Windows(3, segments=2, lags=(1, 4)), **options).fit(X, y)
    scores = model.decision_function(X)
    span = scores.max(axis=0) - scores.min(axis=0)
    model.save(tmp_path / "model.qsdp")
    for one in (model, qsdp.load(tmp_path / "model.qsdp")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            code = to_c(one)
        texts = [str(warning.message) for warning in caught if warning.category is qsdp.QSDPWarning]
        assert len(texts) == np.any(code.rounding_error > span) == (length == 53)
        if texts:
            worst = np.argmax(code.rounding_error / span)
            about = f"output {worst}, {code.rounding_error[worst]:.3g}, exceeds the range of its scores on the training"
            assert about in texts[0]
            assert f"rows, {scores[:, worst].min():.3g} to {scores[:, worst].max():.3g}" in texts[0]
            assert "take series with as many windows in every segment, or compare" in texts[0]


def test_what_is_refused(waves):
    rng = np.random.default_rng(0)
    encoder = fitted(rng, "segments")
    one = network(rng, encoder, 2)
    refusals = {
        "input_range is not for a network on series": {"input_range": (0, 1)},
        "packed must be True for a network on images or series": {"packed": False},
        "column_width must be 16 or 32": {"column_width": 8},
    }
    for message, arguments in refusals.items():
        with pytest.raises(InvalidInputError, match=message):
            to_c(one, encoder=encoder, **arguments)
    images = Patches(2, regions=1, constant=1).fit(np.zeros((1, 4, 4), dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="column_width is not for a network on images"):
        to_c(network(rng, images), encoder=images, column_width=16)
    long = Windows(1).fit(np.zeros((1, 1, 2**16)))
    with pytest.raises(ExportError, match=r"at most 65535 samples .*; the model takes 65536"):
        to_c(network(rng, long), encoder=long)
    with pytest.raises(ExportError, match=r"into the 16 bits of width.*: take a larger width or fewer neurons$"):
        to_c(one, encoder=encoder, width=16)
    code = to_c(one, encoder=encoder)
    with pytest.raises(InvalidInputError, match=r"series of shape \(n, 3, 25\); got shape \(1, 3, 30\): pad, cut or"):
        code.model.columns(np.zeros((1, 3, 30)))
    with pytest.raises(InvalidInputError, match=r"columns must have shape \(n, 75\); got \(1, 90\)"):
        code.model.outputs(np.zeros((1, 90), dtype=np.int64))
