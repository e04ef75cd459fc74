"""Stability of the default classifier: a small run, its tables, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.runner import Record, run_experiment

study = pytest.importorskip("benchmarks.experiments.accuracy.default_fit", reason="not in the installed package")


def test_a_quick_run_scores_both_models_on_the_same_halves(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("default_fit") / "found.json"
    results, failures = run_experiment(study.EXPERIMENT, path, quick=True, verbose=False)
    assert not failures
    assert [record.case["model"] for record in results.records] == ["default", "logistic"] * 2
    for record in results.records:
        assert 0.5 < record.measured["accuracy"] <= 1.0
        assert 0.5 < record.measured["area"] <= 1.0
    assert {claim.verdict for claim in study.claims(results.records)} == {"not measured"}
    assert study.EXPERIMENT.tables(results.records)


def test_halves_have_no_row_in_common_and_differ_by_seed() -> None:
    case = {"table": "generated", "rows": 300, "seed": 0}
    X, y, X_test, y_test = study.split_of(case)
    assert len(X) == len(y) == len(X_test) == len(y_test) == 300
    assert not set(X.index) & set(X_test.index)
    assert np.concatenate([y, y_test]).mean() == pytest.approx(0.14, abs=0.01)
    assert set(X.index) != set(study.split_of({**case, "seed": 1})[0].index)


def test_tables_of_numbers_have_the_shapes_of_their_names() -> None:
    for name, (n, d, n_classes) in study.SHAPES.items():
        X, y, X_test, _ = study.split_of({"table": name})
        assert X.shape == X_test.shape == (n, d)
        assert len(np.unique(y)) == n_classes
        assert name.startswith(f"{n} x {d}, {n_classes} ")


@pytest.mark.parametrize("table", study.SCORES)
def test_few_of_many_columns_decide_the_class(table: str) -> None:
    X, y, X_test, y_test = study.split_of({"kind": "wide", "table": table, "rows": 300, "seed": 1})
    assert X.shape == (300, study.WIDE)
    assert len(X_test) == len(y_test) == 3000
    X, y = X_test.to_numpy(), y_test
    # The noise turns some classes; another score would be right in half of the rows, or less.
    assert 0.8 < np.mean((study.SCORES[table](X) > 0.0) == y) < 0.99
    others = X.copy()
    others[:, 6:] = 0.0
    assert np.array_equal(study.SCORES[table](others), study.SCORES[table](X))


def test_verdicts_on_wide_tables_turn_with_the_difference() -> None:
    def verdicts(gain: float) -> set[str]:
        wide = [case for case in study.cases(False) if case["kind"] == "wide"]
        scores = {"default": 0.7 + gain, "boosting": 0.7, "logistic": 0.6}
        records = [Record(case, {"accuracy": scores[case["model"]] + 1e-3 * case["seed"]}, 1.0) for case in wide]
        return {claim.verdict for claim in study.claims(records) if "Wide" in claim.statement}

    assert verdicts(0.02) == {"supported"}
    assert verdicts(-0.02) == {"contradicted"}


def made(deviation: float, mean: float) -> list[Record]:
    """Return records of halves and times: logistic regression has 80 +- 1 %, the default another mean and deviation."""
    signs = np.tile([-1.0, 1.0], study.HALVES // 2) * np.sqrt((study.HALVES - 1) / study.HALVES)
    records = []
    for case in (case for case in study.cases(False) if case["kind"] != "wide"):
        middle, spread = (mean, deviation) if case["model"] == "default" else (80.0, 1.0)
        score = 0.01 * (middle + spread * signs[case["seed"]])
        records.append(Record(case, {"accuracy": score, "area": score, "seconds": 1.0}, 1.0))
    return records


@pytest.mark.parametrize(
    ("deviation", "mean", "verdicts"),
    [
        (1.79, 80.1, {"supported"}),
        (1.81, 80.1, {"contradicted", "supported"}),
        (1.79, 79.9, {"supported", "contradicted"}),
        (1.81, 79.9, {"contradicted"}),
    ],
)
def test_verdicts_turn_with_deviation_and_mean(deviation: float, mean: float, verdicts: set[str]) -> None:
    claims = [claim for claim in study.claims(made(deviation, mean)) if "Halves" in claim.statement]
    assert {claim.verdict for claim in claims} == verdicts
    assert len({claim.statement for claim in claims}) == len(claims) == 8
    steady = {claim.verdict for claim in claims if "deviation" in claim.statement}
    assert steady == {"supported" if deviation < 1.8 else "contradicted"}


def test_verdicts_turn_with_the_time_of_boosting() -> None:
    def verdicts(boosting: float) -> list[str]:
        cases = [case for case in study.cases(False) if case["kind"] == "time"]
        seconds = {"default": 10.0, "boosting": boosting}
        records = [Record(case, {"seconds": seconds[case["model"]]}, 1.0) for case in cases]
        return [claim.verdict for claim in study.claims(records) if "boosting." in claim.statement][-3:]

    assert verdicts(2.0) == ["supported"] * 3
    assert verdicts(1.9) == ["contradicted", "contradicted", "supported"]
    assert verdicts(0.9) == ["contradicted"] * 3


def test_a_missing_half_decides_nothing() -> None:
    some = [record for record in made(1.0, 81.0) if record.case["seed"] > 0]
    assert {claim.verdict for claim in study.claims(some)} == {"not measured"}
