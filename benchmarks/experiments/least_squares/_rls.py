"""What the experiments of recursive least squares share: data, training curves as records, and rows of tables."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import Records, grouped
from qsdp.bench import Claim, Evidence, Record, compare, either, judged

SOURCE = "Zhang et al. 2021"

#: Epochs that records keep, from 1.
EPOCHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 80, 100, 120, 150)

#: The paper's additions, and what is said of them.
ADDITIONS = {"+M": "Momentum improves", "+R": "An L1 term improves", "+M+R": "Both together improve"}

#: Figures 2 and 3: lines of a panel.
PANELS = {
    "squared loss": ("Adam", "RLS", *(f"RLS{sign}" for sign in ADDITIONS)),
    "cross-entropy": ("Adam, entropy", "HRLS", *(f"HRLS{sign}" for sign in ADDITIONS)),
}
#: Figures 4 and 5: the same of k and eta.
GRIDS = {
    "k": ("RLS, k 0.01", "RLS", "RLS, k 1", "RLS, k 10"),
    "eta": ("RLS, eta 0.01", "RLS, eta 0.1", "RLS", "RLS, eta 10"),
}

#: Records by parameters.
Groups = defaultdict[Any, list[Record]]
#: Method of `train_network`, loss and options.
Method = tuple[str, str, dict[str, Any]]

#: The paper's methods.
METHODS: dict[str, Method] = {
    label: (label.removesuffix(", entropy").lower(), loss, {})
    for loss, labels in zip(("squared", "cross_entropy"), PANELS.values(), strict=True)
    for label in labels
}


def cases_of(methods: Iterable[str], seeds: int, epochs: int) -> list[dict[str, Any]]:
    """Return a case for each method and seed."""
    return [{"method": label, "seed": seed, "epochs": epochs} for label in methods for seed in range(seeds)]


def data_of(X: Any, X_test: Any, y: Any, y_test: Any, shape: Sequence[int] | None = None) -> Any:
    """Return data of ten classes for `train_network`: one-hot targets, samples of a shape."""
    import torch

    from qsdp.baselines.rls.harness import Data

    parts = [torch.tensor(np.asarray(part), dtype=torch.float32) for part in (X, X_test)]
    if shape is not None:
        parts = [part.reshape(-1, *shape) for part in parts]
    codes = [torch.eye(10)[torch.as_tensor(part, dtype=torch.long)] for part in (y, y_test)]
    return Data(parts[0], codes[0], parts[1], codes[1])


def perceptron(*sizes: int) -> Callable[[], Any]:
    """Return what makes a network of ReLU layers."""
    from torch import nn

    def make() -> Any:
        parts = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*parts[:-1])

    return make


def measure(make_model: Callable[[], Any], data: Any, method: str, **options: Any) -> dict[str, Any]:
    """Train by one thread; return curves, the processor's seconds, and the numbers that network and optimiser keep."""
    import torch

    from qsdp.baselines.rls import METHODS, train_network
    from qsdp.baselines.rls.harness import Method

    torch.set_num_threads(1)
    kept: list[Any] = []

    def make(model: Any, **chosen: Any) -> Any:
        kept.extend([model, METHODS[method].make(model, **chosen)])
        return kept[-1]

    watched = Method(make, METHODS[method].squared_only, METHODS[method].clips)
    with warnings.catch_warnings():
        # What diverged is in the record.
        warnings.simplefilter("ignore")
        history = train_network(make_model, data, watched, name=method, **options)
    model, optimizer = kept
    return summary(history) | {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "state": state_size(optimizer),
    }


def state_size(optimizer: Any) -> int:
    """Return how many numbers an optimiser keeps between steps."""
    import torch

    optimizers = [optimizer, *([optimizer.rest] if getattr(optimizer, "rest", None) else [])]
    return sum(
        value.numel()
        for one in optimizers
        for state in one.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )


def summary(history: Any) -> dict[str, Any]:
    """Return a history at `EPOCHS` that were reached; seconds are those since the first epoch's start."""
    reached = [epoch for epoch in EPOCHS if epoch <= history.n_epochs]
    seconds = history.extra.get("cpu_seconds", [])
    curves = {
        "test": history.extra.get("test", []),
        "train": history.score,
        "loss": history.loss,
        "cpu_seconds": list(itertools.accumulate(seconds)),
    }
    return {
        **{name: {str(epoch): _rounded(curve[epoch - 1]) for epoch in reached} for name, curve in curves.items()},
        "best": max(curves["test"], default=None),
        "diverged": history.diverged,
        "cpu_seconds_per_epoch": float(np.median(seconds)) if seconds else None,
    }


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def at(records: Iterable[Record], name: str, epoch: int) -> np.ndarray:
    """Return a curve's values at an epoch, over repetitions that were so long; nan where they had diverged before."""
    curves = [(record.measured[name], record.measured["diverged"]) for record in records]
    return np.array(
        [_number(curve.get(str(epoch))) for curve, diverged in curves if str(epoch) in curve or diverged is not None]
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def by_seed(records: Iterable[Record], name: str, epoch: int) -> dict[int, float]:
    """Return a curve's values at an epoch by seed; what diverged is worth a guess, and a loss of 1000."""
    found = {r.case["seed"]: r.measured[name].get(str(epoch)) for r in records if r.case["epochs"] >= epoch}
    worst = 1e3 if name == "loss" else 0.1
    return {seed: worst if value is None or math.isnan(value) else value for seed, value in found.items()}


#: What is said of curves on which a method is ahead.
AHEAD = {"loss": "training loss is lower", "test": "test accuracy is higher"}


def ahead(ours: Sequence[Record], theirs: Sequence[Record], name: str, epoch: int, margin: float = 0.0) -> Evidence:
    """Return the evidence that ours has the higher score, or the lower loss, at an epoch."""
    less = name == "loss"
    pair = by_seed(ours, name, epoch), by_seed(theirs, name, epoch)
    return compare(*pair, less=less, log=less, margin=margin, unit=1.0 if less else 100.0)


def method_claims(
    cells: Mapping[str, Groups],
    statement: str,
    letter: str,
    case: str,
    points: Sequence[tuple[str, int, float]],
    curves: Sequence[tuple[str, int]],
    signs: Iterable[str] = ADDITIONS,
) -> list[Claim]:
    """Return the claims that RLS and HRLS are ahead of Adam, and that the additions improve them.

    `cells` has records by what they are networks of and by method; `letter` is the part of the paper's figures 2 and 3.
    To be ahead of Adam takes all `points`, curves with epochs and margins; an addition one of `curves`.
    """
    made = []
    pairs = (("RLS", "Adam", 2, "squared"), ("HRLS", "Adam, entropy", 3, "cross-entropy"))
    for ours, theirs, figure, loss in pairs:
        source, parts = f"{SOURCE}, Fig. {figure}{letter}", {}
        for place, groups in cells.items():
            prefix = f"{place}: " if len(cells) > 1 else ""
            for name, epoch, margin in points:
                words = "test accuracy is not half a point lower" if margin else AHEAD[name]
                parts[f"{prefix}{words} after {epoch} epochs"] = ahead(
                    groups[ours], groups[theirs], name, epoch, margin
                )
        claim = judged(source, statement.format(ours=ours, loss=loss), parts)
        made.append(replace(claim, group=f"{ours} converges faster and better than Adam", case=case))
        for place, groups in cells.items():
            made += improvement_claims(source, groups, ours, curves, place, signs)
    return made


def improvement_claims(
    source: str, groups: Groups, ours: str, curves: Sequence[tuple[str, int]], place: str, signs: Iterable[str]
) -> list[Claim]:
    """Return the claims that each addition to a method is ahead of it on one of some curves, each at an epoch."""
    made = []
    for sign in signs:
        parts = either([ahead(groups[f"{ours}{sign}"], groups[ours], *curve) for curve in curves])
        claim = judged(source, f"{ADDITIONS[sign]} {ours}, {place}: in loss or accuracy.", parts)
        made.append(replace(claim, group=f"Momentum (+M) and L1 term (+R) improve {ours}", case=f"{place} {sign}"))
    return made


def best_values(groups: Groups, epoch: int) -> dict[str, dict[str, Evidence]]:
    """Return the evidence that k = 0.1 is within half a point of the best, that eta = 1 is best, and matters more."""
    k, eta = ({label: by_seed(groups[label], "test", epoch) for label in labels} for labels in GRIDS.values())
    plain = k["RLS"]
    wide = [
        {seed: float(np.ptp([own[seed] for own in one.values()])) for seed in set.intersection(*map(set, one.values()))}
        for one in (k, eta)
    ]
    within = {
        f"RLS is within 0.5 points of {label}": compare(plain, other, margin=-0.005, unit=100.0)
        for label, other in k.items()
        if label != "RLS"
    }
    above = {
        f"RLS is above {label}": compare(plain, other, unit=100.0) for label, other in eta.items() if label != "RLS"
    }
    wider = {"the range over eta exceeds that over k": compare(wide[1], wide[0], unit=100.0)}
    return {"k": within, "eta": above, "range": wider}


def of_best(source: str, statement: str, parts: Mapping[str, Evidence], case: str) -> Claim:
    """Return a claim on the best values, which a summary shows once for all networks and data."""
    group = "k should be 0.1 and eta 1; eta matters more than k"
    return replace(judged(source, statement, parts), group=group, case=case)


def by(records: Iterable[Record], *names: str) -> Groups:
    """Return records by one parameter, or by the values of several; empty lists for groups that are missing."""
    groups = grouped(records, *names)
    return defaultdict(list, {key[0]: group for key, group in groups.items()} if len(names) == 1 else groups)


def draw_panels(panels: Mapping[str, Mapping[str, Records]]) -> Any:
    """Draw training loss and test error against epochs, of records by method."""

    def points(group: Records, name: str) -> dict[int, np.ndarray]:
        epochs = [epoch for epoch in EPOCHS if any(str(epoch) in record.measured[name] for record in group)]
        found = {epoch: at(group, name, epoch) for epoch in epochs}
        return {epoch: one if name == "loss" else 1.0 - one for epoch, one in found.items()}

    drawn = {
        f"{title}: {words}": {label: points(group, name) for label, group in lines.items() if group}
        for title, lines in panels.items()
        if any(lines.values())
        for name, words in (("loss", "training loss"), ("test", "test error"))
    }
    return draw.curves(drawn, "epochs", "training loss or test error", "xy") if drawn else None
