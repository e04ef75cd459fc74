"""Fifty polished neurons against 2500 sampled ones, and against the global optimum.

Squared loss, bilinear with a constant column, beta = 10, standardised; vehicle has four outputs. A split is the paper's
with that number, which is the seed of the sampling too. All networks of a split start from one relaxation: "polished"
is 50 neurons sampled from the adaptive covariance, then coordinate descent over single weights, alpha shared; "best of
size" searches such networks from many starts; "exact" is column generation. Seconds are those of the network's own
step, of the processor, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments import draw, show
from benchmarks.experiments._common import (
    TARGET,
    Records,
    accuracy,
    by,
    experiment_in,
    grid,
    grouped,
    medians,
    percent,
    spread,
    values,
)
from benchmarks.experiments._data import standardised, targets_of, with_constant
from qsdp.bench import (
    REPETITIONS,
    Claim,
    Table,
    compare,
    exact,
    judged,
    not_measured,
    paired_claim,
)
from qsdp.column_generation import column_generation
from qsdp.refinement.fixed_width import train_fixed_width
from qsdp.refinement.polishing import polish
from qsdp.refinement.refitting import refit

SETS = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
BETA, MANY, FEW = 10.0, 2500, 50
SPLITS = 20
#: Seconds at most of the search, and of column generation.
SEARCH, EXACT = 10.0, 60.0
#: Gap that counts as proven.
PROVEN = 1e-6
#: Bits of many neurons over those of few, to whole numbers, and gap of a free refit.
RATIOS, NEAR = (40, 50), 0.06

#: What tables call the networks, in the order in which they are made.
NAMES = {
    "relaxation": "relaxation",
    "krivine": f"sampled {MANY} (krivine)",
    "adaptive": f"sampled {MANY} (adaptive)",
    "adaptive, shared": "+ shared refit",
    "adaptive, free": "+ free refit",
    "few": f"sampled {FEW} (adaptive)",
    "polished": f"polished {FEW}",
    "polished, free": "+ free refit",
    "best of size": f"best of size {FEW}",
    "exact": "exact",
}


def below(data: str) -> tuple[str, str]:
    """Return source and statement of the claim about the objectives of a set."""
    return TARGET, (
        f"{data}: {FEW} polished neurons have an objective not above that of {MANY} sampled ones with a refitted scale."
    )


STATEMENTS = {
    "bits": (
        TARGET,
        f"{FEW} polished neurons take {RATIOS[0]} to {RATIOS[1]} times fewer bits than {MANY} sampled ones.",
    ),
    "best": (TARGET, "A search from many starts improves on polishing one sample, at the same size."),
    "near": (
        TARGET,
        f"A free refit of {MANY} sampled neurons comes within {NEAR:.0%} of the best bound on the mean over splits.",
    ),
    "accuracy": (
        TARGET,
        f"A better objective is not a better test accuracy: the optimum's is at most half a point above that of {FEW} "
        "polished neurons.",
    ),
}


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each set and split."""
    sets, splits, search, exact = (
        (("breast-cancer", "vehicle"), 1, 0.5, 10.0) if quick else (SETS, SPLITS, SEARCH, EXACT)
    )
    return grid(split=range(splits), data=sets, search_seconds=search, exact_seconds=exact)


def problem_of(case: Mapping[str, Any]) -> tuple[qsdp.TrainingProblem, tuple[np.ndarray, ...]]:
    """Return the training problem of a case, and its split ``X, X_test, y, y_test``."""
    X, X_test, y, y_test = standardised(case["data"], case["split"])
    X, X_test = with_constant(X, X_test)
    return qsdp.TrainingProblem(X, targets_of(y), beta=BETA), (X, X_test, y, y_test)


