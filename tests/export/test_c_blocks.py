"""Networks on images as C: equal to exact integers from the pixels, within their bounds, clean."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from c_flags import FLAGS
from digit_models import digit_classifier, digits
from test_c import COMPILERS, needs_compiler
from test_c_programs import CROSS_COMPILERS, MACHINE, assert_cpp

import qsdp
from qsdp import BilinearNetwork, QuantizedNetworkRegressor
from qsdp.encoding import Patches, Windows
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export import to_c, to_js, to_onnx, to_verilog

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")

#: Images of every kind of geometry: shape, and arguments of the encoder.
GEOMETRIES = {
    "plain": ((8, 8), {"size": 3, "regions": 2}),
    "one pixel": ((3, 5), {"size": 1, "regions": 1, "constant": 0}),
    "averaged": ((9, 11), {"size": 2, "regions": 2, "downsample": 2, "constant": 7}),
    "padded": ((6, 7), {"size": 3, "regions": 3, "padding": 2, "stride": 2, "centre": 100}),
    "colours": ((6, 6, 3), {"size": 2, "regions": 2, "centre": 128, "constant": 300, "downsample": 1}),
    "all": ((12, 10, 2), {"size": 2, "regions": 2, "centre": -5, "downsample": 2, "padding": 1, "stride": 2}),
}


def images(rng, shape, n=10_000):
    """Return random images of bytes, and images at the extremes."""
    size = (n, *shape)
    sparse = rng.integers(0, 256, size=size) * (rng.random(size) < 0.2)
    ends = np.stack([np.zeros(shape), np.full(shape, 255), np.indices(shape).sum(axis=0) % 2 * 255])
    return np.concatenate([sparse, ends, rng.choice([0, 255], size=(200, *shape))]).astype(np.uint8)


def fitted(shape, arguments):
    return Patches(**{"constant": 255, **arguments}).fit(np.full((1, *shape), 255, dtype=np.uint8))


def network(rng, encoder, C=None, kind="integers", m=25):
    """Return a network whose second layer is integers times a scale, floats, or one of each output for a neuron."""
    layout = encoder.layout_
    block = rng.integers(0, layout.n_blocks, m)
    U, V = rng.choice([-1, 1], (2, m, layout.side))
    alpha = rng.normal(size=m if C is None else (m, C)) * 1e-6
    if kind == "integers":
        alpha = rng.integers(-7, 8, size=alpha.shape) * np.float32(3e-7)
    elif kind == "single":
        alpha = np.where(np.arange(C) == rng.integers(0, C, m)[:, None], rng.integers(1, 9, (m, 1)), 0)
        alpha = alpha * (1e-7 * np.arange(1, C + 1)).astype(np.float32).astype(np.float64)
    return BilinearNetwork.on_blocks(layout, U, V, alpha, block)


def integers_of(weights, scales):
    """Return the smallest integers of which second-layer weights (m, C) are multiples, from multiples of `scales`."""
    multiples = np.rint(weights / scales).astype(np.int64)
    return multiples // np.gcd.reduce(multiples, axis=0)


def sums_of_pixels(encoder, network, X):
    """Return the outputs without the second layer's factors, by neurons at every patch, from the pixels alone."""
    area, size = encoder.downsample**2, encoder.size
    x = X.astype(np.int64).reshape(len(X), *encoder.image_shape_)
    height, width = (side // encoder.downsample for side in x.shape[1:3])
    small = np.zeros((len(x), height, width, x.shape[3]), dtype=np.int64)
    for i in range(encoder.downsample):
        for j in range(encoder.downsample):
            small += x[:, i : height * encoder.downsample : encoder.downsample,
                       j : width * encoder.downsample : encoder.downsample]  # fmt: skip
    p = encoder.padding
    padded = np.zeros((len(x), height + 2 * p, width + 2 * p, x.shape[3]), dtype=np.int64)
    padded[:, p : p + height, p : p + width] = small
    padded -= int(encoder.centre) * area
    counts = [(side - size) // encoder.stride + 1 for side in padded.shape[1:3]]
    values = np.zeros((len(x), network.n_neurons), dtype=np.int64)
    for row in range(counts[0]):
        for column in range(counts[1]):
            region = row * encoder.regions // counts[0] * encoder.regions + column * encoder.regions // counts[1]
            top, left = row * encoder.stride, column * encoder.stride
            patch = padded[:, top : top + size, left : left + size].reshape(len(x), -1)
            if encoder.constant_:
                patch = np.hstack([patch, np.full((len(x), 1), int(encoder.constant_) * area)])
            mine = network.block == region
            U, V = (side[mine].astype(np.int64) for side in (network.U, network.V))
            values[:, mine] += (patch @ U.T) * (patch @ V.T)
    return values


@needs_compiler
@pytest.mark.parametrize("layout", ["neurons", "form"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_equal_to_neurons_at_every_patch(geometry, layout):
    rng = np.random.default_rng(len(geometry))
    encoder = fitted(*GEOMETRIES[geometry])
    kinds = ((None, "integers"), (3, "integers"), (4, "single"), (2, "floats"))
    # Every geometry has every kind in one of its layouts, and every kind both layouts. The first compiler compiles
    # every network, all compilers one network of each geometry, in turn.
    turn = list(GEOMETRIES).index(geometry)
    for number, (C, kind) in enumerate(kinds[(turn + (layout == "form")) % 2 :: 2]):
        many = number == turn // 2 % 2
        X = images(rng, GEOMETRIES[geometry][0], 2_000 if many else 500)
        one = network(rng, encoder, C, kind)
        code = to_c(one, encoder=encoder, layout=layout)
        compiled = [code.compile(compiler=name) for name in COMPILERS[: None if many else 1]]
        found = [program.outputs(X) for program in compiled]
        values, integers = sums_of_pixels(encoder, one, X), code.model.network
        if kind == "floats":
            weights = np.rint(one.alpha / (np.abs(one.alpha).max(axis=0) / 32767)).astype(np.int64)
        else:
            scales = 3e-7 if kind == "integers" else 1e-7 * np.arange(1, one.n_outputs + 1)
            weights = integers_of(one.output_weights, np.float32(scales))
        expected = (values @ weights) * integers.factors + np.array(integers.bias)
        for outputs in found:
            np.testing.assert_array_equal(outputs, expected)
        np.testing.assert_array_equal(code.model.outputs(code.model.columns(X)), expected)
        assert np.abs(values).max() <= code.model.layout.projection_bound or layout == "form"
        assert np.abs(expected).max() <= code.model.layout.sum_bound < 2.0 ** (code.model.layout.sum_width - 1)
        scores = values @ one.output_weights
        assert np.all(np.abs(compiled[0].scores(X) - scores) <= code.error + 1e-12 * np.abs(scores).max())
        if kind == "integers" and C is None:
            assert np.all(code.error <= 1e-14 * integers.sums * integers.unit)


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("shape", "arguments", "per_block", "bits"),
    [
        ((8, 8), {"size": 3, "regions": 2}, 1, 0),
        ((8, 8), {"size": 3, "regions": 2}, 6, 2),
        ((8, 8), {"size": 3, "regions": 2}, 15, 3),
        ((8, 8), {"size": 3, "regions": 2}, 90, 4),
        ((5, 5, 3), {"size": 2, "regions": 2}, 90, 2),
        ((5, 5), {"size": 2, "regions": 1}, 90, 5),
        ((3, 3), {"size": 1, "regions": 1, "constant": 0}, 40, 2),
        ((7, 7), {"size": 5, "regions": 1}, 90, 0),
    ],
)
def test_tabulated_sums(shape, arguments, per_block, bits, compiler, tmp_path):
    """Sums are tabulated where blocks have enough neurons, and tables fit; outputs are the same."""
    rng = np.random.default_rng(per_block)
    encoder = fitted(shape, arguments)
    one = network(rng, encoder, m=per_block * encoder.layout_.n_blocks, kind="floats")
    one = one.with_neurons(one.U, one.V, np.sign(one.output_weights))
    code = to_c(one, encoder=encoder, layout="neurons")
    assert (f"combinations of {bits} signs" if bits else "left[i] = bit") in code.source
    for entries in re.findall(r"(int\d+)_t table\[(\d+)\]", code.source):
        assert int(entries[0].removeprefix("int")) // 8 * int(entries[1]) <= 2048
    X = images(rng, shape, 500)
    values, integers = sums_of_pixels(encoder, one, X), code.model.network
    expected = (values @ np.sign(one.output_weights)).astype(np.int64) * integers.factors + np.array(integers.bias)
    np.testing.assert_array_equal(code.compile(compiler=compiler).outputs(X), expected)
    code.write(tmp_path)
    for cross in CROSS_COMPILERS:
        command = [cross, *FLAGS, *MACHINE[cross], "-c", f"{code.name}.c", "-o", "code.o"]
        subprocess.run(command, cwd=tmp_path, check=True)


@needs_compiler
def test_bounds_are_reached():
    """The largest sum that can occur occurs, so that no narrower integer would do."""
    encoder = fitted((8, 8), {"size": 3, "regions": 1})
    ones = np.ones((1, 10))
    code = to_c(BilinearNetwork.on_blocks(encoder.layout_, ones, ones, [1.0], [0]), encoder=encoder, layout="neurons")
    most = code.compile().outputs(np.full((1, 8, 8), 255, dtype=np.uint8)).item()
    assert most == code.model.network.totals == 36 * (10 * 255) ** 2
    assert code.model.layout.sum_width == 32
    with pytest.raises(ExportError, match="do not fit into the 16 bits of width"):
        to_c(BilinearNetwork.on_blocks(encoder.layout_, ones, ones, [1.0], [0]), encoder=encoder, width=16)


@needs_compiler
def test_no_undefined_behaviour(tmp_path):
    rng = np.random.default_rng(0)
    for number, (geometry, (shape, arguments)) in enumerate(GEOMETRIES.items()):
        encoder = fitted(shape, arguments)
        for layout in ("neurons", "form")[number % 2 :: 2]:
            code = to_c(network(rng, encoder, 3), encoder=encoder, layout=layout, name="net")
            code.write(tmp_path, example=True, force=True)
            sanitized = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"] if shutil.which("gcc") else []
            command = [COMPILERS[0], *FLAGS, *sanitized, "main.c", "net.c", "-o", "main"]
            subprocess.run(command, cwd=tmp_path, check=True)
            done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (geometry, layout, done.stderr)
            assert done.stdout.count(": agrees") == 8


@needs_compiler
@pytest.mark.parametrize(("loss", "n_classes"), [("squared", 2), ("cross_entropy", 10)])
def test_classifiers_of_images(tmp_path, loss, n_classes):
    model, X = digit_classifier(loss, n_classes), digits()[0][digits()[1] < n_classes]
    code = to_c(model)
    assert_cpp(code, tmp_path)
    compiled = code.compile()
    scores = model.decision_function(X)
    found = compiled.scores(X)
    compared = found[:, 1] - found[:, 0] if scores.ndim == 1 and found.shape[1] == 2 else found.reshape(scores.shape)
    assert np.all(np.abs(compared - scores) <= 2.0 * code.error.max())
    np.testing.assert_array_equal(compiled.predict(X), model.predict(X))
    model.save(tmp_path / "model.qsdp")
    assert to_c(qsdp.load(tmp_path / "model.qsdp")).source == to_c(model).source


@needs_compiler
def test_regressors_and_rounded_networks():
    X, y = digits()
    encoder = Patches(3, regions=2)
    model = QuantizedNetworkRegressor(encoding=encoder, beta="3%", refine="none", random_state=0, n_neurons=60)
    model.fit(X[:300], np.column_stack([y, y**2])[:300])
    code = to_c(model)
    expected = model.predict(X)
    assert np.all(np.abs(code.compile().predict(X) - expected) <= code.error + 1e-12 * np.abs(expected).max())
    rounded = qsdp.refit(model.network_, model.result_.problem, alpha_bits=6)
    exact = to_c(rounded, encoder=model.encoder_)
    # Weights that are integers times a scale stay what they are, in six bits.
    assert exact.model.layout.n_bits <= 6
    assert np.all(exact.error <= 1e-6 * np.abs(expected).max())
    form = to_c(rounded.to_integer_form(), encoder=model.encoder_)
    found, same = form.compile().scores(X), exact.compile().scores(X)
    assert np.all(np.abs(found - same) <= exact.error + form.error)


@needs_compiler
@pytest.mark.parametrize("layout", ["auto", "neurons", "form"])
@pytest.mark.parametrize("C", [None, 3])
def test_networks_of_zeros(C, layout):
    encoder = fitted((6, 6), {"size": 2, "regions": 2})
    one = network(np.random.default_rng(0), encoder, C)
    code = to_c(one.with_neurons(one.U, one.V, 0.0 * one.alpha), encoder=encoder, layout=layout)
    assert not np.any(code.compile().scores(images(np.random.default_rng(1), (6, 6), 20)))
    assert not np.any(code.error)


def test_a_bit_a_sign():
    rng = np.random.default_rng(0)
    encoder = fitted((28, 28), {"size": 3, "regions": 4, "downsample": 2})
    code = to_c(network(rng, encoder, 10, "single", m=400), encoder=encoder)
    assert code.model.layout.name == "neurons"
    assert code.model.layout.table.size <= 400 * (20 + 4) / 8 + 1
    assert "3 x 3" not in code.header
    assert "pixels of an image of 28 x 28 x 1" in code.header


def test_what_is_refused():
    rng = np.random.default_rng(0)
    encoder = fitted((8, 8), {"size": 3, "regions": 2})
    one = network(rng, encoder, 3)
    with pytest.raises(ExportError, match="by to_c, to_js and to_onnx only"):
        to_verilog(one)
    for export in (to_c, to_js, to_onnx):
        with pytest.raises(ExportError, match="a network on blocks without an estimator needs encoder"):
            export(one)
    with pytest.raises(InvalidInputError, match="encoder must be the fitted one of the network's blocks"):
        to_c(one, encoder=fitted((8, 8), {"size": 2, "regions": 2}))
    with pytest.raises(InvalidInputError, match="encoder is for a network on blocks alone"):
        to_c(qsdp.BilinearNetwork([[1]], [[1]], [1.0]), encoder=encoder)
    with pytest.raises(ExportError, match=r"centre of the encoder must be an integer; got 0\.5"):
        to_c(one, encoder=fitted((8, 8), {"size": 3, "regions": 2, "centre": 0.5}))
    with pytest.raises(InvalidInputError, match="packed must be True"):
        to_c(one, encoder=encoder, packed=False)
    with pytest.raises(InvalidInputError, match="input_range is not for a network on images"):
        to_c(one, encoder=encoder, input_range=(0, 255))
    with pytest.raises(ExportError, match="layout must be 'form'"):
        to_c(one.to_integer_form(), encoder=encoder, layout="neurons")
    with pytest.raises(InvalidInputError, match="X must hold integers from 0 to 255; found 256"):
        to_c(one, encoder=encoder).model.columns(np.full((1, 8, 8), 256))
    windows = Windows(4).fit(np.ones((3, 1, 20)) * np.arange(20))
    with pytest.raises(ExportError, match=r"only networks on Patches .*; series are exported by to_c"):
        to_onnx(network(rng, windows), encoder=windows)
    union = Patches(size=(2, 3), regions=1).fit(digits()[0][:5])
    with pytest.raises(ExportError, match=r"patches of one setting .*; got Patches\(re"):
        to_c(network(rng, union), encoder=union)
