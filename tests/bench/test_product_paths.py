"""Levels and paths: small runs beside other ways to the same numbers, and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

import qsdp
from qsdp.bench import Claim, Record

pytest.importorskip("benchmarks.experiments.product", reason="not in the installed package")

from benchmarks.experiments.product import levels, path
from benchmarks.experiments.solvers._peers import repaired

EXPERIMENTS = (levels, path)


def verdicts(claims: list[Claim]) -> dict[str, str]:
    return {claim.statement: claim.verdict for claim in claims}


def about(found: dict[str, str], words: str) -> str:
    """Return the verdict of the one claim that has some words in it."""
    (verdict,) = (verdict for statement, verdict in found.items() if words in statement)
    return verdict


def records_of(module: Any, measured: Callable[[dict[str, Any]], dict[str, Any]], quick: bool = False) -> list[Record]:
    return [Record(case, measured(case), 0.0) for case in module.cases(quick)]


# -- the program as printed --------------------------------------------------------------------------------------------


def test_a_wrong_point_of_the_literal_program_has_a_large_gap() -> None:
    data = qsdp.datasets.make_planted(40, 3, random_state=0)
    problem = qsdp.TrainingProblem(data.X, data.y, beta=0.5)
    formulation = qsdp.build_full(problem)
    formulation.problem.solve(solver="SCS")
    assert repaired(problem, formulation, solver="scs", status="optimal").relative_gap < 1e-3
    Q = formulation.problem.var_dict["Q"]
    Q.value = np.diag(np.diag(Q.value))
    assert repaired(problem, formulation, solver="scs", status="optimal").relative_gap > 1e-2


# -- levels ----------------------------------------------------------------------------------------------


def test_levels_of_one_split() -> None:
    case = {"data": "breast-cancer", "split": 1, "networks": 2, "neurons": 300}
    found = levels.run(case)
    X, X_test, y, y_test = qsdp.datasets.load_uci("breast-cancer").split(random_state=1)
    scaled, scaled_test = ((part - X.mean(axis=0)) / X.std(axis=0) for part in (X, X_test))
    ones = (np.column_stack([part, np.ones(len(part))]) for part in (scaled, scaled_test))
    inputs, inputs_test = ones
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(inputs, y, beta=levels.BETA))
    for M in levels.FACTORS:
        of_m = found[str(M)]
        network = qsdp.sample_network(qsdp.shape_covariance(relaxation.with_levels(M + 1)), 300, 1)
        outputs = np.einsum("ij,ij,j->i", inputs_test @ network.U.T, inputs_test @ network.V.T, network.alpha)
        assert of_m["test"][1] == np.mean(np.sign(outputs) == y_test)
        at_ends = np.isin(np.vstack([network.U, network.V]), (-M, M))
        assert of_m["outermost"][1] == pytest.approx(at_ends.mean(), abs=1e-15)
        assert of_m["bits"] == 300 * 2 * inputs.shape[1] * int(np.ceil(np.log2(M + 1))) + 64
    assert found["1"]["outermost"] == [1.0, 1.0]


def made_levels(gain: float, noise: float, outermost: float) -> list[Record]:
    """Return records in which networks of a solution differ by `noise`, and M = 8 adds `gain` and a split's own."""

    def measured(case: dict[str, Any]) -> dict[str, Any]:
        drawn = 0.8 + noise * np.linspace(-1.0, 1.0, case["networks"])
        own = 1e-4 * (-1.0) ** case["split"]
        return {
            str(M): {
                "test": (drawn + (gain + own if M == 8 else 0.0)).tolist(),
                "gaps": [0.1] * case["networks"],
                "outermost": [outermost] * case["networks"],
                "bits": 100,
            }
            for M in levels.FACTORS
        }

    return records_of(levels, measured)


@pytest.mark.parametrize(("gain", "verdict"), [(0.01, "supported"), (0.0, "inconclusive"), (-0.01, "contradicted")])
def test_verdicts_of_levels(gain: float, verdict: str) -> None:
    found = verdicts(levels.claims(made_levels(gain, 0.05, 0.95)))
    assert [about(found, f"{name}: networks") for name in levels.SETS] == [verdict] * len(levels.SETS)
    assert about(found, "differ among") == about(found, "Nine of ten") == "supported"


def test_verdicts_of_noise_and_ends() -> None:
    found = verdicts(levels.claims(made_levels(0.05, 0.01, 0.5)))
    assert about(found, "differ among") == about(found, "Nine of ten") == "contradicted"
    some = verdicts(levels.claims(made_levels(0.0, 0.05, 0.95)[1:]))
    assert about(some, "Nine of ten") == "not measured"


# -- path ------------------------------------------------------------------------------------------------


def test_a_path_and_cold_solves() -> None:
    X, _, y, _ = path.data("breast-cancer", 0, 0)
    found = path.compared(X, y, "squared", "splitting", 6, warm_first=True)
    problem = qsdp.TrainingProblem(np.column_stack([X, np.ones(len(X))]), y, beta=1.0)
    betas = qsdp.beta_max(problem) * 0.9 * np.array(found["betas"])
    assert found["betas"] == pytest.approx(np.geomspace(1.0, 1e-3 / 0.9, 6).tolist())
    cold = [qsdp.solve_relaxation(problem.with_beta(beta), solver="splitting") for beta in betas]
    warm = qsdp.relaxation_path(problem, betas, solver="splitting")
    assert found["cold_iterations"] == [one.iterations for one in cold]
    assert found["path_iterations"] == [one.iterations for one in warm]
    assert found["solved"] == [True] * 6
    assert found["apart"] <= path.AGREEMENT
    assert found["cold_unsolved"] == found["path_unsolved"] == 0


