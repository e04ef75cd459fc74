"""XOR by one quadratic neuron: how the boundary depends on the start. Tests prove that no linear neuron learns it.

The four points are trained in order for 200 epochs from w = 0 and b = 0, with the binary cross-entropy. The series are
the starts of the quadratic part: "identity" at two learning rates, and "random", which stands for 50 symmetric Gaussian
matrices. There is a bias, but no constant column, split or penalty, and times are not shown. The figure shows the
points and boundaries: of the first random start after 200 epochs, and of the identity, at the first epoch after which
all points are right and after 200 epochs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.data.toys import make_xor
from benchmarks.machinery import draw
from benchmarks.machinery.common import Records, experiment_in, grid, where
from benchmarks.machinery.verdicts import Claim, exact, judged, share
from benchmarks.papers.noel import LOSSES, Descent, Layer, QuadraticNetwork
from benchmarks.papers.noel.conics import classify_conic
from benchmarks.runner import Record
from qsdp.networks import QuadraticForm

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, Fig. 1"


def cases(quick: bool) -> list[dict[str, Any]]:
    made = grid(kind="training", start="identity", rate=(0.01, 0.1), epochs=200)
    return made + grid(kind="training", start="random", rate=0.1, epochs=200, seed=range(5 if quick else 50))


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train A0 on the four points in order, from w = 0 and b = 0."""
    X, y = make_xor()
    Q = np.eye(2)
    if case["start"] == "random":
        R = np.random.default_rng(case["seed"]).standard_normal((2, 2))
        Q = 0.5 * (R + R.T)
    neuron = Layer("qnn", {"Q": Q[None], "W": np.zeros((1, 2)), "b": [0.0]})
    network = QuadraticNetwork.stack([QuadraticNetwork([neuron])])
    descent = Descent(network, X, y[:, None].astype(float), LOSSES["binary_cross_entropy"], case["rate"])
    measured: dict[str, Any] = {"solved": None, "conic": None}
    for epoch in range(1, case["epochs"] + 1):
        descent.epoch(np.arange(4))
        if measured["solved"] is None and ((network.decision(X)[0, :, 0] > 0) == y).all():
            measured = {"solved": epoch, "conic": _conic(network), "form": _coefficients(network)}
    return measured | {"final_conic": _conic(network), "final_form": _coefficients(network)}


def _coefficients(network: QuadraticNetwork) -> dict[str, Any]:
    form = network.start(0).to_layers()[0].form
    return {name: np.asarray(getattr(form, name)).tolist() for name in ("S", "s", "s0")}


def _conic(network: QuadraticNetwork) -> str:
    return classify_conic(network.start(0).to_layers()[0].form)


def shown(records: Records) -> list[Record]:
    """Return the measurements without the coefficients, which are in the figure."""
    return [replace(one, measured={k: v for k, v in one.measured.items() if "form" not in k}) for one in records]


def plot(records: Records) -> Any:
    """Draw the four points and the boundary of one neuron per panel, as in the paper's Figure 1."""
    X, y = make_xor()
    panels = {}
    for record in [*where(records, start="random")[:1], *where(records, start="identity")]:
        case, found = record.case, record.measured
        moments = {"final_": case["epochs"]} | ({"": found["solved"]} if case["start"] == "identity" else {})
        for moment, epochs in sorted(moments.items()):
            title = f"start {case['start']}, rate {case['rate']:g}\n{found[f'{moment}conic']} after {epochs} epochs"
            panels[title] = {"quadratic neuron": QuadraticForm(**found[f"{moment}form"])}
    return draw.boundaries(panels, X, y, ("false", "true"))


def claims(records: Records) -> list[Claim]:
    random, identity = where(records, start="random"), where(records, start="identity")
    solved = [r.measured["solved"] is not None for r in random + identity]
    early = sum(r.measured["conic"] == "ellipse" for r in identity)
    return [
        exact(SOURCE, "A single quadratic neuron learns XOR.", solved),
        judged(
            SOURCE,
            "A random start of Q gives a hyperbola (more often than not).",
            share([r.measured["conic"] == "hyperbola" for r in random], 0.5),
            "hyperbolas at the first correct epoch",
        ),
        exact(
            SOURCE,
            "Identity as the start of Q gives an ellipse (after 200 epochs).",
            [r.measured["final_conic"] == "ellipse" for r in identity],
            f"{early} at the first correct epoch",
        ),
    ]


#: The answer on top of the page.
ANSWER = """\
The paper claims that one quadratic neuron learns XOR, with a hyperbola as boundary from a random start and an ellipse
from the identity. It [learns XOR]{xor: learns XOR = 1 supported} in {xor: learns XOR} runs, and the boundary of a
random start is [most often a hyperbola]{xor: random start = 1 supported} ({xor: random start}) when the four points are
first right. From the identity, it is an ellipse at that time, but
[no longer after 200 epochs]{xor: Identity as = 1 contradicted}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("quadratic",)
EXPERIMENT = experiment_in(__name__, "XOR by one quadratic neuron", SOURCE, version=2)
