"""The UCI suite of the package, `qsdp bench --suite uci`: its results are kept here."""

from benchmarks.experiments._common import Records, grouped, kilobits, table_row
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


def quotes(records: Records) -> dict[str, str]:
    summary = EXPERIMENT.tables(records)[0]
    places = [summary.headings.index(name) for name in ("method", "test (%)", "bits")]
    cells = [[row[place] for place in places] for row in summary.rows]
    if any(bits == "-" for _, _, bits in cells):
        return {}  # no split has all methods
    found = {method: f"{test} %, {kilobits(int(bits.replace(',', '')))}" for method, test, bits in cells}
    # The splits that the table is about: all methods have them.
    splits = [split for split, group in grouped(records, "set", "seed").items() if len(group) >= len(found)]
    sets = {name for name, _ in splits}
    what = (
        f"{len(sets)} classification sets, {len(splits)} splits, 250 neurons of ±1 weights, mean test accuracy and bits"
    )
    shown = "; ".join(f"{name} {found[method]}" for method, name in QUOTED.items() if method in found)
    return {"methods": table_row(what, shown)}
