"""The whole way: what it accepts, reproducibility, and sampling again without another solve."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from qsdp import QSDPResult, QSDPWarning, TrainingProblem, certify, solve_and_sample
from qsdp.losses import LOSSES
from qsdp.relaxation.backends import BACKENDS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = X[:, 0] * X[:, 1] - 0.5 * X[:, 2] ** 2 + 0.1 * RNG.standard_normal(30)
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)


def labels_for(loss: str) -> np.ndarray:
    """Return two classes as `loss` wants them."""
    return 0.5 + 0.5 * LABELS if loss == "cross_entropy" else LABELS


#: QSDPWarning is for users; a RuntimeWarning of NumPy is a leak.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

#: Of problems that no method solves: at any limit, a result is valid and finite.
EXTREME: dict[str, Any] = {"n_neurons": 20, "random_state": 0, "time_limit": 0.2, "allow": QSDPWarning}

STAGES = {"compile", "solve", "shape", "sample", "certify"}


@pytest.fixture(scope="module")
def result() -> QSDPResult:
    return solve_and_sample(X, Y, n_neurons=40, beta=0.1, random_state=0)


@pytest.fixture
def no_solve(result: QSDPResult, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise AssertionError("a solve started")

    for name, backend in BACKENDS.items():
        monkeypatch.setitem(BACKENDS, name, dataclasses.replace(backend, solve=explode))


def quietly(*arguments: Any, allow: type[Warning] | None = None, **settings: Any) -> QSDPResult:
    """Run the pipeline with every warning an error, except those of `allow`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if allow is not None:
            warnings.simplefilter("ignore", allow)
        return solve_and_sample(*arguments, **settings)


def check(result: QSDPResult) -> None:
    """Check what holds of every result."""
    network, certificate, problem = result.network, result.certificate, result.problem
    for weights in (network.U, network.V):
        assert set(np.unique(weights[:, : problem.n_features])) <= set(range(1 - problem.levels, problem.levels, 2))
        assert np.all(np.abs(weights[:, problem.n_features :]) == 1)
    assert np.all(np.isfinite(network.alpha))
    if network.alpha.reshape(network.n_neurons, -1).any(axis=0).all():
        assert network.shared_alpha
    assert np.all(np.isfinite(result.predict(problem.X)))
    assert math.isfinite(certificate.objective)
    assert 0.0 <= certificate.lower_bound <= certificate.objective
    assert certificate.objective == problem.objective(network)
    # Both are proven, with different allowances for rounding; the certificate looks for the best multiple of the dual
    # vector, too.
    assert certificate.lower_bound >= min(result.relaxation.lower_bound, certificate.objective) * (1.0 - 1e-9)
    covariances = result.covariance if isinstance(result.covariance, list) else [result.covariance]
    assert len(covariances) == problem.n_outputs
    for k, covariance in enumerate(covariances):
        assert covariance.residual < 1e-10
        assert covariance.diagonal_error < 1e-10
        # The sum of the weights does not depend on the number of neurons: rho pi / c.
        total = network.alpha.reshape(network.n_neurons, -1)[:, k].sum()
        assert total == pytest.approx(covariance.total_weight, rel=1e-12)


def same_network(one: QSDPResult, other: QSDPResult) -> bool:
    pairs = [(getattr(one.network, name), getattr(other.network, name)) for name in ("U", "V", "alpha")]
    return all(first.tobytes() == second.tobytes() for first, second in pairs)


# -- results -----------------------------------------------------------------------------------------


def test_a_result_holds_together(result: QSDPResult) -> None:
    check(result)
    assert result.network.n_neurons == 40
    assert result.problem == TrainingProblem(X, Y, beta=0.1)
    assert result.certificate == certify(result.network, result.problem, result.relaxation)
    np.testing.assert_array_equal(result.predict(X), result.network.predict(X))


def test_defaults() -> None:
    result = quietly(X, Y)
    assert result.network.n_neurons == 250
    assert result.problem == TrainingProblem(X, Y, beta=0.1, loss="squared")
    assert result.relaxation.tol == 1e-6
    assert result.covariance.method == "adaptive"


