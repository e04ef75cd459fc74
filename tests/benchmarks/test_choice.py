"""Values chosen from grids that extend themselves."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.methods.choice import choose


def peak(**at: float):
    return lambda values: -sum(abs(math.log(values[name] / place)) for name, place in at.items())


def test_an_interior_choice_tries_the_grid_alone():
    found = choose({"beta": [1.0, 10.0, 100.0]}, peak(beta=12.0))
    assert found.best == {"beta": 10.0}
    assert found.decided
    assert [values["beta"] for values, _ in found.scores] == [1.0, 10.0, 100.0]


@pytest.mark.parametrize(("place", "chosen"), [(3e3, 1e3), (2e-3, 1e-3)])
def test_a_choice_at_an_edge_extends_the_grid_geometrically(place, chosen):
    found = choose({"beta": [1.0, 10.0]}, peak(beta=place))
    assert found.best["beta"] == pytest.approx(chosen)
    assert found.decided
    tried = sorted(values["beta"] for values, _ in found.scores)
    assert tried[0] < chosen < tried[-1]
    assert all(later / earlier == pytest.approx(10.0) for earlier, later in itertools.pairwise(tried))


@settings(max_examples=50, deadline=None)
@given(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0))
def test_what_is_decided_is_better_than_all_its_neighbours(first, second):
    score = peak(rate=10.0**first, beta=10.0**second)
    found = choose({"rate": [0.1, 0.3, 1.0], "beta": [1.0, 10.0]}, score, n_more=60)
    assert found.decided
    assert found.score == max(value for _, value in found.scores)
    for name, other in (("rate", "beta"), ("beta", "rate")):
        line = [values[name] for values, _ in found.scores if values[other] == found.best[other]]
        assert min(line) < found.best[name] < max(line)


def test_limits_and_a_budget_leave_it_undecided():
    rising = {"beta": [1.0, 10.0]}
    limited = choose(rising, lambda values: values["beta"], limits={"beta": (0.1, 1e3)})
    assert (limited.best, limited.undecided) == ({"beta": 1e3}, {"beta": "at its limit 1000"})
    stopped = choose(rising, lambda values: values["beta"], n_more=2)
    assert (stopped.best, stopped.undecided) == ({"beta": 1e3}, {"beta": "2 more tried"})
    assert not stopped.decided
    assert "not decided" in stopped._repr_html_()
