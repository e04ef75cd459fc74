"""Figures 2 to 6 of the paper: accuracy against time, tables, claims and pictures of the measurements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import (
    PAPER,
    Records,
    What,
    by,
    decided_inside,
    grouped,
    seconds,
    unfolded,
    values,
    where,
)
from benchmarks.experiments._summary import summary
from benchmarks.experiments.paper._accuracy_time import TRAINED, cases_of, run
from qsdp.bench import Claim, Experiment, Record, paired_claim

#: Networks in the order of tables and legends.
NAMES = (
    "paper",
    "qsdp",
    "refitted",
    "polished",
    "column generation",
    "backprop",
    "backprop, signs",
    "backprop, SDP",
    "straight-through",
    "ReLU",
    "ReLU, signs",
)


def experiment(
    number: int,
    dataset: str,
    sizes: Sequence[int],
    *,
    printed: float,
    rivals: Mapping[str, int] | None = None,
    statements: Callable[[str, Records], list[Claim]] | None = None,
) -> Experiment:
    """Return the experiment of a figure, for numbers of neurons; `printed` is the beta of backpropagation in the paper.

    `rivals` are networks that the paper compares with its own, and the figures that show them; `statements` returns
    further claims of the paper.
    """
    rivals = rivals or {"backprop, signs": number}

    def claims(records: Records) -> list[Claim]:
        better = [
            better_claims(f"{PAPER}, Figure {figure}", records, rival, m)
            for rival, figure in rivals.items()
            for m in sizes
        ]
        own = statements(f"{PAPER}, Figure {number}", records) if statements else []
        return [*itertools.chain(*better), *own, *beyond(records, number, sizes[-1])]

    numbers = sorted({number, *rivals.values()})
    place = f"Figure{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}"
    return Experiment(
        name=f"fig{number}",
        title=f"{place}: accuracy against time, {dataset}",
        source=f"{PAPER}, {place}",
        version=3,
        cases=lambda quick: cases_of(dataset, sizes, printed=printed, quick=quick),
        run=run,
        tables=lambda records: summary(shown(records)),
        claims=claims,
        plot=draw.saved(plot),
    )


def networks(records: Records) -> list[Record]:
    """Return a record for each network, in the order of tables and legends."""
    found = unfolded(records, "variants", "network", shared=("search_seconds", "gap", "course"))
    place = NAMES.index
    return sorted(found, key=lambda record: (record.case["m"] or 0, place(record.case["network"])))


def at_an_edge(record: Record) -> bool:
    """Return whether a hyper-parameter that validation chose has a neighbour that was not tried."""
    return bool(record.measured["undecided"])


def in_all(record: Record) -> float:
    return float(record.measured["seconds"] + record.measured["search_seconds"])


def by_split(records: Records, m: int | None, name: str, what: What) -> dict[int, float]:
    """Return one figure of a network by split."""
    return by(where(networks(records), m=m, network=name), what, "split")


def shown(records: Records) -> list[Record]:
    """Return accuracies, bits, gap and seconds of every network."""
    names = ("neurons", "bits", "train", "test", "gap", "proven", "seconds", "search_seconds")
    found = []
    for one in networks(records):
        row = {**{name: one.measured.get(name) for name in names}, "chosen at an edge": at_an_edge(one)}
        found.append(replace(one, case={name: one.case[name] for name in ("m", "network", "split")}, measured=row))
    return found


def paired(source: str, statement: str, records: Records, names: tuple[str, str], m: int, what: What) -> Claim:
    """Return whether the first of two networks has the higher accuracy, or the fewer seconds, by split."""
    # Column generation chooses its own number of neurons.
    pair = [by_split(records, None if name == "column generation" else m, name, what) for name in names]
    accuracies = what in {"train", "test"}
    how: dict[str, Any] = {} if accuracies else {"show": seconds, "less": True, "log": True}
    claim = paired_claim(source, statement, *pair, names=names, **how)
    group = where(networks(records), network=names[1], m=(m, None))
    return decided_inside(claim, names[1], [at_an_edge(record) for record in group]) if accuracies else claim


def better_claims(source: str, records: Records, theirs: str, m: int) -> list[Claim]:
    """Return the claims that the paper's network is more accurate, and sooner done, than another one."""
    questions: dict[str, What] = {
        "has the higher training accuracy": "train",
        "has the higher test accuracy": "test",
        "takes less time (the fit)": "seconds",
        "takes less time (fit and search of its parameters)": in_all,
    }
    found = []
    for words, what in questions.items():
        question = f"The SDP based network {words} than '{theirs}'"
        claim = paired(source, f"{question}, m = {m}.", records, ("paper", theirs), m, what)
        found.append(replace(claim, group=question, case=f"{source.removeprefix(f'{PAPER}, ')}, m = {m}"))
    return found


def beyond(records: Records, number: int, m: int) -> list[Claim]:
    """Return what the paper does not ask: today's practice, a fairer ReLU network, what rounding costs."""
    questions = (
        ("polished", "straight-through", "The polished network has the higher test accuracy than 'straight-through'"),
        ("polished", "ReLU, signs", "The polished network has the higher test accuracy than 'ReLU, signs'"),
        ("polished", "paper", "The polished network has the higher test accuracy than the paper's"),
        ("backprop", "backprop, signs", "Rounding costs a network trained by backpropagation test accuracy"),
        ("backprop, SDP", "backprop, signs", "The relaxation rounds a trained network better than signs, in test"),
    )
    source = f"Beyond {PAPER}, Figure {number}"
    return [paired(source, f"{said}, m = {m}.", records, (a, b), m, "test") for a, b, said in questions]


def plot(records: Records) -> Any:
    """Draw every network's accuracy against its seconds, with and without the search, and along its training."""
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for m in sorted({r.case["m"] for r in networks(records) if r.case["m"] is not None}) or [None]:
        for part, title in (("train", "training"), ("test", "test")):
            lines = panels.setdefault(title if m is None else f"{title}, m = {m}", {})
            for (name,), group in grouped(where(networks(records), m=(m, None)), "network").items():
                accuracies = 100.0 * values(group, part)
                lines[name] = {float(np.median(values(group, what))): accuracies for what in ("seconds", in_all)}
                courses = [record.measured["course"] for record in group if record.measured["course"]]
                # The course is that of the float network, not of its roundings.
                if courses and name in TRAINED:
                    points = np.array([[[one["seconds"], one[part]] for one in course] for course in courses])
                    times, heights = np.median(points[:, :, 0], axis=0), 100.0 * points[:, :, 1].mean(axis=0)
                    lines[f"{name}, while training"] = dict(zip(times.tolist(), heights, strict=True))
    return draw.curves(panels, "seconds: fit, and fit with search", "accuracy [%], mean and deviation", "x")
