"""What the runs of `relinear_digits` say of the paper's claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.experiments._common import grouped
from qsdp.bench import REPETITIONS, Claim, Record, compare, exact, judged, not_measured, share

PAPER = "Fan et al."
RATES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
BETAS = (0.1, 0.5, 0.9, 0.99)
PLAIN = ("conventional",)


def chosen(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return, for every setting, the record of each seed whose value has the smallest validation error."""
    best: dict[str, list[Record]] = {}
    for (name, _), group in grouped(records, "setting", "seed").items():
        best.setdefault(name, []).append(min(group, key=lambda record: record.measured["validation_error"]))
    return best


def errors(records: Iterable[Record]) -> np.ndarray:
    """Return test errors in percent, by seed."""
    ordered = sorted(records, key=lambda record: record.case["seed"])
    return np.array([100.0 * record.measured["test_error"] for record in ordered])


def claims(records: Sequence[Record]) -> list[Claim]:
    best = {name: by_seed(group) for name, group in chosen(records).items()}

    def order(place: str, statement: str, better: str, worse: Sequence[str]) -> Claim:
        parts = {
            f"less than {name}": compare(best.get(better, {}), best.get(name, {}), less=True)
            for name in worse
            if name in best or len(worse) == 1
        }
        figures = ", ".join(
            f"{name} {np.mean(list(best[name].values())):.2f} %" for name in (better, *worse) if name in best
        )
        claim = judged(f"{PAPER}, {place} (here on digits)", statement, parts, f"test errors: {figures}")
        return replace(claim, group=f"Lower test errors on digits of {better!r}", case=f"than {', '.join(worse)}")

    return [
        order("Table IV", "A quadratic network trained by sg beats the conventional one of its shape.", "sg", PLAIN),
        order("Table IV", "It beats parabolic and polynomial neurons.", "sg", ["parabolic", "poly2"]),
        order("Table V", "It beats compact neurons.", "sg", ["fan_compact"]),
        order(
            "section V-A.2",
            "Shrinking gradients beats shrinking weights.",
            "sg",
            ["sw-l1", "sw-l2", "sw-l1, rate 0.01", "sw-l2, rate 0.01"],
        ),
        order(
            "Fig. 8",
            "Transfer from stage 1 beats transfer from later stages.",
            "transfer, stage 1",
            ["transfer, stage 2", "transfer, stage 3"],
        ),
        order("Table IV", "Transfer from stage 1 beats a random start.", "transfer, stage 1", ["sg"]),
        order("Table III", "It beats the square activation.", "sg", ["square_act"]),
        *_stability_claims(records),
        _regular_claim(records),
        _stage_claim(records),
        _square_claim(records),
        _transition_claim(records),
    ]


def by_seed(records: Iterable[Record]) -> dict[int, float]:
    """Return test errors in percent by seed."""
    return {record.case["seed"]: 100.0 * record.measured["test_error"] for record in records}


def unstable(records: Sequence[Record]) -> dict[tuple[str, float | None], dict[int, bool]]:
    """Return by seed whether a run diverges, or its accuracy falls by more than twice the conventional network's."""
    plain = [r.measured["largest_drop"] for r in records if r.case["setting"] == "conventional"]
    limit = 2.0 * float(np.median(plain)) if plain else np.inf
    return {
        (key[0], key[1]): {
            r.case["seed"]: bool(r.measured["diverged"] is not None or (r.measured["largest_drop"] or 0.0) > limit)
            for r in group
        }
        for key, group in grouped(records, "setting", "value").items()
    }


def _stability_claims(records: Sequence[Record]) -> list[Claim]:
    """Return the claims which values of a setting make the accuracy jump, in more than half of the runs."""
    runs = unstable(records)
    expected: list[tuple[str, str, str, tuple[float, ...], tuple[float, ...]]] = [
        ("Fig. 6", "sg: rates 1e-1, 1e-2, 1e-3 make the accuracy jump, 1e-4 and 1e-5 do not.", "sg", RATES, RATES[:3]),
        ("Fig. 7", "sw-l1 does not stabilise the training, whatever alpha.", "sw-l1", RATES, RATES),
        ("Fig. 7", "sw-l2 stabilises it at beta 0.9 and 0.99, not at 0.1 and 0.5.", "sw-l2", BETAS, BETAS[:2]),
        ("Fig. 9", "With ReZero, rates 1e-2 and 1e-3 are stable, too.", "sg + ReZero", RATES[1:4], ()),
    ]
    found = []
    for place, statement, setting, values, jumping in expected:
        flags = {value: list(runs.get((setting, value), {}).values()) for value in values}
        parts = {f"{value:g}": share(flags[value], 0.5, less=value not in jumping) for value in values}
        figures = "unstable runs: " + ", ".join(f"{value:g}: {sum(own)} of {len(own)}" for value, own in flags.items())
        claim = judged(f"{PAPER}, {place} (here on digits)", statement, parts, figures)
        found.append(replace(claim, group="Which values make the accuracy jump on digits, which do not", case=setting))
    return found


