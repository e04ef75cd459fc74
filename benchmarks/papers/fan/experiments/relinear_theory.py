"""Measurements of what Fan et al. state on quadratic against conventional networks: amplification and sizes.

Fig. 1: outputs on [-1, 1] of 1-10-10-10-10-1 ReLU networks whose parameters are all N(0, s²), with the same draws for
every s; as numbers, the growth of their range from s = 0.01 to 0.03 in 100 draws, and as a figure, their outputs less
that at 0 for s = 0.01, 0.02 and 0.03 in the first four draws. Equation (33): factors of the layers in the bound on the
gradient at zero, for unit Gaussian parameters. Parameters are counted from the networks themselves. Splines, their
constants, and dimensions of sets of functions are exact: `tests/` checks them, and the errata list misprints.
No finite run can decide Propositions 3 and 4, on limits of training.

The series are the families of neurons. Nothing is trained or split, no column is appended, and times are not shown. Of
the networks of Tables III to VIII, only the residual network (`QResNet`) is here, with all training
rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machinery import draw
from benchmarks.machinery.common import Records, experiment_in, geometric, grid, where
from benchmarks.machinery.verdicts import Claim, compare, exact, judged, not_measured
from benchmarks.papers.fan.jacobians import amplification, output_change, output_range
from benchmarks.papers.noel import get_family
from benchmarks.runner import Record
from qsdp.baselines import AffineForm, TrainedLayer, relu

PAPER = "Fan et al."
SCALES = (0.01, 0.03)
#: Deviations and inputs of the curves.
DRAWN, INPUTS = (0.01, 0.02, 0.03), np.linspace(-1.0, 1.0, 101)
WIDTHS = [1, 10, 10, 10, 10, 1]
DEPTHS = (1, 2, 3, 4, 5, 6)

#: Printed numbers of parameters of residual networks, by family, depth, width of the first stage, and ReZero or not.
RESNETS = {
    (family, int(depth), int(width), rezero == "1"): parameters
    for family, depth, width, rezero, parameters, _ in map(
        str.split, (Path(__file__).parents[1] / "resnets.txt").read_text(encoding="utf-8").splitlines()[1:]
    )
}


def cases(quick: bool) -> list[dict[str, Any]]:
    draws, depths = (10, DEPTHS[:3]) if quick else (100, DEPTHS)
    return [
        *grid(kind="range", family=("conventional", "quadratic"), draws=draws, seed=0),
        *grid(kind="curves", family=("conventional", "quadratic"), draws=2 if quick else 4, seed=0),
        *grid(kind="gradient", depth=depths, width=20, draws=draws, seed=0),
        *(
            {"kind": "resnet", "family": family, "depth": depth, "width": width, "rezero": rezero}
            for family, depth, width, rezero in RESNETS
            if depth == 20 or not quick
        ),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return CHECKS[case["kind"]](case)


def output_ranges(case: dict[str, Any]) -> dict[str, Any]:
    """Return the growth of the output range between the scales, for draws whose neurons are not all dead."""
    ranges = [
        [output_range(_layers(WIDTHS, scale, rng, case["family"] == "quadratic")) for rng in _streams(case)]
        for scale in SCALES
    ]
    return {"growth": [last / first for first, last in zip(*ranges, strict=True) if first > 0.0 < last]}


def curves(case: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs at `INPUTS` less that at 0, by draw and scale."""
    quadratic = case["family"] == "quadratic"
    return {
        "outputs": [
            [output_change(_layers(WIDTHS, scale, rng, quadratic), INPUTS).tolist() for rng in _streams(case)]
            for scale in DRAWN
        ]
    }


def gradients(case: dict[str, Any]) -> dict[str, Any]:
    """Return root mean squares of the bound; without constants, every layer maps 0 to 0, as (33) assumes."""
    widths, found = [case["width"]] * (case["depth"] + 1), {}
    for name, quadratic in (("conventional", False), ("quadratic", True)):
        made = [_layers(widths, 1.0, rng, quadratic, constants=False) for rng in _streams(case)]
        found[name] = float(np.sqrt(np.mean([np.prod(amplification(layers)) ** 2 for layers in made])))
    return found


