"""What Fan et al. prove, measured: splines as quadratic networks, constants of splines, dimensions of families.

Dimensions are exact ranks modulo a prime. What is said of limits of training, Propositions 3 and 4, no finite run can
decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments import show
from benchmarks.experiments._common import Theorem, experiment_in, grouped, medians, theorems, where
from qsdp.bench import Claim, Record, Table, exact, not_measured

PAPER = "Fan et al."
Records = Sequence[Record]

#: Constants of equation (10) as printed.
PRINTED = {1: 0.25, 2: 0.013, 6: 1.37e-6}

ARCHITECTURES = (
    [1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1], [1, 2, 1], [1, 3, 1], [2, 2, 1], [2, 3, 1], [2, 2, 2], [3, 2, 1],
    [3, 3, 1], [2, 2, 2, 1], [3, 3, 3, 1], [4, 4, 1],
)  # fmt: skip


def cases(quick: bool) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"kind": "spline", "degree": degree, "knots": knots, "seed": seed}
        for degree, knots in (((3, 7),) if quick else ((3, 7), (3, 15), (3, 31), (5, 7), (5, 15), (7, 9)))
        for seed in range(2 if quick else 10)
    ]
    made += [{"kind": "constant", "m": m, "points": 12} for m in (1, 2, 3, 6)]
    return made + [
        {"kind": "dimension", "widths": widths} for widths in (ARCHITECTURES[:9] if quick else ARCHITECTURES)
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
    """Return dimensions of both families of networks, and the bounds on them."""
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


CHECKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "spline": spline,
    "constant": constant,
    "dimension": dimension,
}


def tables(records: Records) -> list[Table]:
    splines = [
        ("degree", show.param("degree")),
        ("pieces", show.first("pieces")),
        ("neurons", show.first("neurons")),
        ("largest relative error", show.most("error", ".1e")),
        ("degree of a conventional network's pieces", show.most("degree_of_conventional", ".0f")),
        ("splines", show.count),
    ]
    constants = [
        ("m", show.param("m")),
        ("constant printed", show.first(lambda record: PRINTED.get(record.case["m"]), ".3g")),
        ("exact", show.first("exact", ".4g")),
        ("measured for cos, 12 knots a period", show.first("measured", ".4g")),
    ]
    whats = {"dimension": "", "parameters": "", "printed": "bound ", "corrected": "bound "}
    dimensions = [
        ("widths", lambda group: "-".join(map(str, group[0].case["widths"]))),
        *(
            (f"{words}: {prefix}{what}", show.first(f"{family}/{what}"))
            for family, words in (("fan", "quadratic"), ("square_act", "squares"))
            for what, prefix in whats.items()
        ),
    ]
    return [
        show.table(
            "Proposition 1: splines as quadratic networks with ReLU",
            grouped(where(records, kind="spline"), "degree", "knots"),
            splines,
            "Random values at uniform knots. The conventional network has the same widths and random weights.",
        ),
        show.table("Lemma 1: |f - S| <= constant |f^(2m)| h^(2m)", where(records, kind="constant"), constants),
        show.table(
            "Lemma 2 and Proposition 2: dimensions of the functions of an architecture",
            where(records, kind="dimension"),
            dimensions,
            "Quadratic: Fan's neurons, the identity between layers; squares: linear layers with squares between them.",
        ),
    ]


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
    return theorems(PAPER, CLAIMS, records) + limits


EXPERIMENT = experiment_in(
    __name__,
    "Expressivity of quadratic networks",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, Lemmas and Propositions",
)
