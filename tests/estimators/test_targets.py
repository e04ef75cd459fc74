"""Units of targets: those of all, or of those that are no outliers."""

import numpy as np
import pytest

from qsdp import QuantizedNetworkRegressor
from qsdp.estimators.targets import TargetScaling
from qsdp.losses import Absolute, Huber, Squared

ROBUST = [Absolute(), Huber()]


def targets() -> np.ndarray:
    return np.random.default_rng(0).normal(3.0, 2.0, size=(200, 2))


@pytest.mark.parametrize("loss", [*ROBUST, Squared()])
def test_targets_without_outliers_have_mean_zero_and_deviation_one(loss) -> None:
    coded = TargetScaling.of_numbers(targets(), None, loss).encode(targets())
    np.testing.assert_allclose(coded.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(coded.std(axis=0), 1.0, rtol=1e-14)


@pytest.mark.parametrize("loss", ROBUST)
@pytest.mark.parametrize("outlier", [1e4, -1e20, 1e300])
@pytest.mark.parametrize("count", [1, 40])
def test_outliers_leave_the_units_to_the_others(loss, outlier: float, count: int) -> None:
    y = targets()
    y[:count, 0] = outlier
    scaling = TargetScaling.of_numbers(y, None, loss)
    rest = scaling.encode(y)[count:]
    # The outliers, a fifth of the targets, stand at the fences, 9 or so: that is what they weigh.
    assert np.all(rest.std(axis=0) > 0.2)
    assert np.all(np.abs(rest.mean(axis=0)) < 1.0)
    assert np.all(TargetScaling.of_numbers(y, None, Squared()).scale[0] > 1e2)
    np.testing.assert_allclose(scaling.decode(scaling.encode(y)), y, rtol=1e-12)


@pytest.mark.parametrize("loss", ROBUST)
def test_units_follow_the_targets_and_weights_are_repetitions(loss) -> None:
    rng = np.random.default_rng(1)
    y, counts = rng.standard_t(1, size=(60, 2)), rng.integers(1, 5, size=60)
    weighted = TargetScaling.of_numbers(y, counts.astype(float), loss)
    repeated = TargetScaling.of_numbers(np.repeat(y, counts, axis=0), None, loss)
    moved = TargetScaling.of_numbers(10.0 * y + 1000.0, counts.astype(float), loss)
    for other, factor, shift in ((repeated, 1.0, 0.0), (moved, 10.0, 1000.0)):
        np.testing.assert_allclose(other.scale, factor * weighted.scale, rtol=1e-12)
        np.testing.assert_allclose(other.offset, factor * weighted.offset + shift, rtol=1e-12)
    assert np.all(weighted.scale < y.std(axis=0))


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_regressors_learn_beside_an_outlier(loss: str) -> None:
    x = np.linspace(-1.0, 1.0, 100)[:, None]
    y = 3.0 * x[:, 0]
    y[50] = 1e4
    model = QuantizedNetworkRegressor(loss=loss, beta="1%", encoding="standard", random_state=0).fit(x, y)
    errors = np.abs(np.delete(model.predict(x) - y, 50))
    assert errors.mean() < 0.1
