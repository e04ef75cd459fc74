"""The stand-alone check: yes to what is right, no to everything else, with NumPy alone."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import (
    ACTIVATIONS,
    global_optimum,
    optimal_network,
    random_neurons,
    random_problem,
    random_vector_problem,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import qsdp
import qsdp_check
from qsdp.certificates import Certificate, certificate_of, certify, load_certificate
from qsdp.certificates.files import MAGIC, data_digest
from qsdp.certificates.proof import folded, halves, tree_bound
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import LOSSES, DataFit, Huber
from qsdp.pricing import BoundTree, Leaf, LeafCuts
from qsdp.pricing.bound_trees import root_tree
from qsdp.relaxation.bounds import entry_size
from qsdp.relaxation.cuts import CuttingPlanes
from qsdp.relaxation.instance import Instance

ROOT = Path(qsdp_check.__file__).parent
SCALAR = [loss for loss in LOSSES if loss != "cross_entropy"]


def problem_of(seed: int, loss: Any, **options: Any) -> qsdp.TrainingProblem:
    if loss == "cross_entropy":
        return random_vector_problem(seed, 3, 9, 3, loss, beta=0.1, **options)
    return random_problem(seed, 3, 9, loss, beta=0.1, **options)


def random_network(problem: qsdp.TrainingProblem, seed: int = 0, m: int = 4) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(seed)
    U, V = random_neurons(rng, m, problem)
    alpha = 0.01 * rng.standard_normal((m, *problem.y.shape[1:]))
    return qsdp.BilinearNetwork(U, V, alpha, levels=problem.levels, activation=problem.activation)


def answer(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = qsdp_check.main([str(path), *options])
    return code, capsys.readouterr().out.splitlines()[-1]


def contents_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(path.read_bytes()[len(MAGIC) + 65 :])) as archive:
        return dict(archive)


def rewritten(path: Path, **arrays: Any) -> None:
    """Write a file with other contents and a right digest."""
    stream = io.BytesIO()
    np.savez(stream, **{name: array for name, array in arrays.items() if array is not None})
    body = stream.getvalue()
    path.write_bytes(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


# -- yes -----------------------------------------------------------------------------------------------

CASES: list[tuple[Any, dict[str, Any]]] = [
    *((loss, {}) for loss in LOSSES),
    *((loss, {"levels": 3, "activation": "relu_like"}) for loss in LOSSES),
    *(("squared", {"activation": activation}) for activation in ACTIVATIONS),
    *(("logistic", {"levels": levels}) for levels in (3, 4, 6)),
    (Huber(0.3), {}),
]


@pytest.mark.parametrize(("loss", "options"), CASES, ids=str)
def test_certificates_of_all_bound_types(
    loss: Any, options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = problem_of(1, loss, **options)
    relaxation = qsdp.solve_relaxation(problem)
    for bound_type in ("sdp", "exact"):
        certificate = certify(random_network(problem), problem, relaxation, bound_type=bound_type)
        assert certificate.bound_type == bound_type
        path = tmp_path / bound_type
        certificate.save(path)
        assert load_certificate(path) == certificate
        code, line = answer(path, capsys)
        assert (code, line[:5]) == (0, "yes: "), line


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic", "cross_entropy"])
def test_vector_outputs(loss: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = random_vector_problem(2, 3, 9, 3, loss, beta=0.2, activation="relu_like")
    for bound_type in ("sdp", "exact"):
        certify(random_network(problem), problem, bound_type=bound_type).save(tmp_path / bound_type)
        assert answer(tmp_path / bound_type, capsys)[0] == 0


@pytest.mark.parametrize("loss", SCALAR)
def test_optima_are_confirmed(loss: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(3, loss)
    network = optimal_network(problem, global_optimum(problem))
    certificate = certify(network, problem, bound_type="exact")
    certificate.save(tmp_path / "c")
    assert qsdp_check.main([str(tmp_path / "c")]) == 0
    out = capsys.readouterr().out
    assert f"objective {certificate.objective:.8g}"[:12] in out
    assert ", type exact)" in out


@pytest.mark.parametrize("beta", [1e-8, 1e-9])
def test_optima_near_zero_of_several_outputs_are_confirmed(
    beta: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((4, 4)), rng.choice([-1.0, 1.0], (4, 5))
    problem = qsdp.TrainingProblem(X, Y, beta=beta, loss="logistic")
    result = qsdp.column_generation(problem)
    assert result.certificate.objective < 1e-5
    result.certificate.save(tmp_path / "c")
    assert answer(tmp_path / "c", capsys)[0] == 0


def test_a_certificate_without_a_penalty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(1, "squared")
    path = tmp_path / "certificate"
    certify(random_network(problem), problem).save(path)
    for beta in (0.0, -0.1, 1e-301, np.nan, np.inf):
        rewritten(path, **{**contents_of(path), "beta": np.array(beta)})
        assert answer(path, capsys) == (1, f"no: beta: {beta:g} is not within 1e-300 .. 1e300")


@pytest.mark.parametrize("beta", [2e-301, 2e300])
def test_a_penalty_beyond_the_range_of_files_is_not_saved(beta: float, tmp_path: Path) -> None:
    base = problem_of(1, "squared")
    problem = qsdp.TrainingProblem(base.X, base.y, beta=beta)
    certificate = certify(
        qsdp.BilinearNetwork([[1, 1, 1]], [[1, 1, 1]], [0.0]), problem, qsdp.solve_relaxation(problem, max_iter=1)
    )
    with pytest.raises(InvalidInputError, match=r"of beta = \S+ cannot be saved, .* takes 1e-300 to 1e\+300;"):
        certificate.save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_trees_of_many_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(4, "squared", activation="relu_like")
    nu = problem.y / 3
    certificate = certificate_of(problem, random_network(problem), nu, [mixed_tree(problem.map.adjoint(nu))], "exact")
    assert certificate.lower_bound > 0.0
    certificate.save(tmp_path / "c")
    assert answer(tmp_path / "c", capsys)[0] == 0
    loaded = load_certificate(tmp_path / "c")
    assert loaded.proof is not None
    for ours, theirs in zip(certificate.proof.trees[0].leaves, loaded.proof.trees[0].leaves, strict=True):  # type: ignore[union-attr]
        assert np.array_equal(ours.signs, theirs.signs)
        assert (ours.shift is None) == (theirs.shift is None)
        assert ours.shift is None or np.array_equal(ours.shift, theirs.shift)


def mixed_tree(M: np.ndarray) -> BoundTree:
    """Leaves of several lengths, every other one with the shift of Gershgorin's discs."""
    order, leaves = np.arange(len(M))[::-1].copy(), []
    for number, fixed in enumerate([(1, 1, 1), (1, 1, -1), (1, -1)]):
        k = len(fixed)
        c = np.abs(M[:, order[:k]] @ np.array(fixed, dtype=float)) / 2
        rest = np.abs(M[:, order[k:]]) / 2
        z = np.concatenate([[c.sum()], c + rest.sum(axis=1), rest.sum(axis=0)])
        leaves.append(Leaf(np.array(fixed, dtype=np.int8), z if number % 2 else None))
    return BoundTree(order, tuple(leaves))


