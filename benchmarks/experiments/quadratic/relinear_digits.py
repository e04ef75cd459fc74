"""ReLinear on scikit-learn's digits: the protocol of Fan et al. for CIFAR-10 in small.

Networks 64-32-32-10, ReLU, cross-entropy; SGD with momentum 0.9, weight decay 1e-4 on conventional weights, batches of
128, 60 epochs, all rates divided by 10 after epochs 30 and 45: the paper's 200, 100 and 150. Pixels are divided by 16.
597 test images, always the same; of the other 1,200 a sixth, drawn by the seed, chooses the epoch (as the paper does,
but on its test images) and, in the tables, the value of every hyper-parameter. Seeds of one number share conventional
starts and splits.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.experiments import draw, show
from benchmarks.experiments._common import Records, experiment_in, grouped
from benchmarks.experiments.quadratic._relinear_digits_claims import BETAS, RATES, chosen, claims, errors, unstable
from qsdp.bench import Table
from qsdp.datasets import split_digits

GAMMA_R = 0.1

#: Settings by group: what the paper trains on CIFAR-10, name and parameters of the estimator.
Setting = tuple[str, float | None, dict[str, Any]]


def _sg(rate: float) -> dict[str, Any]:
    return {"variant": "sg", "gamma_g": rate, "gamma_b": rate}


def _settings() -> list[Setting]:
    conventional = {"family": "linear", "variant": "none"}
    found: list[Setting] = [
        ("conventional", None, conventional),
        ("conventional + ReZero", None, {**conventional, "rezero": True}),
    ]
    found += [("sg", rate, _sg(rate)) for rate in (*RATES, 0.0)]
    found += [("sw-l1", rate, {"variant": "sw-l1", "alpha_g": rate, "alpha_b": rate}) for rate in RATES]
    found += [("sw-soft", rate, {"variant": "sw-soft", "alpha_g": rate, "alpha_b": rate}) for rate in RATES]
    found += [("sw-l2", beta, {"variant": "sw-l2", "beta_g": beta, "beta_b": beta}) for beta in BETAS]
    # The paper's one rate of 0.1 for all, and a tenth of it: the networks here have no batch norm.
    slow = {"gamma_r": 0.01}
    found += [("sw-l1, rate 0.01", a, {"variant": "sw-l1", "alpha_g": a, "alpha_b": a, **slow}) for a in RATES]
    found += [("sw-soft, rate 0.01", a, {"variant": "sw-soft", "alpha_g": a, "alpha_b": a, **slow}) for a in RATES]
    found += [
        ("sw-l2, rate 0.01", beta, {"variant": "sw-l2", "beta_g": beta, "beta_b": beta, **slow}) for beta in BETAS
    ]
    found += [("conventional, rate 0.01", None, {**conventional, **slow})]
    found += [("ReLinear start only", None, {"variant": "none"})]
    random = {"variant": "none", "start": "random"}
    found += [("regular", scale, {**random, "start_scale": scale}) for scale in (0.01, 0.1)]
    found += [("regular, Kaiming", None, {**random, "start_scale": None})]
    found += [("regular, Kaiming", rate, {**random, "start_scale": None, "gamma_r": rate}) for rate in (0.01, 0.001)]
    found += [
        (f"transfer, stage {stage}", rate, {**_sg(rate), "transfer": stage}) for stage in (1, 2, 3) for rate in RATES
    ]
    found += [("sg + ReZero", rate, {**_sg(rate), "rezero": True}) for rate in RATES]
    for family in ("fan_compact", "parabolic", "poly2"):
        found += [(family, rate, {**_sg(rate), "family": family}) for rate in RATES]
        found += [(f"{family}, regular", None, {**random, "family": family, "start_scale": None})]
    square = {**random, "family": "square_act"}
    found += [("square_act", rate, {**square, "gamma_r": rate}) for rate in (0.1, 0.05, 0.03, 0.01, 0.001)]
    return found


SETTINGS = {(name, value): options for name, value, options in _settings()}
QUICK = (("conventional", None), ("sg", 1e-3), ("fan_compact", 1e-3))


def cases(quick: bool) -> list[dict[str, Any]]:
    keys = QUICK if quick else list(SETTINGS)
    seeds, epochs = (1, 8) if quick else (10, 60)
    return [
        {"setting": name, "value": value, "epochs": epochs, "seed": seed}
        for name, value in keys
        for seed in range(seeds)
    ]


def model_of(epochs: int, seed: int, **options: Any) -> Any:
    """Return an untrained classifier with the settings that all have in common."""
    from qsdp.baselines.relinear import ReLinearClassifier

    given: dict[str, Any] = {"gamma_r": GAMMA_R, "optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-4, **options}
    milestones = (epochs // 2, 3 * epochs // 4)
    return ReLinearClassifier(
        (32, 32), batch_size=128, n_epochs=epochs, milestones=milestones, random_state=seed, **given
    )


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, y, X_test, y_test = split_digits()
    model = model_of(
        case["epochs"], case["seed"], validation_fraction=1 / 6, **SETTINGS[case["setting"], case["value"]]
    )
    with warnings.catch_warnings():
        # A divergence is recorded.
        warnings.simplefilter("ignore")
        model.fit(X, y)
    history = model.history_
    validation = np.array(history.extra.get("validation_score", []))
    return {
        "test_error": 1.0 - float(model.score(X_test, y_test)),
        "validation_error": 1.0 - float(validation.max(initial=0.0)),
        "diverged": history.diverged,
        "largest_drop": _largest_drop(validation),
        "quadratic_norm": history.extra["quadratic_norm"][-1] if history.loss else None,
    }


def _largest_drop(scores: np.ndarray) -> float | None:
    """Return the largest fall of the validation accuracy from one epoch to the next, after the first tenth."""
    later = scores[max(1, len(scores) // 10) :]
    return float(np.max(later[:-1] - later[1:], initial=0.0)) if len(later) > 1 else None


def tables(records: Records) -> list[Table]:
    shares = unstable(records)

    def values_of(group: Records) -> str:
        found = [f"{record.case['value']:g}" for record in group if record.case["value"] is not None]
        return max(sorted(set(found)), key=found.count) if found else "-"

    def diverged(group: Records) -> str:
        return f"{sum(record.measured['diverged'] is not None for record in group)} of {len(group)}"

    def share(group: Records) -> str:
        found = shares[group[0].case["setting"], group[0].case["value"]]
        return f"{np.mean(list(found.values())):.1f}"

    summary = [
        ("setting", show.param("setting")),
        ("test error %", test_error),
        ("best, worst", lambda group: f"[{errors(group).min():.2f}, {errors(group).max():.2f}]"),
        ("validation error %", show.mean("validation_error", ".2f", 100.0)),
        ("value most often chosen", values_of),
        ("seeds", show.count),
    ]
    every = [
        ("setting", show.param("setting")),
        ("value", show.param("value", "g")),
        ("test error %", test_error),
        ("diverged", diverged),
        ("share unstable", share),
        ("largest fall of validation accuracy", show.median("largest_drop", ".1f", 100.0)),
        ("quadratic norm", show.median("quadratic_norm", ".3g")),
        ("seeds", show.count),
    ]
    return [
        show.table(
            "Test error on digits, hyper-parameter and epoch chosen on validation images",
            chosen(records),
            summary,
            "The paper has no results on digits.",
        ),
        show.table(
            "Every value of every hyper-parameter",
            grouped(records, "setting", "value"),
            every,
            "Fall: percentage points from one epoch to the next, median over seeds. Unstable: diverged, or a fall of "
            "more than twice the conventional network's. Quadratic norm: Frobenius norm of what a conventional network "
            "does not have. A run that diverges keeps the best epoch before.",
        ),
    ]


def test_error(group: Records) -> str:
    """Return mean and deviation of the test error."""
    found = errors(group)
    return f"{found.mean():.2f} ± {found.std(ddof=1) if len(found) > 1 else 0.0:.2f}"


def plot(records: Records) -> Any:
    if not records:
        return None
    best = {name: errors(group) for name, group in chosen(records).items()}
    names = sorted(best, key=lambda name: float(best[name].mean()))
    figure, axis = draw.subplots(figsize=(7, 0.3 * len(names) + 1.0))
    axis.boxplot([best[name] for name in names], vert=False)
    axis.set_yticks(range(1, len(names) + 1), names, fontsize=7)
    axis.set(xlabel="test error on digits, %", xscale="log")
    # Logarithmic, for what does not train is wrong on most; with numbers that are read at a glance.
    marks = [mark for mark in (1, 2, 5, 10, 20, 50, 100) if axis.get_xlim()[0] <= mark <= axis.get_xlim()[1]]
    axis.set_xticks(marks, [str(mark) for mark in marks])
    axis.set_xticks([], minor=True)
    axis.grid(axis="x", alpha=0.3)
    return figure


EXPERIMENT = experiment_in(
    __name__,
    "ReLinear on digits: variants, families, weight transfer",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, section V, in small",
    claims=claims,
)
