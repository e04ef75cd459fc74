"""The UCI suite: quantized networks and other methods on classification sets (`benchmarks/uci/`)."""

from typing import Any

from benchmarks.machinery.common import Records, kilobits, table_row
from benchmarks.machinery.report import Study
from benchmarks.machinery.verdicts import Claim, exact, not_measured, paired_claim
from benchmarks.uci import EXPERIMENT as SUITE
from benchmarks.uci import METHODS
from benchmarks.uci.report import means, shared_splits
from benchmarks.versions import versions_of

__all__ = ["EXPERIMENT", "quotes"]

_PAPER, _BEYOND = "Bartan, Pilanci, Figure", "Beyond Bartan, Pilanci"
_TRAINED = "trained by backpropagation and then quantized"
_MATCHED = "networks trained in float and matched by polished ones"
_HIGHER = "have a higher test accuracy than"
_POLISHED = f"polished networks of 250 neurons {_HIGHER}"
#: Source, method with the claimed higher test accuracy, method it is compared with, and the claim.
_PAIRS = (
    (f"{_PAPER}s 2, 3 and 5", "qsdp-250", "backprop-rounded", f"sampled networks {_HIGHER} networks {_TRAINED}"),
    (f"{_PAPER} 6", "qsdp-250", "relu-rounded", f"sampled networks {_HIGHER} ReLU networks {_TRAINED}"),
    (_BEYOND, "backprop-matched", "straight-through", f"{_MATCHED} {_HIGHER} straight-through ones"),
    (_BEYOND, "qsdp-polish", "straight-through-refitted", f"{_POLISHED} straight-through ones, refitted"),
    (_BEYOND, "qsdp-polish", "logistic-rounded", f"{_POLISHED} logistic regression of 8 bits a weight"),
    (_BEYOND, "qsdp-polish", "tree", f"{_POLISHED} a decision tree"),
)


def claims(records: Records) -> list[Claim]:
    """Return the claims with their verdicts."""
    certified = [record.measured for record in records if record.measured["lower_bound"] is not None]
    holds = [one["lower_bound"] <= one["objective"] * (1.0 + 1e-9) for one in certified]
    statement = "the relaxation bounds the training objective of every quantized network from below."
    bound = exact("Theory: Bartan, Pilanci, section 3 (on the suite)", statement, holds)
    return [bound, *(_pair_claim(records, *pair) for pair in _PAIRS)]


def _pair_claim(records: Records, source: str, ours: str, theirs: str, words: str) -> Claim:
    """Compare two methods on the splits with measurements of both."""
    methods, splits = shared_splits([record for record in records if record.case["method"] in {ours, theirs}])
    statement = f"{words}; here on the sets of the suite."
    if len(methods) < 2:
        return not_measured(source, statement, f"{ours} and {theirs} have no set in common")
    first, second = (means(splits, name, lambda one: one["test"]) for name in (ours, theirs))
    return paired_claim(source, statement, first, second, names=(ours, theirs))


#: Methods in the README's row, and their names there.
QUOTED = {
    "qsdp-250": "sampled from the relaxation, as in the paper",
    "qsdp-polish": "sampled from the relaxation, then polished",
    "backprop-matched": "trained in float, then quantized and polished",
    "straight-through": "straight-through",
    "straight-through-refitted": "straight-through, then refitted by `qsdp.refit`",
    "backprop-rounded": "trained in float, then rounded",
    "backprop": "trained in float, not quantized",
    "logistic-rounded": "logistic regression in 8 bits",
    "tree": "a decision tree",
    "quadratic-ridge": "quadratic ridge regression in float",
    "boosting": "boosted trees",
}


def quotes(records: Records) -> dict[str, str]:
    methods, splits = shared_splits(records)
    if not splits:
        return {}
    summary = EXPERIMENT.tables(records)[0]
    places = [summary.headings.index(name) for name in ("test (%)", "bits")]
    found = {row[0]: [row[place] for place in places] for row in summary.rows}
    rows = (
        table_row(name, f"{found[method][0]} %", kilobits(int(found[method][1].replace(",", ""))))
        for method, name in QUOTED.items()
        if method in methods
    )
    words = {
        f"{method.replace('-', '_')}": f"{found[method][0]} % in {kilobits(int(found[method][1].replace(',', '')))}"
        for method in QUOTED
        if method in methods
    }
    return {"methods": "\n".join(rows), **words}


#: The answer on top of the page.
ANSWER = """\
On every set, the relaxation [bounds the training objective]{uci: bounds the training objective = 1 supported} of all
quantized networks from below. Of the comparisons of test accuracy below,
{uci: have a higher test accuracy # supported} are decided for the method named first, and
{uci: have a higher test accuracy # contradicted} against it. With hyper-parameters tuned on the same folds, polished
networks of 250 neurons have {uci.qsdp_polish}, networks of straight-through training {uci.straight_through}, logistic
regression in 8 bits {uci.logistic_rounded}, and boosted trees {uci.boosting}, on average.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on; those of qsdp choose only beta, on the suite's folds."""
    name = case["method"]
    if name.startswith("qsdp") or name == "relaxation":
        refined = {"qsdp-refit": ("refinement",), "qsdp-polish": ("refinement", "moments")}
        return ("relaxation", "sampling", *(("adaptive",) * (name != "relaxation")), *refined.get(name, ()))
    if METHODS[name].needs is None:
        return ()
    more = {"backprop-matched": ("relaxation", "sampling", "adaptive", "refinement", "distillation")}
    return ("backprop", *more.get(name, ("refinement",) if name == "straight-through-refitted" else ()))


MEASURED = ("relaxation", "sampling", "adaptive", "refinement", "moments", "distillation", "backprop")
EXPERIMENT = Study(
    **{**vars(SUITE), "methods": versions_of(*MEASURED), "methods_of": methods_of, "claims": claims, "answer": ANSWER}
)
