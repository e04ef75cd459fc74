"""The UCI suite of the package, `qsdp bench --suite uci`: its results are kept here."""

from benchmarks.experiments._common import Records, kilobits, table_row, where
from qsdp.bench._grid import BUDGET
from qsdp.bench.uci import EXPERIMENT

__all__ = ["EXPERIMENT", "quotes"]

#: Methods of the row of README, and what they are called there.
QUOTED = {
    "qsdp-polish": "polished",
    "backprop-matched": "trained in float, then quantized and polished",
    "straight-through": "straight-through",
    "backprop-rounded": "rounded",
    "backprop": "float",
    "logistic-rounded": "logistic regression in 8 bits",
    "tree": "a decision tree",
    "boosting": "boosted trees",
}
SHORT = f"; trained by gradients for 50 epochs, {BUDGET.n_epochs} at most not measured yet"


def quotes(records: Records) -> dict[str, str]:
    summary = EXPERIMENT.tables(records)[0]
    places = [summary.headings.index(name) for name in ("method", "test (%)", "bits")]
    cells = [[row[place] for place in places] for row in summary.rows]
    found = {method: f"{test} %, {kilobits(int(bits.replace(',', '')))}" for method, test, bits in cells}
    sets = len({record.case["set"] for record in records})
    what = f"{sets} classification sets, 250 neurons of ±1 weights, mean test accuracy and bits"
    # Records from before the budget that all methods share do not say whether a choice was decided.
    older = all("decided" not in one.measured["chosen"] for one in where(records, method="straight-through"))
    shown = "; ".join(f"{name} {found[method]}" for method, name in QUOTED.items() if method in found)
    return {"methods": table_row(what, shown + SHORT * older)}
