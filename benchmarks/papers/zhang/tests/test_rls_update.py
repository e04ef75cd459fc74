"""B.15, claims 1-6: the update of one layer against closed forms, and the exact reference."""

from __future__ import annotations

import numpy as np
import pytest
import rls_by_hand as by_hand
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.zhang import (
    RLS,
    DivergedError,
    LayerState,
    NumpyNetwork,
    NumpyRLS,
    RLSSettings,
    averaged_step,
    least_squares,
    squared_loss,
    update_layer,
    woodbury_step,
)
from qsdp import QSDPWarning

RNG = np.random.default_rng(0)


def test_claim_1_recursive_P_is_the_inverse():
    chosen = RLSSettings(forgetting=0.97, ratio=0.3, trace_guard=False)
    state, A, theta = LayerState.initial(6, chosen), np.eye(6), np.zeros((6, 1))
    for _ in range(200):
        x = RNG.standard_normal(6)
        A = 0.97 * A + 0.3 * np.outer(x, x)
        update_layer(theta, state, np.zeros((6, 1)), x, chosen)
    assert np.abs(state.P @ A - np.eye(6)).max() < 1e-11
    assert np.abs(state.P - np.linalg.inv(A)).max() < 1e-12


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
def test_claim_2_one_sample_and_ratio_one_is_classical_rls(forgetting):
    n, steps, first = 4, 60, RNG.standard_normal((4, 2))
    state, theta = LayerState.initial(n, RLSSettings()), first.copy()
    A, B = np.eye(n), first.copy()
    for _ in range(steps):
        x, target = RNG.standard_normal((1, n)), RNG.standard_normal((1, 2))
        A, B = forgetting * A + x.T @ x, forgetting * B + x.T @ target
        gradient = x.T @ (x @ theta - target)
        update_layer(theta, state, gradient, x[0], RLSSettings(forgetting=forgetting, ratio=1.0, trace_guard=False))
    np.testing.assert_allclose(theta, np.linalg.solve(A, B), rtol=0, atol=1e-12)


def test_claim_3_averaged_form_is_least_squares_on_the_means():
    theta, P = RNG.standard_normal((4, 2)), np.eye(4)
    first, means, desired = theta.copy(), [], []
    for _ in range(30):
        X, Z = RNG.standard_normal((8, 4)), RNG.standard_normal((8, 2))
        means.append(X.mean(axis=0, keepdims=True))
        desired.append(Z.mean(axis=0, keepdims=True))
        theta, P = averaged_step(theta, P, X, Z, 0.98, ratio=1.0)
    exact, A = least_squares(first, np.eye(4), means, desired, 0.98)
    np.testing.assert_allclose(theta, exact, rtol=0, atol=1e-12)
    np.testing.assert_allclose(P @ A, np.eye(4), rtol=0, atol=1e-12)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("M", [1, 3, 12])
def test_claim_3_woodbury_reference_is_least_squares_on_all_rows(M, forgetting):
    theta, P = RNG.standard_normal((5, 2)), 2.0 * np.eye(5)
    first, batches, desired = theta.copy(), [], []
    for _ in range(15):
        batches.append(RNG.standard_normal((M, 5)))
        desired.append(RNG.standard_normal((M, 2)))
        theta, P = woodbury_step(theta, P, batches[-1], desired[-1], forgetting)
    exact, A = least_squares(first, 2.0 * np.eye(5), batches, desired, forgetting)
    np.testing.assert_allclose(theta, exact, rtol=0, atol=1e-12)
    np.testing.assert_allclose(P @ A, np.eye(5), rtol=0, atol=1e-12)


def test_woodbury_and_gradient_form_agree_for_one_sample():
    theta, P = RNG.standard_normal((4, 3)), np.eye(4)
    ours, state = theta.copy(), LayerState.initial(4, RLSSettings())
    for _ in range(20):
        x, target = RNG.standard_normal((1, 4)), RNG.standard_normal((1, 3))
        update_layer(ours, state, x.T @ (x @ ours - target), x[0], RLSSettings(ratio=1.0))
        theta, P = woodbury_step(theta, P, x, target)
    np.testing.assert_allclose(ours, theta, atol=1e-12)
    np.testing.assert_allclose(state.P, P, atol=1e-13)


