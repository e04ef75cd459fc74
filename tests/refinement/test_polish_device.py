"""Polishing on a device of torch: the network of NumPy, by products that run there."""

import sys

import numpy as np
import pytest
from brute_force import random_problem, random_vector_problem
from test_polish import random_network, tall_problem
from torch_devices import DEVICE, needs_torch

import qsdp
from qsdp._utils import parallel
from qsdp._utils.arrays import library_of
from qsdp.exceptions import InvalidInputError, InvalidTypeError, UnavailableSolverError
from qsdp.refinement import polish
from qsdp.refinement._choice import descent_data
from qsdp.refinement._moments import Moments
from qsdp.refinement._samples import Samples


def polished_both(problem, free=False, network=None, **options):
    network = network or random_network(problem, 12, 0, free=free)
    return [polish(network, problem, random_state=0, device=device, **options) for device in (None, DEVICE)]


def assert_same(one, other):
    # Neurons are told apart by falls of the loss, of which rounding is a part of 1e-16.
    np.testing.assert_array_equal(one.U, other.U)
    np.testing.assert_array_equal(one.V, other.V)
    np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-9, atol=1e-12 * np.abs(one.alpha).max())


@needs_torch
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("squared", {}),
        ("huber", {"activation": "relu_like"}),
        ("logistic", {"levels": 3}),
        ("hinge", {"activation": "relu_like", "levels": 4}),
    ],
)
def test_network_of_the_samples_is_the_same(loss, options, free, large, monkeypatch):
    if large:
        monkeypatch.setattr(parallel, "WORK_FLOATS", 64)
    monkeypatch.setattr("qsdp.refinement._choice._LARGEST", 0)
    # On one problem of four, moves of equal merit are decided by rounding, which differs between the libraries.
    problem = random_problem(5, 6, 40, loss, **options)
    one, other = polished_both(problem, free)
    assert problem.objective(one) < 0.9 * problem.objective(random_network(problem, 12, 0, free=free))
    assert_same(one, other)


@needs_torch
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_network_of_several_outputs_is_the_same(loss, large, monkeypatch):
    if large:
        monkeypatch.setattr(parallel, "WORK_FLOATS", 64)
    monkeypatch.setattr("qsdp.refinement._choice._LARGEST", 0)
    problem = random_vector_problem(8, 5, 50, 3, loss)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 50)
    problem = qsdp.TrainingProblem(problem.X, problem.y, beta=0.05, loss=loss, sample_weight=weights)
    for free in (False, True):
        assert_same(*polished_both(problem, free, max_sweeps=20))


@needs_torch
@pytest.mark.parametrize("kind", ["rows", "statistics"])
def test_network_of_the_moments_is_the_same(kind):
    problem = tall_problem(2, levels=3, activation="relu_like", weighted=kind == "rows")
    network = random_network(problem, 12, 0)
    if kind == "statistics":
        statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
        problem = qsdp.TrainingProblem.from_statistics(statistics, beta=0.02, activation="relu_like", levels=3)
    assert isinstance(descent_data(problem, 12), Moments)
    assert_same(*polished_both(problem, network=network))


@needs_torch
def test_the_products_run_on_the_device():
    # An array of NumPy in their place would be no tensor.
    import torch

    problem = random_vector_problem(3, 6, 40, 2)
    data = Samples(problem, device=DEVICE)
    assert isinstance(data.inputs, torch.Tensor)
    assert data.inputs.dtype == torch.float64
    images = data.images(np.ones((3, 6), dtype=np.int8))
    assert isinstance(images.p, torch.Tensor)
    assert isinstance(images.combined(np.ones((3, 6))), torch.Tensor)
    network = random_network(problem, 5, 0)
    expected = Samples(problem).predictions(network)
    np.testing.assert_allclose(data.predictions(network), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    # Of many neurons by the forms, of few by the neurons.
    wide = random_network(problem, 500, 0)
    expected = Samples(problem).predictions(wide)
    np.testing.assert_allclose(data.predictions(wide), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@needs_torch
@pytest.mark.parametrize("weighted", [False, True])
def test_means_einsums_and_roots_are_those_of_numpy(weighted):
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((3, 7)), rng.uniform(size=7) if weighted else None
    own, other = library_of(), library_of(DEVICE)
    assert other.mean(other.take(values), weights) == pytest.approx(own.mean(values, weights), rel=1e-14)
    found = other.give(other.einsum("ij,ij->i", other.take(values), other.take(values)))
    np.testing.assert_allclose(found, own.einsum("ij,ij->i", values, values), rtol=1e-14)
    np.testing.assert_allclose(other.give(other.roots(other.take(values))), own.roots(values), rtol=1e-14)


def test_devices_are_checked(monkeypatch):
    problem = random_problem(3, 4, 20)
    network = random_network(problem, 5, 0)
    with pytest.raises(InvalidTypeError, match="device must be a string or None; got int"):
        polish(network, problem, device=0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableSolverError, match="device='cuda' needs torch: pip install torch"):
        polish(network, problem, device="cuda")


@needs_torch
def test_devices_that_are_not_there_are_refused():
    problem = random_problem(3, 4, 20)
    with pytest.raises(InvalidInputError, match="device 'nonsense' is not available to torch"):
        polish(random_network(problem, 5, 0), problem, device="nonsense")
