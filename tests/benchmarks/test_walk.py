"""The way of a call through the modules."""

import qsdp
from benchmarks.machinery.walk import CALLS, walk


def test_returns_are_counted_in_the_order_of_first_entries() -> None:
    assert walk(lambda: qsdp.datasets.make_planted(4, 2)) == walk(lambda: qsdp.datasets.make_planted(4, 2))
    returns = walk(lambda: (qsdp.losses.get_loss("squared"), qsdp.TrainingProblem, qsdp.losses.get_loss("squared")))
    assert returns["qsdp.losses"] == 1, "entered a second time from outside, which is one return"
    assert next(iter(returns)) == "qsdp.losses"
    assert walk(lambda: sum(range(9))) == {}


def test_every_call_reaches_the_problem_or_the_proof() -> None:
    reached = {name: set(walk(CALLS[name]())) for name in ("certify", "solve_relaxation")}
    assert "qsdp.certificates.certifying" in reached["certify"]
    assert "qsdp.relaxation.solve" in reached["solve_relaxation"]
    assert "qsdp.relaxation.solve" not in reached["certify"]