# -- E14: what the L1 term adds up to -----------------------------------------------------------------


def test_b_e14_only_the_form_with_1_minus_lambda_gives_the_ridge_solution():
    g = np.random.default_rng(0)
    forgetting, gamma, first, true = 0.95, 0.3, g.standard_normal((4, 2)), 5.0 + g.random((4, 2))
    A, B = (1.0 + gamma) * np.eye(4), (1.0 + gamma) * first
    exact, printed = first.copy(), first.copy()
    for _ in range(40):
        X = g.standard_normal((6, 4))
        Z = X @ true
        # A has the penalty gamma I in it, which is not to be forgotten.
        A = forgetting * A + X.T @ X / 6 + (1.0 - forgetting) * gamma * np.eye(4)
        B = forgetting * B + X.T @ Z / 6
        P = np.linalg.inv(A)
        for theta, share in ((exact, (1.0 - forgetting) * gamma), (printed, gamma)):
            theta -= P @ (X.T @ (X @ theta - Z) / 6 + share * theta)
    np.testing.assert_allclose(exact, np.linalg.solve(A, B), rtol=0, atol=1e-12)
    assert np.abs(printed - np.linalg.solve(A, B)).max() > 0.5


@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_claim_4_ratio_zero_is_gradient_descent(eta):
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = RLS(models[0], eta, ratio=0.0, clip=None), torch.optim.SGD(models[1].parameters(), lr=eta)
    for _ in range(50):
        X, targets = torch.rand(16, 6), torch.rand(16, 3)
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            squared_loss(model(X), targets).backward()
            optimizer.step()
    for ours, theirs in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert all(torch.equal(state["P"], torch.eye(len(state["P"]))) for state in optimizers[0].state.values())


# -- claim 5: the golden example of B.4 ---------------------------------------------------------------

X, TARGETS = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[1.0], [0.0]])
GOLDEN = [
    (1.6, [0.3125, 0.625, 0.3125]),
    (1.375, [-0.77272727, 0.28693182, -0.16193182]),
    (1.27272727, [0.95880682, 0.49310065, 0.48396916]),
]
GOLDEN_P = [[0.75, -0.125, -0.125], [-0.125, 0.9375, -0.0625], [-0.125, -0.0625, 0.9375]]
IMPROVED = {"momentum": 0.5, "l1": 0.01}
GOLDEN_IMPROVED = [-0.61920455, 0.59306818, -0.01204545]


def numpy_trainer(**options):
    return NumpyRLS(NumpyNetwork([np.zeros((3, 1))]), RLSSettings(**options), [1.0], clip=5.0)


def test_claim_5_golden_example():
    theta, state = np.zeros((3, 1)), LayerState.initial(3, RLSSettings())
    inputs = np.column_stack([X, np.ones(2)])
    for number, (h, expected) in enumerate(GOLDEN):
        gradient = inputs.T @ (inputs @ theta - TARGETS) / 2
        assert update_layer(theta, state, gradient, np.array([2.0, 1.0, 1.0]), RLSSettings()) == pytest.approx(
            h, abs=5e-9
        )
        np.testing.assert_allclose(theta[:, 0], expected, atol=5e-9)
        if number == 0:
            np.testing.assert_array_equal(state.P, GOLDEN_P)
    assert state.steps == 3


@pytest.mark.parametrize(("options", "second"), [({}, GOLDEN[1][1]), (IMPROVED, GOLDEN_IMPROVED)])
def test_claim_5_golden_example_by_both_trainers(options, second):
    trainer = numpy_trainer(**options)
    model = torch.nn.Linear(2, 1).double()
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = RLS(model, **options)
    for expected in (GOLDEN[0][1], second):
        trainer.step(X, TARGETS)
        optimizer.zero_grad()
        squared_loss(model(torch.from_numpy(X)), torch.from_numpy(TARGETS)).backward()
        optimizer.step()
        np.testing.assert_allclose(trainer.parameters()[0][:, 0], expected, atol=5e-9)
        ours = [*model.weight.detach().numpy()[0], model.bias.item()]
        np.testing.assert_allclose(ours, expected, atol=5e-9)