def test_timings(result: QSDPResult) -> None:
    for candidate in (result, result.resample(3)):
        assert set(candidate.timings) == STAGES
        assert all(math.isfinite(seconds) and seconds >= 0.0 for seconds in candidate.timings.values())
    again = result.resample(3)
    for stage in ("compile", "solve", "shape"):
        assert again.timings[stage] == result.timings[stage]
    assert result.timings["solve"] == result.relaxation.solve_time
    assert result.timings["compile"] == result.relaxation.compile_time
    assert again.timings is not result.timings


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    solve_and_sample(X, Y, n_neurons=3).resample(5)
    solve_and_sample(X, Y, n_neurons=3, shaping="adaptive")
    assert capfd.readouterr() == ("", "")


def test_the_global_random_state_is_left_alone() -> None:
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.get_state()[1].copy()  # noqa: NPY002
    solve_and_sample(X, Y, n_neurons=3)
    np.testing.assert_array_equal(np.random.get_state()[1], expected)  # noqa: NPY002


# -- random states -----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_network() -> None:
    one, other = (solve_and_sample(X, Y, n_neurons=40, random_state=7) for _ in range(2))
    assert same_network(one, other)
    assert one.certificate == other.certificate


def test_generators(result: QSDPResult) -> None:
    generator = np.random.default_rng(5)
    first, second = result.resample(40, generator), result.resample(40, generator)
    assert not same_network(first, second)
    assert same_network(first, result.resample(40, np.random.default_rng(5)))
    assert same_network(first, result.resample(40, 5))
    assert same_network(first, solve_and_sample(X, Y, n_neurons=40, random_state=np.random.default_rng(5)))


# -- sampling again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 39, 41, 5000])
def test_resample_draws_any_size_without_a_solve(result: QSDPResult, no_solve: None, m: int) -> None:
    kept = result.network
    again = result.resample(m, 3)
    check(again)
    assert again.network.n_neurons == m
    assert again.relaxation is result.relaxation
    assert again.covariance is result.covariance
    assert again.problem is result.problem
    assert again.certificate.lower_bound == result.certificate.lower_bound
    assert result.network is kept, "the first result stays as it was"
    assert same_network(again.resample(m, 3), again)


def test_smaller_networks_are_the_beginning_of_larger_ones(result: QSDPResult) -> None:
    large = result.resample(3000, 11).network
    for m in (1, 7, 250, 2999):
        small = result.resample(m, 11).network
        np.testing.assert_array_equal(small.U, large.U[:m])
        np.testing.assert_array_equal(small.V, large.V[:m])


def test_more_neurons_come_closer_to_the_relaxation(result: QSDPResult) -> None:
    # The mean of sum alpha u v' is 2 Z, so the error of S falls as 1 / sqrt(m): from 20 to 20000 neurons by
    # a factor of about 32. Asked for is 4. Among 3000 seeds at m = 20 and 300 at m = 20000 the least ratio of
    # any two errors was 6.2, so another generator of numbers fails this with probability below 1e-3.
    target = 2.0 * result.relaxation.Z[0][0]

    def error(m: int) -> float:
        return float(np.linalg.norm(result.resample(m, 1).network.quadratic_form - target))

    assert error(20) > 4 * error(20_000)


# -- what has to work --------------------------------------------------------------------------------

GRID_X = RNG.integers(-3, 4, size=(12, 3))
GRID_Y = RNG.integers(-5, 6, size=12)

VARIANTS: dict[str, Any] = {
    "float32": lambda a: a.astype(np.float32),
    "int64": lambda a: a.astype(np.int64),
    "int8": lambda a: a.astype(np.int8),
    "lists": lambda a: a.tolist(),
    "Fortran order": np.asfortranarray,
    "strided view": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed view": lambda a: a[::-1].copy()[::-1],
    "pandas": lambda a: pd.DataFrame(a, columns=["p", "q", "r"]) if a.ndim == 2 else pd.Series(a, name="target"),
    "pandas, nullable": lambda a: pd.DataFrame(a).astype("Int64") if a.ndim == 2 else pd.Series(a, dtype="Int64"),
    "pandas, other index": lambda a: (
        pd.DataFrame(a, index=range(40, 40 + len(a))) if a.ndim == 2 else pd.Series(a, index=range(90, 90 + len(a)))
    ),
}


@pytest.fixture(scope="module")
def on_grid() -> QSDPResult:
    return solve_and_sample(GRID_X.astype(float), GRID_Y.astype(float), n_neurons=30, random_state=0)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_containers_and_number_types_do_not_matter(variant: Any, on_grid: QSDPResult) -> None:
    result = quietly(variant(GRID_X), variant(GRID_Y), n_neurons=30, random_state=0)
    assert same_network(result, on_grid)
    assert result.certificate == on_grid.certificate
    np.testing.assert_array_equal(result.predict(variant(GRID_X)), on_grid.predict(GRID_X.astype(float)))


