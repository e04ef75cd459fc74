"""The UCI suite of the package, `qsdp bench --suite uci`, whose results are stored here."""

from dataclasses import replace

from benchmarks.experiments._common import Records, kilobits, table_row
from benchmarks.versions import ESTIMATORS, versions_of
from qsdp.bench.uci import EXPERIMENT as SUITE
from qsdp.bench.uci.report import shared_splits

__all__ = ["EXPERIMENT", "quotes"]

EXPERIMENT = replace(SUITE, methods=versions_of(*ESTIMATORS, "distillation", "backprop"))

#: Methods in the README's row, and their names there.
QUOTED = {
    "qsdp-polish": "polished",
    "backprop-matched": "trained in float, then quantized and polished",
    "straight-through": "straight-through",
    "straight-through-refitted": "that refitted by `qsdp.refit`",
    "backprop-rounded": "rounded",
    "backprop": "float",
    "logistic-rounded": "logistic regression in 8 bits",
    "tree": "a decision tree",
    "boosting": "boosted trees",
}


def quotes(records: Records) -> dict[str, str]:
    methods, splits = shared_splits(records)
    if not splits:
        return {}
    summary = EXPERIMENT.tables(records)[0]
    places = [summary.headings.index(name) for name in ("test (%)", "bits")]
    found = {row[0]: [row[place] for place in places] for row in summary.rows}
    numbers = f"{len({name for name, _ in splits})} classification sets, {len(splits)} splits"
    cells = (
        f"{name} {found[method][0]} %, {kilobits(int(found[method][1].replace(',', '')))}"
        for method, name in QUOTED.items()
        if method in methods
    )
    what = f"{numbers}, 250 neurons of ±1 weights, mean test accuracy and bits"
    return {"methods": table_row(what, "; ".join(cells))}
