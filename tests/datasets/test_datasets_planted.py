import numpy as np
import pytest

from qsdp import BilinearNetwork
from qsdp.datasets import make_planted
from qsdp.exceptions import InvalidInputError, InvalidTypeError


def test_targets_are_the_formula_in_plain_loops():
    planted = make_planted(n=30, d=5, n_neurons=4, random_state=1)
    network = planted.network
    for x, y in zip(planted.X, planted.y, strict=True):
        value = 0.0
        for j in range(4):
            xu = sum(float(x[i]) * int(network.U[j, i]) for i in range(5))
            xv = sum(float(x[i]) * int(network.V[j, i]) for i in range(5))
            value += float(network.alpha[j]) * xu * xv
        assert y == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_defaults_are_the_papers():
    planted = make_planted()
    assert planted.X.shape == (100, 20)
    assert planted.y.shape == (100,)
    assert isinstance(planted.network, BilinearNetwork)
    assert planted.network.U.shape == planted.network.V.shape == (10, 20)
    assert planted.network.U.dtype == planted.network.V.dtype == np.int8
    assert set(np.unique(planted.network.U)) == set(np.unique(planted.network.V)) == {-1, 1}
    assert (planted.network.alpha >= 0).all()
    assert planted.task == "regression"
    assert planted.split()[0].shape == (80, 20)


def test_reproducible_and_different_seeds_differ():
    first, again, other = (make_planted(random_state=seed) for seed in (5, 5, 6))
    for attribute in ("X", "y"):
        np.testing.assert_array_equal(getattr(first, attribute), getattr(again, attribute))
        assert not np.array_equal(getattr(first, attribute), getattr(other, attribute))
    for attribute in ("U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(first.network, attribute), getattr(again.network, attribute))
        assert not np.array_equal(getattr(first.network, attribute), getattr(other.network, attribute))


def test_only_the_noise_depends_on_its_level():
    quiet, loud = make_planted(random_state=2), make_planted(noise=3.0, random_state=2)
    np.testing.assert_array_equal(quiet.X, loud.X)
    np.testing.assert_array_equal(quiet.network.U, loud.network.U)
    np.testing.assert_array_equal(quiet.y, quiet.network.predict(quiet.X))
    assert not np.array_equal(quiet.y, loud.y)


def test_noise_has_the_stated_level():
    n, noise = 20_000, 0.7
    planted = make_planted(n=n, d=4, n_neurons=2, noise=noise, random_state=8)
    scaled = (planted.y - planted.network.predict(planted.X)) / noise
    # Each z is standard normal; |z| < 5 fails for one seed in 1.7 million, so 1 in 870 000 for the two.
    z_mean = scaled.mean() * np.sqrt(n)
    z_variance = (np.mean(scaled**2) - 1) * np.sqrt(n / 2)
    assert abs(z_mean) < 5
    assert abs(z_variance) < 5


def test_samples_and_weights_have_the_stated_laws():
    planted = make_planted(n=5000, d=20, n_neurons=1000, random_state=9)
    weights = np.concatenate([planted.network.U, planted.network.V]).astype(float)
    alpha = planted.network.alpha
    # |N(0,1)| has mean sqrt(2/pi) and second moment 1. Five z-values, |z| < 5: fails for one seed in 350 000.
    z = [
        planted.X.mean() * np.sqrt(planted.X.size),
        (np.mean(planted.X**2) - 1) * np.sqrt(planted.X.size / 2),
        weights.mean() * np.sqrt(weights.size),
        (alpha.mean() - np.sqrt(2 / np.pi)) / np.sqrt((1 - 2 / np.pi) / alpha.size),
        (np.mean(alpha**2) - 1) * np.sqrt(alpha.size / 2),
    ]
    assert np.abs(z).max() < 5


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"n": 0}, InvalidInputError, "n "),
        ({"d": 0}, InvalidInputError, "d "),
        ({"n_neurons": 0}, InvalidInputError, "n_neurons"),
        ({"n": 2.5}, InvalidTypeError, "n "),
        ({"d": True}, InvalidTypeError, "d "),
        ({"noise": -1.0}, InvalidInputError, "noise"),
        ({"noise": float("nan")}, InvalidInputError, "noise"),
        ({"noise": "loud"}, InvalidTypeError, "noise"),
        ({"random_state": -1}, InvalidInputError, "random_state"),
        ({"random_state": "x"}, InvalidTypeError, "random_state"),
    ],
)
def test_arguments_are_checked(arguments, error, name):
    with pytest.raises(error, match=f"^{name}"):
        make_planted(**arguments)
