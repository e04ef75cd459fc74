"""Search of geometric grids, which are extended until the best values are in the interior."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from qsdp._utils.summary import Rows, Summarized, Summary, format_number
from qsdp._utils.validation import check_integer, check_real
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice(Summarized):
    """Result of `choose`: the best values and all scores.

    Attributes
    ----------
    best : dict of float
        Values with the highest score; ties go to those tried first.
    score : float
    scores : list of (dict of float, float)
        All combinations tried and their scores, in order.
    undecided : dict of str
        Names whose value may not be the best because a neighbour was not tried, with the reason.
    """

    best: dict[str, float]
    score: float
    scores: list[tuple[dict[str, float], float]]
    undecided: dict[str, str] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether both grid neighbours of every best value were tried and do not score higher."""
        return not self.undecided

    def _summary(self) -> Summary:
        rows: Rows = [(name, format_number(value)) for name, value in self.best.items()]
        rows += [("score", format_number(self.score)), ("tried", str(len(self.scores)))]
        rows += [("not decided", f"{name}: {reason}") for name, reason in self.undecided.items()]
        return Summary("Choice", rows)


def choose(
    grid: Mapping[str, Sequence[float]],
    score: Callable[[dict[str, float]], float],
    *,
    limits: Mapping[str, tuple[float, float]] | None = None,
    n_more: int = 12,
) -> Choice:
    """Return the values with the highest score, extending the grid if they are at its edge.

    All combinations of the grid are tried first. Then untried neighbours of the best combination are tried until there
    are none. Beyond an end of the grid, the neighbour continues the ratio of the last two values. A choice that is
    decided has therefore been compared with a smaller and a larger value of every name, with the others fixed.

    Parameters
    ----------
    grid : dict of sequences of float
        At least two different positive values for each name, in any order. Ties in the score go to the first.
    score : callable
        Function of a dict with a value for every name, which returns the score to maximise; nan counts as the worst.
    limits : dict of (float, float), optional
        Smallest and largest value to try, by name; unlimited by default.
    n_more : int, default=12
        Maximum number of combinations tried beyond those of the grid.

    Returns
    -------
    Choice

    Examples
    --------
    >>> from benchmarks.methods.choice import choose
    >>> found = choose({"beta": [1.0, 10.0]}, lambda values: -abs(values["beta"] - 800.0))
    >>> found.best, found.decided, len(found.scores)
    ({'beta': 1000.0}, True, 5)
    >>> found = choose({"beta": [1.0, 10.0]}, lambda values: values["beta"], limits={"beta": (0.1, 100.0)})
    >>> found.best, found.undecided
    ({'beta': 100.0}, {'beta': 'at its limit 100'})
    """
    axes = {name: _checked(name, values) for name, values in grid.items()}
    if not axes:
        raise InvalidInputError("grid must have at least one name with values; got none")
    bounds = {name: (limits or {}).get(name, (0.0, math.inf)) for name in axes}
    n_more = check_integer("n_more", n_more, minimum=0)
    tried: dict[tuple[float, ...], float] = {}

    def attempt(point: tuple[float, ...]) -> None:
        value = float(score(dict(zip(axes, point, strict=True))))
        tried[point] = -math.inf if math.isnan(value) else value

    for point in itertools.product(*(map(float, values) for values in grid.values())):
        attempt(point)
    size = len(tried)
    undecided: dict[str, str] = {}
    while True:
        best = max(tried, key=lambda point: tried[point])
        undecided.clear()
        missing = []
        for place, name in enumerate(axes):
            for value in _neighbours(axes[name], best[place]):
                point = (*best[:place], value, *best[place + 1 :])
                if not bounds[name][0] <= value <= bounds[name][1]:
                    undecided[name] = f"at its limit {best[place]:g}"
                elif point not in tried:
                    missing.append((name, point))
        if not missing:
            break
        name, point = missing[0]
        if len(tried) - size == n_more:
            undecided |= {name: f"{n_more} more tried" for name, _ in missing}
            break
        attempt(point)
        place = list(axes).index(name)
        axes[name] = sorted({*axes[name], point[place]})
    scores = [(dict(zip(axes, point, strict=True)), value) for point, value in tried.items()]
    return Choice(dict(zip(axes, best, strict=True)), tried[best], scores, undecided)


def _checked(name: str, values: Sequence[float]) -> list[float]:
    """Return the grid values of a name, checked and in increasing order."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise InvalidTypeError(f"grid must have a sequence of values for {name!r}; got {values!r}")
    checked = sorted({check_real(f"{name} in grid", value, strict=True) for value in values})
    if len(checked) < 2:
        raise InvalidInputError(f"grid must have at least two different values of {name!r}; got {values!r}")
    return checked


def _neighbours(values: list[float], value: float) -> tuple[float, float]:
    """Return the next smaller and larger values; beyond the ends, they continue the ratio of the last two."""
    place = values.index(value)
    below = values[place - 1] if place else value * value / values[1]
    above = values[place + 1] if place + 1 < len(values) else value * value / values[-2]
    return below, above
