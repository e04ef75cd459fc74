"""Figure 5 of the paper: accuracy against time on credit-approval (552 x 15), m = 500 and 2500.

`_accuracy_time` says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.experiments.paper._accuracy_time_report import by_split, experiment
from qsdp.bench import Claim, Record, paired_claim

SIZES = (500, 2500)


def more_neurons(source: str, records: Sequence[Record]) -> list[Claim]:
    """Return the claims that more neurons improve the accuracy of both methods."""
    found = []
    for name in ("paper", "backprop, signs"):
        for part, words in (("train", "training"), ("test", "test")):
            many, few = (by_split(records, m, name, part) for m in reversed(SIZES))
            group = "More neurons improve the accuracy"
            names = (f"m = {SIZES[1]}:", f"m = {SIZES[0]}:")
            statement = f"More neurons improve the {words} accuracy of '{name}'."
            claim = paired_claim(source, statement, many, few, names=names)
            found.append(replace(claim, group=group, case=f"{words}, {name}"))
    return found


EXPERIMENT = experiment(5, "credit-approval", SIZES, printed=1e-3, statements=more_neurons)