@pytest.mark.parametrize("value", [3.0, -1e-8, 1e8])
def test_constant_targets(value: float) -> None:
    check(quietly(X, np.full(30, value), n_neurons=20, beta=0.01 * abs(value), random_state=0))


@pytest.mark.parametrize("beta", [1e-300, 0.1])
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_all_zero_targets(loss: str, beta: float) -> None:
    result = quietly(X, np.zeros(30), n_neurons=20, beta=beta, loss=loss, allow=QSDPWarning)
    check(result)
    assert not result.predict(X).any()
    assert result.certificate.objective == 0.0
    assert result.certificate.relative_gap == 0.0


@pytest.mark.parametrize("beta", [1e-300, 0.1])
@pytest.mark.parametrize("loss", LOSSES)
def test_all_zero_data(loss: str, beta: float) -> None:
    result = quietly(np.zeros((30, 4)), labels_for(loss), n_neurons=20, beta=beta, loss=loss, allow=QSDPWarning)
    check(result)
    assert not result.predict(X).any()
    assert result.certificate.relative_gap < 1e-9


@pytest.mark.parametrize(("data", "target"), [(X, np.zeros(30)), (np.zeros((30, 4)), Y)], ids=["zero y", "zero X"])
def test_the_warning_about_zero_networks_does_not_blame_a_tiny_beta(data: Any, target: Any) -> None:
    with pytest.warns(QSDPWarning) as caught:
        solve_and_sample(data, target, n_neurons=5, beta=1e-300)
    text = " ".join(str(warning.message) for warning in caught)
    assert "smaller beta" not in text


def test_separable_labels_with_almost_no_regularisation() -> None:
    # Label losses have no minimiser here: the solver's multipliers run towards zero.
    data = np.random.default_rng(5).standard_normal((15, 2))
    labels = np.sign(data[:, 0] * data[:, 1])
    check(quietly(data, labels, beta=1e-300, loss="logistic", **EXTREME))


@pytest.mark.parametrize("loss", ["squared", "hinge", "cross_entropy"])
def test_tiny_beta(loss: str) -> None:
    check(quietly(X[:15], labels_for(loss)[:15], beta=1e-12, loss=loss, **EXTREME))


@pytest.mark.parametrize("beta", [1e6, 1e308])
@pytest.mark.parametrize("loss", LOSSES)
def test_very_large_beta(loss: str, beta: float) -> None:
    with pytest.warns(QSDPWarning, match="zero network is globally optimal; choose a smaller beta"):
        result = solve_and_sample(X, labels_for(loss), n_neurons=20, beta=beta, loss=loss)
    check(result)
    assert not result.network.alpha.any()
    assert not result.predict(X).any()
    assert result.certificate.relative_gap < 1e-9
    assert result.relaxation.status == "optimal"
    assert not np.any(result.relaxation.rho)


def test_warnings_about_the_solve_come_once_and_point_at_the_caller() -> None:
    with pytest.warns(QSDPWarning) as caught:
        solve_and_sample(X, Y, n_neurons=5, beta=1e6)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the warning points into the package"


@pytest.mark.parametrize(
    ("data", "target"),
    [
        (X[:1], [5.0]),
        (X[:, :1], Y),
        ([[2.0]], [3.0]),
        ([[2.0]], [-3.0]),
        (np.repeat(X, 3, axis=0), np.repeat(Y, 3)),
        (np.repeat(X[:1], 30, axis=0), Y),
        (np.c_[X, X[:, 0], np.zeros(30), np.ones(30)], Y),
        (X[:3], Y[:3]),
        (np.sign(X), Y),
    ],
    ids=[
        *("n = 1", "d = 1", "n = d = 1", "n = d = 1, negative", "rows three times", "one row"),
        *("double, zero and constant columns", "fewer rows than columns", "signs"),
    ],
)
def test_small_and_degenerate_data(data: Any, target: Any) -> None:
    result = quietly(data, target, n_neurons=20, beta=0.01, random_state=0)
    check(result)
    assert result.relaxation.status == "optimal"


def test_one_sample_and_one_feature_by_hand() -> None:
    # (4 s - 3)^2 + beta |s| with s = sum alpha u v: the optimum is s = (24 - beta) / 32.
    result = quietly([[2.0]], [3.0], n_neurons=1, beta=0.8, random_state=0)
    s = (24 - 0.8) / 32
    assert result.certificate.lower_bound == pytest.approx((4 * s - 3) ** 2 + 0.8 * s, rel=1e-4)


