"""The main loop of the inner problem: steps, proofs when worthwhile, and the best pair of point and bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem.ascent import Ascent
from qsdp.inner_problem.certificate import Certifier
from qsdp.inner_problem.form import Form

__all__ = ["BoundSearch", "DualPair", "SearchOptions"]


@dataclass(frozen=True, eq=False)
class DualPair:
    """A factor with its value, a dominating diagonal and the status of the search that found both."""

    Y: FloatArray
    split: int
    value: float
    z: FloatArray
    iterations: int
    status: str


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """The checked options of `qsdp.maxcut_bound`; `rank` applies to each sign of a paired form.

    The bar shows the gradient, which is one to ten times the gap that a proof would leave.
    """

    tol: float
    rank: int | None
    max_iter: int
    deadline: Deadline
    random: np.random.Generator
    bar: ProgressBar = NO_BAR


@dataclass(frozen=True, eq=False)
class BoundSearch:
    """Maximises a form until value and bound differ by `tol` relative to the bound, with or without `offset`.

    Parameters
    ----------
    form : Form
        Form with at least two rows.
    offset : float
        Bound of the whole problem minus that of the form, in the units of the form; of any sign.
    options : SearchOptions
    likely, possible, work : float
        A proof is attempted if the gradient is below `likely` times the gap allowed. It is also attempted if the
        gradient is below `possible` times that gap and the steps since the last proof took at least `work` times the
        operations of a proof.
    stationary, escapes : float, int
        If the gradient is below `stationary` times the tolerance but there is no proof, the search leaves the point
        along a new column, at most `escapes` times.
    patience, rise : int, float
        If the value has not risen by `rise` times the gap allowed in `patience` steps, columns are added if there were
        few.
    """

    form: Form
    offset: float
    options: SearchOptions
    likely: float = 1.5
    possible: float = 10.0
    work: float = 0.5
    stationary: float = 1e-3
    escapes: int = 20
    patience: int = 15
    rise: float = 0.1

    def run(self) -> DualPair:
        """Return the best factor and the best bound."""
        form, options, tol, N = self.form, self.options, self.options.tol, self.form.size
        # With `safe` columns, there is no spurious optimum; with half as many, usually none, and steps are faster.
        safe = min(N, math.isqrt(2 * N) + 2)
        usual = min(N, math.isqrt(2 * N) // 2 + 2)
        columns = usual if options.rank is None else min(N, options.rank)

        def allowed() -> float:
            # The part of the gap allowed that does not depend on the error of the bound itself.
            return tol * max(abs(ascent.value + self.offset), abs(ascent.value))

        start = options.random.standard_normal((N, columns * (2 if form.paired else 1)))
        certifier = Certifier(form)
        ascent = Ascent(form, start, columns)
        best = (ascent.value, ascent.Y, ascent.split)
        iterations, status, escapes, proof_work, risen = 0, "inaccurate", 0, 0.0, (ascent.value, 0)
        try:
            while iterations < options.max_iter:
                moving = ascent.step(lambda: options.deadline.over)
                iterations += 1
                options.bar.measure(ascent.gradient, f"step {iterations}, gradient {ascent.gradient:.1e}")
                if ascent.value >= best[0]:
                    best = (ascent.value, ascent.Y, ascent.split)
                if options.deadline.over:
                    status = "time limit"
                    break
                if ascent.value > risen[0] + self.rise * allowed():
                    risen = (ascent.value, iterations)
                # With too few columns, the landscape has saddles that are nearly flat.
                wandering = columns < usual and escapes == 0 and iterations - risen[1] >= self.patience
                stationary = not moving or wandering or ascent.gradient < self.stationary * tol
                budget = allowed() - (best[0] - ascent.value)
                excess = ascent.gradient * float(ascent.weights.sum())
                worked = ascent.multiplications - proof_work >= self.work * certifier.work
                if stationary or excess < self.likely * budget or (worked and excess < self.possible * budget):
                    if budget > 0.0 and certifier.prove_within(ascent.z, ascent.weights, budget, excess):
                        status = "optimal"
                        break
                    proof_work = ascent.multiplications
                if stationary:
                    if escapes == self.escapes:
                        break
                    escapes += 1
                    ascent.enlarge(safe, options.random)
        except KeyboardInterrupt:
            status = "interrupted"
        if status != "optimal":
            excess = ascent.gradient * float(ascent.weights.sum())
            # The gap is usually at least a quarter of the gradient, and never less than rounding.
            guess = max(0.25 * excess, allowed(), 1e-12 * abs(ascent.value))
            certifier.search(ascent.z, ascent.weights, guess)
        return DualPair(best[1], best[2], best[0], certifier.z, iterations, status)
