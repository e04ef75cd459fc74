"""Figure 5 of the paper: accuracy against time on credit-approval (552 x 15), two numbers of neurons.

The text names no sizes (they are in captions of the picture): 250 and 2500 stand for "few" and "many".
"""

from benchmarks.experiments._accuracy_time import better_claims, experiment, of, variants
from benchmarks.experiments._common import percent
from qsdp.bench import Claim

SIZES = (250, 2500)


def statements(source, records):
    """Return the claims of the figure."""
    return [*better_claims(source, records, "backprop, signs"), *more_neurons(source, variants(records))]


def more_neurons(source, measured):
    """Return the claim that more neurons help."""
    gains, shown = {}, []
    for name in ("paper", "backprop, signs"):
        if any((m, name) not in measured for m in SIZES):
            return []
        few, many = (of(measured[m, name], "test") for m in SIZES)
        gains[name] = many.mean() - few.mean()
        shown.append(f"{name}: {percent(few)} % with {SIZES[0]}, {percent(many)} % with {SIZES[1]}")
    worse = [name for name, gain in gains.items() if gain <= 0.0]
    verdict = ("reproduced", "partly", "not")[len(worse)]
    why = f"not for {' and '.join(worse)}" if worse else ""
    return [Claim(source, "More neurons improve the test accuracy of both methods.", verdict, "; ".join(shown), why)]


EXPERIMENT = experiment(5, "credit-approval", SIZES, statements=statements)
