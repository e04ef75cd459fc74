"""Refinement at the end of the pipeline: refit, polish, proven optima, and what resampling makes of them."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp import QSDPResult, solve_and_sample
from qsdp.exceptions import InvalidInputError, UnavailableSolverError
from qsdp.losses import LOSSES

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
Y = X[:, 0] * X[:, 1] - 0.5 * X[:, 2] ** 2 + 0.1 * RNG.standard_normal(40)
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)
CLASSES = (np.digitize(Y, np.quantile(Y, [0.33, 0.66]))).astype(float)


def run(refine: str, target: Any = Y, **options: Any) -> QSDPResult:
    return solve_and_sample(X, target, **{"n_neurons": 60, "beta": 0.1, "random_state": 0, "refine": refine, **options})


def target_for(loss: str) -> np.ndarray:
    return CLASSES if loss == "cross_entropy" else LABELS if LOSSES[loss].labels else Y


@pytest.mark.parametrize("loss", LOSSES)
def test_every_refinement_improves_on_the_one_before(loss: str) -> None:
    results = {name: run(name, target_for(loss), loss=loss) for name in qsdp.pipeline.REFINEMENTS}
    objective = {name: result.certificate.objective for name, result in results.items()}
    slack = 1e-9 * objective["none"]
    assert objective["exact"] <= min(objective["refit"], objective["polish"]) + slack
    assert max(objective["refit"], objective["polish"]) < objective["none"]
    for name, result in results.items():
        assert result.refine == name
        assert result.certificate.lower_bound <= objective["exact"]
        assert result.certificate.objective == result.problem.objective(result.network)
        assert ("refine" in result.timings) == (name != "none")
    assert results["polish"].network.n_bits == results["none"].network.n_bits
    assert results["refit"].network.n_neurons <= 40 * (3 if loss == "cross_entropy" else 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"levels": 3},
        {"activation": "relu_like"},
        {"levels": 3, "activation": "relu_like"},
        {"target": np.stack([Y, -Y], 1)},
    ],
    ids=["bilinear", "levels", "lifted", "both", "vector"],
)
def test_exact_networks_are_proven_and_say_so(options: dict[str, Any]) -> None:
    result = run("exact", **options)
    assert result.exact is not None
    assert result.exact.status == "optimal"
    assert result.certificate.bound_type == "exact"
    assert result.certificate.relative_gap <= 1e-6
    assert "globally optimal to relative gap" in repr(result)
    # The exact bound beats the relaxation's, or both are the optimum.
    assert result.certificate.lower_bound >= result.relaxation.lower_bound * (1 - 1e-9)


@pytest.mark.filterwarnings("ignore:the certified relative gap")
def test_only_certificates_say_optimal() -> None:
    for refine in ("none", "refit", "polish"):
        assert "optimal" not in str(run(refine).certificate)
    stopped = run("exact", time_limit=1e-9)
    if stopped.certificate.relative_gap > 1e-4:
        assert "optimal" not in str(stopped.certificate)
    assert stopped.certificate.lower_bound >= stopped.relaxation.lower_bound * (1 - 1e-9)


def test_resampling_repeats_the_refinement_but_not_the_optimum() -> None:
    polished = run("polish").resample(100, 1)
    assert polished.refine == "polish"
    assert polished.certificate.objective < run("none").resample(100, 1).certificate.objective
    drawn = run("exact").resample(100, 1)
    assert (drawn.refine, drawn.exact, drawn.network.n_neurons) == ("none", None, 100)
    assert "refine" not in drawn.timings
    refitted = drawn.resample(100, 1, refine="refit")
    assert refitted.refine == "refit"
    assert refitted.certificate.objective < drawn.certificate.objective
    with pytest.raises(InvalidInputError, match="refine must be one of 'none', 'polish', 'refit'"):
        drawn.resample(100, refine="exact")


def test_the_device_is_that_of_the_relaxation(monkeypatch):
    seen = []

    def spy(*args, **options):
        seen.append(options["device"])
        return qsdp.solve_relaxation(*args, **{**options, "device": None})

    monkeypatch.setattr("qsdp.pipeline.solve_relaxation", spy)
    # No torch is needed to see where a device goes.
    monkeypatch.setattr("qsdp.choosing.options.check_device", lambda device: device)
    qsdp.solve_and_sample(X, Y, 10, refine="polish", random_state=0, device="there")
    qsdp.QuantizedNetworkRegressor(10, beta="5%", encoding="standard", random_state=0, device="there").fit(X, Y)
    assert seen == ["there", "there"]


def test_devices_of_training_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("qsdp.pipeline.solve_relaxation", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    for train in (qsdp.solve_and_sample, qsdp.QuantizedNetworkRegressor(device="cuda").fit):
        with pytest.raises(UnavailableSolverError, match="device='cuda' needs torch: pip install torch"):
            train(X, Y, **({"device": "cuda"} if train is qsdp.solve_and_sample else {}))


@pytest.fixture
def interrupted_relaxations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt every solve of a relaxation at its end."""
    for module in ("qsdp.pipeline", "qsdp.column_generation.train"):

        def interrupt(*arguments: Any, **options: Any) -> Any:
            return dataclasses.replace(qsdp.solve_relaxation(*arguments, **options), solver_status="interrupted")

        monkeypatch.setattr(sys.modules[module], "solve_relaxation", interrupt)


@pytest.mark.usefixtures("interrupted_relaxations")
@pytest.mark.parametrize("refine", ["refit", "polish", "exact"])
def test_an_interrupt_of_the_relaxation_leaves_no_refinement(refine: str) -> None:
    with pytest.warns(qsdp.QSDPWarning, match="interrupted while the relaxation was solved: the network is sampled"):
        result = run(refine)
    assert (result.refine, result.exact) == ("none", None)
    assert "refine" not in result.timings
    np.testing.assert_array_equal(result.network.U, run("none").network.U)
    assert result.certificate.lower_bound <= result.certificate.objective


@pytest.mark.usefixtures("interrupted_relaxations")
def test_an_interrupt_of_the_relaxation_ends_a_search() -> None:
    wide = np.random.default_rng(0).standard_normal((40, 32))
    problem = qsdp.TrainingProblem(wide, wide[:, 0] * wide[:, 1], beta=1.0)
    found = qsdp.column_generation(problem)
    assert found.status == "interrupted"
    assert found.lower_bound <= found.objective
