"""The count of lines, clocks, numbers and tests of shapes (`.ci/size.py`)."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parent.parent / ".ci" / "size.py"
pytestmark = pytest.mark.skipif(not PATH.is_file(), reason="the source package has no .ci")

SOURCE = '''
"""The deadline, 7 and 8."""
SIDES, _SHARE = (3, 0.2), 0.1
NAMES = {"a": "b"}
_BY_NAME = {"a": 1.5}
_LARGEST_INTEGER, _ENTRIES = 2**53, 2**20
_UNDERFLOW, _SPLITTER = 2.0**-980, 2.0**27 + 1.0
_FACTORS = {"whole": 2.0, "half": 0.5}
_QUOTIENT_ROUNDINGS = 6


class Rule:
    size: int = 9
    name: str = "a"

    def __init__(self, levels: int = 8) -> None:
        self.least = check_integer("least", 2.0**-700 + 0.5**3, maximum=128)


_RULE = ARule(6, share=0.3, name="a")


def _inside(deadline: Deadline, k: int = 7, n: int = 1) -> float:
    if deadline.over and array.ndim == 2:
        return 12.0 * k + 1.0 + 5.0 * (len(a) + 16) * EPS + gamma(n + 8) + 1e-300 + 0.25 * a
    return problem.coupled


def outside(limit: int, k: int = 7) -> None:
    later = lambda seconds: 0.7
'''


PAGE = """
| Module in `solvers` | Number | Measured |
|---|---|---|
| `cuts.planes` | all numbers | 7 |
| `interior` | `_A = 2`, `_B` | 1 % |

| Module | Number | Measured |
|---|---|---|
| `width` | `_C = 3` | 2 % |
"""


@pytest.fixture
def size():
    spec = importlib.util.spec_from_file_location("size", PATH)
    size = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(size)
    return size


def test_counts_follow_their_rules(size) -> None:
    found = size.counts(SOURCE)
    assert found == {
        **{"lines": len(SOURCE.splitlines()), "clocked": 2, "clock lines": 3, "shapes": 2},
        **{"constants": 5, "fields": 3, "defaults": 1, "literals": 2, "numbers": 11},
    }


def test_numbers_of_the_page_of_measurements(size) -> None:
    assert size.measured(PAGE) == {"solvers": 2, "width": 1}
