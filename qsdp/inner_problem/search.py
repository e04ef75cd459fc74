"""The loop of the inner problem: steps, proofs where they pay, and the best pair of point and bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.progress import Line
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem.ascent import Ascent
from qsdp.inner_problem.certificate import Certifier
from qsdp.inner_problem.form import Form

__all__ = ["Found", "search"]

#: A proof is tried where the gradient, which is one to ten times the gap, promises it; where it only may succeed,
#: after steps of that share of the work of a proof.
_PROMISED, _POSSIBLE, _WORK = 1.5, 10.0, 0.5

#: Where the search ends early, shifts are tried from this share of the gradient on, and never less than rounding.
_PESSIMISTIC, _NOISE = 0.25, 1e-12

#: A stationary point without a proof, at this share of the tolerance, is left along a new column, so many times.
_STATIONARY, _ESCAPES = 1e-3, 20

#: Steps without a rise by that share of the tolerance, after which columns are added if there were few.
_PATIENCE, _RISE = 15, 0.1


@dataclass(frozen=True, eq=False)
class Found:
    """A factor with its value, a dominating diagonal, and how the search ended."""

    Y: FloatArray
    split: int
    value: float
    z: FloatArray
    iterations: int
    status: str


def search(
    form: Form,
    rank: int | None,
    room: float,
    tol: float,
    max_iter: int,
    deadline: Deadline,
    random: np.random.Generator,
    line: Line,
) -> Found:
    """Maximise, until value and bound differ by `tol` relative to the bound plus `room` or its part in the form.

    Parameters
    ----------
    form : Form
        Of at least two rows.
    rank : int or None
        Columns at the start, for each sign of a paired form.
    room : float
        What the whole problem's bound is above the form's, in its units; of any sign.
    tol, max_iter : see `qsdp.maxcut_bound`
    deadline : Deadline
    random : Generator
    line : Line
        Shown the gradient, which is one to ten times the gap that a proof would leave.
    """
    N = form.size
    # Of that many columns no landscape has a spurious optimum; most have none of half as many, which are faster.
    safe = min(N, math.isqrt(2 * N) + 2)
    usual = min(N, math.isqrt(2 * N) // 2 + 2)
    columns = usual if rank is None else min(N, rank)
    start = random.standard_normal((N, columns * (2 if form.paired else 1)))
    certifier = Certifier(form)
    ascent = Ascent(form, start, columns)
    best = (ascent.value, ascent.Y, ascent.split)
    iterations, status, escapes, tried, risen = 0, "inaccurate", 0, 0.0, (ascent.value, 0)

    def allowed() -> float:
        # Of what the bound may exceed the value by, the part that does not depend on the bound's own error.
        return tol * max(abs(ascent.value + room), abs(ascent.value))

    try:
        while iterations < max_iter:
            moving = ascent.step(lambda: deadline.over)
            iterations += 1
            line.falling(ascent.gradient, f"step {iterations}, gradient {ascent.gradient:.1e}")
            if ascent.value >= best[0]:
                best = (ascent.value, ascent.Y, ascent.split)
            if deadline.over:
                status = "time limit"
                break
            if ascent.value > risen[0] + _RISE * allowed():
                risen = (ascent.value, iterations)
            # Of too few columns, the landscape has saddles that are as good as flat.
            wandering = columns < usual and escapes == 0 and iterations - risen[1] >= _PATIENCE
            stationary = not moving or wandering or ascent.gradient < _STATIONARY * tol
            spare = allowed() - (best[0] - ascent.value)
            excess = ascent.gradient * float(ascent.weights.sum())
            worked = ascent.multiplications - tried >= _WORK * certifier.work
            if stationary or excess < _PROMISED * spare or (worked and excess < _POSSIBLE * spare):
                if spare > 0.0 and certifier.reach(ascent.z, ascent.weights, spare, excess):
                    status = "optimal"
                    break
                tried = ascent.multiplications
            if stationary:
                if escapes == _ESCAPES:
                    break
                escapes += 1
                ascent.enlarge(safe, random)
    except KeyboardInterrupt:
        status = "interrupted"
    if status != "optimal":
        excess = ascent.gradient * float(ascent.weights.sum())
        certifier.search(ascent.z, ascent.weights, max(_PESSIMISTIC * excess, allowed(), _NOISE * abs(ascent.value)))
    return Found(best[1], best[2], best[0], certifier.z, iterations, status)