# -- claim 6: definiteness ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ratio", [0.1, 10.0])
def test_claim_6_P_stays_symmetric_and_definite(dtype, ratio):
    g = np.random.default_rng(1)
    chosen = RLSSettings(ratio=ratio)
    state, theta = LayerState.initial(8, chosen, dtype), np.zeros((8, 2), dtype)
    trace = np.inf
    for _ in range(1000):
        x = np.append(g.random(7), 1.0).astype(dtype)
        h = update_layer(theta, state, g.standard_normal((8, 2)).astype(dtype) / 100, x, chosen)
        assert h >= 1.0
        assert np.trace(state.P) <= trace
        trace = np.trace(state.P)
        np.testing.assert_array_equal(state.P, state.P.T)
    assert np.linalg.eigvalsh(state.P.astype(float)).min() > 0.0
    assert state.resets == 0
    assert state.P.dtype == theta.dtype == dtype


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_claim_6_symmetry_of_the_optimiser(forgetting):
    model = torch.nn.Linear(9, 4)
    optimizer = RLS(model, forgetting=forgetting)
    for _ in range(200):
        optimizer.zero_grad()
        squared_loss(model(torch.rand(8, 9)), torch.rand(8, 4)).backward()
        optimizer.step()
    P = optimizer.state[model.weight]["P"]
    assert torch.equal(P, P.T)
    assert torch.linalg.eigvalsh(P.double()).min() > 0.0
    # The guard acts before a step: the next one finds at most the share that was forgotten too much.
    assert float(P.trace()) <= 10.0 / forgetting * (1 + 1e-5)


@settings(max_examples=60, deadline=None)
@given(
    side=st.integers(1, 6),
    forgetting=st.floats(0.5, 1.0),
    ratio=st.floats(0.0, 10.0),
    eta=st.floats(0.01, 10.0),
    alpha=st.floats(0.0, 0.99),
    gamma=st.floats(0.0, 1.0),
    times=st.integers(1, 50),
    seed=st.integers(0, 1000),
)
def test_update_is_the_transcribed_one(side, forgetting, ratio, eta, alpha, gamma, times, seed):
    g = np.random.default_rng(seed)
    theta = g.standard_normal((side, 2))
    chosen = RLSSettings(forgetting=forgetting, ratio=ratio, momentum=alpha, l1=gamma, trace_guard=False)
    state, ours = LayerState.initial(side, chosen), theta.copy()
    P, omega = np.eye(side), np.zeros_like(theta)
    for _ in range(3):
        G, mean = g.standard_normal((side, 2)), g.standard_normal(side)
        update_layer(ours, state, G, mean, chosen, learning_rate=eta, times=times)
        theta, P, omega = by_hand.literal_update(
            theta, P, omega, G, mean, times=times, lam=forgetting, k=ratio, eta=eta, alpha=alpha, gamma=gamma
        )
    np.testing.assert_allclose(ours, theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.P, P, rtol=1e-9, atol=1e-9)


# -- guards -------------------------------------------------------------------------------------------


def test_lost_definiteness_is_reset_with_a_warning():
    state, theta = LayerState(-np.eye(2)), np.ones((2, 1))
    with pytest.warns(QSDPWarning, match="layer 7 was not positive definite after 0 steps"):
        h = update_layer(theta, state, np.ones((2, 1)), np.ones(2), RLSSettings(), name="layer 7")
    assert h == pytest.approx(1.2)
    assert state.resets == 1
    assert np.linalg.eigvalsh(state.P).min() > 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_steps_that_are_not_finite_change_nothing(bad):
    state, theta = LayerState.initial(2, RLSSettings()), np.ones((2, 1))
    with pytest.raises(DivergedError, match="layer 3 is not finite after 0 steps"):
        update_layer(theta, state, np.array([[bad], [0.0]]), np.ones(2), RLSSettings(), name="layer 3")
    np.testing.assert_array_equal(theta, np.ones((2, 1)))
    np.testing.assert_array_equal(state.P, np.eye(2))
