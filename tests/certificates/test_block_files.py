"""Files of certificates of blocks: yes to what is right, from rows, sums and images, and no to every forgery."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_problem, random_targets
from test_block_certificates import network_for, simple_certificate, trees_for

import qsdp
import qsdp_check
from qsdp.certificates import certificate_of, certify, load_certificate
from qsdp.certificates.files import MAGIC
from qsdp.certificates.sums import Sums, rounding_arrays
from qsdp.exceptions import InvalidInputError, InvalidTypeError, StorageError

ROWS = ("f4", "f8", "i1", "u1", "i4")


def answer(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = qsdp_check.main([str(path), *options])
    return code, capsys.readouterr().out


def contents_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(path.read_bytes()[len(MAGIC) + 65 :])) as archive:
        return dict(archive)


def rewritten(path: Path, arrays: dict[str, Any]) -> None:
    """Write a file with other contents and a right digest."""
    stream = io.BytesIO()
    np.savez(stream, **{name: array for name, array in arrays.items() if array is not None})
    body = stream.getvalue()
    path.write_bytes(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def problem_of(seed: int, loss: str = "squared", dtype: str = "f8", **options: Any) -> qsdp.TrainingProblem:
    C = 1 if loss == "cross_entropy" else 1 + seed % 3
    base = random_problem(seed, loss, n=40, n_outputs=C)
    blocks = base.X
    rows = np.clip(np.round(30 * blocks.rows), 0 if dtype == "u1" else -100, 100) if dtype[0] in "iu" else blocks.rows
    data = qsdp.Blocks(rows.astype(dtype), blocks.sizes, blocks.kinds, blocks.omega)
    y = np.argmax(base.y, axis=1) if loss == "cross_entropy" else base.y
    problem = qsdp.TrainingProblem(data, y, beta=1.0, loss=loss, **options)
    return problem.with_beta(0.1 * qsdp.beta_max(problem))


# -- yes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "dtype"), [*((loss, "f8") for loss in LOSSES), *zip(LOSSES, ("f4", "i1", "u1", "i4"), strict=False)]
)
def test_files_of_rows_keep_their_type(
    loss: str, dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 3.0, 40) if dtype in ("f4", "i1") else None
    problem = problem_of(ROWS.index(dtype), loss, dtype, sample_weight=weights)
    for certificate in (
        simple_certificate(problem),
        certify(network_for(problem), problem),
    ):
        path = tmp_path / "c"
        certificate.save(path)
        assert contents_of(path)["X"].dtype == dtype
        loaded = load_certificate(path)
        assert loaded == certificate
        assert loaded.proof.problem == problem  # type: ignore[union-attr]
        assert loaded.proof.problem.X.rows.dtype == dtype  # type: ignore[union-attr]
        assert not loaded.proof.problem.X.rows.flags.writeable  # type: ignore[union-attr]
        loaded.save(tmp_path / "again")
        assert path.read_bytes() == (tmp_path / "again").read_bytes()
        code, said = answer(path, capsys)
        assert code == 0, said
        assert "data         X and y from the certificate" in said
    data = {"X": problem.X.rows, "y": problem.y} | ({} if weights is None else {"sample_weight": weights})
    np.savez(tmp_path / "data.npz", **data)
    certificate.save(tmp_path / "d", include_data=False)
    code, said = answer(tmp_path / "d", capsys, "--data", str(tmp_path / "data.npz"))
    assert code == 0, said
    assert load_certificate(tmp_path / "d", problem) == certificate
    assert load_certificate(tmp_path / "d").proof is None


@pytest.mark.parametrize(("seed", "dtype"), [*enumerate(ROWS), (5, "f8"), (1, "f8")])
def test_files_of_sums(seed: int, dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 3.0, 40) if seed % 2 else None
    problem = problem_of(seed, "squared", dtype, sample_weight=weights)
    data = {"X": problem.X.rows, "y": problem.y} | ({} if weights is None else {"sample_weight": weights})
    np.savez(tmp_path / "data.npz", **data)
    for certificate in (simple_certificate(problem), certify(network_for(problem), problem)):
        certificate.save(tmp_path / "c", include_data="sums")
        for options, said in (((), "stated, not checked"), (("--data", str(tmp_path / "data.npz")), "X and y from /")):
            code, out = answer(tmp_path / "c", capsys, *options)
            assert code == 0, out
            assert said in out
        fields = contents_of(tmp_path / "c")
        assert not {"X", "y", "nu", "sample_weight"} & set(fields)
        assert abs(fields["lower_bound"] - certificate.lower_bound) <= 1e-10 * certificate.objective
        loaded = load_certificate(tmp_path / "c", problem)
        assert loaded.proof is not None
        assert load_certificate(tmp_path / "c").proof is None
        again = certificate_of(problem, loaded.proof.network, loaded.proof.nu, loaded.proof.trees, "exact")  # type: ignore[union-attr, arg-type]
        assert again.lower_bound >= certificate.lower_bound - 1e-9 * certificate.objective
        for other in (problem.with_beta(0.9 * problem.beta), problem_of(seed + 6, "squared", dtype)):
            with pytest.raises(StorageError, match="belongs to"):
                load_certificate(tmp_path / "c", other)


def test_sums_of_integers_are_exact() -> None:
    problem = problem_of(1, "squared", "i1")
    X = problem.X.rows.astype(object)
    exact = np.array(X.T @ X, dtype=float)
    found = Sums.from_problem(problem)
    assert np.array_equal(found.gram, exact)


def test_residuals_have_twice_the_precision() -> None:
    problem = problem_of(2)
    sums, rng = Sums.from_problem(problem), np.random.default_rng(0)
    t = 1e6 * rng.standard_normal(sums.products.shape)
    high, low, errors = sums.residuals(t)
    from fractions import Fraction

    for c in range(t.shape[1]):
        for p in range(len(t)):
            exact = Fraction(float(sums.products[p, c]))
            exact -= sum(Fraction(float(g)) * Fraction(float(x)) for g, x in zip(sums.gram[p], t[:, c], strict=True))
            missed = abs(exact - Fraction(float(high[p, c])) - Fraction(float(low[p, c])))
            assert missed <= errors[p, c]
            assert errors[p, c] < 1e-26 * np.abs(sums.gram[p]) @ np.abs(t[:, c])


def test_what_has_no_sums_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'sums' only for the squared loss"):
        simple_certificate(problem_of(0, "logistic")).save(tmp_path / "c", include_data="sums")
    columns = qsdp.TrainingProblem([[1.0], [2.0]], [1.0, 3.0], beta=0.1)
    certificate = certify(qsdp.BilinearNetwork([[1]], [[1]], [0.5]), columns)
    with pytest.raises(InvalidInputError, match="include_data='sums' needs data in blocks; the problem has columns"):
        certificate.save(tmp_path / "c", include_data="sums")
    with pytest.raises(InvalidTypeError, match="include_data must be True or False"):
        certificate.save(tmp_path / "c", include_data="rows")
    assert not list(tmp_path.iterdir())


def test_large_rows_become_sums_or_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsdp.certificates.files._MAX_BYTES", 1000)
    for loss, name in (("squared", "gram"), ("logistic", "data_sha256")):
        simple_certificate(problem_of(0, loss)).save(tmp_path / "c")
        assert name in contents_of(tmp_path / "c")
        assert "X" not in contents_of(tmp_path / "c")


# -- images --------------------------------------------------------------------------------------------

#: size, stride, padding, regions, pooling, centre, constant, floats
PATCHES = [(3, 1, 0, 2, 1, 0, 1, 0), (2, 2, 1, 3, 1, 5, 0, 8), (3, 1, 1, 2, 2, 300, 255, 4), (1, 1, 0, 1, 1, -3, 2, 8)]


def slow_rows(images: np.ndarray, patches: tuple[int, ...]) -> np.ndarray:
    """Return packed rows by loops over pixels."""
    size, stride, padding, regions, pooling, centre, constant, floats = patches
    found = []
    for image in images.reshape(*images.shape[:3], -1).astype(int):
        h, w, channels = image.shape[0] // pooling, image.shape[1] // pooling, image.shape[2]
        x = np.zeros((h + 2 * padding, w + 2 * padding, channels), dtype=int)
        for i in range(h):
            for j in range(w):
                square = image[i * pooling : (i + 1) * pooling, j * pooling : (j + 1) * pooling]
                x[padding + i, padding + j] = square.sum(axis=(0, 1))
        places = [range(0, side - size + 1, stride) for side in x.shape[:2]]
        sums: dict[tuple[int, int], list[np.ndarray]] = {(a, b): [] for a in range(regions) for b in range(regions)}
        for i, top in enumerate(places[0]):
            for j, left in enumerate(places[1]):
                p = x[top : top + size, left : left + size].ravel() - centre
                p = np.append(p, constant) if constant else p
                region = (i * regions // len(places[0]), j * regions // len(places[1]))
                sums[region].append(np.outer(p, p)[np.triu_indices(len(p))])
        parts = [np.sum(own, axis=0) / (len(own) if floats else 1) for own in sums.values()]
        found.append(np.concatenate(parts))
    return np.array(found).astype(f"f{floats}" if floats else "i8")


@pytest.mark.parametrize("patches", PATCHES)
@pytest.mark.parametrize("shape", [(7, 6), (8, 9, 2)])
def test_packed_rows_of_images(patches: tuple[int, ...], shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, *shape)).astype(np.uint8)
    found, expected = qsdp_check.packed_rows(images, list(patches)), slow_rows(images, patches)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("patches", PATCHES[:3])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_files_are_checked_from_images(
    patches: tuple[int, ...], loss: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 8, 8)).astype(np.uint8)
    rows = qsdp_check.packed_rows(images, list(patches)).astype("f8" if patches[-1] == 0 else f"f{patches[-1]}")
    side = patches[0] ** 2 + (patches[6] != 0)
    blocks = qsdp.Blocks(rows, [side] * patches[3] ** 2)
    problem = qsdp.TrainingProblem(blocks, random_targets(rng, 60, loss), beta=1.0, loss=loss)
    problem = problem.with_beta(0.1 * qsdp.beta_max(problem))
    network = network_for(problem, scale=1e-9)
    nu = -problem.data_fit.gradient(problem.outputs(network))
    certificate = certificate_of(problem, network, nu, trees_for(problem, nu), "exact")
    path, data = tmp_path / "c", tmp_path / "data.npz"
    certificate.save(path, include_data="sums" if loss == "squared" else False)
    rewritten(path, contents_of(path) | {"patches": np.array(patches)})
    np.savez(data, images=images, patches=patches, y=problem.y)
    code, said = answer(path, capsys, "--data", str(data))
    assert code == 0, said
    assert "rows computed from the images" in said
    images[3, 4, 4] ^= 1
    np.savez(data, images=images, patches=patches, y=problem.y)
    code, said = answer(path, capsys, "--data", str(data))
    assert code == 1
    assert said.startswith(("no: data_sha256: the certificate does not belong", "no: objective", "no: lower_bound"))
    np.savez(data, images=images.astype(float), patches=patches, y=problem.y)
    assert "images: they are not integers" in answer(path, capsys, "--data", str(data))[1]
    # Numbers of a geometry that are no integers, or one too few.
    for wrong in (np.array(patches, dtype=float), np.array(patches[:-1])):
        rewritten(path, contents_of(path) | {"patches": wrong})
        assert answer(path, capsys, "--data", str(data))[0] == 1
        with pytest.raises(StorageError, match="patches are not described by eight integers"):
            load_certificate(path, problem)


# -- no ------------------------------------------------------------------------------------------------


def two_kinds(loss: str = "squared", n_outputs: int = 2) -> qsdp.TrainingProblem:
    """Return a problem with a strong penalty on a linear block and two quadratic ones of other sides."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((30, 6 + 3 + 10))
    blocks = qsdp.Blocks(rows, [3, 3, 4], ["quadratic", "linear", "quadratic"], omega=[1.0, 0.5, 2.0])
    y = random_targets(rng, 30, loss, n_outputs)
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss=loss)
    return problem.with_beta(0.2 * qsdp.beta_max(problem))