def test_duplicated_rows_are_a_weight_of_the_loss() -> None:
    # Twice the rows and twice beta is twice the objective.
    once = quietly(X, Y, n_neurons=5, beta=0.3, random_state=0)
    twice = quietly(np.repeat(X, 2, axis=0), np.repeat(Y, 2), n_neurons=5, beta=0.6, random_state=0)
    assert twice.certificate.lower_bound == pytest.approx(2 * once.certificate.lower_bound, rel=1e-4)


# To huge data any price is tiny, as in `test_tiny_beta`.
@pytest.mark.parametrize(
    ("loss", "scale"),
    [
        *((loss, 1e-60) for loss in ("squared", "huber", "hinge", "cross_entropy")),
        ("absolute", 1e60),
        ("logistic", 1e60),
    ],
)
def test_extreme_scales_of_the_data(loss: str, scale: float) -> None:
    check(quietly(X * scale, labels_for(loss), loss=loss, **EXTREME))


@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_extreme_scales_of_the_targets(scale: float) -> None:
    for loss in ("squared", "absolute", "huber"):
        check(quietly(X, Y * scale, loss=loss, **EXTREME))


@pytest.mark.parametrize("k", [-200, -7, 7, 200])
def test_units_of_the_data_do_not_matter(result: QSDPResult, k: int) -> None:
    # X -> 2^k X with beta -> 4^k beta and alpha -> 4^-k alpha is the same problem, to the last bit.
    scaled = quietly(X * 2.0**k, Y, n_neurons=40, beta=0.1 * 4.0**k, random_state=0)
    np.testing.assert_array_equal(scaled.network.U, result.network.U)
    np.testing.assert_array_equal(scaled.network.V, result.network.V)
    np.testing.assert_array_equal(scaled.network.alpha, result.network.alpha * 4.0**-k)
    assert scaled.certificate.lower_bound == result.certificate.lower_bound
    assert scaled.certificate.objective == pytest.approx(result.certificate.objective, rel=1e-12)


# -- activations, levels, several outputs ---------------------------------------------------------------

ACTIVATIONS: list[Any] = [None, "quadratic", "relu_like", (-0.5, 1.0, 0.25), (0, 1, 0), (0, 0, 1)]
CLASSES = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))


def three_outputs(loss: str) -> np.ndarray:
    """Return targets of three outputs as `loss` wants them."""
    if loss == "cross_entropy":
        return CLASSES
    if LOSSES[loss].labels:
        return np.stack([LABELS, -LABELS, np.where(X[:, 0] > 0, 1.0, -1.0)], axis=1)
    return np.stack([Y, 10 * X[:, 1], X[:, 0] ** 2], axis=1)


@pytest.mark.parametrize("levels", [2, 3, 5, 128])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_every_activation_and_level(activation: Any, levels: int) -> None:
    result = quietly(X, Y, n_neurons=30, beta=0.01, activation=activation, levels=levels, random_state=0)
    check(result)
    assert result.problem == TrainingProblem(X, Y, beta=0.01, activation=activation, levels=levels)
    assert same_network(result, result.resample(30, 0))
    polynomial = result.network.to_polynomial()
    np.testing.assert_allclose(polynomial.predict(X), result.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("levels", "activation", "allocation"), [(2, None, "equal"), (3, "relu_like", "proportional")], ids=str
)
def test_vector_outputs(levels: int, activation: Any, allocation: str, loss: str) -> None:
    settings = {"beta": 0.05, "loss": loss, "levels": levels, "activation": activation, "random_state": 0}
    y = three_outputs(loss)
    result = quietly(X, y, n_neurons=50, allocation=allocation, **settings)
    check(result)
    assert result.relaxation.status == "optimal"
    assert result.predict(X).shape == (30, 3)
    assert isinstance(result.covariance, list)
    assert same_network(result, quietly(X, y, n_neurons=50, allocation=allocation, **settings))
    assert same_network(result, result.resample(50, 0, allocation=allocation))
    again = result.resample(7, 1)
    check(again)
    assert (again.network.alpha != 0).sum(axis=0).max() <= 3 or not np.all(again.relaxation.rho)


def test_one_column_of_targets_is_the_scalar_problem() -> None:
    vector = quietly(X, Y[:, None], n_neurons=40, beta=0.1, random_state=0)
    scalar = quietly(X, Y, n_neurons=40, beta=0.1, random_state=0)
    check(vector)
    np.testing.assert_array_equal(vector.predict(X)[:, 0], scalar.predict(X))
    assert vector.certificate.lower_bound == scalar.certificate.lower_bound