def test_zero_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for X, y in ((np.zeros((3, 2)), np.ones(3)), (np.ones((3, 2)), np.zeros(3))):
        problem = qsdp.TrainingProblem(X, y, beta=1.0)
        network = qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [0.0])
        with pytest.warns(qsdp.QSDPWarning, match="zero network"):
            relaxation = qsdp.solve_relaxation(problem)
        certify(network, problem, relaxation, bound_type="exact").save(tmp_path / "c")
        assert answer(tmp_path / "c", capsys)[0] == 0


@pytest.mark.parametrize("scale", [1e-40, 1e-3, 1e6, 1e40])
def test_data_of_any_magnitude(scale: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = problem_of(5, "squared")
    problem = qsdp.TrainingProblem(scale * base.X, base.y, beta=0.1 * scale**2)
    certify(random_network(base), base, bound_type="exact").save(tmp_path / "c")
    network = qsdp.BilinearNetwork([[1, 1, 1]], [[1, 1, -1]], [1e-2 / scale**2])
    certify(network, problem, bound_type="exact").save(tmp_path / "c")
    assert answer(tmp_path / "c", capsys)[0] == 0


def test_it_runs_with_numpy_alone(tmp_path: Path) -> None:
    problem = problem_of(1, "squared")
    certify(random_network(problem), problem, bound_type="exact").save(tmp_path / "c")
    program = (
        "import sys; sys.path += sys.argv[1:3]; import qsdp_check; code = qsdp_check.main([sys.argv[3]]); "
        "names = {name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names); "
        "print(sorted(names), code)"
    )
    packages = str(Path(np.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", program, packages, str(ROOT), str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-2].startswith("yes: ")
    assert lines[-1] == "['__main__', 'numpy', 'qsdp_check'] 0"
    assert done.stderr == ""


def test_long_enumerations_report_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10**9, 5))
    monkeypatch.setattr(qsdp_check.time, "monotonic", lambda: next(now))
    stream, M = io.StringIO(), np.eye(14)
    assert qsdp_check.enumerate_leaf(M, np.arange(14), np.zeros(0), stream) == 14.0
    assert "\renumerating: 0 million vectors tried" in stream.getvalue()
    assert stream.getvalue().endswith("tried \n")


# -- no ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exact certificate of several leaves and a small network."""
    data = problem_of(6, "squared")
    # Enough regularisation for a bound near the objective, of which the tolerance is a share.
    problem = qsdp.TrainingProblem(data.X, data.y, beta=3.0, levels=3, activation="relu_like")
    network = random_network(problem, m=3)
    nu = certify(network, problem, bound_type="exact").nu
    path = tmp_path_factory.mktemp("certificate") / "c"
    certificate_of(problem, network, nu, [mixed_tree(problem.map.adjoint(nu))], "exact").save(path)
    return path


def raised(f: dict[str, Any]) -> None:
    f["lower_bound"] = f["lower_bound"] * (1 + 1e-8)


def lowered(f: dict[str, Any]) -> None:
    f["objective"] = f["objective"] * (1 - 1e-8)


def other_dual(f: dict[str, Any]) -> None:
    f["nu"] = f["nu"][::-1].copy()


def larger_dual(f: dict[str, Any]) -> None:
    f["nu"] = f["nu"] * 2.0
    f["lower_bound"] = f["lower_bound"] * 1.2


def flipped(f: dict[str, Any]) -> None:
    f["U"][0, -1] *= -1


def no_level(f: dict[str, Any]) -> None:
    f["U"][0, 0] = 1


def beyond_levels(f: dict[str, Any]) -> None:
    f["U"][0, 0] = 4


def no_sign(f: dict[str, Any]) -> None:
    f["V"][0, -1] = 0


def dropped(f: dict[str, Any]) -> None:
    f["leaves"] = f["leaves"] - 1
    f["lengths"], f["shifted"], f["signs"] = f["lengths"][:-1], f["shifted"][:-1], f["signs"][:-2]


def doubled(f: dict[str, Any]) -> None:
    f["signs"][5] = 1  # the second leaf becomes the first one


def reversed_signs(f: dict[str, Any]) -> None:
    f["signs"] = -f["signs"]


def bad_order(f: dict[str, Any]) -> None:
    f["order"][0, 0] = f["order"][0, 1]


def larger_shift(f: dict[str, Any]) -> None:
    f["shifts"] = 3.0 * f["shifts"]


def cut_shift(f: dict[str, Any]) -> None:
    f["shifts"] = f["shifts"][:-1]


def infinite_shift(f: dict[str, Any]) -> None:
    f["shifts"][0] = np.inf


def nan_dual(f: dict[str, Any]) -> None:
    f["nu"][0] = np.nan


def nan_bound(f: dict[str, Any]) -> None:
    f["lower_bound"] = np.array(np.nan)


def nan_objective(f: dict[str, Any]) -> None:
    f["objective"] = np.array(np.nan)


def other_beta(f: dict[str, Any]) -> None:
    f["beta"] = f["beta"] * 0.9


def other_target(f: dict[str, Any]) -> None:
    f["y"] = f["y"] * 1.001


def other_loss(f: dict[str, Any]) -> None:
    f["loss"] = np.array("huber")
    f["parameters"] = np.array([1.0])


def unknown_loss(f: dict[str, Any]) -> None:
    f["loss"] = np.array("cubic")


def fewer_levels(f: dict[str, Any]) -> None:
    f["levels"] = np.array(2)


def no_activation(f: dict[str, Any]) -> None:
    f["activation"] = np.zeros(0)


def unknown_bound_type(f: dict[str, Any]) -> None:
    f["bound_type"] = np.array("perfect")


def missing(f: dict[str, Any]) -> None:
    f["nu"] = None


def pickled(f: dict[str, Any]) -> None:
    f["nu"] = np.array([print], dtype=object)


def scalar_data(f: dict[str, Any]) -> None:
    f["X"] = np.array(1.0)


TAMPERED: list[Callable[[dict[str, Any]], None]] = [
    raised, lowered, other_dual, larger_dual, flipped, no_level, beyond_levels, no_sign, dropped, doubled,
    reversed_signs, bad_order, larger_shift, cut_shift, infinite_shift, nan_dual, nan_bound, nan_objective, other_beta,
    other_target, other_loss, unknown_loss, fewer_levels, no_activation, unknown_bound_type, missing, pickled,
    scalar_data,
]  # fmt: skip


def test_rewriting_alone_changes_nothing(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten(tmp_path / "c", **contents_of(saved))
    assert answer(tmp_path / "c", capsys)[0] == 0


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda tamper: tamper.__name__)
def test_false_claims_with_a_right_digest(
    tamper: Callable[[dict[str, Any]], None], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = contents_of(saved)
    tamper(fields)
    rewritten(tmp_path / "c", **fields)
    code, line = answer(tmp_path / "c", capsys)
    # A weight that is none changes the objective, too, which may not be what is found.
    levels = dict.fromkeys((no_level, beyond_levels), "a weight is not one of the levels")
    reason = {**levels, no_sign: "a last weight is not a sign"}.get(tamper, "")
    assert code == 1
    assert line.startswith("no: ")
    assert reason in line


def test_one_half_twice_is_not_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(6, "squared")
    halves = [Leaf(np.array(fixed, dtype=np.int8), None) for fixed in ((1, 1), (1, -1))]
    tree = BoundTree(np.arange(3), tuple(halves))
    certificate_of(problem, random_network(problem), problem.y, [tree], "exact").save(tmp_path / "c")
    assert answer(tmp_path / "c", capsys)[0] == 0
    for half in (1, -1):
        fields = contents_of(tmp_path / "c")
        fields["signs"][[1, 3]] = half
        rewritten(tmp_path / "d", **fields)
        assert answer(tmp_path / "d", capsys) == (1, "no: signs: a leaf is contained in another one")


@pytest.mark.parametrize(
    ("loss", "change", "message"),
    [
        ("absolute", lambda nu: nu * 1.5 / np.abs(nu).max(), "leaves its domain, w a"),
        ("huber", lambda nu: nu * 2.1 / np.abs(nu).max(), "leaves its domain, w a"),
        ("hinge", np.negative, "leaves its domain, w a"),
        ("squared_hinge", np.negative, "leaves its domain, w a"),
        ("logistic", np.negative, "leaves its domain, p >= 0"),
        ("logistic", lambda nu: nu * 1.5 / np.abs(nu).max(), "leaves its domain, p <= 1"),
        ("cross_entropy", np.negative, "leaves its domain, p >= 0"),
        ("cross_entropy", lambda nu: nu + 1e-9, "leaves its domain, sum p = 1"),
    ],
)
def test_dual_vectors_outside_their_domain(
    loss: str, change: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = problem_of(1, loss)
    # So much regularisation that the penalty restricts nothing: only the domain stands against these.
    problem = qsdp.TrainingProblem(problem.X, problem.y, beta=1e6, loss=loss)
    network = random_network(problem)
    nu = -problem.loss.gradient(network.predict(problem.X), problem.y)
    tree = BoundTree(np.arange(3), (Leaf(np.zeros(0, dtype=np.int8), None),))
    certificate_of(problem, network, nu, [tree] * problem.n_outputs, "exact").save(tmp_path / "c")
    assert answer(tmp_path / "c", capsys)[0] == 0
    fields = contents_of(tmp_path / "c")
    rewritten(tmp_path / "c", **{**fields, "nu": change(fields["nu"])})
    code, line = answer(tmp_path / "c", capsys)
    assert code == 1
    assert message in line


@pytest.mark.parametrize("targets", [[0.5, 1.0], [0.0, 1.0]])
def test_targets_that_are_no_labels(targets: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(1, "hinge")
    certify(random_network(problem), problem).save(tmp_path / "c")
    fields = contents_of(tmp_path / "c")
    fields["y"][:2] = targets
    rewritten(tmp_path / "c", **fields)
    assert answer(tmp_path / "c", capsys) == (1, "no: y: the targets are not labels -1, +1")


# -- sample weights ------------------------------------------------------------------------------------


def tree_of(problem: qsdp.TrainingProblem) -> list[BoundTree]:
    leaf = Leaf(np.zeros(0, dtype=np.int8), None)
    return [BoundTree(np.arange(problem.size), (leaf,))] * problem.n_outputs


def simple_certificate(problem: qsdp.TrainingProblem, seed: int = 0) -> Certificate:
    """The exact certificate of a random network and the gradient there, without a relaxation."""
    network = random_network(problem, seed)
    nu = -problem.data_fit.gradient(problem.outputs(network))
    return certificate_of(problem, network, nu, tree_of(problem), "exact")


def with_weights(problem: qsdp.TrainingProblem, weights: Any) -> qsdp.TrainingProblem:
    return qsdp.TrainingProblem(
        problem.X, problem.y, beta=problem.beta, loss=problem.loss, activation=problem.activation,
        levels=problem.levels, sample_weight=weights,
    )  # fmt: skip


@pytest.mark.parametrize("loss", [*LOSSES, Huber(0.3)], ids=str)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-60, 60), include=st.booleans())
def test_weighted_certificates_are_written_read_and_confirmed(
    loss: Any, seed: int, exponent: int, include: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    base, rng = problem_of(seed, loss), np.random.default_rng(seed)
    weights = 10.0**exponent * rng.choice([1.0, 0.1, 7.0, 1.0 / 3.0], base.n_samples)
    problem = with_weights(base, weights)
    problem = problem.with_beta(base.beta * 10.0**exponent)
    certificate = simple_certificate(problem, seed)
    path, data = tmp_path / "c", tmp_path / "data.npz"
    certificate.save(path, include_data=include)
    arrays = {"X": problem.X, "y": problem.y, "sample_weight": weights}
    np.savez(data, **arrays)
    assert answer(path, capsys, "--data", str(data))[0] == 0
    loaded = load_certificate(path, problem)
    assert loaded == certificate
    assert loaded.proof is not None
    assert loaded.proof.problem == problem
    alone = load_certificate(path)
    assert alone == certificate
    if include:
        assert answer(path, capsys)[0] == 0
        assert alone.proof is not None
        assert np.array_equal(alone.proof.problem.sample_weight, weights)
        alone.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()
    # The same data with another weight, or with none, are other data.
    for name, changed in [("other", np.where(np.arange(len(weights)) == 0, 2.0 * weights, weights)), ("none", None)]:
        np.savez(
            tmp_path / name,
            **{**arrays, "sample_weight": changed} if name == "other" else {"X": problem.X, "y": problem.y},
        )
        assert "the certificate does not belong to" in answer(path, capsys, "--data", str(tmp_path / f"{name}.npz"))[1]
        with pytest.raises(StorageError, match=r"belongs to different data|belongs to a different problem"):
            load_certificate(path, with_weights(problem, changed))


@pytest.mark.parametrize("weights", [[0.0, 1.0, 2.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0], [1.0] * 8 + [0.0], [1.0] * 9])
@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_data_given_apart_may_have_weights_of_zero_and_one(
    loss: str, weights: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = problem_of(1, loss)
    y = np.argmax(base.y, axis=1) if loss == "cross_entropy" else base.y
    simple_certificate(with_weights(base, weights)).save(tmp_path / "c", include_data=False)
    np.savez(tmp_path / "data.npz", X=base.X, y=y, sample_weight=weights)
    assert answer(tmp_path / "c", capsys, "--data", str(tmp_path / "data.npz"))[0] == 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: np.where(np.arange(len(w)) == 3, 1.001 * w, w), "objective: it is"),
        (lambda w: 0.99 * w, "objective: it is"),
        (lambda w: w[::-1].copy(), "objective: it is"),
        (lambda w: None, "objective: it is"),
        (lambda w: np.where(np.arange(len(w)) == 3, 0.0, w), "no: sample_weight: "),
        (np.negative, "no: sample_weight: "),
        (lambda w: np.full_like(w, np.nan), "no: sample_weight: "),
        (lambda w: w[:-1], "no: sample_weight: "),
        (lambda w: w[:, None], "no: sample_weight: "),
    ],
)
def test_changed_weights_with_a_right_digest_are_refused(
    loss: Any, change: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = with_weights(problem_of(1, loss), np.random.default_rng(0).uniform(0.5, 2.0, 9))
    simple_certificate(problem).save(tmp_path / "c")
    fields = contents_of(tmp_path / "c")
    rewritten(tmp_path / "c", **{**fields, "sample_weight": change(fields["sample_weight"])})
    code, line = answer(tmp_path / "c", capsys)
    assert code == 1
    assert message in line


def test_lighter_weights_have_a_smaller_domain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = with_weights(problem_of(1, "absolute").with_beta(1e6), np.full(9, 2.0))
    simple_certificate(problem).save(tmp_path / "c")
    fields = contents_of(tmp_path / "c")
    lighter = with_weights(problem, np.full(9, 1.9))
    objective = lighter.objective(random_network(problem))
    rewritten(tmp_path / "c", **{**fields, "sample_weight": np.full(9, 1.9), "objective": np.array(objective)})
    assert answer(tmp_path / "c", capsys) == (1, "no: nu: the dual vector leaves its domain, w a <= nu <= w b")


# -- damage --------------------------------------------------------------------------------------------


def test_no_bit_can_be_flipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = qsdp.TrainingProblem([[1.0], [2.0]], [1.0, 3.0], beta=0.1)
    path = tmp_path / "c"
    certify(qsdp.BilinearNetwork([[1]], [[1]], [0.5]), problem, bound_type="exact").save(path)
    whole = path.read_bytes()
    # A third of the bits of the two lines and few of the others, at every position of a byte.
    for bit in [*range(0, 8 * 100, 3), *range(800, 8 * len(whole), 29)]:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert qsdp_check.main([str(path)]) != 0
        with pytest.raises(StorageError, match="is not a valid certificate"):
            load_certificate(path)
    capsys.readouterr()


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_and_extended_files(
    data: st.DataObject, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, path = saved.read_bytes(), tmp_path / "c"
    end = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:end] if data.draw(st.booleans()) else whole + whole[end:])
    assert qsdp_check.main([str(path)]) != 0
    with pytest.raises(StorageError, match="is not a valid certificate"):
        load_certificate(path)
    capsys.readouterr()


def test_foreign_and_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c").write_text("not one")
    np.savez(tmp_path / "other.npz", X=np.zeros(3))
    for name in ("c", "other.npz", "missing", "."):
        assert qsdp_check.main([str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert qsdp_check.main(["missing"]) == 2
    assert capsys.readouterr().err == "error: 'missing': No such file or directory\n"
    with pytest.raises(StorageError, match=r"other.npz' is not a valid certificate: it has no certificate header"):
        load_certificate(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        load_certificate(tmp_path / "missing")
    with pytest.raises(SystemExit) as error:
        qsdp_check.main([])
    assert error.value.code == 2


# -- data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize("include", [True, False])
def test_the_data_can_be_given_apart(
    loss: str, include: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = problem_of(1, loss)
    certificate = certify(random_network(problem), problem, bound_type="exact")
    path, data, other = tmp_path / "c", tmp_path / "data.npz", tmp_path / "other.npz"
    certificate.save(path, include_data=include)
    y = np.argmax(problem.y, axis=1) if loss == "cross_entropy" else problem.y
    np.savez(data, X=problem.X, y=y)
    np.savez(other, X=np.nextafter(problem.X, 9.0), y=y)
    assert answer(path, capsys, "--data", str(data))[0] == 0
    field = "X" if include else "data_sha256"
    assert answer(path, capsys, "--data", str(other)) == (1, f"no: {field}: the certificate does not belong to {other}")
    assert qsdp_check.main([str(path), "--data", str(tmp_path / "missing")]) == 2
    np.save(tmp_path / "one.npy", problem.X)
    np.savez(tmp_path / "objects.npz", X=problem.X.astype(object), y=y)
    (tmp_path / "text.csv").write_text("1,2\n")
    for name in ("one.npy", "objects.npz", "text.csv"):
        assert qsdp_check.main([str(path), "--data", str(tmp_path / name)]) == 2
        assert f"{name} is not an archive of arrays, as numpy.savez writes them" in capsys.readouterr().err
    if include:
        assert load_certificate(path).proof is not None
    else:
        assert answer(path, capsys) == (1, "no: the file holds only a digest of its data: give them with --data")
        assert load_certificate(path).proof is None
        assert load_certificate(path) == certificate
    loaded = load_certificate(path, problem)
    assert loaded.proof is not None
    assert loaded.proof.problem == problem
    assert np.array_equal(loaded.nu, certificate.nu)
    moved = qsdp.TrainingProblem(np.nextafter(problem.X, 9.0), problem.y, beta=problem.beta, loss=loss)
    with pytest.raises(StorageError, match=r"belongs to different data|belongs to a different problem"):
        load_certificate(path, moved)
    heavier = qsdp.TrainingProblem(problem.X, problem.y, beta=0.2, loss=loss)
    with pytest.raises(StorageError, match="belongs to a different problem"):
        load_certificate(path, heavier)


def test_digests_agree_and_depend_on_shapes() -> None:
    X, y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    assert data_digest(X, y) == qsdp_check.digest_of({"X": X, "y": y})
    assert data_digest(X, y) == data_digest(np.asfortranarray(X), y) == data_digest(X, np.where(y == 0.0, -0.0, y))
    different = {data_digest(X, y), data_digest(X.reshape(2, 3), y), data_digest(X, y[:, None]), data_digest(X + 1, y)}
    assert len(different) == 4


# -- saving --------------------------------------------------------------------------------------------


def test_equal_certificates_are_equal_bytes(saved: Path, tmp_path: Path) -> None:
    certificate = load_certificate(saved)
    certificate.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()
    assert certificate.proof is not None
    for array in (certificate.nu, certificate.proof.problem.X, certificate.proof.network.U):
        assert array is not None
        assert not array.flags.writeable


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="without a proof cannot be saved"):
        Certificate(1.0, 2.0).save(tmp_path / "c")

    good = qsdp.TrainingProblem([[1.0], [2.0]], [1.0, 3.0], beta=0.1)
    certificate = certify(qsdp.BilinearNetwork([[1]], [[1]], [0.5]), good)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        certificate.save(tmp_path / "missing" / "c")
    with pytest.raises(InvalidInputError, match="include_data must be True or False"):
        certificate.save(tmp_path / "c", include_data=1)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# -- numbers that overflow ------------------------------------------------------------------------------


def test_an_allowance_that_is_no_number_is_not_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a row is huge and its multiplier is zero, the allowance for rounding is infinity times zero."""
    X = np.vstack([np.random.default_rng(0).standard_normal((20, 2)), [1.0, -1.0]])
    y = np.append(X[:20, 0] * X[:20, 1], 0.0)
    problem = qsdp.TrainingProblem(X, y, beta=0.3)
    certify(qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [0.0]), problem, bound_type="exact").save(tmp_path / "c")
    fields = contents_of(tmp_path / "c")
    fields["X"] = np.vstack([X[:20], [1e200, -1e200]])
    rewritten(tmp_path / "c", **{**fields, "nu": 2.0 * y, "lower_bound": fields["objective"]})
    assert answer(tmp_path / "c", capsys) == (1, "no: X: 1e+200 is not within 1e-100 .. 1e+100")


def test_a_shift_too_small_to_divide_by_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eigenvalues of a matrix with infinite entries are no numbers, which must not count as positive."""
    problem = problem_of(1, "squared")
    certify(random_network(problem), problem).save(tmp_path / "c")
    fields = contents_of(tmp_path / "c")
    fields["shifts"] = np.full_like(fields["shifts"], 1e-310)
    rewritten(tmp_path / "c", **{**fields, "nu": 2.0 * fields["y"], "lower_bound": fields["objective"]})
    code, line = answer(tmp_path / "c", capsys)
    assert (code, line[:22]) == (1, "no: lower_bound: only ")


# -- its parts -----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), N=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 17]), k=st.integers(0, 4))
def test_its_enumeration(seed: int, N: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3 * N, N)) if seed % 2 else rng.integers(-2, 3, (3 * N, N)).astype(float)
    if seed % 3 == 0:
        X[:, 0] = 0.0
    M = X.T @ (X * rng.standard_normal(3 * N)[:, None])
    order, s = rng.permutation(N), np.concatenate([[1], rng.choice([-1, 1], 3)])[: min(k, N)]
    U = qsdp_check.signs_of(N).T
    these = np.all(U[:, order[: len(s)]] == s, axis=1)
    true = np.abs(U[these] @ M).sum(axis=1).max()
    assert qsdp_check.enumerate_leaf(M, order, s, io.StringIO()) == pytest.approx(true, rel=1e-12, abs=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 7))
def test_its_pricing_value_of_a_leaf_with_any_shift(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((N, N))
    M = M + M.T
    true = np.abs(qsdp_check.signs_of(N).T @ M).sum(axis=1).max()
    z = rng.standard_normal(1 + 2 * N) * 10.0 ** rng.uniform(-2, 1)
    cuts = rng.integers(-1, 2, (rng.integers(0, 4), 1 + 2 * N))
    cuts[:, 0] += (cuts.sum(axis=1) + 1) % 2
    leaves = [(np.zeros(0, dtype=int), z, cuts.astype(float), rng.exponential(size=len(cuts)))]
    assert qsdp_check.pricing_bound(M, rng.permutation(N), leaves, io.StringIO()) >= true * (1 - 1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 7))
def test_its_halves_of_a_leaf_are_the_library_s(seed: int, N: int) -> None:
    """Those of the library are compared with their definition."""
    rng = np.random.default_rng(seed)
    M, order = rng.integers(-4, 5, (N, N)).astype(float), rng.permutation(N).astype(np.uint8)
    M = M + M.T
    z, cuts = rng.integers(-4, 9, 1 + 2 * N).astype(float), rng.integers(-1, 2, (3, 1 + 2 * N))
    weights = rng.integers(0, 5, 3).astype(float)
    shift = z[: 1 + N] + qsdp_check.mirrored(z, order)
    own = qsdp_check.halves_of(M, shift, cuts[:, : 1 + N], qsdp_check.mirrored(cuts, order), weights)
    theirs = halves(M, order, folded(z, order), LeafCuts(cuts.astype(np.int8), weights))
    assert all(np.array_equal(A, B) for A, B in zip(own, theirs, strict=True))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(2, 7))
def test_halves_prove_no_less_than_the_whole_matrix(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    M, order = rng.standard_normal((N, N)), rng.permutation(N)
    M = M + M.T
    z = rng.standard_normal(1 + 2 * N) * 10.0 ** rng.uniform(-2, 1)
    cuts = rng.integers(-1, 2, (3, 1 + 2 * N)).astype(float)
    cuts[:, 0] += (cuts.sum(axis=1) + 1) % 2
    leaves = [(np.zeros(0, dtype=int), z, cuts, rng.exponential(size=3))]
    found = qsdp_check.pricing_bound(M, order, leaves, io.StringIO())
    # A matrix that is not symmetric in a last digit is bounded as a whole.
    M[0, -1] = np.nextafter(M[0, -1], np.inf)
    assert found <= qsdp_check.pricing_bound(M, order, leaves, io.StringIO()) * (1 + 1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_indefinite_half_is_refused(sign: float) -> None:
    """With the matrix J + I of side 6, one of both halves is semidefinite without any shift."""
    M = sign * (np.ones((6, 6)) + np.eye(6))
    for part in (0.0, 0.5, 0.99):
        z = np.concatenate([[0.0], np.full(12, part * 3.5)])
        leaves = [(np.zeros(0, dtype=int), z, np.zeros((0, 13)), np.zeros(0))]
        assert 42.0 <= qsdp_check.pricing_bound(M, np.arange(6), leaves, io.StringIO()) <= 84.0


# -- cuts ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cut_certificate() -> Certificate:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 9))
    problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1] + rng.standard_normal(30), beta=0.05)
    planes = CuttingPlanes(Instance.from_problem(problem), rng)
    for _ in range(4):
        planes.improve()
    best = planes.best
    assert best is not None
    (tree,) = best.trees
    return certificate_of(problem, random_network(problem), best.nu, [tree], "sdp")


def test_cuts_are_saved_and_accepted(
    cut_certificate: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cut_certificate.proof is not None
    plain = qsdp.solve_relaxation(cut_certificate.proof.problem)
    assert cut_certificate.lower_bound > 1.02 * plain.lower_bound
    path = tmp_path / "cuts.qsdp"
    cut_certificate.save(path)
    code, line = answer(path, capsys)
    assert code == 0, line
    again = load_certificate(path)
    assert again == cut_certificate
    again.save(tmp_path / "again.qsdp")
    assert path.read_bytes() == (tmp_path / "again.qsdp").read_bytes()


def _with(array: np.ndarray, place: int, value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


FORGERIES: dict[str, Callable[[dict[str, np.ndarray]], dict[str, Any]]] = {
    "no cuts at all": lambda f: {"cut_weights": 0.0 * f["cut_weights"]},
    "larger weights": lambda f: {"cut_weights": 1.01 * f["cut_weights"]},
    "a negative weight": lambda f: {"cut_weights": _with(f["cut_weights"], 0, -1e-3)},
    "an infinite weight": lambda f: {"cut_weights": _with(f["cut_weights"], 0, np.inf)},
    "no number": lambda f: {"cut_weights": _with(f["cut_weights"], 0, np.nan)},
    "wrong signs": lambda f: {"cut_values": np.abs(f["cut_values"])},
    "other nodes": lambda f: {"cut_nodes": (f["cut_nodes"] + 1) % 19},
    "an even sum": lambda f: {"cut_values": _with(f["cut_values"], 0, 2)},
    "a fraction": lambda f: {"cut_values": 0.5 * f["cut_values"]},
    "a node twice": lambda f: {"cut_nodes": _with(f["cut_nodes"], 1, f["cut_nodes"][0])},
    "a node outside": lambda f: {"cut_nodes": _with(f["cut_nodes"], 0, 19)},
    "a negative node": lambda f: {"cut_nodes": _with(f["cut_nodes"], 0, -1)},
    "fewer weights": lambda f: {"cut_weights": f["cut_weights"][1:]},
    "fewer entries": lambda f: {"cut_nodes": f["cut_nodes"][1:]},
    "a count too many": lambda f: {"cuts": f["cuts"] + 1},
    "counts of other leaves": lambda f: {"cuts": np.append(f["cuts"], 0)},
    "a negative length": lambda f: {"cut_lengths": _with(f["cut_lengths"], 0, -3)},
}


FORGED_REASONS = {
    **dict.fromkeys(("a negative weight", "an infinite weight", "no number"), "the weight of a cut is negative"),
    "an even sum": "a cut has an even sum",
    "a node twice": "a cut has a wrong entry",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_cuts_are_rejected(
    forgery: str, cut_certificate: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cuts.qsdp"
    cut_certificate.save(path)
    contents = contents_of(path)
    rewritten(path, **{**contents, **FORGERIES[forgery](contents)})
    code, line = answer(path, capsys)
    assert code == 1, line
    # Another reason, such as a bound that moves as well, would hide a check that is gone.
    assert line.startswith("no: ")
    assert FORGED_REASONS.get(forgery, "") in line
    # Reading does not compute the bound again, but takes no malformed proof.
    if forgery not in ("no cuts at all", "larger weights", "wrong signs", "other nodes"):
        with pytest.raises(StorageError):
            load_certificate(path)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(5))
def test_its_losses_are_the_library_s(loss: str, seed: int) -> None:
    problem, rng = problem_of(seed, loss), np.random.default_rng(seed)
    t = 3.0 * rng.standard_normal(problem.targets.shape)
    fields = {"loss": np.array(loss), "parameters": np.ones(1)}
    n, w = len(problem.y), rng.uniform(0.1, 3.0, len(problem.y))
    for weights in (np.ones(n), w):
        fit = DataFit(problem.loss, problem.targets, weights)
        its = qsdp_check.Loss(fields, problem.targets, weights[:, None])
        assert its.value(t) == pytest.approx(fit.value(t), rel=1e-13)
        nu = fit.project(rng.standard_normal(problem.targets.shape))
        found, dual = its.dual_value(nu), fit.dual_value((1.0 - 2.0**-50) * nu)
        size = np.abs(nu * problem.targets).sum() + np.square(nu).sum() / weights.min() + weights.sum()
        assert dual - 1e-13 * size <= found <= dual + 1e-15 * size


# -- limits --------------------------------------------------------------------------------------------


def test_time_limit_leaves_it_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A leaf of 38 free signs of a random matrix takes hours."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 38))
    problem = qsdp.TrainingProblem(X, rng.standard_normal(60), beta=0.1)
    network = qsdp.BilinearNetwork(np.ones((1, 38)), np.ones((1, 38)), [0.0])
    certificate = qsdp.certify(network, problem, qsdp.solve_relaxation(problem, max_iter=3))
    path = tmp_path / "slow.qsdp"
    certificate.save(path)
    arrays = contents_of(path) | {"shifted": np.array([False]), "shifts": np.zeros(0)}
    rewritten(path, **arrays | {"nu": rng.standard_normal(60)})
    assert qsdp_check.main([str(path), "--time-limit", "0.2"]) == 2
    assert "not decided in 0.2 seconds" in capsys.readouterr().err


def test_compressed_archives_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.zeros((10**5, 10)))
    digest = hashlib.sha256(stream.getvalue()).hexdigest().encode()
    path = tmp_path / "bomb.qsdp"
    path.write_bytes(qsdp_check.MAGIC + digest + b"\n" + stream.getvalue())
    assert qsdp_check.main([str(path)]) == 1
    assert "the archive is compressed" in capsys.readouterr().out
    with pytest.raises(StorageError, match="its archive is compressed"):
        load_certificate(path)


def test_a_penalty_beyond_floats_is_no_excuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An infinite objective has an infinite tolerance, in which any claim would lie."""
    problem = problem_of(0, "squared")
    path = tmp_path / "one.qsdp"
    qsdp.column_generation(problem).certificate.save(path)
    rewritten(path, **contents_of(path) | {"beta": np.array(1e308)})
    assert answer(path, capsys) == (1, "no: beta: 1e+308 is not within 1e-300 .. 1e300")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("shifted", np.zeros(1)),
        ("levels", np.array(2.0)),
        ("loss", np.array(1.0)),
        ("beta", np.array([0.1])),
        ("U", np.array([["1"]])),
        ("lower_bound", np.array("0.1")),
        ("bound_type", np.array(["exact"])),
    ],
)
def test_entries_of_a_wrong_kind(
    name: str, array: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.qsdp"
    qsdp.column_generation(problem_of(0, "squared")).certificate.save(path)
    rewritten(path, **contents_of(path) | {name: array})
    code, line = answer(path, capsys)
    assert code == 1
    assert line.startswith(f"no: {name}: ")


def test_dual_vector_that_a_projection_moves(tmp_path: Path) -> None:
    """The tree is of the matrix before; where rows are huge, rounding moves that by three times its largest value."""
    large = [-708414.5568688487, -4311944129.5610485, 4919373.12132673, 4496.658882451213, -2195214516.805423]
    X = np.stack([large, [-1.1, 5.4e3, 7.66, -1.64e-3, 8.644e3]], axis=1)
    weights = [1.0, 1.0, 1.0, 2.0, 1.0]
    problem = qsdp.TrainingProblem(
        X, [1, 0, 1, 0, 0], beta=110.0, loss="cross_entropy", levels=4, sample_weight=weights
    )
    column = [-1.110954486556706e-07, 0.0, -1.1109896547618915e-07, 2.2219074835672088e-07, 5.694843844468392e-13]
    nu = np.stack([column, np.negative(column)], axis=1)
    moved = np.abs(problem.data_fit.project(nu) - nu)
    matrices = [problem.map.adjoint(column) for column in nu.T]
    trees = [root_tree(np.abs(M).sum(axis=1)) for M in matrices]
    uppers = [tree_bound(M, tree) for M, tree in zip(matrices, trees, strict=True)]
    assert entry_size(problem.map, moved)[0] > uppers[0]
    network = qsdp.BilinearNetwork(np.full((1, 2), 3), np.full((1, 2), 3), np.zeros((1, 2)), levels=4)
    certificate = certificate_of(problem, network, nu, trees, "sdp", uppers)
    assert certificate.lower_bound > 0.0
    certificate.save(tmp_path / "file")
    assert qsdp_check.main([str(tmp_path / "file")]) == 0


@pytest.mark.parametrize("blocks", [False, True], ids=["rows", "blocks"])
def test_objectives_that_only_the_worst_rounding_makes_uncertain_are_saved(blocks: bool, tmp_path: Path) -> None:
    """Their sums in several orders agree."""
    rng = np.random.default_rng(0)
    rows, y, signs = rng.standard_normal((12, 9)), rng.standard_normal(12), rng.choice([-1, 1], (8, 3))
    pairs, alpha = np.vstack([signs, signs]), np.repeat([1e4, -1e4], 8) + 0.1
    if blocks:
        layout = qsdp.Blocks(rows, [3, 3], ["weights", "quadratic"])
        problem = qsdp.TrainingProblem(layout, y, beta=1e-7)
        weights = np.array([10.0, 0.5, 1.0])
        network = qsdp.BilinearNetwork.on_blocks(problem.blocks, pairs, pairs, alpha, np.zeros(16, dtype=int), weights)
    else:
        problem = qsdp.TrainingProblem(rows[:, :3], y, beta=1e-7)
        network = qsdp.BilinearNetwork(pairs, pairs, alpha)
    assert problem.objective_rounding(network) > 1e-9 * problem.objective(network)
    certificate = certify(network, problem)
    certificate.save(tmp_path / "file")
    assert load_certificate(tmp_path / "file") == certificate
    assert qsdp_check.main([str(tmp_path / "file")]) == 0
