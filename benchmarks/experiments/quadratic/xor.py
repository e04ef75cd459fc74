"""XOR by one quadratic neuron: closed forms, which families can, and what the start makes of the boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import experiment_in, where
from qsdp.baselines.quadratic import LOSSES, Descent, Layer, QuadraticNetwork
from qsdp.bench import Claim, Record, Table, exact, judged, share
from qsdp.datasets import make_xor
from qsdp.quadratic_theory import classify_conic, separate

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, Fig. 1"
#: Source and statement of every claim.
STATEMENTS = {
    "learns": (SOURCE, "A single quadratic neuron learns XOR."),
    "random": (SOURCE, "A random start of Q gives a hyperbola (more often than not)."),
    "identity": (SOURCE, "Identity as the start of Q gives an ellipse (after 200 epochs)."),
    "linear": (
        "Noel, Muthiah-Nakarajan, Oswal, section 2",
        "No linear neuron solves XOR, a quadratic one does; nor do neurons of squares without products.",
    ),
}
FAMILIES = ("qnn", "fan_compact", "power_only", "linear")

#: Parameters of one neuron that solves XOR, and the encoding of its inputs.
CLOSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "qnn, lines": ("qnn", {"Q": [[[0, -0.5], [-0.5, 0]]], "W": [[0, 0]], "b": [0]}, "bipolar"),
    "qnn, ellipse": ("qnn", {"Q": [[[1, -0.5], [-0.5, 1]]], "W": [[0, 0]], "b": [-2]}, "bipolar"),
    "rpqnn": ("rpqnn", {"W": [[1, 0]], "b": [0], "U": [[0, -1]], "c": [0]}, "bipolar"),
    "fan": ("fan", {"Wr": [[1, -1]], "br": [0], "Wg": [[1, -1]], "bg": [0], "Wb": [[0, 0]], "c": [-0.5]}, "binary"),
}


def cases(quick: bool) -> list[dict[str, Any]]:
    starts = 5 if quick else 50
    made: list[dict[str, Any]] = [{"kind": "closed form", "neuron": name} for name in CLOSED]
    made += [
        {"kind": "program", "family": family, "encoding": encoding}
        for family in FAMILIES
        for encoding in ("bipolar", "binary")
    ]
    made += [{"kind": "training", "start": "identity", "rate": rate, "epochs": 200} for rate in (0.01, 0.1)]
    made += [
        {"kind": "training", "start": "random", "rate": 0.1, "epochs": 200, "seed": seed} for seed in range(starts)
    ]
    return made


def run(case: dict[str, Any]) -> dict[str, Any]:
    if case["kind"] == "closed form":
        family, parameters, encoding = CLOSED[case["neuron"]]
        X, y = make_xor(encoding)
        layer = Layer(family, parameters)
        values = QuadraticNetwork([layer]).decision(X)[:, 0]
        form = QuadraticNetwork([layer]).to_layers()[0].form
        return {"values": values.tolist(), "solved": bool(((values > 0) == y).all()), "conic": classify_conic(form)}
    if case["kind"] == "program":
        answer = separate(*make_xor(case["encoding"]), case["family"])
        return {"separable": answer.separable, "margin": answer.margin}
    return train(case)


def train(case: dict[str, Any]) -> dict[str, Any]:
    """Train A0 on the four points in their order, from w = 0 and b = 0."""
    X, y = make_xor()
    Q = np.eye(2)
    if case["start"] == "random":
        R = np.random.default_rng(case["seed"]).standard_normal((2, 2))
        Q = 0.5 * (R + R.T)
    neuron = Layer("qnn", {"Q": Q[None], "W": np.zeros((1, 2)), "b": [0.0]})
    network = QuadraticNetwork.stack([QuadraticNetwork([neuron])])
    descent = Descent(network, X, y[:, None].astype(float), LOSSES["binary_cross_entropy"], case["rate"])
    solved = turned = None
    measured: dict[str, Any] = {}
    conserved = []
    for epoch in range(1, case["epochs"] + 1):
        descent.epoch(np.arange(4))
        P = network.layers[0].parameters
        matrix = P["Q"][0, 0]
        determinant = float(np.linalg.det(matrix))
        conserved.append(float(matrix[0, 0] - P["b"][0, 0]))
        if solved is None and ((network.decision(X)[0, :, 0] > 0) == y).all():
            solved = epoch
            form = network.start(0).to_layers()[0].form
            measured |= {"determinant": determinant, "conic": classify_conic(form)}
        if turned is None and determinant < 0.0:
            turned = epoch
    final = classify_conic(network.start(0).to_layers()[0].form)
    return measured | {
        "solved": solved,
        "hyperbola_from": turned,
        "final_conic": final,
        "spread_of_q11_minus_b": max(conserved) - min(conserved),
    }


def tables(records: Sequence[Record]) -> list[Table]:
    made = []
    closed = where(records, kind="closed form")
    rows = [
        [r.case["neuron"], " ".join(f"{value:g}" for value in r.measured["values"]), r.measured["conic"]]
        for r in closed
    ]
    made.append(Table("One neuron in closed form", ["neuron", "z on the four points", "boundary"], rows))
    rows = [
        [
            r.case["family"],
            r.case["encoding"],
            "yes" if r.measured["separable"] else "no",
            f"{r.measured['margin']:.3g}",
        ]
        for r in where(records, kind="program")
    ]
    headings = ["family", "inputs", "some neuron solves XOR", "margin"]
    made.append(Table("Decided by a linear program, with a proof either way", headings, rows))
    rows = []
    for rate in (0.01, 0.1):
        for r in where(records, start="identity", rate=rate):
            m = r.measured
            rows.append(
                [
                    f"identity, rate {rate:g}",
                    "ellipse",
                    f"{m['conic']} at epoch {m['solved']} (det Q {m['determinant']:.3f})",
                    f"{m['final_conic']}, from epoch {m['hyperbola_from']}",
                    "1",
                ]
            )
    random = where(records, start="random")
    if random:
        first = Counter(r.measured["conic"] for r in random)
        last = Counter(r.measured["final_conic"] for r in random)
        epochs = max(r.measured["solved"] for r in random)
        rows.append(
            [
                "random, rate 0.1",
                "hyperbola",
                f"{counted(first)}; at epoch {epochs} or before",
                counted(last),
                str(len(random)),
            ]
        )
    headings = ["start of Q", "printed", "first correct epoch", "after 200 epochs", "starts"]
    made.append(Table("Trained from w = 0 and b = 0, points in their order", headings, rows))
    return [table for table in made if table.rows]


def counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def claims(records: Sequence[Record]) -> list[Claim]:
    random, identity = where(records, start="random"), where(records, start="identity")
    programs = where(records, kind="program")
    early = sum(r.measured["conic"] == "ellipse" for r in identity)
    turned = ", ".join(str(r.measured["hyperbola_from"]) for r in identity)
    return [
        exact(*STATEMENTS["learns"], [r.measured["solved"] is not None for r in random + identity]),
        judged(
            *STATEMENTS["random"],
            share([r.measured["conic"] == "hyperbola" for r in random], 0.5),
            "hyperbolas at the first correct epoch",
        ),
        exact(
            *STATEMENTS["identity"],
            [r.measured["final_conic"] == "ellipse" for r in identity],
            f"{early} at the first correct epoch; hyperbola from epoch {turned}",
        ),
        exact(
            *STATEMENTS["linear"],
            [r.measured["separable"] is (r.case["family"] == "qnn") for r in programs],
            "linear programs, each with its proof",
        ),
    ]


def plot(records: Sequence[Record], path: Path) -> None:
    X, y = make_xor()
    grid = np.linspace(-2.5, 2.5, 200)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    figure, axes = draw.subplots(1, 4, figsize=(12, 3.2))
    for axis, (name, (family, parameters, encoding)) in zip(axes, CLOSED.items(), strict=True):
        X, y = make_xor(encoding)
        values = QuadraticNetwork([Layer(family, parameters)]).decision(points).reshape(200, 200)
        axis.contourf(grid, grid, values, levels=[-1e9, 0.0, 1e9], colors=["#dde7f3", "#f9e3d0"])
        axis.contour(grid, grid, values, levels=[0.0], colors="k", linewidths=1)
        axis.scatter(*X.T, c=np.where(y == 1, "C1", "C0"), zorder=3)
        axis.set_title(name, fontsize=9)
        axis.set_aspect("equal")
    draw.save(figure, path)


EXPERIMENT = experiment_in(__name__, "XOR by one quadratic neuron", SOURCE)