@pytest.fixture(scope="module", params=["rows", "sums", "logistic", "cross_entropy"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str, float]:
    """Return a valid file, its data, its kind and the optimum of its problem."""
    kind = request.param
    problem = two_kinds(kind if kind in LOSSES else "squared")
    folder = tmp_path_factory.mktemp("blocks")
    certificate = simple_certificate(problem)
    certificate.save(folder / "c", include_data="sums" if kind == "sums" else True)
    np.savez(folder / "data.npz", X=problem.X.rows, y=problem.y)
    return folder / "c", folder / "data.npz", kind, enumerated_optimum(problem)


def halved(f: dict[str, Any]) -> None:
    """Let entries off the diagonal count once, as a prototype did."""
    counts = np.concatenate([np.where(np.equal(*np.triu_indices(3)), 1.0, 2.0), np.ones(3),
                             np.where(np.equal(*np.triu_indices(4)), 1.0, 2.0)])  # fmt: skip
    if "X" in f:
        f["X"] = f["X"] / counts
    else:
        upper = np.triu_indices(len(counts))
        f["gram"], f["products"] = f["gram"] / np.outer(counts, counts)[upper], f["products"] / counts[:, None]


def exchanged(f: dict[str, Any]) -> None:
    for name in ("sizes", "linear", "omega"):
        f[name] = f[name][[1, 0, 2]]


def exchanged_numbers(f: dict[str, Any]) -> None:
    f["block"] = np.array([1, 0, 2])[f["block"]]


def exchanged_trees(f: dict[str, Any]) -> None:
    for name in ("order", "leaves", "lengths", "shifted"):
        f[name] = np.roll(f[name], 1, axis=0)


def lower_omega(f: dict[str, Any]) -> None:
    f["omega"] = f["omega"] * [1.0, 1.0, 0.9]


def larger_omega(f: dict[str, Any]) -> None:
    f["omega"] = f["omega"] * [1.0, 1.2, 1.2]
    f["lower_bound"] = f["lower_bound"] * 1.05


def all_quadratic(f: dict[str, Any]) -> None:
    f["linear"] = np.zeros(3, dtype=bool)


def all_linear(f: dict[str, Any]) -> None:
    f["linear"] = np.ones(3, dtype=bool)


def linear_of_six(f: dict[str, Any]) -> None:
    """Call a triangle of three rows a vector of six entries."""
    f["sizes"], f["linear"] = np.array([6, 3, 4]), np.array([True, True, False])


def one_tree_an_output(f: dict[str, Any]) -> None:
    """Share one bound among the blocks, as one rho for all would."""
    f["order"], f["leaves"] = f["order"][::3], f["leaves"][::3]
    f["lengths"], f["shifted"] = f["lengths"][::3], f["shifted"][::3]
    f["shifts"] = f["shifts"][:0]


def fewer_blocks(f: dict[str, Any]) -> None:
    for name in ("sizes", "linear", "omega"):
        f[name] = f[name][:2]


def no_blocks(f: dict[str, Any]) -> None:
    for name in ("sizes", "linear", "omega", "block"):
        f[name] = None


def negative_omega(f: dict[str, Any]) -> None:
    f["omega"] = -f["omega"]


def infinite_omega(f: dict[str, Any]) -> None:
    f["omega"] = f["omega"] * np.inf


def extreme_omega(f: dict[str, Any]) -> None:
    """Divide matrices by so much that digits are lost."""
    f["omega"], f["beta"] = f["omega"] * 1e300, f["beta"] * 1e-300


def no_omega(f: dict[str, Any]) -> None:
    f["omega"] = f["omega"] * np.nan


def outside(f: dict[str, Any]) -> None:
    f["U"] = np.where(f["U"] == 0, 1, f["U"])


def zero_weight(f: dict[str, Any]) -> None:
    f["U"] = f["U"] * 0


def zero_alpha_of_large_neurons(f: dict[str, Any]) -> None:
    f["U"], f["alpha"] = f["U"] * 2, f["alpha"] / 2


def sign_in_a_linear_block(f: dict[str, Any]) -> None:
    f["V"] = np.where(np.arange(4) < f["sizes"][f["block"], None], np.where(f["V"] == 0, 1, f["V"]), 0)


def no_block(f: dict[str, Any]) -> None:
    f["block"] = f["block"] + 3


def negative_block(f: dict[str, Any]) -> None:
    f["block"] = f["block"] - 3


def raised(f: dict[str, Any]) -> None:
    f["lower_bound"] = f["lower_bound"] * (1 + 1e-7)


def lowered(f: dict[str, Any]) -> None:
    f["objective"] = f["objective"] * (1 - 1e-7)


def other_beta(f: dict[str, Any]) -> None:
    f["beta"] = f["beta"] * 1.1


def more_levels(f: dict[str, Any]) -> None:
    f["levels"] = np.array(3)


def an_activation(f: dict[str, Any]) -> None:
    f["activation"] = np.array([1.0, 0.0, 0.0])


def larger_dual(f: dict[str, Any]) -> None:
    if "nu" in f:
        f["nu"] = f["nu"] * 1.5
    else:
        f["scores"] = f["scores"] * 0.0
    f["lower_bound"] = f["lower_bound"] * 1.2


def no_dual(f: dict[str, Any]) -> None:
    name = "nu" if "nu" in f else "scores"
    f[name] = f[name] * np.nan


def huge_dual(f: dict[str, Any]) -> None:
    name = "nu" if "nu" in f else "scores"
    f[name], f["lower_bound"] = f[name] * 1e300, f["lower_bound"] * 1.001


def smaller_shifts(f: dict[str, Any]) -> None:
    f["shifts"] = 0.5 * f["shifts"]
    f["lower_bound"] = f["lower_bound"] * 1.2


FORGERIES: list[Callable[[dict[str, Any]], None]] = [
    halved, exchanged, exchanged_numbers, exchanged_trees, lower_omega, larger_omega, all_quadratic, all_linear,
    linear_of_six, one_tree_an_output, fewer_blocks, no_blocks, negative_omega, infinite_omega, extreme_omega, no_omega,
    outside, zero_weight, zero_alpha_of_large_neurons, sign_in_a_linear_block, no_block, negative_block, raised,
    lowered, other_beta, more_levels, an_activation, larger_dual, no_dual, huge_dual, smaller_shifts,
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forgeries_with_a_right_digest(
    forge: Callable[[dict[str, Any]], None], saved: tuple[Path, Path, str, float], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path, data, kind, _ = saved
    fields = contents_of(path)
    # Sums prove a little more than claimed.
    fields["lower_bound"] = np.array(qsdp_check.check(fields)[1])
    rewritten(tmp_path / "c", fields)
    assert answer(tmp_path / "c", capsys, "--data", str(data))[0] == 0
    forge(fields)
    rewritten(tmp_path / "c", fields)
    code, said = answer(tmp_path / "c", capsys)
    assert code == 1, said
    # With the data, nothing is computed from forged sums, so that the claims hold as before.
    holds = kind == "sums" and forge is halved
    assert answer(tmp_path / "c", capsys, "--data", str(data))[0] == (0 if holds else 1)


def test_what_is_believed_is_not_read_from_the_file(
    saved: tuple[Path, Path, str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(tmp_path / "c", contents_of(saved[0]) | {"images": np.zeros((1, 2, 2)), "given": np.array(True)})
    code, said = answer(tmp_path / "c", capsys)
    assert code == 1
    assert said.startswith("no: 'images.npy': there is no such field")


def doubled_targets(f: dict[str, Any]) -> None:
    f["products"], f["squares"] = 2 * f["products"], 4 * f["squares"]


def moved_gram(f: dict[str, Any]) -> None:
    f["gram"] = f["gram"] * (1 + 1e-6)


def moved_entry(f: dict[str, Any]) -> None:
    f["gram"] = f["gram"].copy()
    f["gram"][1] += 1e-2


def moved_products(f: dict[str, Any]) -> None:
    f["products"] = f["products"] * (1 + 1e-6)


def moved_squares(f: dict[str, Any]) -> None:
    f["squares"] = f["squares"] * (1 + 1e-6)


@pytest.mark.parametrize("forge", [doubled_targets, moved_gram, moved_entry, moved_products, moved_squares])
def test_sums_of_other_samples_are_found_by_their_rows(
    forge: Callable[[dict[str, Any]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone, a file of such sums may be right about them, and says that it believes them."""
    problem = two_kinds()
    simple_certificate(problem).save(tmp_path / "c", include_data="sums")
    np.savez(tmp_path / "data.npz", X=problem.X.rows, y=problem.y)
    fields = contents_of(tmp_path / "c")
    forge(fields)
    objective, bound = claims_of(fields)
    rewritten(tmp_path / "c", fields | {"objective": np.array(objective), "lower_bound": np.array(bound)})
    code, said = answer(tmp_path / "c", capsys)
    assert code == 0, said
    assert "that they are those of samples, up to a rounding of" in said
    code, said = answer(tmp_path / "c", capsys, "--data", str(tmp_path / "data.npz"))
    assert code == 1
    assert said.startswith(("no: objective", "no: lower_bound"))


def claims_of(fields: dict[str, Any]) -> tuple[float, float]:
    """Return objective and bound of a file of any sums."""
    fields = {name: qsdp_check.field_of(name, array) for name, array in fields.items()} | {"lower_bound": np.array(0.0)}
    try:
        return qsdp_check.check(fields)[:2]
    except qsdp_check.ClaimError as reason:
        objective = float(str(reason).split("objective: it is ")[1].split(",")[0])
    return qsdp_check.check(dict(fields, objective=np.array(objective)))[:2]


@pytest.mark.parametrize("change", [
    {"squares": lambda v: -v},
    {"gram": lambda v: -v},
    {"gram": lambda v: 0 * v},
    {"squares": lambda v: 0.01 * v},
    {"products": lambda v: v[:, :1]},
    {"gram": lambda v: v[:-1]},
    {"squares": lambda v: v * np.nan},
    {"gram": lambda v: v * np.inf},
    {"scores": lambda v: v.T},
    {"loss": lambda v: np.array("absolute")},
    {"beta": lambda v: 0 * v},
], ids=lambda change: next(iter(change)))  # fmt: skip
def test_sums_of_no_samples(change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simple_certificate(two_kinds()).save(tmp_path / "c", include_data="sums")
    fields = contents_of(tmp_path / "c")
    for name, function in change.items():
        fields[name] = function(fields[name])
    rewritten(tmp_path / "c", fields)
    assert answer(tmp_path / "c", capsys)[0] == 1


# The campaign of the checker tries thousands.
@pytest.mark.parametrize("seed", range(20))
def test_no_random_change_is_accepted_with_a_false_bound(
    seed: int, saved: tuple[Path, Path, str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever changes in the proof, an accepted bound is below the optimum, and readers raise their own error."""
    path, _, _, optimum = saved
    fields, rng = contents_of(path), np.random.default_rng(seed)
    names = ("nu", "scores", "order", "leaves", "lengths", "signs", "shifted", "shifts", "U", "V", "alpha", "block",
             "lower_bound", "objective")  # fmt: skip
    name = str(rng.choice([one for one in names if one in fields]))
    array = fields[name].copy()
    flat = array.reshape(-1)
    if flat.size:
        flat[rng.integers(flat.size)] = rng.choice([0, 1, -1, 2, 100])
    if rng.random() < 0.2 and array.ndim:
        array = array[:-1]
    fields[name] = array
    if rng.random() < 0.5:
        fields["lower_bound"] = fields["lower_bound"] * rng.choice([1.001, 2.0, 1e3])
    rewritten(tmp_path / "c", fields)
    code, said = answer(tmp_path / "c", capsys)
    assert code == 1 or fields["lower_bound"] <= optimum * (1 + 1e-6), said
    try:
        load_certificate(tmp_path / "c")
    except StorageError:
        assert code == 1 or name == "U"


def test_a_bound_above_the_objective_is_no_certificate(
    saved: tuple[Path, Path, str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = contents_of(saved[0])
    rewritten(tmp_path / "c", fields | {"lower_bound": fields["objective"] * 1.001})
    assert answer(tmp_path / "c", capsys)[0] == 1
    with pytest.raises(StorageError, match="is not a valid certificate: lower_bound must be at most the objective"):
        load_certificate(tmp_path / "c")


# -- statistics ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "i1"])
@pytest.mark.parametrize("include", [True, False, "sums"])
def test_files_of_statistics(dtype: str, include: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(1, "squared", dtype)
    statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
    forms = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    certificate = certify(network_for(problem), forms, bound_type="exact")
    assert certificate.objective == pytest.approx(problem.objective(network_for(problem)), rel=1e-9)
    certificate.save(tmp_path / "c", include_data=include)
    loaded = load_certificate(tmp_path / "c", forms)
    assert loaded.objective == certificate.objective
    assert loaded.lower_bound == pytest.approx(certificate.lower_bound, rel=1e-9 if include == "sums" else 0.0)
    if include is False:
        arrays = {"forms": forms.weight_map.forms, "y": forms.y, "n_samples": 40, **rounding_arrays(forms)}  # type: ignore[union-attr]
        np.savez(tmp_path / "data.npz", **arrays)
        assert answer(tmp_path / "c", capsys, "--data", str(tmp_path / "data.npz"))[0] == 0
        return
    code, said = answer(tmp_path / "c", capsys)
    assert code == 0, said
    assert ("sums over 40 samples" if include == "sums" else "statistics of 40 samples") in said
    if include is True:
        assert load_certificate(tmp_path / "c") == certificate


def test_sums_of_tiny_targets_belong_to_no_other_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blocks, y = qsdp.Blocks(rng.standard_normal((20, 6)), [3]), 2.0**-60 * rng.standard_normal(20)
    problem, other = (qsdp.TrainingProblem(blocks, targets, beta=2.0**-64) for targets in (y, y[::-1]))
    certificate = simple_certificate(problem)
    certificate.save(tmp_path / "c", include_data="sums")
    assert qsdp.load_certificate(tmp_path / "c", problem).objective == certificate.objective
    with pytest.raises(StorageError, match="it belongs to different data"):
        qsdp.load_certificate(tmp_path / "c", other)
