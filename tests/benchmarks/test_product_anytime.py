"""What there is at any time: curves and networks computed again, and records that turn the verdicts."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.runner import Record

study = pytest.importorskip("benchmarks.experiments.product.anytime", reason="not in the installed package")
process = pytest.importorskip("benchmarks.machinery.process", reason="not in the installed package")

PROBLEM = "planted 1000 x 60"


def made() -> list[Record]:
    """Return records in which every claim holds."""
    records = []
    for name in study.PROBLEMS:
        for solver in study.SOLVERS:
            curve = [(0.5, 10.0, 1.0), (2.0, 8.0, 0.5), (9.0, 9.0, 7.0)]
            records.append(Record({"problem": name, "solver": solver, "limit": 10.0}, {"curve": curve}, 1.0, 0))
        for k, limit in enumerate(study.LIMITS):
            measured = {
                "seconds": [limit] * 3,
                "relaxed": [50.0 - k] * 3,
                "relaxed_gap": [0.5**k] * 3,
                "objective": [60.0 - k, 61.0 - k, 62.0 - k],
                "gap": [0.9] * 3,
                "solvers": ["interior"],
            }
            records.append(Record({"problem": name, "limit": limit, "seeds": 3}, measured, 1.0, 0))
    for case in study.cases(quick=False):
        if "cuts" in case:
            gap = 0.01 if case["cuts"] else 0.02
            records.append(Record(case, {"gap": gap, "curve": [(0.5, 10.0, 1.0)]}, 1.0, 0))
    return records


def verdicts(records: list[Record]) -> list[str]:
    return [claim.verdict for claim in study.claims(records)]


def changed(case: dict[str, Any], **measured: Any) -> list[Record]:
    records = copy.deepcopy(made())
    (record,) = [r for r in records if case.items() <= r.case.items() and ("solver" in r.case) == ("solver" in case)]
    record.measured.update(measured)
    return records


def test_a_curve_has_the_best_point_and_bound_so_far() -> None:
    record = made()[0]
    seconds, gap = study.gaps(record)
    np.testing.assert_array_equal(seconds, [0.5, 2.0, 9.0])
    np.testing.assert_allclose(gap, [0.9, 7.0 / 8.0, 1.0 / 8.0])
    found = [study.gap_at(record, moment) for moment in (0.1, 0.5, 3.0, 10.0)]
    np.testing.assert_allclose(found, [1.0, 0.9, 7.0 / 8.0, 1.0 / 8.0])


def test_records_that_hold_are_supported() -> None:
    assert set(verdicts(made())) == {"supported"}
    assert verdicts(made()[10:])[:4] == ["not measured"] * 4
    assert set(verdicts([])) == {"not measured"}


def test_each_verdict_turns_with_one_record() -> None:
    case = {"problem": PROBLEM, "limit": 10.0}
    # Three seeds scatter by one; two standard errors of the difference are less than two.
    worse = changed(case, objective=[62.0, 63.0, 64.0])
    assert verdicts(worse)[0] == "contradicted"
    assert verdicts(changed(case, objective=[59.0, 60.0, 61.0]))[0] == "supported"
    assert verdicts(changed(case, relaxed_gap=[0.6, 0.1, 0.1]))[1] == "contradicted"
    assert verdicts(changed(case, relaxed=[60.0, 50.0, 50.0]))[2] == "contradicted"
    late = [(0.5, 10.0, 1.0), (9.0, 9.0, 3.0)]
    assert verdicts(changed({"problem": PROBLEM, "solver": "auto"}, curve=late))[3] == "contradicted"
    for case, gap, number in (({"cuts": True}, 0.02, 4), ({"cuts": True}, 0.051, 5), ({"limit": study.LONG}, 0.021, 6)):
        changed_ones = copy.deepcopy(made())
        next(r for r in changed_ones if case.items() <= r.case.items()).measured["gap"] = gap
        assert verdicts(changed_ones)[number] == "contradicted"


def test_picture(tmp_path: Path) -> None:
    study.EXPERIMENT.plot(made(), tmp_path / "anytime.png")
    assert (tmp_path / "anytime.png").stat().st_size > 10_000


def test_measured_curves_and_networks() -> None:
    problem = study.PROBLEMS[PROBLEM]()
    found = study.curve(problem, {"solver": "interior", "limit": 60.0})
    assert found["status"] == "optimal"
    seconds, objectives, bounds = np.array(found["curve"]).T
    assert np.all(np.diff(seconds) >= 0.0)
    assert objectives[-1] - bounds[-1] <= 1e-6 * objectives[-1]
    made_of = study.networks(problem, {"limit": 60.0, "seeds": 2})
    assert len(set(made_of["objective"])) == 2
    # The relaxation is the same for all seeds, and below every network.
    assert made_of["relaxed"][0] == made_of["relaxed"][1] < min(made_of["objective"])


def test_cuts_raise_bounds() -> None:
    problem = study.LOOSE["planted, beta 0.1"]()
    # On a busy machine, seconds of the wall clock would end column generation before its first cut.
    with process.processor_clock():
        found = [study.generated(problem, {"cuts": cuts, "limit": 3.0}) for cuts in (True, False)]
    assert found[0]["lower_bound"] > found[1]["lower_bound"]
    for one in found:
        assert one["lower_bound"] <= one["objective"]
        assert one["gap"] <= one["relaxation_gap"] + 1e-9


def test_the_clock_of_the_processor_stands_still_while_a_process_waits() -> None:
    with process.processor_clock():
        start = time.monotonic(), time.perf_counter()
        time.sleep(0.2)
        assert max(time.monotonic() - start[0], time.perf_counter() - start[1]) < 0.1
    assert time.monotonic is not time.process_time
