"""The suite as an experiment: its cases, and what its tables say of records, and the claims of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.experiments.comparisons.uci import EXPERIMENT as STUDY
from benchmarks.runner import Record, markdown_of, run_experiment
from benchmarks.uci import EXPERIMENT, METHODS, SETS, uci_experiment
from benchmarks.uci.suite import N_SEEDS

BEST = ("qsdp-250", "backprop-rounded", "logistic")


def record(name: str, method: str, seed: int = 0, **changes: Any) -> Record:
    quantized = METHODS[method].quantized
    measured = {
        "train": 0.9, "test": 0.8, "bits": 1000, "objective": 4.0 if quantized else None,
        "lower_bound": 3.0 if quantized else None, "relative_gap": 0.25 if quantized else None, "fit_seconds": 4.0,
        "fit_cpu_seconds": 2.0, "predict_seconds": 1e-4, "chosen": {}, "n": 80, "d": 4, "n_classes": 2, "n_test": 20,
    }  # fmt: skip
    return Record({"set": name, "method": method, "seed": seed}, {**measured, **changes}, 5.0)


def records(*methods: str, sets: tuple[str, ...] = SETS[:12], seeds: int = 2, fall: float = 0.02) -> list[Record]:
    """Records in which methods are the better the earlier they come, on every set."""
    return [
        record(name, method, seed, test=0.9 - fall * place - 0.002 * seed)
        for name in sets
        for place, method in enumerate(methods)
        for seed in range(seeds)
    ]


# --- cases ---------------------------------------------------------------------------------------


def test_all_cases_are_every_set_method_and_seed_once() -> None:
    cases = EXPERIMENT.cases(False)
    keys = {(case["set"], case["method"], case["seed"]) for case in cases}
    trained = {name for name, method in METHODS.items() if method.needs}
    large = {"letter", "adult"}
    # Networks trained by gradients have two splits of what is not large.
    others = (len(METHODS) - len(trained)) * sum(N_SEEDS.values())
    assert len(cases) == len(keys) == others + len(trained) * 2 * len(set(SETS) - large)
    assert {key[0] for key in keys if key[1] in trained} == set(SETS) - large
    assert {key[2] for key in keys if key[1] in trained} == {0, 1}
    # Asked for, they have as many as all.
    asked = uci_experiment(["letter"], ["backprop", "logistic"], 3).cases(False)
    assert len(asked) == 6
    assert {key[0] for key in keys} == set(SETS)
    assert {key[1] for key in keys} == set(METHODS)


def test_a_run_of_two_methods_is_measured_and_reported(tmp_path: Path) -> None:
    experiment = uci_experiment(["iris", "wine"], ["logistic", "quadratic-ridge"], 2)
    results, failures = run_experiment(experiment, tmp_path / "uci.json", verbose=False)
    assert failures == []
    assert [one.case for one in results.records] == experiment.cases(False)
    text = markdown_of(experiment, results)
    accuracies = [one.measured["test"] for one in results.records if one.case["set"] == "iris"][::2]
    assert f"| iris | {100 * np.mean(accuracies):.1f} ± " in text


# --- what records say ----------------------------------------------------------------------------


def ranks(some: list[Record]) -> tuple[dict[str, str], str]:
    """Return the rank that the summary gives each method, from best to worst, and its note."""
    summary = EXPERIMENT.tables(some)[0]
    return {row[0]: row[1] for row in summary.rows}, summary.note


def test_ranks_are_over_the_sets_that_all_methods_have() -> None:
    some = records(*BEST)
    found, note = ranks(some)
    assert list(found.items()) == list(zip(BEST, ["1.00", "2.00", "3.00"], strict=True))
    assert "Over the 24 splits of 12 sets that" in note
    # On the first set the order is another one, but "logistic" was not measured there.
    some = [one for one in some if one.case["set"] != SETS[0]]
    some += [record(SETS[0], "qsdp-250", test=0.1), record(SETS[0], "backprop-rounded", test=0.9)]
    found, note = ranks(some)
    assert list(found.values()) == ["1.00", "2.00", "3.00"]
    assert f"Not by all methods, so not in this table: {SETS[0]}." in note
    assert set(ranks(records(*BEST, sets=SETS[:1]))[0].values()) == {"-"}
    assert ranks(records("logistic"))[0] == {"logistic": "-"}


def test_p_values_are_wilcoxons_against_the_best_of_ours_adjusted_by_holm() -> None:
    rng = np.random.default_rng(0)
    scores = {name: rng.uniform(0.5, 0.9 - 0.1 * place, 12) for place, name in enumerate(BEST)}
    scores["qsdp-250"] -= 0.05
    some = [record(name, m, test=score) for m in BEST for name, score in zip(SETS[:12], scores[m], strict=True)]
    raw = {name: stats.wilcoxon(scores[name], scores["qsdp-250"]).pvalue for name in BEST[1:]}
    first, second = sorted(raw, key=raw.__getitem__)
    expected = {first: min(1.0, 2 * raw[first]), second: max(raw[second], min(1.0, 2 * raw[first]))}
    shown = {row[0]: row[2] for row in EXPERIMENT.tables(some)[0].rows}
    assert shown == {"qsdp-250": "-", **{name: f"{p:.2g}" for name, p in expected.items()}}


def verdicts(some: list[Record]) -> dict[str, str]:
    return {claim.source.rsplit(", ", 1)[1]: claim.verdict for claim in STUDY.claims(some)}


def test_a_bound_above_an_objective_is_told() -> None:
    some = records("qsdp-250")
    assert verdicts(some)["section 3 (on the suite)"] == "supported"
    some.append(record("iris", "qsdp-250", 5, lower_bound=4.1))
    (claim, *_) = STUDY.claims(some)
    assert (claim.verdict, claim.figures) == ("contradicted", "24 of 25 cases")
