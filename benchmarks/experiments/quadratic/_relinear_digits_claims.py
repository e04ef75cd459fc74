"""What the runs of `relinear_digits` say of the paper's claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.experiments._common import grouped, not_measured
from qsdp.bench import Claim, Record

PAPER = "Fan et al."
RATES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
BETAS = (0.1, 0.5, 0.9, 0.99)


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
    records = [record for record in records if "setting" in record.case]
    best = {name: errors(group) for name, group in chosen(records).items()}
    found = []

    def order(place: str, statement: str, better: str, worse: Sequence[str]) -> None:
        source = f"{PAPER}, {place} (here on digits)"
        present = [name for name in worse if name in best and better in best and len(best[name]) == len(best[better])]
        if not present or len(best[better]) < 2:
            found.append(not_measured(source, statement))
            return
        gaps = {name: best[name] - best[better] for name in present}
        means = {name: float(gap.mean()) for name, gap in gaps.items()}
        # Twice the standard error of the paired differences.
        clear = {name: 2.0 * float(gap.std(ddof=1)) / np.sqrt(len(gap)) for name, gap in gaps.items()}
        won = [name for name in present if means[name] > clear[name]]
        lost = [name for name in present if means[name] < -clear[name]]
        verdict = "reproduced" if len(won) == len(present) else "not" if len(lost) == len(present) else "partly"
        near = [name for name in present if name not in {*won, *lost}]
        figures = ", ".join(f"{name} {means[name]:+.2f} ± {clear[name]:.2f}" for name in present)
        why = [f"within the noise of {', '.join(near)}"] if near else []
        why += [f"clearly worse than {', '.join(lost)}"] if lost else []
        found.append(Claim(source, statement, verdict, f"points more: {figures}", "; ".join(why)))

    order(
        "Table IV", "A quadratic network trained by sg beats the conventional one of its shape.", "sg", ["conventional"]
    )
    order("Table IV", "It beats parabolic and polynomial neurons.", "sg", ["parabolic", "poly2"])
    order("Table V", "It beats compact neurons.", "sg", ["fan_compact"])
    order(
        "section V-A.2",
        "Shrinking gradients beats shrinking weights.",
        "sg",
        ["sw-l1", "sw-l2", "sw-l1, rate 0.01", "sw-l2, rate 0.01"],
    )
    order(
        "Fig. 8",
        "Transfer from stage 1 beats transfer from later stages.",
        "transfer, stage 1",
        ["transfer, stage 2", "transfer, stage 3"],
    )
    order("Table IV", "Transfer from stage 1 beats a random start.", "transfer, stage 1", ["sg"])
    order("Table III", "It beats the square activation.", "sg", ["square_act"])
    found += [*_stability_claims(records), _regular_claim(records), _stage_claim(records), _square_claim(records)]
    return [*found, _transition_claim(records)]


def unstable(records: Sequence[Record]) -> dict[tuple[str, float | None], float]:
    """Return the share of runs that diverge, or whose accuracy falls by more than twice the conventional network's."""
    plain = [r.measured["largest_drop"] for r in records if r.case["setting"] == "conventional"]
    limit = 2.0 * float(np.median(plain)) if plain else np.inf
    return {
        (key[0], key[1]): float(
            np.mean([r.measured["diverged"] is not None or (r.measured["largest_drop"] or 0.0) > limit for r in group])
        )
        for key, group in grouped(records, "setting", "value").items()
    }


def _jumps(
    shares: dict[tuple[str, float | None], float], setting: str, values: Sequence[float], jumping: Sequence[float]
) -> tuple[str, str]:
    """Return verdict and figures of a claim which values of a setting make the accuracy jump, in most runs."""
    seen = {value: shares[setting, value] for value in values}
    right = [value for value, share in seen.items() if (share > 0.5) == (value in jumping)]
    verdict = "reproduced" if len(right) == len(seen) else "partly" if right else "not"
    return verdict, f"{setting}: " + ", ".join(f"{value:g}: {share:.1f}" for value, share in seen.items())


def _stability_claims(records: Sequence[Record]) -> list[Claim]:
    shares = unstable(records)
    expected: list[tuple[str, str, str, tuple[float, ...], tuple[float, ...]]] = [
        ("Fig. 6", "sg: rates 1e-1, 1e-2, 1e-3 make the accuracy jump, 1e-4 and 1e-5 do not.", "sg", RATES, RATES[:3]),
        ("Fig. 7", "sw-l1 does not stabilise the training, whatever alpha.", "sw-l1", RATES, RATES),
        ("Fig. 7", "sw-l2 stabilises it at beta 0.9 and 0.99, not at 0.1 and 0.5.", "sw-l2", BETAS, BETAS[:2]),
        ("Fig. 9", "With ReZero, rates 1e-2 and 1e-3 are stable, too.", "sg + ReZero", RATES[1:4], ()),
    ]
    found = []
    for place, statement, setting, values, jumping in expected:
        source = f"{PAPER}, {place} (here on digits)"
        if not all((setting, value) in shares for value in values) or ("conventional", None) not in shares:
            found.append(not_measured(source, statement))
            continue
        verdict, figures = _jumps(shares, setting, values, jumping)
        why = "" if verdict == "reproduced" else "small networks without batch norm have other limits"
        figures = f"share of unstable runs, {figures}"
        found.append(Claim(source, statement, verdict, figures, why))
    return found


