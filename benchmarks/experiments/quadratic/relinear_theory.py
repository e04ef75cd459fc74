"""What Fan et al. prove, measured: splines, their constants, dimensions of families; and how much networks amplify.

Dimensions are exact ranks modulo a prime. What is said of limits of training, Propositions 3 and 4, no finite run can
decide. Fig. 1, as numbers: outputs on [-1, 1] of 1-10-10-10-10-1 ReLU networks whose parameters are all N(0, s²), the
same draws for every s. Equation (33): factors of the layers in the bound on the gradient at zero, for unit Gaussian
parameters; and the gradient itself, at the ReLinear start and at a random one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments._common import (
    Records,
    Theorem,
    experiment_in,
    grid,
    medians,
    theorems,
    values,
    where,
)
from qsdp.baselines import AffineForm, TrainedLayer, relu
from qsdp.baselines.quadratic import get_family
from qsdp.bench import Claim, compare, exact, judged, not_measured
from qsdp.quadratic_theory import amplification, input_jacobian, output_range

PAPER = "Fan et al."
SCALES = (0.01, 0.02, 0.03, 0.1, 0.3, 1.0)
DEPTHS = (1, 2, 3, 4, 5, 6)

#: Constants of equation (10) as printed.
PRINTED = {1: 0.25, 2: 0.013, 6: 1.37e-6}

ARCHITECTURES = (
    [1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1], [1, 2, 1], [1, 3, 1], [2, 2, 1], [2, 3, 1], [2, 2, 2], [3, 2, 1],
    [3, 3, 1], [2, 2, 2, 1], [3, 3, 3, 1], [4, 4, 1],
)  # fmt: skip


def cases(quick: bool) -> list[dict[str, Any]]:
    shapes = ((3, 7),) if quick else ((3, 7), (3, 15), (3, 31), (5, 7), (5, 15), (7, 9))
    draws, scales, depths = (10, SCALES[:3], DEPTHS[:3]) if quick else (100, SCALES, DEPTHS)
    seeds = range(2 if quick else 10)
    return [
        *(case for degree, knots in shapes for case in grid(kind="spline", degree=degree, knots=knots, seed=seeds)),
        *grid(kind="constant", m=(1, 2, 3, 6), points=12),
        *grid(kind="dimension", widths=ARCHITECTURES[:9] if quick else ARCHITECTURES),
        *grid(kind="range", family=("conventional", "quadratic"), scale=scales, draws=draws, seed=0),
        *grid(kind="gradient", depth=depths, width=20, draws=draws, seed=0),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return CHECKS[case["kind"]](case)


def spline(case: dict[str, Any]) -> dict[str, Any]:
    """Write a random spline as a quadratic network, and look at the pieces of a conventional network of its widths."""
    import torch
    from scipy.interpolate import PPoly, make_interp_spline

    from qsdp.baselines.relinear import ReLinearNetwork
    from qsdp.quadratic_theory import polynomial_pieces, spline_network, spline_parameters

    rng = np.random.default_rng(case["seed"])
    knots = np.arange(float(case["knots"]))
    S = PPoly.from_spline(make_interp_spline(knots, rng.standard_normal(len(knots)), k=case["degree"]))
    # Knots at the ends are repeated in B-splines.
    inner = np.flatnonzero(np.diff(S.x) > 0.0)
    S = PPoly(S.c[:, inner], np.append(S.x[inner], S.x[-1]))
    network = spline_network(S)
    x = np.linspace(S.x[0], S.x[-1], 2001)
    with torch.no_grad():
        values = network(torch.as_tensor(x)[:, None])[:, 0].numpy()
    torch.manual_seed(case["seed"])
    widths = [1, *(len(layer["c"]) for layer in spline_parameters(S))]
    conventional = ReLinearNetwork(widths, "linear", dtype=torch.float64)
    pieces = polynomial_pieces(conventional.trained_layers(), float(x[0]), float(x[-1]))
    return {
        "error": float(np.abs(values - S(x)).max() / np.abs(S(x)).max()),
        "neurons": int(sum(widths[1:])),
        "pieces": len(S.x) - 1,
        "degree_of_conventional": max(
            int(np.flatnonzero(np.abs(piece.coefficients) > 1e-9).max(initial=0)) for piece in pieces
        ),
    }


def constant(case: dict[str, Any]) -> dict[str, Any]:
    """Interpolate cos by a periodic spline of degree 2m - 1 at uniform knots: its error over that of Lemma 1."""
    from scipy.interpolate import make_interp_spline

    from qsdp.quadratic_theory import spline_error_constant

    m, n = case["m"], case["points"]
    knots = np.linspace(0.0, 2.0 * np.pi, n + 1)
    # A third of a step aside, so that extremes of cos are no knots.
    values = np.cos(knots - 0.3)
    values[-1] = values[0]
    S = make_interp_spline(knots, values, k=2 * m - 1, bc_type="periodic" if m > 1 else None)
    x = np.linspace(0.0, 2.0 * np.pi, 20_001)
    step = 2.0 * np.pi / n
    return {
        "measured": float(np.abs(S(x) - np.cos(x - 0.3)).max() / step ** (2 * m)),
        "exact": float(spline_error_constant(m)),
    }


def dimension(case: dict[str, Any]) -> dict[str, Any]:
    from qsdp.quadratic_theory import dimension_bounds, family_dimension

    measured: dict[str, Any] = {}
    for family in ("fan", "square_act"):
        found, bounds = family_dimension(case["widths"], family), dimension_bounds(case["widths"], family)
        measured[family] = {
            "dimension": found.dimension,
            "parameters": found.n_parameters,
            "corrected": bounds.corrected,
            "printed": bounds.printed,
        }
    return measured


def drawn(case: dict[str, Any]) -> list[np.random.Generator]:
    return [np.random.default_rng([case["seed"], number]) for number in range(case["draws"])]


def output_ranges(case: dict[str, Any]) -> dict[str, Any]:
    widths, quadratic = [1, 10, 10, 10, 10, 1], case["family"] == "quadratic"
    return {"ranges": [output_range(_layers(widths, case["scale"], rng, quadratic)) for rng in drawn(case)]}


def gradients(case: dict[str, Any]) -> dict[str, Any]:
    widths = [case["width"]] * (case["depth"] + 1)
    found: dict[str, Any] = {}
    for name, quadratic in (("conventional", False), ("quadratic", True)):
        found[name] = {"bound": [], "gradient": []}
        for rng in drawn(case):
            layers = _layers(widths, 1.0, rng, quadratic, activation=None, constants=False)
            found[name]["bound"].append(float(np.prod(amplification(layers))))
            found[name]["gradient"].append(float(np.linalg.norm(input_jacobian(layers, np.zeros((1, widths[0])))[0])))
    return found


def _layers(
    widths: Sequence[int],
    scale: float,
    rng: np.random.Generator,
    quadratic: bool,
    *,
    activation: Any = relu,
    constants: bool = True,
) -> list[TrainedLayer]:
    """Return layers with Gaussian parameters; without constants every layer maps 0 to 0, as (33) assumes."""
    layers = []
    for n, m in itertools.pairwise(widths):
        wr, wg, wb = scale * rng.standard_normal((3, m, n))
        br, bg, c = scale * rng.standard_normal((3, m))
        c = c if constants else -br * bg
        fan = {"Wr": wr, "br": br, "Wg": wg, "bg": bg, "Wb": wb, "c": c}
        form = get_family("fan").to_form(fan) if quadratic else AffineForm(wr, br if constants else 0.0 * br)
        layers.append(TrainedLayer(form, activation))
    return [*layers[:-1], TrainedLayer(layers[-1].form)]


CHECKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "spline": spline,
    "constant": constant,
    "dimension": dimension,
    "range": output_ranges,
    "gradient": gradients,
}


def _growth(records: Records, family: str, scale: float) -> np.ndarray:
    """Return the growth of the range from s = 0.01, of the draws whose neurons are not all dead there."""
    found = [values(where(records, kind="range", family=family, scale=one), "ranges") for one in (0.01, scale)]
    if not all(map(len, found)):
        return np.array([])
    (first,), (last,) = found
    alive = (first > 0.0) & (last > 0.0)
    return np.asarray(last[alive] / first[alive])


def _typical_ratio(measured: dict[str, Any], what: str) -> float:
    squares = {name: np.mean(np.square(measured[name][what])) for name in ("quadratic", "conventional")}
    return float(np.sqrt(squares["quadratic"] / squares["conventional"]))


def _splines(source: str, statement: str, records: Records) -> Claim:
    errors = [record.measured["error"] for record in records]
    degrees = [record.measured["degree_of_conventional"] for record in records]
    figures = f"largest relative error {max(errors):.0e}; pieces of conventional networks have degree {max(degrees)}"
    return exact(source, statement, [e < 1e-8 and d <= 1 for e, d in zip(errors, degrees, strict=True)], figures)


def _lemma_1(source: str, statement: str, records: Records) -> Claim:
    holds = {f"m = {r.case['m']}: error": r.measured["measured"] <= r.measured["exact"] * (1.0 + 1e-6) for r in records}
    for r in records:
        if r.case["m"] in PRINTED:
            printed, right = PRINTED[r.case["m"]], r.measured["exact"]
            holds[f"m = {r.case['m']}: {printed:g} printed for {right:g}"] = abs(printed / right - 1.0) <= 0.01
    figures = "exact constants " + ", ".join(f"m = {r.case['m']}: {r.measured['exact']:.4g}" for r in records)
    return exact(source, statement, holds, figures)


def _lemma_2(source: str, statement: str, records: Records) -> Claim:
    corrected, printed = (
        [record.measured["fan"]["dimension"] <= record.measured["fan"][bound] for record in records]
        for bound in ("corrected", "printed")
    )
    figures = f"of {len(records)} architectures {sum(corrected)} are within the bound that errata, E26, corrects"
    return exact(source, statement, printed, figures)


def _proposition_2(source: str, statement: str, records: Records) -> Claim:
    gains = [record.measured["fan"]["dimension"] / record.measured["square_act"]["dimension"] for record in records]
    return exact(source, statement, [gain > 1.0 for gain in gains], f"{medians(gains)} times as large")


def _amplifies(source: str, statement: str, records: Records) -> Claim:
    ratios = {record.case["depth"]: _typical_ratio(record.measured, "bound") for record in records}
    if len(ratios) < 2:
        return not_measured(source, statement)
    base = float(np.exp(np.polyfit(list(ratios), np.log(list(ratios.values())), 1)[0]))
    return exact(source, statement, [abs(base - 2.0) < 0.1], f"{base:.3f}^H, {len(ratios)} depths")


def _slight_change(records: Records) -> Claim:
    growth = {name: _growth(records, name, 0.03) for name in ("conventional", "quadratic")}
    parts = {
        f"{name}: {word} than a thousandfold": compare(
            dict(enumerate(growth[name])), 1e3, less=word == "less", log=True
        )
        for name, word in (("quadratic", "more"), ("conventional", "less"))
    }
    texts = ", ".join(f"{name} {medians(ratios)} times" for name, ratios in growth.items() if len(ratios))
    slight = (
        "A slight change of the parameters' deviation, thrice, changes a quadratic network's output hugely (more than "
        "a thousandfold), that of a conventional one less."
    )
    return judged(f"{PAPER}, Fig. 1", slight, parts, f"range from deviation 0.01 to 0.03: {texts}")


CLAIMS: tuple[Theorem, ...] = (
    (
        "spline",
        "Proposition 1",
        "A quadratic network with ReLU is any polynomial spline of one variable, exactly; no conventional one is.",
        _splines,
    ),
    (
        "constant",
        "Lemma 1, equation (10)",
        "Errors of splines of degree 2m - 1 are at most 0.25, 0.013, 0.00000137 (m = 1, 2, 6) times h^(2m).",
        _lemma_1,
    ),
    (
        "dimension",
        "Lemma 2, equation (19)",
        "The dimension of the functions of a quadratic network is at most the printed bound.",
        _lemma_2,
    ),
    (
        "dimension",
        "Proposition 2",
        "It is larger than that of a network of the same widths with quadratic activations.",
        _proposition_2,
    ),
    (
        "gradient",
        "equation (33)",
        "The amplification of a quadratic network is 2^H times that of a conventional one.",
        _amplifies,
    ),
)

#: What no finite run decides.
LIMITS = (
    (
        "Proposition 3",
        "With the rates of (38) the gradients of SGD converge to zero almost surely.",
        "a statement about limits, which no finite run decides",
    ),
    (
        "Proposition 4",
        "... and the least expected gradient after T steps falls like 1 over the root of T.",
        "it does not follow from its proof, whose bound grows with T: errata, E39",
    ),
)


def claims(records: Records) -> list[Claim]:
    limits = [not_measured(f"Theory: {PAPER}, {place}", said, why) for place, said, why in LIMITS]
    return [*theorems(PAPER, CLAIMS, records), *limits, _slight_change(records)]


EXPERIMENT = experiment_in(
    __name__,
    "Expressivity and amplification of quadratic networks",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, Lemmas and "
    "Propositions, Fig. 1, equations 30-33",
)
