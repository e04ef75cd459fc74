"""Compare every number that `qsdp-check` prints when it accepts a file with the number computed in fractions."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from typing import NamedTuple

from campaigns._exact import EPS, Arrays, Statement, digest, digest_of_rows

CLAIM = Fraction(1, 10**9)
#: Absolute allowance of all claims.
_TINY = Fraction(1, 10**300)
#: Numbers, but neither the exponent of t^2 nor parts of words.
_NUMBER = re.compile(r"(?<![\w^.])[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)(?!\w)")


class Expected(NamedTuple):
    """Ends of the interval of a number that is printed with so many digits; 17 are all digits of a float."""

    low: Fraction | float
    high: Fraction | float
    digits: int = 17

    def contains(self, text: str) -> bool:
        if not math.isfinite(float(text)):
            return False
        if self.low == self.high and self.digits == 17:
            return float(text) == float(self.low)
        number = Fraction(text)
        slack = abs(number) * Fraction(51, 10 ** (self.digits + 1))
        return bool(self.low - slack <= number <= self.high + slack)


Line = tuple[str, list[Expected]]


def _same(*numbers: float) -> list[Expected]:
    return [Expected(number, number) for number in numbers]


def _rounded(number: Fraction | float, digits: int) -> Expected:
    return Expected(Fraction(number), Fraction(number), digits)


def lines_of(said: str, path: str) -> list[tuple[str, list[str]]]:
    """Return the first word of every line, and its numbers."""
    lines = (line.replace(path, "") for line in said.splitlines())
    return [(line.split(" ")[0].rstrip(":"), _NUMBER.findall(line)) for line in lines]


def differences(
    said: str, f: Arrays, path: str | None, limit: float | None = None
) -> tuple[list[str], dict[str, float]]:
    """Compare what is said of an accepted file with what is true; return what differs, and relative distances.

    The arrays are those that the check is about (`used`); `path` is that of the data of a user. `limit` is an upper
    bound of the optimum, for dual vectors that are not in the file.
    """
    statement, said_lines = Statement(f), lines_of(said, path or "\0")
    start = [word for word, _ in said_lines].index("network")
    (_, network), _, (_, (value, _)), (_, (bound, *_)) = said_lines[start : start + 4]
    b, claimed, objective, zero = Fraction(bound), float(f["lower_bound"]), statement.objective, statement.zero
    tolerance, smaller = CLAIM * max(objective, zero / 10**6) + _TINY, min(objective, zero)
    least = Fraction(0)
    if limit is not None:
        best = Fraction(limit)
    else:
        least, best = statement.value, statement.best_bound(Fraction(value), Fraction(6, 10**12))
    expected = [
        *_described(statement),
        *_proven(statement, least),
        *_bounded(statement, best, b),
    ]
    wrong = []
    for line, other in itertools.zip_longest(said_lines, expected, fillvalue=("", [])):
        fits = len(line[1]) == len(other[1])
        if line[0] != other[0] or not fits or not all(e.contains(t) for e, t in zip(other[1], line[1], strict=True)):
            wrong.append(f"{line[0]} {' '.join(line[1])} is not {other[0]} {other[1]}"[:300])
    if not abs(Fraction(float(f["objective"])) - objective) <= tolerance:
        wrong.append(f"objective claimed {float(f['objective'])!r}, it is {float(objective)!r}")
    if not Fraction(claimed) <= best * (1 + Fraction(1, 10**11)) + CLAIM * smaller + _TINY:
        wrong.append(f"lower bound claimed {claimed!r}, proven {float(best)!r}, optimum at most {float(smaller)!r}")
    for name, made in (("data_sha256", digest), ("rows_sha256", digest_of_rows)):
        if name in f and str(f[name]) != made(f):
            wrong.append(f"{name} is not that of the data")
    if digest(f) not in said.split():
        wrong.append("the digest that is printed is not that of the data")
    far = {"objective": float(abs(Fraction(network[1]) - objective) / (objective or 1))}
    if limit is None and zero:
        far["lower bound"] = float((best - b) / zero)
    return wrong, far


def _described(statement: Statement) -> list[Line]:
    """Return the lines about the problem and the data."""
    f = statement.f
    if "gram" in f:
        sizes = [f["n_samples"], len(f["products"])]
    elif "forms" in f:
        sizes = [f["n_samples"], *f["forms"].shape]
    else:
        sizes = [*f["X"].shape]
    huber = f["parameters"] if statement.loss == "huber" else []
    lines = [("problem", _same(*sizes, statement.outputs, *huber, f["beta"]))]
    lines.append(("networks", _same(f["levels"], *f["activation"])))
    if "sizes" in f:
        blocks = zip(f["linear"].tolist(), f["sizes"].tolist(), f["omega"].tolist(), strict=True)
        for (_, N, omega), group in itertools.groupby(blocks):
            lines.append(("blocks", _same(len(list(group)), N, omega)))
        if "weights" in f:
            prices = f["weight_omega"]
            ends = [prices.min()] + [prices.max()] * bool(prices.min() < prices.max())
            lines.append(("weights", _same(len(prices), *(float(price) for price in ends))))
    if "patches" in f:
        lines.append(("patches", _same(*f["patches"])))
    lines.append(("data", [] if "X" in f else [_rounded(float(f["rounding"]), 2)]))
    return [*lines, ("sha256", [])]


def _proven(statement: Statement, least: Fraction) -> list[Line]:
    """Return the lines about the network and the proof."""
    f, objective = statement.f, statement.objective
    tolerance = CLAIM * max(objective, statement.zero / 10**6) + _TINY
    shifted, cuts = f["shifted"].tolist(), len(f["cut_weights"]) if "cut_weights" in f else 0
    penalty = Expected(statement.penalty * (1 - 4 * EPS), statement.penalty * (1 + 4 * EPS))
    return [
        ("network", [*_same(statement.neurons), Expected(objective - tolerance, objective + tolerance, 12)]),
        ("proof", _same(sum(shifted), len(shifted) - sum(shifted), cuts)),
        ("", [Expected(least, math.inf, 12), penalty]),
    ]


def _bounded(statement: Statement, best: Fraction, b: Fraction) -> list[Line]:
    """Return the lines about the bound, which is printed as b and may be as large as `best`."""
    objective, zero, claimed = statement.objective, statement.zero, float(statement.f["lower_bound"])
    loose = CLAIM * max(objective, zero / 10**6) + _TINY + b / 10**11
    gap, relative = objective - b, Fraction(0)
    if objective:
        relative, uncertain = gap / objective, 2 * loose / objective
    else:
        uncertain = Fraction(1)
    return [
        ("lower", [Expected(0, best + _TINY, 12), _rounded(claimed, 12)]),
        ("gap", [Expected(gap - loose, gap + loose, 4), Expected(relative - uncertain, relative + uncertain, 4)]),
        ("yes", [_rounded(b, 11), *_same(1e-9)]),
    ]