def _regular_claim(records: Sequence[Record]) -> Claim:
    """Return the claim that the competitors do not converge from a random start."""
    groups = grouped(records, "setting")
    diverged = {
        name: [record.measured["diverged"] is not None for record in groups.get((name,), [])]
        for name in ("parabolic, regular", "poly2, regular")
    }
    figures = ", ".join(f"{name}: {sum(own)} of {len(own)} diverge" for name, own in diverged.items())
    return exact(
        f"{PAPER}, section V-B (here on digits)",
        "Parabolic and polynomial networks trained regularly do not converge.",
        [one for own in diverged.values() for one in own],
        figures,
    )


def _stage_claim(records: Sequence[Record]) -> Claim:
    """Return the claim that weights from later stages are more robust against the same rates."""
    runs = unstable(records)
    stages = {}
    for stage in (1, 2, 3):
        own = [runs.get((f"transfer, stage {stage}", rate), {}) for rate in RATES]
        seeds = set.intersection(*map(set, own))
        stages[stage] = {seed: float(np.mean([one[seed] for one in own])) for seed in seeds}
    parts = {
        f"stage {b} after stage {a}": compare(stages[b], stages[a], less=True, unit=100.0) for a, b in ((1, 2), (2, 3))
    }
    means = ", ".join(f"stage {stage} {np.mean(list(own.values())):.2f}" for stage, own in stages.items() if own)
    return judged(
        f"{PAPER}, section V-A.2 (here on digits)",
        "Transfer from later stages is more robust at the same rates.",
        parts,
        f"share of unstable runs over rates: {means}",
    )


def _square_claim(records: Sequence[Record]) -> Claim:
    """Return the claim that square activations do not converge at the rates of Table III; chance errs in 90 %."""
    failed = {
        value: [r.measured["diverged"] is not None or r.measured["validation_error"] > 0.5 for r in group]
        for (name, value), group in grouped(records, "setting", "value").items()
        if name == "square_act" and value in {0.05, 0.03, 0.01}
    }
    figures = "runs that diverge or are wrong on half of the validation images: " + ", ".join(
        f"rate {rate:g}: {sum(own)} of {len(own)}" for rate, own in failed.items()
    )
    return exact(
        f"{PAPER}, Table III (here on digits)",
        "Networks with square activations do not converge at rates 0.05, 0.03 and 0.01.",
        [one for own in failed.values() for one in own],
        figures,
        needed=3 * REPETITIONS,
    )


def _transition_claim(records: Sequence[Record]) -> Claim:
    """Return the claim of Fig. 2: from the conventional network at rate 0 over an optimum to the quadratic one."""
    source = f"{PAPER}, Fig. 2 (here on digits)"
    statement = (
        "As the rate of the quadratic part grows from 0, the network is conventional first, and best in between."
    )
    groups = {
        value: by_seed(group) for (name, value), group in grouped(records, "setting", "value").items() if name == "sg"
    }
    plain = by_seed(record for record in records if record.case["setting"] == "conventional")
    rates = (0.0, *sorted(RATES))
    if not plain or not all(rate in groups for rate in rates):
        return not_measured(source, statement)
    means = {rate: float(np.mean(list(groups[rate].values()))) for rate in rates}
    figures = "test error %: " + ", ".join(f"{rate:g}: {mean:.2f}" for rate, mean in means.items())
    if groups[0.0] != plain:
        return exact(source, statement, {"the conventional network at rate 0": False}, figures)
    best = min(rates[1:-1], key=means.__getitem__)
    parts = {f"{best:g} below {end:g}": compare(groups[best], groups[end], less=True) for end in (rates[0], rates[-1])}
    return judged(source, statement, parts, figures)
