"""`training_problem` of an estimator is the problem of its fit, also after it was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_files import rows_table, trained

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Huber

N_ROWS = 90


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(40.0, 10.0, N_ROWS), "city": rng.choice(["Oslo", "Rome", "Bonn"], N_ROWS)})
    table.loc[3, "age"] = np.nan
    return table


def targets(kind: str) -> Any:
    table = frame()
    score = np.where(table.city == "Rome", 1.0, -1.0) * (table.age.fillna(0.0) - 40.0) / 10.0
    cut = np.digitize(score, [-0.3, 0.3])
    known = {
        "two": np.array(["no", "yes"])[(score > 0.0).astype(int)],
        "three": np.array(["a", "b", "c"], dtype=object)[cut],
        "number": 1000.0 + 7.0 * score,
        "numbers": np.stack([score, 3.0 * score**2], axis=1),
    }
    return known[kind]


def entries(inputs: Any) -> Any:
    """Return the columns or the packed rows of the inputs of a network."""
    return getattr(inputs, "rows", inputs)


CASES: list[tuple[type, dict[str, Any], str]] = [
    (QuantizedNetworkClassifier, {}, "two"),
    (QuantizedNetworkClassifier, {"class_weight": "balanced", "loss": "logistic"}, "two"),
    (QuantizedNetworkClassifier, {"class_weight": "balanced", "loss": "cross_entropy"}, "two"),
    (QuantizedNetworkClassifier, {"class_weight": {"a": 1.0, "b": 3.0, "c": 0.5}, "levels": 3}, "three"),
    (QuantizedNetworkClassifier, {"loss": "hinge", "activation": None, "beta": 0.7}, "three"),
    (QuantizedNetworkRegressor, {"loss": Huber(delta=0.7), "activation": (0.5, 0.1, 0.2)}, "number"),
    (QuantizedNetworkRegressor, {"beta": "20%", "encoding": "thresholds"}, "numbers"),
]


@pytest.mark.parametrize(
    ("estimator", "options", "kind", "weighted"),
    [*((*case, number % 2 == 0) for number, case in enumerate(CASES)), (*CASES[0], False), (*CASES[-1], False)],
)
def test_it_is_the_problem_of_the_fit(
    estimator: type, options: dict[str, Any], kind: str, weighted: bool, tmp_path: Path
) -> None:
    X, y = frame(), targets(kind)
    w = np.random.default_rng(1).integers(0, 3, N_ROWS) * 0.5 if weighted else None
    model = estimator(**{"beta": "10%", "random_state": 0, **options}).fit(X, y, w)
    model.save(tmp_path / "model")
    fitted = model.result_.problem
    assert fitted.n_samples == (N_ROWS if w is None else np.count_nonzero(w))
    for one in (model, qsdp.load(tmp_path / "model")):
        problem = one.training_problem(X, y, w)
        np.testing.assert_array_equal(entries(problem.X), entries(fitted.X))
        np.testing.assert_array_equal(problem.y, fitted.y)
        if fitted.sample_weight is None:
            assert problem.sample_weight is None
        else:
            np.testing.assert_array_equal(problem.sample_weight, fitted.sample_weight)
        assert (problem.beta, problem.levels, problem.loss) == (fitted.beta, fitted.levels, fitted.loss)
        assert problem.activation == fitted.activation
        assert problem.objective(one.network_) == model.certificate_.objective
        certificate = qsdp.certify(one.network_, problem, qsdp.solve_relaxation(problem))
        assert certificate.objective == model.certificate_.objective


def test_network_inputs_are_those_of_training(tmp_path: Path) -> None:
    X, y = frame(), targets("number")
    for activation in (None, "relu_like"):
        model = QuantizedNetworkRegressor(random_state=0, activation=activation, encoding="standard").fit(X, y)
        model.save(tmp_path / "model")
        inputs = model.network_inputs(X)
        np.testing.assert_array_equal(inputs, model.result_.problem.X)
        np.testing.assert_array_equal(qsdp.load(tmp_path / "model").network_inputs(X), inputs)
        assert inputs.shape[1] == model.encoder_.encoding_.width + (activation is None)
        outputs = model.target_scaling_.decode(model.network_.outputs(inputs))
        np.testing.assert_array_equal(outputs[:, 0], model.predict(X))


def test_it_is_that_of_a_resampled_network(tmp_path: Path) -> None:
    X, y = frame(), targets("number")
    model = QuantizedNetworkRegressor(random_state=0, refine="none", beta=1.0, encoding="standard").fit(X, y)
    model.resample(40, 1, levels=4).save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    problem = loaded.training_problem(X, y)
    assert (problem.levels, problem.beta) == (4, 1.0)
    assert problem.objective(loaded.network_) == pytest.approx(model.certificate_.objective, rel=1e-12)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    X, y = frame(), targets("two")
    model = QuantizedNetworkClassifier(random_state=0).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"y must hold labels .* got 'maybe'"):
        model.training_problem(X, np.where(y == "no", "maybe", y))
    with pytest.raises(InvalidInputError, match="y must have 90 rows, as X has; got 89"):
        model.training_problem(X, y[:-1])
    with pytest.raises(InvalidInputError, match="sample_weight must be >= 0"):
        model.training_problem(X, y, -np.ones(N_ROWS))
    with pytest.raises(ValueError, match="not fitted"):
        QuantizedNetworkClassifier().training_problem(X, y)


def test_another_fit_forgets_the_table(tmp_path: Path) -> None:
    model = trained("label")
    model.save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    assert loaded.table_ == model.table_
    rows = rows_table()
    X, y = rows[list(loaded.feature_names_in_)], (rows["label"] == "big").to_numpy()
    loaded.fit(X, y)
    assert not hasattr(loaded, "table_")
    loaded.save(tmp_path / "other")
    assert not hasattr(qsdp.load(tmp_path / "other"), "table_")
