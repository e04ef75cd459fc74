"""Certificates: identities, refusals, and the bound against the true optimum of enumerated problems."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from brute_force import (
    ACTIVATIONS,
    Pinball,
    global_optimum,
    optimal_network,
    random_neurons,
    random_problem,
    random_vector_problem,
    weighted,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import (
    BilinearNetwork,
    Certificate,
    PolynomialNetwork,
    Relaxation,
    TrainingProblem,
    certify,
    certify_stream,
    column_generation,
    from_polynomial,
    solve_relaxation,
)
from qsdp.certificates import certificate_of
from qsdp.exceptions import InvalidInputError
from qsdp.losses import SCALAR_LOSSES
from qsdp.pricing import BilinearOracle, BoundTree, Leaf, OracleResult
from qsdp.pricing.bound_trees import root_tree

FUZZ = settings(max_examples=80, deadline=None, derandomize=True)
#: Krivine's bound on Grothendieck's constant.
KRIVINE = math.pi / (2 * math.asinh(1.0))


def make(loss: str, *, n: int = 15, d: int = 3, beta: float = 0.5, seed: int = 0) -> TrainingProblem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] * X[:, 1] - 0.3 * rng.standard_normal(n)
    return TrainingProblem(X, np.sign(y) if SCALAR_LOSSES[loss].labels else y, beta=beta, loss=loss)


@pytest.fixture(scope="module")
def solved() -> dict[str, Relaxation]:
    return {loss: solve_relaxation(make(loss)) for loss in SCALAR_LOSSES}


def true_optimum(problem: TrainingProblem) -> BilinearNetwork:
    """Return the best network of any width: a convex problem over all pairs of sign vectors up to sign."""
    d = problem.dimension
    half = [np.array((1, *rest)) for rest in itertools.product((-1, 1), repeat=d - 1)]
    pairs = list(itertools.combinations_with_replacement(half, 2))
    features = np.stack([(problem.X @ u) * (problem.X @ v) for u, v in pairs], axis=1)
    alpha = cp.Variable(len(pairs))
    value = problem.loss.expression(features @ alpha, problem.y) + problem.beta * d * cp.norm1(alpha)
    cp.Problem(cp.Minimize(value)).solve(solver=cp.SCS, eps_abs=1e-9, eps_rel=1e-9, max_iters=100_000)
    return BilinearNetwork([u for u, _ in pairs], [v for _, v in pairs], alpha.value)


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_the_bound_is_below_the_true_optimum_and_not_far(loss: str, solved: dict[str, Relaxation]) -> None:
    problem = make(loss)
    certificate = certify(true_optimum(problem), problem, solved[loss])
    assert certificate.gap >= 0.0
    # p* <= d(K beta) <= K d(beta) for losses >= 0; the relaxation itself is solved to 1e-4.
    assert certificate.objective <= KRIVINE * certificate.lower_bound * (1 + 1e-4)
    assert certificate.lower_bound > 0.1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_the_bound_is_below_the_true_optimum_on_more_data(seed: int, beta: float) -> None:
    problem = make("squared", n=12, d=4, beta=beta, seed=seed)
    certificate = certify(true_optimum(problem), problem, solve_relaxation(problem))
    assert certificate.gap >= 0.0
    assert certificate.objective <= KRIVINE * certificate.lower_bound * (1 + 1e-4)


# -- refusals ----------------------------------------------------------------------------------------

NETWORK = BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.5])


@pytest.mark.parametrize("width", [1, 2, 4])
def test_networks_of_another_width(width: int, solved: dict[str, Relaxation]) -> None:
    network = BilinearNetwork(np.ones((2, width)), np.ones((2, width)), [1.0, 1.0])
    with pytest.raises(InvalidInputError, match=rf"network must have n_inputs 3, as the problem has; got {width}"):
        certify(network, make("squared"), solved["squared"])


def nudged(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.flat[0] = np.nextafter(changed.flat[0], np.inf)
    return changed


P = make("squared")
OTHERS: dict[str, TrainingProblem] = {
    "another beta": TrainingProblem(P.X, P.y, beta=P.beta * 2),
    "beta one rounding off": TrainingProblem(P.X, P.y, beta=float(np.nextafter(P.beta, 1))),
    "one entry of X one rounding off": TrainingProblem(nudged(P.X), P.y, beta=P.beta),
    "one entry of y one rounding off": TrainingProblem(P.X, nudged(P.y), beta=P.beta),
    "another loss": TrainingProblem(P.X, P.y, beta=P.beta, loss="huber"),
    "fewer samples": TrainingProblem(P.X[:-1], P.y[:-1], beta=P.beta),
    "other order": TrainingProblem(P.X[::-1], P.y[::-1], beta=P.beta),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_relaxations_of_another_problem(other: TrainingProblem, solved: dict[str, Relaxation]) -> None:
    with pytest.raises(InvalidInputError, match="relaxation must belong to the same problem"):
        certify(NETWORK, other, solved["squared"])


def test_an_equal_problem_will_do(solved: dict[str, Relaxation]) -> None:
    copied = TrainingProblem(P.X.tolist(), P.y.tolist(), beta=P.beta)
    assert certify(NETWORK, copied, solved["squared"]) == certify(NETWORK, P, solved["squared"])


@pytest.mark.parametrize(
    ("what", "network"),
    [
        ("levels 2, as the problem has; got 3", BilinearNetwork([[2, 0, -2]], [[0, 2, 2]], [0.5], levels=3)),
        ("n_outputs 1, as the problem has; got 2", BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [[0.5, 1.0]])),
        ("activation None, as the problem has", BilinearNetwork([[1] * 3], [[1] * 3], [0.5], activation="quadratic")),
        ("activation None, as the problem has", BilinearNetwork([[1] * 4], [[1] * 4], [0.5], activation="relu_like")),
    ],
)
def test_networks_of_another_kind(what: str, network: BilinearNetwork, solved: dict[str, Relaxation]) -> None:
    with pytest.raises(InvalidInputError, match=f"network must have {what}"):
        certify(network, make("squared"), solved["squared"])


@pytest.mark.parametrize(
    "options", [{"levels": 3}, {"activation": "relu_like"}, {"activation": "relu_like", "levels": 3}], ids=str
)
def test_problems_of_other_levels_and_activations_are_others(
    options: dict[str, Any], solved: dict[str, Relaxation]
) -> None:
    other = TrainingProblem(P.X, P.y, beta=P.beta, **options)
    assert other != P
    size = P.n_features + other.lifted
    network = BilinearNetwork(
        np.ones((1, size)) * (1 if options.get("levels", 2) == 2 else np.r_[np.zeros(3), np.ones(size - 3)]),
        np.ones((1, size)) * (1 if options.get("levels", 2) == 2 else np.r_[np.zeros(3), np.ones(size - 3)]),
        [0.5],
        levels=other.levels,
        activation=other.activation,
    )
    with pytest.raises(InvalidInputError, match="relaxation must belong to the same problem"):
        certify(network, other, solved["squared"])
    relaxation = solve_relaxation(other)
    certificate = certify(network, other, relaxation)
    assert certificate.objective == other.objective(network)
    assert certificate.gap >= 0.0


# -- the certificate itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "objective", "gap", "share"),
    [
        (3.0, 4.0, 1.0, 0.25),
        (0.0, 2.0, 2.0, 1.0),
        (2.0, 2.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 1e-300, 1e-300, 1.0),
    ],
)
def test_gaps_by_hand(lower: float, objective: float, gap: float, share: float) -> None:
    certificate = Certificate(lower_bound=lower, objective=objective)
    assert certificate.gap == gap
    assert certificate.relative_gap == share


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((2.0, 1.0), "lower_bound must be at most the objective, 1; got 2"),
        ((-1.0, -1.1), "at most the objective"),
        ((math.nan, 1.0), "must be finite; got nan, 1.0"),
        ((math.inf, math.inf), "must be finite"),
        ((1.0, 2.0, "convex"), "bound_type must be one of 'exact', 'sdp'"),
    ],
)
def test_bounds_that_cannot_be_are_refused(arguments: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        Certificate(*arguments)
    # A difference by rounding is none, and the objective of a network sampled without the data is not known.
    assert Certificate(1.0 + 1e-12, 1.0).lower_bound > 1.0
    assert math.isnan(Certificate(1.0, math.nan).gap)


def test_certificates_are_immutable_values() -> None:
    certificate = Certificate(lower_bound=3.0, objective=4.0)
    field: Any = "objective"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(certificate, field, 3.0)
    assert certificate == Certificate(3.0, 4.0)
    assert certificate != Certificate(3.0, 4.0, bound_type="exact")


# -- bound types and proofs -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_exact_bounds_hold_and_are_no_worse(loss: str, solved: dict[str, Relaxation]) -> None:
    problem = make(loss)
    optimum = global_optimum(problem)
    network = optimal_network(problem, optimum)
    weak = certify(network, problem, solved[loss])
    strong = certify(network, problem, solved[loss], bound_type="exact")
    assert (weak.bound_type, strong.bound_type) == ("sdp", "exact")
    assert weak.lower_bound * (1 - 1e-9) <= strong.lower_bound <= optimum.upper
    assert weak.lower_bound == pytest.approx(solved[loss].lower_bound, rel=1e-9)
    if problem.loss.smooth:
        # The gradient at an optimal network is an optimal dual vector.
        assert strong.relative_gap < 1e-4
        assert "globally optimal to relative gap" in str(strong)
    assert "globally optimal" not in str(weak)


@pytest.mark.parametrize(
    ("loss", "options"),
    [("hinge", {}), ("absolute", {"levels": 4}), (Pinball(0.9), {"levels": 3, "activation": "relu_like"})],
    ids=str,
)
def test_losses_with_kinks_have_proven_optima(loss: Any, options: dict[str, Any]) -> None:
    base = random_vector_problem(2, 3, 12, 2, loss, beta=0.3, **options)
    weights = np.random.default_rng(0).uniform(0.0, 30.0, 12)
    for size in (None, 1.0, 2.0**-20):
        weighted = {} if size is None else {"beta": 3.0 * size, "sample_weight": weights * size}
        problem = TrainingProblem(base.X, base.y, **({"beta": 0.3} | weighted), loss=loss, **options)
        optimum = column_generation(problem, tol=1e-9)
        certificate = certify(optimum.network, problem, bound_type="exact")
        assert certificate.bound_type == "exact"
        assert certificate.relative_gap < 1e-7
        assert certificate.lower_bound <= optimum.network.objective(problem)


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
def test_exact_bounds_of_vector_outputs(loss: str) -> None:
    problem = random_vector_problem(1, 3, 10, 3, loss, beta=0.1)
    optimum = global_optimum(problem)
    network = optimal_network(problem, optimum)
    certificate = certify(network, problem, bound_type="exact")
    assert certificate.bound_type == "exact"
    assert certificate.lower_bound <= optimum.upper
    assert certificate.relative_gap < 1e-4


@settings(FUZZ, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(2, 4), activation=st.sampled_from([None, *ACTIVATIONS]))
def test_any_dual_vector_and_tree_prove_a_bound_that_holds(seed: int, levels: int, activation: Any) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, 2, 6, beta=0.2, levels=levels, activation=activation)
    optimum = global_optimum(problem)
    network = optimal_network(problem, optimum)
    nu = rng.standard_normal(6) * 10.0 ** rng.uniform(-2, 2)
    N = problem.size
    for shift in (None, rng.standard_normal(1 + 2 * N) * np.abs(problem.map.adjoint(nu)).max()):
        tree = BoundTree(rng.permutation(N), (Leaf(np.zeros(0, dtype=np.int8), shift),))
        certificate = certificate_of(problem, network, nu, [tree], "exact")
        assert 0.0 <= certificate.lower_bound <= optimum.upper
        assert certificate.objective == problem.objective(network)
        proof = certificate.proof
        assert proof is not None
        # What was scaled proves itself again.
        again = certificate_of(problem, network, proof.nu, proof.trees, "exact")
        assert again.lower_bound >= certificate.lower_bound * (1 - 1e-9)


def test_the_proof_of_a_relaxation_is_its_dual_point(solved: dict[str, Relaxation]) -> None:
    for loss, relaxation in solved.items():
        certificate = certify(NETWORK, make(loss), relaxation)
        np.testing.assert_allclose(certificate.nu, relaxation.dual.nu, rtol=1e-3)
        np.testing.assert_allclose(certificate.z, relaxation.dual.z, rtol=1e-3)
        assert certificate.proof is not None
        assert certificate.proof.network is NETWORK
    assert certify(NETWORK, make("squared"), solved["squared"], bound_type="exact").z is None
    assert Certificate(1.0, 2.0).nu is None
    assert Certificate(1.0, 2.0).z is None


def test_the_relaxation_is_solved_where_none_is_given(solved: dict[str, Relaxation]) -> None:
    assert certify(NETWORK, make("squared")) == certify(NETWORK, make("squared"), solved["squared"])


def test_proofs_are_no_part_of_the_value(solved: dict[str, Relaxation]) -> None:
    certificate = certify(NETWORK, make("squared"), solved["squared"])
    assert certificate == Certificate(certificate.lower_bound, certificate.objective)
    assert hash(certificate) == hash(Certificate(certificate.lower_bound, certificate.objective))
    assert "proof" not in repr(certificate)
    assert certificate != dataclasses.replace(certificate, bound_type="exact")


def test_what_is_called_optimal() -> None:
    assert "globally optimal to relative gap 2.5e-10" in str(Certificate(4.0 - 1e-9, 4.0, "exact"))
    for part in ("objective 4", "optimum >= 3 (exact bound)", "gap 1 (25 %)"):
        assert part in str(Certificate(3.0, 4.0, "exact"))
    assert "optimal to" not in str(Certificate(4.0, 4.0, "sdp"))
    for lower_bound, bound_type, proven in [(4.0, "exact", True), (3.999, "exact", False), (4.0, "sdp", False)]:
        assert Certificate(lower_bound, 4.0, bound_type).proven_optimal is proven


# -- sample weights ------------------------------------------------------------------------------------

WEIGHTED = [*((loss, 0) for loss in [*SCALAR_LOSSES, Pinball(0.9)]), ("squared", 2), ("hinge", 2), ("cross_entropy", 3)]


def problem_of(seed: int, loss: Any, n_outputs: int, **options: Any) -> TrainingProblem:
    if n_outputs == 0:
        return random_problem(seed, 3, 9, loss, **options)
    return random_vector_problem(seed, 3, 9, n_outputs, loss, **options)


@pytest.mark.parametrize(("loss", "n_outputs"), WEIGHTED, ids=str)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), beta=st.sampled_from([0.01, 1.0, 100.0]), lifted=st.booleans())
def test_a_weight_is_as_many_rows(loss: Any, n_outputs: int, seed: int, beta: float, lifted: bool) -> None:
    options: dict[str, Any] = {"activation": "relu_like", "levels": 3} if lifted else {}
    light, repeated = weighted(problem_of(seed, loss, n_outputs, beta=beta, **options), seed)
    assert light.sample_weight is not None
    rng = np.random.default_rng(seed)
    U, V = random_neurons(rng, 3, light)
    alpha = 0.03 * rng.standard_normal((3, *light.y.shape[1:]))
    network = BilinearNetwork(U, V, alpha, levels=light.levels, activation=light.activation)
    assert light.objective(network) == pytest.approx(repeated.objective(network), rel=1e-12)
    proofs = []
    for problem in (light, repeated):
        nu = -problem.data_fit.gradient(problem.outputs(network))
        matrices = [problem.map.adjoint(column) for column in np.atleast_2d(nu.T)]
        sums = [root_tree(np.abs(M).sum(axis=1)) for M in matrices]
        leaf = Leaf(np.zeros(0, dtype=np.int8), None)
        enumerated = [BoundTree(np.arange(problem.size), (leaf,))] * len(matrices)
        proofs.append([certificate_of(problem, network, nu, trees, "exact") for trees in (sums, enumerated)])
    for one, other in zip(*proofs, strict=True):
        assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-9, abs=1e-12 * light.data_fit.value_at_zero)


@pytest.mark.filterwarnings("ignore:with beta")
@pytest.mark.parametrize(("loss", "n_outputs"), WEIGHTED, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_with_weights_hold(loss: Any, n_outputs: int, seed: int) -> None:
    base = problem_of(seed, loss, n_outputs, beta=[0.05, 0.5, 3.0][seed])
    weights = np.random.default_rng(seed).uniform(0.0, 3.0, 9) * 10.0 ** (2 * seed - 2)
    problem = TrainingProblem(base.X, base.y, beta=base.beta, loss=base.loss, sample_weight=weights)
    optimum = global_optimum(problem)
    network = optimal_network(problem, optimum)
    relaxation = solve_relaxation(problem)
    weak = certify(network, problem, relaxation)
    strong = certify(network, problem, relaxation, bound_type="exact")
    assert weak.lower_bound * (1 - 1e-9) <= strong.lower_bound <= min(optimum.upper, strong.objective)
    if problem.loss.smooth:
        assert strong.relative_gap < 1e-4


class _Stopped(BilinearOracle):
    """An oracle whose time is over at once: one leaf, with the shift of Gershgorin's discs."""

    def prove(self, M: Any, **options: Any) -> OracleResult:
        proven = super().prove(M)
        sums = np.abs(M).sum(axis=1)
        leaf = Leaf(np.zeros(0, dtype=np.int8), np.concatenate([[0.0], 0.5 * sums, 0.5 * sums]))
        tree = BoundTree(np.arange(len(M)), (leaf,))
        return dataclasses.replace(proven, upper=float(sums.sum()), exact=False, trees=(tree,) if self.proves else ())

    proves = True


