"""Main loop of the inner problem: ascent steps, attempts to prove a bound, and the best pair of point and bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.tuning import INNER, NEGLIGIBLE, PATIENCE, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem.ascent import Ascent
from qsdp.inner_problem.form import Certifier, Form

__all__ = ["BoundSearch", "DualPair", "SearchOptions"]

#: Multiple of the allowed gap below which the gradient, which bounds the gap, triggers a proof: bounds of loose
#: tolerance, and the default beta with them, depend on it to their tolerance.
_LIKELY = 1.5


@dataclass(frozen=True, eq=False)
class DualPair:
    """Result of a search: a factor with its value, a dominating diagonal, and the status."""

    Y: FloatArray
    split: int
    value: float
    z: FloatArray
    iterations: int
    status: str


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """Validated options of `qsdp.maxcut_bound`.

    The bar shows the gradient, which is one to ten times the gap that a proof would leave.
    """

    tol: float
    max_iter: int
    random: np.random.Generator
    bar: ProgressBar = NO_BAR


@dataclass(frozen=True, eq=False)
class BoundSearch:
    """Maximisation of a form until value and bound differ by `tol` relative to the bound, with or without `offset`.

    Parameters
    ----------
    form : Form
        Form with at least two rows.
    offset : float
        Bound of the whole problem minus that of the form, in the units of the form; of any sign.
    options : SearchOptions
    """

    form: Form
    offset: float
    options: SearchOptions

    def run(self) -> DualPair:
        """Run the search; return the best factor and the best bound."""
        form, options, tol, N = self.form, self.options, self.options.tol, self.form.size
        # With `safe` columns, there is no spurious optimum; with half as many, usually none, and steps are faster.
        safe = min(N, math.isqrt(2 * N) + 2)
        columns = min(N, math.isqrt(2 * N) // 2 + 2)

        def allowed() -> float:
            # The part of the allowed gap that does not depend on the error of the bound itself.
            return tol * max(abs(ascent.value + self.offset), abs(ascent.value))

        start = options.random.standard_normal((N, columns * (2 if form.paired else 1)))
        certifier = Certifier(form)
        ascent = Ascent(form, start, columns)
        best = (ascent.value, ascent.Y, ascent.split)
        iterations, status, escapes, proof_work = 0, "inaccurate", 0, 0.0
        try:
            while iterations < options.max_iter:
                moving = ascent.step()
                iterations += 1
                options.bar.measure(ascent.gradient, f"step {iterations}, gradient {ascent.gradient:.1e}")
                if ascent.value >= best[0]:
                    best = (ascent.value, ascent.Y, ascent.split)
                if deadline.over():
                    status = "time limit"
                    break
                stationary = not moving or ascent.gradient < SMALL * tol
                budget = allowed() - (best[0] - ascent.value)
                excess = ascent.gradient * float(ascent.weights.sum())
                worked = ascent.multiplications - proof_work >= 0.5 * certifier.work
                # After steps that cost half as much as a proof, ten times the allowed gap may do.
                if stationary or excess < _LIKELY * budget or (worked and INNER * excess < budget):
                    if budget > 0.0 and certifier.prove_within(ascent.z, ascent.weights, budget, excess):
                        status = "optimal"
                        break
                    proof_work = ascent.multiplications
                if stationary:
                    if escapes == PATIENCE:
                        break
                    escapes += 1
                    ascent.enlarge(safe, options.random)
        except KeyboardInterrupt:
            status = "interrupted"
        if status != "optimal":
            excess = ascent.gradient * float(ascent.weights.sum())
            # The gap is usually at least a quarter of the gradient, and never less than rounding.
            guess = max(0.25 * excess, allowed(), NEGLIGIBLE * abs(ascent.value))
            certifier.search(ascent.z, ascent.weights, guess)
        return DualPair(best[1], best[2], best[0], certifier.z, iterations, status)