def resnet(case: dict[str, Any]) -> dict[str, Any]:
    from benchmarks.papers.fan import QResNet, count_trainable, resnet_parameters

    options = {name: case[name] for name in ("family", "width", "rezero")}
    return {
        "parameters": count_trainable(QResNet(case["depth"], device="meta", **options)),
        "parameters_with_separate_biases": resnet_parameters(case["depth"], separate_biases=True, **options),
        "printed": RESNETS[case["family"], case["depth"], case["width"], case["rezero"]],
    }


CHECKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "range": output_ranges,
    "curves": curves,
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
    """Return whether a count equals the printed one when rounded or truncated."""
    size = measured["printed"].rstrip("M")
    unit = 10.0 ** -len(size.partition(".")[2])
    counts = (measured["parameters"], measured["parameters_with_separate_biases"])
    return any(abs(count / 1e6 - float(size)) < unit for count in counts)


def shown(records: Records) -> list[Record]:
    return [record for record in records if record.case["kind"] != "curves"]


def plot(records: Records) -> Any:
    """Draw the outputs of a family and a deviation per panel, a curve per draw, as in the paper's Fig. 1."""
    panels = {}
    for record in where(records, kind="curves"):
        for scale, outputs in zip(DRAWN, record.measured["outputs"], strict=True):
            lines = {f"draw {k + 1}": dict(zip(INPUTS, own, strict=True)) for k, own in enumerate(outputs)}
            panels[f"{record.case['family']}, parameters N(0, {scale:g}²)"] = lines
    return draw.curves(panels, "input", "output less that at 0", per_row=3, marks=False) if panels else None


def base_of_bounds(records: Records) -> tuple[float, int]:
    """Return the factor of a layer in the ratio of the bounds on both gradients, 0 if unknown, and how many depths."""
    bounds = {
        r.case["depth"]: np.log(r.measured["quadratic"] / r.measured["conventional"])
        for r in where(records, kind="gradient")
    }
    base = float(np.exp(np.polyfit(list(bounds), list(bounds.values()), 1)[0])) if len(bounds) > 1 else 0.0
    return base, len(bounds)


def claims(records: Records) -> list[Claim]:
    proven, kinds = f"Theory: {PAPER}", {kind: where(records, kind=kind) for kind in CHECKS}
    base, depths = base_of_bounds(records)
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
            f"{proven}, equation (33)",
            "The amplification of a quadratic network is 2^H times that of a conventional one.",
            [abs(base - 2.0) < 0.1] if base else [],
            f"{base:.3f}^H, {depths} depths",
        ),
        not_measured(
            f"{proven}, Propositions 3 and 4",
            "With the rates of (38) gradients of SGD converge to zero almost surely, the least of T like T^(-1/2).",
            "a statement about limits, which no finite run decides; the second has no proof: errata, E39",
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
            "CIFAR, ImageNet, KITTI and an accelerator for hundreds of epochs are not available here; of the networks, "
            "only the residual one is implemented, with the training rules",
        ),
    ]


def quotes(records: Records) -> dict[str, str]:
    """Return the factor of a layer in the amplification, and the mean growth of the outputs' range by family."""
    base, depths = base_of_bounds(records)
    found = {"amplification": f"{base:.2f}^H"} if depths > 1 else {}
    for record in where(records, kind="range"):
        # Growth is compared by ratios in the claim, whose mean is geometric.
        found[record.case["family"]] = f"{geometric(record.measured['growth']):,.0f}-fold"
    return found


#: The answer on top of the page.
ANSWER = """\
The paper claims that a deep quadratic network reacts hugely to a slight change of its parameters. It
[does]{relinear_theory: A slight change = 1 supported}: if their deviation is 0.03 in place of 0.01, the range
of its outputs grows {relinear_theory.quadratic}, and that of a conventional network {relinear_theory.conventional}. But
at depth H its bound on the gradient is [not 2^H times]{relinear_theory: The amplification = 1 contradicted} the
conventional one, but {relinear_theory.amplification} times, and only
{relinear_theory: printed numbers of parameters} networks have the
[printed numbers of parameters]{relinear_theory: printed numbers of parameters = 1 contradicted}. Not measured are
[convergence in the limit]{relinear_theory: With the rates of (38) = 1 not measured} and
[networks for large images]{relinear_theory: Quadratic ResNets = 1 not measured}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("relinear", "quadratic")
EXPERIMENT = experiment_in(
    __name__,
    "Amplification and sizes of quadratic networks",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, Fig. 1, equations 30-33, sizes "
    "of Tables IV to VI",
)