@pytest.mark.parametrize("proves", [True, False])
def test_unfinished_pricing_problems_are_not_called_exact(
    proves: bool, monkeypatch: pytest.MonkeyPatch, solved: dict[str, Relaxation]
) -> None:
    monkeypatch.setattr(_Stopped, "proves", proves)
    monkeypatch.setattr("qsdp.certificates.certifying.BilinearOracle", _Stopped)
    problem = make("squared")
    network = true_optimum(problem)
    certificate = certify(network, problem, solved["squared"], bound_type="exact")
    assert certificate.bound_type == "sdp"
    assert solved["squared"].lower_bound * (1 - 1e-9) <= certificate.lower_bound <= certificate.objective


def test_no_time_at_all_leaves_the_relaxation(solved: dict[str, Relaxation], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("qsdp._utils.deadline.time.monotonic", lambda: float(next(clock)))
    certificate = certify(NETWORK, make("squared"), solved["squared"], bound_type="exact", time_limit=0.5)
    assert certificate == certify(NETWORK, make("squared"), solved["squared"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bound_type": "optimal"}, "bound_type must be one of 'exact', 'sdp'"),
        ({"time_limit": 0}, "time_limit must be a finite number > 0; got 0"),
        ({"time_limit": -1.0}, "time_limit must be a finite number > 0"),
        ({"time_limit": math.inf}, "time_limit must be a finite number > 0"),
        ({"time_limit": "1"}, "time_limit must be a finite number > 0"),
        ({"relaxation": 3}, "relaxation must be a Relaxation; got int"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str, solved: dict[str, Relaxation]) -> None:
    with pytest.raises(InvalidInputError, match=message):
        certify(NETWORK, make("squared"), **{"relaxation": solved["squared"], **options})


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (types.SimpleNamespace(network=NETWORK), "got SimpleNamespace; pass its 'network'"),
        (types.SimpleNamespace(network_=NETWORK), "got SimpleNamespace; pass its 'network_'"),
        (None, "got NoneType$"),
    ],
)
def test_other_networks_are_told_the_way(network: Any, message: str) -> None:
    problem = make("squared")
    relaxation = solve_relaxation(problem)
    for work in (lambda: certify(network, problem), lambda: certify_stream(network, [], relaxation)):
        with pytest.raises(InvalidInputError, match=f"network must be a BilinearNetwork; {message}"):
            work()


@pytest.mark.parametrize("activation", [None, "quadratic", "relu_like"])
def test_polynomial_networks_are_converted(activation: str | None) -> None:
    P = make("squared")
    problem = TrainingProblem(P.X, P.y, beta=P.beta, activation=activation)
    polynomial = PolynomialNetwork([[1, -1, 1], [1, 1, 1]], [0.2, -0.1], activation or "quadratic")
    bilinear = from_polynomial(polynomial)
    if activation is None:
        bilinear = BilinearNetwork(bilinear.U, bilinear.V, bilinear.alpha)
    certificate = certify(polynomial, problem, bound_type="exact")
    assert certificate == certify(bilinear, problem, bound_type="exact")
    assert certificate.objective == problem.objective(bilinear)
    np.testing.assert_allclose(bilinear.predict(P.X), polynomial.predict(P.X), rtol=1e-12)
    if activation is not None:
        streamed = certify_stream(polynomial, [(P.X, P.y)], solve_relaxation(problem))
        assert streamed.objective == pytest.approx(certificate.objective, rel=1e-9)
        with pytest.raises(InvalidInputError, match="network must have levels 3, as the problem has; got 2"):
            certify(polynomial, problem.with_levels(3))


def test_proofs_that_do_not_fit() -> None:
    problem = make("squared")
    tree = BoundTree(np.arange(3), (Leaf(np.zeros(0, dtype=np.int8), None),))
    for nu, trees, bound_type, message in [
        (np.zeros(3), [tree], "sdp", "nu must be finite and have the shape of y"),
        (np.full(15, np.nan), [tree], "sdp", "nu must be finite"),
        (np.zeros(15), [tree, tree], "sdp", "trees must be 1"),
        (np.zeros(15), [tree], "good", "bound_type must be one of"),
        (np.zeros(15), [BoundTree(np.arange(4), tree.leaves)], "sdp", "order of a tree"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            certificate_of(problem, NETWORK, nu, trees, bound_type)