@pytest.mark.filterwarnings("ignore:with beta=")
def test_folds_choose_from_the_same_betas() -> None:
    X, X_test, y, y_test = path.data(path.PLANTED, 200, 0)
    assert len(X_test) == len(y_test) == path.HELD_OUT
    found = path.validated(X, X_test[:100], y, y_test[:100], 3, 0)
    for which in (*path.SEARCHES, *path.SEARCHES.values()):
        assert found[which]["beta"] in found["betas"]
    # The same score of the same relaxations, but for their gap.
    assert found["relaxation"]["beta"] == found["relaxed_search"]["beta"]
    plain = qsdp.QuantizedNetworkClassifier(beta=found["search"]["beta"], random_state=0, **path.OPTIONS).fit(X, y)
    assert found["search"]["test"] == plain.score(X_test[:100], y_test[:100])


@pytest.mark.parametrize("name", ["iris", "breast-cancer-wisconsin"])
def test_score_of_a_relaxation_is_that_of_the_estimator(name: str) -> None:
    X, y = qsdp.datasets.load_bundled(name)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options = {**path.OPTIONS, "n_neurons": 50, "random_state": 0}
    model = qsdp.QuantizedNetworkClassifierCV(betas=[30.0], cv=2, **options).fit(X[:, :5], y)
    folds = []
    for train, test in StratifiedKFold(2).split(X, y):
        plain = qsdp.QuantizedNetworkClassifier(beta=30.0, **options).fit(X[train, :5], y[train])
        folds.append(path.relaxed_score(plain, X[test, :5], y[test]))
    assert folds == pytest.approx(model.scores_[0].tolist())


def made_paths(warm: float, seconds: float, same: bool, apart: float = 1e-7) -> list[Record]:
    def measured(case: dict[str, Any]) -> dict[str, Any]:
        own = 1.0 + 0.01 * case["split"]
        if case["kind"] == "folds":
            other = {"beta": 1.0 if same else 2.0, "test": 0.8}
            found = dict.fromkeys(path.SEARCHES, other)
            found |= {name: {"beta": 1.0, "test": 0.8} for name in path.SEARCHES.values()}
            for which, search in path.SEARCHES.items():
                found |= {f"{which}_seconds": seconds * own, f"{search}_seconds": own}
            return found
        count = case["betas"]
        return {
            "betas": np.geomspace(1.0, 1e-3, count).tolist(),
            # The last beta is one that the path has not solved, after a great many iterations.
            "solved": [True] * (count - 1) + [False],
            "cold_iterations": [100 + case["split"]] * count,
            "path_iterations": [int(100 * warm)] * (count - 1) + [10**6],
            "cold_seconds": own,
            "path_seconds": seconds * own,
            "cold_unsolved": 0,
            "path_unsolved": 1,
            "apart": apart,
        }

    return records_of(path, measured)


def test_verdicts_of_paths() -> None:
    good, bad = path.claims(made_paths(0.8, 0.5, True)), path.claims(made_paths(1.2, 2.0, False, 1e-3))
    assert len({claim.statement for claim in good}) == len(good) == 17
    assert {claim.verdict for claim in good} == {"supported"}
    assert {claim.verdict for claim in bad} == {"contradicted"}
    less = next(claim for claim in good if claim.statement.startswith("A path takes less"))
    assert "vehicle: ratio 0.5" in less.figures


def test_a_set_that_takes_more_is_named() -> None:
    records = made_paths(0.8, 0.5, True)
    for record in records:
        if record.case["data"] == "vehicle" and record.case.get("solver") == "splitting":
            record.measured["path_iterations"] = [150] * record.case["betas"]
    found = {claim.statement: claim for claim in path.claims(records)}
    claim = found[path.fewer("splitting", "huber")[1]]
    assert claim.verdict == "contradicted"
    assert claim.why.startswith("vehicle: ratio 1.4")
    assert found[path.fewer("interior", "huber")[1]].verdict == "supported"


def test_iterations_are_those_of_betas_that_both_have_solved() -> None:
    record = made_paths(0.8, 0.5, True)[0]
    solved = record.case["betas"] - 1
    assert path.iterations(record, "cold") == 100 * solved
    assert path.iterations(record, "path") == 80 * solved


def test_partly_the_same_beta() -> None:
    records = made_paths(0.8, 0.5, True)
    next(r for r in records if r.case["kind"] == "folds").measured["network"] = {"beta": 3.0, "test": 0.8}
    found = verdicts(path.claims(records))
    assert found[path.chosen("network")[1]] == "contradicted"
    assert found[path.chosen("relaxation")[1]] == "supported"


# -- all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", EXPERIMENTS)
def test_cases_differ_and_quick_ones_are_few(module: Any) -> None:
    for quick in (False, True):
        cases = [tuple(sorted(case.items())) for case in module.cases(quick)]
        assert len(set(cases)) == len(cases)
    assert len(module.cases(True)) <= 6