def networks_of(problem: qsdp.TrainingProblem, case: Mapping[str, Any]) -> Iterator[tuple[str, Any, float]]:
    """Yield the name, the network or what has one, and the seconds of every step."""
    clock, seed = time.process_time(), case["split"]

    def lap() -> float:
        nonlocal clock
        start, clock = clock, time.process_time()
        return clock - start

    relaxation = qsdp.solve_relaxation(problem)
    yield "relaxation", relaxation, lap()
    krivine = qsdp.sample_network(qsdp.shape_covariance(relaxation), MANY, seed)
    yield "krivine", krivine, lap()
    covariance = qsdp.shape_covariance(relaxation, method="adaptive")
    adaptive = qsdp.sample_network(covariance, MANY, seed)
    yield "adaptive", adaptive, lap()
    yield "adaptive, shared", refit(adaptive, problem, second_layer="shared"), lap()
    yield "adaptive, free", refit(adaptive, problem), lap()
    sampled = qsdp.sample_network(covariance, FEW, seed)
    yield "few", sampled, lap()
    polished = polish(sampled, problem, random_state=seed)
    yield "polished", polished, lap()
    yield "polished, free", refit(polished, problem), lap()
    limit = case["search_seconds"]
    best = train_fixed_width(problem, FEW, time_limit=limit, starts=[sampled], relaxation=relaxation, random_state=seed)
    yield "best of size", best.network, lap()
    yield "exact", column_generation(problem, relaxation=relaxation, time_limit=case["exact_seconds"]), lap()


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return objective, gap, accuracies, bits and seconds of every network."""
    measured: dict[str, Any] = {}
    with threadpool_limits(limits=1):
        problem, (X, X_test, y, y_test) = problem_of(case)
        # All of them first: tests are in nobody's seconds.
        made = list(networks_of(problem, case))
        relaxation, exact = made[0][1], made[-1][1]
        bound = max(relaxation.lower_bound, exact.lower_bound)
        for name, model, seconds in made:
            relaxed = name == "relaxation"
            network = getattr(model, "network", model)
            objective = relaxation.objective if relaxed else problem.objective(network)
            measured[name] = {
                "objective": objective,
                "gap": 1.0 - (relaxation.lower_bound if relaxed else bound) / objective,
                "train": accuracy(network.predict(X), y),
                "test": accuracy(network.predict(X_test), y_test),
                "neurons": None if relaxed else network.n_neurons,
                "bits": None if relaxed else network.n_bits,
                "seconds": seconds,
            }
    return measured


# -- tables ----------------------------------------------------------------------------------------------


def tables(records: Records) -> list[Table]:
    """Return means and deviations over splits."""

    def name(group: Records) -> str:
        gaps, own = values(group, "gap"), group[0].case["network"]
        proven = f" (proven in {np.sum(gaps <= PROVEN)} of {len(gaps)})" if own == "exact" else ""
        return NAMES[own] + proven

    columns = [
        ("data", show.param("data")),
        ("network", name),
        ("objective", show.of(_objectives, "objective")),
        ("gap", show.of(lambda gaps: f"{gaps.mean():.2%}" if gaps.mean() > 1e-4 else f"{gaps.mean():.0e}", "gap")),
        ("train %", show.percent("train")),
        ("test %", show.percent("test")),
        ("neurons", show.mean("neurons", ".0f", none="")),
        ("bits", show.mean("bits", ",.0f", none="")),
        ("seconds", show.mean("seconds", ".3f")),
        ("splits", show.count),
    ]
    note = (
        "Means and deviations over splits. Gap: what the objective exceeds the best proven bound by, as a share of "
        "itself; of the relaxation, its own. Bits: 64 a float. Seconds: CPU of the step, one thread; no search longer "
        f"than {SEARCH:g} s, and no column generation longer than {EXACT:g} s."
    )
    rows = []
    for group in grouped(records, "data").values():
        for one in NAMES:
            rows.append([replace(r, case={**r.case, "network": one}, measured=r.measured[one]) for r in group])
    return [show.table(f"Squared loss, beta = {BETA:g}", rows, columns, note)]


# -- claims ----------------------------------------------------------------------------------------------


def claims(records: Records) -> list[Claim]:
    """Compare objectives split by split, bits, gaps and test accuracies."""
    groups = {data: group for (data,), group in grouped(records, "data").items()}
    made = [_below_claim(data, groups.get(data, [])) for data in SETS]
    fewest = min(len(groups.get(data, [])) for data in SETS)
    if fewest < REPETITIONS:
        why = f"{fewest} of {REPETITIONS} splits of every set"
        made += [not_measured(*statement, why) for statement in STATEMENTS.values()]
    else:
        made += [_bits_claim(groups), _best_claim(records), _near_claim(groups), _accuracy_claim(groups)]
    return made


def _by_split(records: Records, name: str, what: str) -> dict[tuple[str, int], float]:
    return by(records, f"{name}/{what}", "data", "split")


def _objectives(numbers: np.ndarray) -> str:
    return spread(numbers, 2)


def _below_claim(data: str, group: Records) -> Claim:
    """Compare the objectives of a set in pairs; below is what "not above" is taken for."""
    ours, theirs = (_by_split(group, name, "objective") for name in ("polished", "adaptive, shared"))
    return paired_claim(*below(data), ours, theirs, names=("polished", "sampled"), show=_objectives, less=True)


def _bits_claim(groups: Mapping[str, Records]) -> Claim:
    ratios = {
        data: float(np.median(values(group, "adaptive, shared/bits") / values(group, "polished/bits")))
        for data, group in groups.items()
    }
    holds = {f"{data} {ratio:.1f}": RATIOS[0] <= round(ratio) <= RATIOS[1] for data, ratio in ratios.items()}
    return exact(*STATEMENTS["bits"], holds, f"{medians(list(ratios.values()))} times fewer")


def _best_claim(records: Records) -> Claim:
    ours, theirs = (_by_split(records, name, "objective") for name in ("best of size", "polished"))
    gains = [1.0 - ours[pair] / theirs[pair] for pair in ours]
    figures = f"objectives lower by {percent(gains, 2)} %"
    return judged(*STATEMENTS["best"], compare(ours, theirs, less=True, log=True), figures)


def _near_claim(groups: Mapping[str, Records]) -> Claim:
    seconds = max(values(group, "adaptive, free/seconds").mean() for group in groups.values())
    parts = {
        data: compare(_by_split(group, "adaptive, free", "gap"), NEAR, less=True, unit=100.0)
        for data, group in groups.items()
    }
    means = {data: float(values(group, "adaptive, free/gap").mean()) for data, group in groups.items()}
    figures = "; ".join(f"{data} {mean:.2%}" for data, mean in means.items())
    return judged(*STATEMENTS["near"], parts, f"{figures}; {seconds:.2g} s at most")


def _accuracy_claim(groups: Mapping[str, Records]) -> Claim:
    """Compare test accuracies of the optimum with those of polished neurons, which may be half a point below."""
    parts = {
        data: compare(*(_by_split(group, name, "test") for name in ("polished", "exact")), margin=-0.005, unit=100.0)
        for data, group in groups.items()
    }
    figures = "; ".join(f"{data} {part.number}" for data, part in parts.items())
    return judged(*STATEMENTS["accuracy"], parts, f"polished above the optimum: {figures}")


def plot(records: Records) -> Any:
    """Draw the gaps against bits, each set in a panel; the least gap of the axis stands for all below."""
    groups = grouped(records, "data")
    figure, axes = draw.subplots(1, len(groups), figsize=(3.1 * len(groups), 3.4), sharey=True, squeeze=False)
    kinds = {
        "krivine": ("v", "C7", f"{MANY} sampled, krivine"),
        "adaptive, shared": ("o", "C0", f"{MANY} sampled, shared refit"),
        "adaptive, free": ("s", "C0", f"{MANY} sampled, free refit"),
        "polished": ("o", "C1", f"{FEW} polished"),
        "polished, free": ("s", "C1", f"{FEW} polished, free refit"),
        "best of size": ("*", "C3", f"{FEW}, best found"),
        "exact": ("D", "C2", "column generation"),
    }
    for axis, ((data,), group) in zip(axes[0], groups.items(), strict=True):
        for name, (marker, colour, shown) in kinds.items():
            gap = max(100.0 * float(values(group, f"{name}/gap").mean()), 0.01)
            bits = values(group, f"{name}/bits").mean()
            axis.scatter(bits, gap, marker=marker, color=colour, s=45, label=shown, zorder=2)
        axis.set(xscale="log", yscale="log", xlabel="bits", title=data)
        axis.set(xlim=(600.0, 3e5), ylim=(0.008, 60.0))
        axis.grid(color="0.9", zorder=0)
    axes[0, 0].set_ylabel("gap to the best bound, %")
    axes[0, 0].set_yticks([0.01, 0.1, 1.0, 10.0], ["≤ 0.01", "0.1", "1", "10"])
    draw.legend(figure, axes, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


EXPERIMENT = experiment_in(
    __name__,
    "Fifty polished neurons against 2500 sampled ones",
    "Targets of the package: polishing, refits, search at a fixed size",
)