def _regular_claim(records: Sequence[Record]) -> Claim:
    """Return the claim that the competitors do not converge from a random start."""
    source = f"{PAPER}, section V-B (here on digits)"
    statement = "Parabolic and polynomial networks trained regularly do not converge."
    diverged = {
        name: [record.measured["diverged"] is not None for record in group]
        for (name,), group in grouped(records, "setting").items()
        if name in {"regular, Kaiming", "parabolic, regular", "poly2, regular", "sg"}
    }
    if not {"parabolic, regular", "poly2, regular"} <= set(diverged):
        return not_measured(source, statement)
    shares = {name: float(np.mean(values)) for name, values in diverged.items()}
    fails = min(shares["parabolic, regular"], shares["poly2, regular"])
    verdict = "reproduced" if fails > 0.9 else "partly" if fails > 0.0 else "not"
    figures = "share diverged: " + ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    why = "" if verdict == "reproduced" else "not all runs of this small network diverge"
    return Claim(source, statement, verdict, figures, why)


def _stage_claim(records: Sequence[Record]) -> Claim:
    """Return the claim that weights from later stages are more robust against the same rates."""
    source = f"{PAPER}, section V-A.2 (here on digits)"
    statement = "Transfer from later stages is more robust at the same rates."
    shares = unstable(records)
    stages = [[shares.get((f"transfer, stage {stage}", rate), np.nan) for rate in RATES] for stage in (1, 2, 3)]
    means = np.mean(stages, axis=1)
    if not np.isfinite(means).all() or ("conventional", None) not in shares:
        return not_measured(source, statement)
    ordered = [values for values in zip(*stages, strict=True) if list(values) == sorted(values, reverse=True)]
    falls = means[0] > means[1] > means[2]
    verdict = "reproduced" if falls and len(ordered) == len(RATES) else "partly" if means[0] > means[2] else "not"
    why = "" if verdict == "reproduced" else f"shares fall from stage to stage at {len(ordered)} of {len(RATES)} rates"
    figures = "share of unstable runs over rates: " + ", ".join(
        f"stage {stage} {mean:.2f}" for stage, mean in enumerate(means, 1)
    )
    return Claim(source, statement, verdict, figures, why)


def _square_claim(records: Sequence[Record]) -> Claim:
    """Return the claim that square activations do not converge at the rates of Table III."""
    source = f"{PAPER}, Table III (here on digits)"
    statement = "Networks with square activations do not converge at rates 0.05, 0.03 and 0.01."
    rates = (0.05, 0.03, 0.01)
    groups = {
        value: group for (name, value), group in grouped(records, "setting", "value").items() if name == "square_act"
    }
    if not all(rate in groups for rate in rates):
        return not_measured(source, statement)
    # Chance is an error of 90 %.
    failed = {
        rate: float(
            np.mean([r.measured["diverged"] is not None or r.measured["validation_error"] > 0.5 for r in groups[rate]])
        )
        for rate in rates
    }
    verdict = "reproduced" if min(failed.values()) > 0.9 else "partly" if max(failed.values()) > 0.0 else "not"
    figures = "share of runs that diverge or are wrong on half of the validation images: " + ", ".join(
        f"rate {rate:g}: {share:.2f}" for rate, share in failed.items()
    )
    why = "" if verdict == "reproduced" else "two hidden layers are no VGG16: degrees do not multiply as often"
    return Claim(source, statement, verdict, figures, why)


def _transition_claim(records: Sequence[Record]) -> Claim:
    """Return the claim of Fig. 2: from the conventional network at rate 0 over an optimum to the quadratic one."""
    source = f"{PAPER}, Fig. 2 (here on digits)"
    statement = (
        "As the rate of the quadratic part grows from 0, the network is conventional first, and best in between."
    )
    groups = {
        value: errors(group) for (name, value), group in grouped(records, "setting", "value").items() if name == "sg"
    }
    plain = errors(record for record in records if record.case["setting"] == "conventional")
    rates = (0.0, *sorted(RATES))
    if not all(len(groups.get(rate, ())) == len(plain) > 1 for rate in rates):
        return not_measured(source, statement)
    same = bool(np.array_equal(groups[0.0], plain))
    means = {rate: float(groups[rate].mean()) for rate in rates}
    best = min(rates, key=means.__getitem__)
    figures = "test error %: " + ", ".join(f"{rate:g}: {mean:.2f}" for rate, mean in means.items())
    figures += f"; conventional {plain.mean():.2f}"
    inside = best not in (rates[0], rates[-1])
    gains = [groups[end] - groups[best] for end in (rates[0], rates[-1])]
    clear = all(gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain)) for gain in gains)
    if same and inside and clear:
        return Claim(source, statement, "reproduced", figures)
    why = [
        *([] if same else ["at rate 0 errors are not those of the conventional network"]),
        *([] if inside else [f"the best rate is {best:g}, an end"]),
        *([] if clear or not inside else ["the optimum is within the noise"]),
    ]
    return Claim(source, statement, "partly" if same or inside else "not", figures, "; ".join(why))