@pytest.mark.parametrize("shaping", ["krivine", "adaptive"])
@pytest.mark.parametrize("activation", [None, "relu_like"])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (2, 128), (4, 2), (3, 5)])
def test_resample_with_other_levels_needs_no_solve(
    before: int, after: int, activation: Any, shaping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"beta": 0.01, "activation": activation, "levels": before, "shaping": shaping, "random_state": 0}
    original = quietly(X, Y, n_neurons=40, **settings)

    def explode(*_: object, **__: object) -> None:
        raise AssertionError("a solve started")

    for name, backend in BACKENDS.items():
        monkeypatch.setitem(BACKENDS, name, dataclasses.replace(backend, solve=explode))
    moved = original.resample(60, 1, levels=after)
    check(moved)
    assert moved.network.n_neurons == 60
    assert moved.network.levels == after
    assert moved.problem == original.problem.with_levels(after)
    assert moved.relaxation.problem == moved.problem
    assert moved.covariance.method == shaping
    assert certify(moved.network, moved.problem, moved.relaxation) == moved.certificate
    assert set(moved.timings) == STAGES
    assert original.network.levels == before, "the first result stays as it was"
    old, new = original.relaxation.predict(X), moved.relaxation.predict(X)
    np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9 * np.abs(old).max())
    # Back again, and on to any size.
    check(moved.resample(3, 2, levels=before))
    check(moved.resample(200, 2))


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_resample_of_vectors_with_other_levels(loss: str) -> None:
    original = quietly(X, three_outputs(loss), n_neurons=40, beta=0.05, loss=loss, random_state=0)
    moved = original.resample(41, 1, levels=3, allocation="proportional")
    check(moved)
    assert moved.network.levels == 3
    assert isinstance(moved.covariance, list)


@pytest.mark.parametrize("kind", ["lift", "vector", "levels"])
def test_degenerate_data_of_every_kind(kind: str) -> None:
    options: dict[str, Any] = (
        {"activation": "relu_like"} if kind == "lift" else {"levels": 3} if kind == "levels" else {}
    )
    for data in (X[:3], X[:, :1], np.repeat(X[:1], 30, axis=0), np.c_[X, X[:, 0], np.zeros(30)], np.sign(X)):
        y = Y[: len(data)]
        y = np.stack([y, -2 * y], axis=1) if kind == "vector" else y
        check(quietly(data, y, n_neurons=20, beta=0.01, random_state=0, allow=QSDPWarning, **options))


@pytest.mark.parametrize(("loss", "scale"), [("squared", 1e60), ("cross_entropy", 1e-60)])
def test_extreme_scales_of_lifted_data(loss: str, scale: float) -> None:
    options = {"activation": "relu_like", "levels": 3, "random_state": 0, "allow": QSDPWarning}
    check(quietly(X * scale, labels_for(loss), n_neurons=20, loss=loss, **options))


@pytest.mark.parametrize("coefficients", [(1e30, 0, 0), (1e-30, 0, 0), (1e30, 1.0, 1e-30), (1e-9, 1e9, 1.0)])
def test_extreme_activations(coefficients: Any) -> None:
    check(quietly(X, Y, activation=coefficients, **EXTREME))


def test_jobs_of_a_resample_change_nothing(result: QSDPResult) -> None:
    for refine in ("none", "polish"):
        alone, together = (result.resample(30, 1, refine=refine, n_jobs=n_jobs) for n_jobs in (None, 2))
        np.testing.assert_array_equal(together.network.U, alone.network.U)
        np.testing.assert_array_equal(together.network.V, alone.network.V)
        assert together.certificate.objective == alone.certificate.objective


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("refine", ["none", "refit", "polish", "exact"])
@pytest.mark.parametrize("n_neurons", [None, 20])
def test_a_limit_that_is_over_at_once_gives_a_certified_network(refine: str, n_neurons: int | None) -> None:
    result = solve_and_sample(
        X, Y, n_neurons, beta=0.1, shaping="adaptive", refine=refine, time_limit=1e-9, random_state=0
    )
    assert result.relaxation.objective < result.problem.data_fit.value_at_zero
    assert 0.0 < result.certificate.lower_bound <= result.certificate.objective
    if refine in {"none", "polish"}:
        assert result.network.n_neurons == (n_neurons or 8)
