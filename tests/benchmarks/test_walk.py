"""The script that counts returns between modules runs."""

from benchmarks.machinery.walk import CALLS, walk


def test_a_call_returns_between_modules() -> None:
    assert sum(walk(CALLS["solve_relaxation"]()).values()) > 0
    assert walk(lambda: sum(range(9))) == {}
