"""How much quadratic networks amplify: Fig. 1 and equation (33) of Fan et al., as numbers.

Fig. 1: outputs on [-1, 1] of 1-10-10-10-10-1 ReLU networks whose parameters are all N(0, s²), the same draws for every
s. Equation (33): factors of the layers in the bound on the gradient at zero, for unit Gaussian parameters; and the
gradient itself, at the ReLinear start and at a random one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments import draw, show
from benchmarks.experiments._common import Records, experiment_in, grid, medians, where
from qsdp.baselines import AffineForm, TrainedLayer, relu
from qsdp.baselines.quadratic import get_family
from qsdp.bench import Claim, Record, Table, compare, exact, judged, not_measured
from qsdp.quadratic_theory import amplification, input_jacobian, output_range

SCALES = (0.01, 0.02, 0.03, 0.1, 0.3, 1.0)
DEPTHS = (1, 2, 3, 4, 5, 6)


def cases(quick: bool) -> list[dict[str, Any]]:
    draws = 10 if quick else 100
    scales, depths = (SCALES[:3], DEPTHS[:3]) if quick else (SCALES, DEPTHS)
    found = grid(kind="range", family=("conventional", "quadratic"), scale=scales, draws=draws, seed=0)
    return found + grid(kind="gradient", depth=depths, width=20, draws=draws, seed=0)


def run(case: dict[str, Any]) -> dict[str, Any]:
    seeds = [np.random.default_rng([case["seed"], draw]) for draw in range(case["draws"])]
    if case["kind"] == "range":
        widths = [1, 10, 10, 10, 10, 1]
        quadratic = case["family"] == "quadratic"
        return {"ranges": [output_range(_layers(widths, case["scale"], rng, quadratic)) for rng in seeds]}
    widths = [case["width"]] * (case["depth"] + 1)
    names = {"conventional": False, "quadratic": True}
    found: dict[str, Any] = {}
    for name, quadratic in names.items():
        factors, gradients = [], []
        for rng in seeds:
            layers = _layers(widths, 1.0, rng, quadratic, activation=None, constants=False)
            factors.append(float(np.prod(amplification(layers))))
            gradients.append(float(np.linalg.norm(input_jacobian(layers, np.zeros((1, widths[0])))[0])))
        found[name] = {"bound": factors, "gradient": gradients}
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


def _range_records(records: Sequence[Record]) -> dict[str, dict[float, np.ndarray]]:
    found: dict[str, dict[float, np.ndarray]] = {}
    for record in records:
        if record.case["kind"] == "range":
            ranges = np.array(record.measured["ranges"])
            found.setdefault(record.case["family"], {})[record.case["scale"]] = ranges
    return found


def _growth(by_scale: dict[float, np.ndarray], scale: float) -> np.ndarray:
    """Return the growth of the range from s = 0.01, of the draws whose neurons are not all dead there."""
    alive = (by_scale[0.01] > 0.0) & (by_scale[scale] > 0.0)
    return np.asarray(by_scale[scale][alive] / by_scale[0.01][alive])


def tables(records: Records) -> list[Table]:
    families: dict[str, dict[float, np.ndarray]] = _range_records(records)

    def growth(group: Records) -> np.ndarray:
        case = group[0].case
        return _growth(families[case["family"]], case["scale"])

    def expected(group: Records) -> str:
        case = group[0].case
        law = (case["scale"] / 0.01) ** (5 if case["family"] == "conventional" else 9)
        return f"{law:.4g}" if case["scale"] <= 0.03 else "-"

    def ratio(what: str) -> show.Cell:
        return lambda group: f"{_typical_ratio(group[0].measured, what):.2f}"

    def extremes(group: Records) -> str:
        found = group[0].measured["ranges"]
        return f"[{min(found):.1e}, {max(found):.1e}]"

    ranges = [
        ("network", show.param("family")),
        ("s", show.param("scale", "g")),
        ("median", lambda group: f"{np.median(group[0].measured['ranges']):.2e}"),
        ("smallest, largest", extremes),
        ("over s = 0.01", lambda group: f"{np.median(growth(group)):.4g}"),
        ("power law", expected),
        ("draws", show.param("draws")),
    ]
    gradients = [
        ("layers", show.param("depth")),
        ("printed 2^H", lambda group: f"{2.0 ** group[0].case['depth']:g}"),
        ("corrected 2^(H/2)", lambda group: f"{2.0 ** (group[0].case['depth'] / 2):.2f}"),
        ("bound measured", ratio("bound")),
        ("gradient measured", ratio("gradient")),
        ("draws", show.param("draws")),
    ]
    return [
        show.table(
            "Range of the output on [-1, 1], all parameters N(0, s²)",
            [r for r in where(records, kind="range") if 0.01 in families[r.case["family"]]],
            ranges,
            "Power law: s to the fifth for conventional, to the ninth for quadratic networks, for small s. "
            "The paper prints a figure, no numbers.",
        ),
        show.table(
            "Amplification at zero of quadratic over conventional networks, unit Gaussian parameters, width 20",
            where(records, kind="gradient"),
            gradients,
            "Ratios of root mean squares. Bound: product of the layers' norms, equation (32).",
        ),
    ]


def _typical_ratio(measured: dict[str, Any], what: str) -> float:
    squares = {name: np.mean(np.square(measured[name][what])) for name in ("quadratic", "conventional")}
    return float(np.sqrt(squares["quadratic"] / squares["conventional"]))


def claims(records: Records) -> list[Claim]:
    ranges = _range_records(records)
    growth = {name: _growth(by_scale, 0.03) for name, by_scale in ranges.items() if {0.01, 0.03} <= set(by_scale)}
    parts = {
        f"{name}: {word} than a thousandfold": compare(
            dict(enumerate(growth.get(name, ()))), 1e3, less=word == "less", log=True
        )
        for name, word in (("quadratic", "more"), ("conventional", "less"))
    }
    texts = ", ".join(f"{name} {medians(ratios)} times" for name, ratios in growth.items())
    slight = (
        "A slight change of the parameters' deviation, thrice, changes a quadratic network's output hugely (more than "
        "a thousandfold), that of a conventional one less."
    )
    found = [judged("Fan et al., Fig. 1", slight, parts, f"range from deviation 0.01 to 0.03: {texts}")]
    amplifies = "The amplification of a quadratic network is 2^H times that of a conventional one."
    gradients = {r.case["depth"]: _typical_ratio(r.measured, "bound") for r in where(records, kind="gradient")}
    if len(gradients) < 2:
        return [*found, not_measured("Theory: Fan et al., equation (33)", amplifies)]
    depths = np.array(sorted(gradients))
    base = float(np.exp(np.polyfit(depths, np.log([gradients[depth] for depth in depths]), 1)[0]))
    figures = f"{base:.3f}^H, {len(depths)} depths"
    return [*found, exact("Theory: Fan et al., equation (33)", amplifies, [abs(base - 2.0) < 0.1], figures)]


def plot(records: Records) -> Any:
    medians = {
        family: {scale: np.median(ranges) for scale, ranges in by_scale.items()}
        for family, by_scale in _range_records(records).items()
    }
    return draw.curves({"": medians}, "deviation s of all parameters", "range of the output on [-1, 1], median", "xy")


EXPERIMENT = experiment_in(
    __name__,
    "Amplification of quadratic networks",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, Fig. 1, equations 30-33",
    version=2,
)
