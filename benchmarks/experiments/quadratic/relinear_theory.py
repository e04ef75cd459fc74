"""What Fan et al. prove or count, measured: splines, constants, dimensions, parameters; how much networks amplify.

Dimensions are exact ranks modulo a prime, parameters counted from the networks themselves. What is said of limits of
training, Propositions 3 and 4, no finite run can decide. Fig. 1, as numbers: outputs on [-1, 1] of 1-10-10-10-10-1 ReLU
networks whose parameters are all N(0, s²), the same draws for every s. Equation (33): factors of the layers in the
bound on the gradient at zero, for unit Gaussian parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments._common import Records, experiment_in, grid, medians, where
from qsdp.baselines import AffineForm, TrainedLayer, relu
from qsdp.baselines.quadratic import get_family
from qsdp.bench import Claim, compare, exact, judged, not_measured
from qsdp.quadratic_theory import amplification, output_range

PAPER = "Fan et al."
SCALES = (0.01, 0.03)
DEPTHS = (1, 2, 3, 4, 5, 6)

#: Constants of equation (10) as printed.
CONSTANTS = {1: 0.25, 2: 0.013, 6: 1.37e-6}

ARCHITECTURES = (
    [1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1], [1, 2, 1], [1, 3, 1], [2, 2, 1], [2, 3, 1], [2, 2, 2], [3, 2, 1],
    [3, 3, 1], [2, 2, 2, 1], [3, 3, 3, 1], [4, 4, 1],
)  # fmt: skip

#: Parameters of residual networks as printed, by family, depth, width of the first stage, and whether with ReZero.
RESNETS = {
    (family, int(depth), int(width), rezero == "1"): parameters
    for family, depth, width, rezero, parameters, _ in map(
        str.split, Path(__file__).with_name("resnets.txt").read_text(encoding="utf-8").splitlines()[1:]
    )
}


def cases(quick: bool) -> list[dict[str, Any]]:
    shapes = ((3, 7),) if quick else ((3, 7), (3, 15), (3, 31), (5, 7), (5, 15), (7, 9))
    draws, depths, seeds = (10, DEPTHS[:3], range(2)) if quick else (100, DEPTHS, range(10))
    return [
        *(case for degree, knots in shapes for case in grid(kind="spline", degree=degree, knots=knots, seed=seeds)),
        *grid(kind="constant", m=(1, 2, 3, 6), points=12),
        *grid(kind="dimension", widths=ARCHITECTURES[:9] if quick else ARCHITECTURES),
        *grid(kind="range", family=("conventional", "quadratic"), draws=draws, seed=0),
        *grid(kind="gradient", depth=depths, width=20, draws=draws, seed=0),
        *(
            {"kind": "resnet", "family": family, "depth": depth, "width": width, "rezero": rezero}
            for family, depth, width, rezero in RESNETS
            if depth == 20 or not quick
        ),
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
    x = np.linspace(S.x[0], S.x[-1], 2001)
    with torch.no_grad():
        outputs = spline_network(S)(torch.as_tensor(x)[:, None])[:, 0].numpy()
    torch.manual_seed(case["seed"])
    widths = [1, *(len(layer["c"]) for layer in spline_parameters(S))]
    conventional = ReLinearNetwork(widths, "linear", dtype=torch.float64)
    pieces = polynomial_pieces(conventional.trained_layers(), float(x[0]), float(x[-1]))
    powers = [np.flatnonzero(np.abs(piece.coefficients) > 1e-9).max(initial=0) for piece in pieces]
    return {
        "error": float(np.abs(outputs - S(x)).max() / np.abs(S(x)).max()),
        "degree_of_conventional": int(max(powers)),
    }


def constant(case: dict[str, Any]) -> dict[str, Any]:
    """Interpolate cos by a periodic spline of degree 2m - 1 at uniform knots: its error over that of Lemma 1."""
    from scipy.interpolate import make_interp_spline

    from qsdp.quadratic_theory import spline_error_constant

    m, n = case["m"], case["points"]
    knots = np.linspace(0.0, 2.0 * np.pi, n + 1)
    # A third of a step aside, so that extremes of cos are no knots.
    heights = np.cos(knots - 0.3)
    heights[-1] = heights[0]
    S = make_interp_spline(knots, heights, k=2 * m - 1, bc_type="periodic" if m > 1 else None)
    x = np.linspace(0.0, 2.0 * np.pi, 20_001)
    error = np.abs(S(x) - np.cos(x - 0.3)).max()
    return {"measured": float(error / (2.0 * np.pi / n) ** (2 * m)), "exact": float(spline_error_constant(m))}


def dimension(case: dict[str, Any]) -> dict[str, Any]:
    from qsdp.quadratic_theory import dimension_bounds, family_dimension

    bounds = dimension_bounds(case["widths"], "fan")
    dimensions = {family: family_dimension(case["widths"], family).dimension for family in ("fan", "square_act")}
    return dimensions | {"corrected": bounds.corrected, "printed": bounds.printed}


def output_ranges(case: dict[str, Any]) -> dict[str, Any]:
    """Return the growth of the range between the scales, of the draws whose neurons are not all dead."""
    ranges = [
        [
            output_range(_layers([1, 10, 10, 10, 10, 1], scale, rng, case["family"] == "quadratic"))
            for rng in _streams(case)
        ]
        for scale in SCALES
    ]
    return {"growth": [last / first for first, last in zip(*ranges, strict=True) if first > 0.0 < last]}


def gradients(case: dict[str, Any]) -> dict[str, Any]:
    """Return root mean squares of the bound; without constants every layer maps 0 to 0, as (33) assumes."""
    widths, found = [case["width"]] * (case["depth"] + 1), {}
    for name, quadratic in (("conventional", False), ("quadratic", True)):
        made = [_layers(widths, 1.0, rng, quadratic, constants=False) for rng in _streams(case)]
        found[name] = float(np.sqrt(np.mean([np.prod(amplification(layers)) ** 2 for layers in made])))
    return found


def resnet(case: dict[str, Any]) -> dict[str, Any]:
    from qsdp.baselines.relinear import QResNet, count_trainable
    from qsdp.quadratic_theory import resnet_parameters

    options = {name: case[name] for name in ("family", "width", "rezero")}
    return {
        "parameters": count_trainable(QResNet(case["depth"], device="meta", **options)),
        "parameters_with_separate_biases": resnet_parameters(case["depth"], separate_biases=True, **options),
        "printed": RESNETS[case["family"], case["depth"], case["width"], case["rezero"]],
    }


CHECKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "spline": spline,
    "constant": constant,
    "dimension": dimension,
    "range": output_ranges,
    "gradient": gradients,
    "resnet": resnet,
}


def _streams(case: dict[str, Any]) -> list[np.random.Generator]:
    return [np.random.default_rng([case["seed"], number]) for number in range(case["draws"])]


def _layers(
    widths: Sequence[int], scale: float, rng: np.random.Generator, quadratic: bool, *, constants: bool = True
) -> list[TrainedLayer]:
    """Return ReLU layers with Gaussian parameters."""
    layers = []
    for n, m in itertools.pairwise(widths):
        wr, wg, wb = scale * rng.standard_normal((3, m, n))
        br, bg, c = scale * rng.standard_normal((3, m))
        c = c if constants else -br * bg
        fan = {"Wr": wr, "br": br, "Wg": wg, "bg": bg, "Wb": wb, "c": c}
        form = get_family("fan").to_form(fan) if quadratic else AffineForm(wr, br if constants else 0.0 * br)
        layers.append(TrainedLayer(form, relu))
    return [*layers[:-1], TrainedLayer(layers[-1].form)]


def _as_printed(measured: dict[str, Any]) -> bool:
    """Return whether a count is the printed one, rounded or cut off."""
    size = measured["printed"].rstrip("M")
    unit = 10.0 ** -len(size.partition(".")[2])
    counts = (measured["parameters"], measured["parameters_with_separate_biases"])
    return any(abs(count / 1e6 - float(size)) < unit for count in counts)


def claims(records: Records) -> list[Claim]:
    proven, kinds = f"Theory: {PAPER}", {kind: where(records, kind=kind) for kind in CHECKS}
    splines, dimensions = ([record.measured for record in kinds[kind]] for kind in ("spline", "dimension"))
    lemma_1 = {}
    for m, found in ((record.case["m"], record.measured) for record in kinds["constant"]):
        lemma_1[f"m = {m}: error"] = found["measured"] <= found["exact"] * (1.0 + 1e-6)
        if m in CONSTANTS:
            right = abs(CONSTANTS[m] / found["exact"] - 1.0) <= 0.01
            lemma_1[f"m = {m}: {CONSTANTS[m]:g} printed for {found['exact']:.4g}"] = right
    corrected = sum(found["fan"] <= found["corrected"] for found in dimensions)
    bounds = {r.case["depth"]: np.log(r.measured["quadratic"] / r.measured["conventional"]) for r in kinds["gradient"]}
    base = float(np.exp(np.polyfit(list(bounds), list(bounds.values()), 1)[0])) if len(bounds) > 1 else 0.0
    grown = {record.case["family"]: dict(enumerate(record.measured["growth"])) for record in kinds["range"]}
    slight = {
        f"{name}: {word} than a thousandfold": compare(grown.get(name, {}), 1e3, less=word == "less", log=True)
        for name, word in (("quadratic", "more"), ("conventional", "less"))
    }
    sizes = {
        f"{'{family} {depth}, width {width}'.format(**r.case)}{', ReZero' * r.case['rezero']}": r.measured
        for r in kinds["resnet"]
    }
    return [
        exact(
            f"{proven}, Proposition 1",
            "A quadratic network with ReLU is any polynomial spline of one variable, exactly; no conventional one is.",
            [found["error"] < 1e-8 and found["degree_of_conventional"] <= 1 for found in splines],
        ),
        exact(
            f"{proven}, Lemma 1, equation (10)",
            "Errors of splines of degree 2m - 1 are at most 0.25, 0.013, 0.00000137 (m = 1, 2, 6) times h^(2m).",
            lemma_1,
        ),
        exact(
            f"{proven}, Lemma 2, equation (19)",
            "The dimension of the functions of a quadratic network is at most the printed bound.",
            [found["fan"] <= found["printed"] for found in dimensions],
            f"of {len(dimensions)} architectures {corrected} are within the bound that errata, E26, corrects",
        ),
        exact(
            f"{proven}, Proposition 2",
            "It is larger than that of a network of the same widths with quadratic activations.",
            [found["fan"] > found["square_act"] for found in dimensions],
            f"{medians([found['fan'] / found['square_act'] for found in dimensions])} times as large",
        ),
        exact(
            f"{proven}, equation (33)",
            "The amplification of a quadratic network is 2^H times that of a conventional one.",
            [abs(base - 2.0) < 0.1] if base else [],
            f"{base:.3f}^H, {len(bounds)} depths",
        ),
        not_measured(
            f"{proven}, Proposition 3",
            "With the rates of (38) the gradients of SGD converge to zero almost surely.",
            "a statement about limits, which no finite run decides",
        ),
        not_measured(
            f"{proven}, Proposition 4",
            "... and the least expected gradient after T steps falls like 1 over the root of T.",
            "it does not follow from its proof, whose bound grows with T: errata, E39",
        ),
        judged(
            f"{PAPER}, Fig. 1",
            "A slight change of the parameters' deviation, thrice, changes a quadratic network's output hugely (more "
            "than a thousandfold), that of a conventional one less.",
            slight,
        ),
        exact(
            f"{PAPER}, Tables IV, V, VI",
            "The networks have the printed numbers of parameters.",
            {name: _as_printed(found) for name, found in sizes.items()},
        ),
        not_measured(
            f"{PAPER}, Tables III to VIII",
            "Quadratic ResNets (errors of 5.44 to 9.80 % on CIFAR-10), VGG16 and LapDepth beat conventional ones.",
            "CIFAR, ImageNet, KITTI and an accelerator for hundreds of epochs are not here; networks and rules are",
        ),
    ]


EXPERIMENT = experiment_in(
    __name__,
    "Expressivity, amplification and sizes of quadratic networks",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, Lemmas and "
    "Propositions, Fig. 1, equations 30-33, sizes of Tables IV to VI",
)
