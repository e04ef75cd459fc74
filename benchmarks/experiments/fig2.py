"""Figure 2 of the paper: accuracy against time on breast-cancer (228 x 9), m = 250."""

from benchmarks.experiments._accuracy_time import better_claims, experiment


def statements(source, records):
    """Return the claims of the figure."""
    return better_claims(source, records, "backprop, signs")


EXPERIMENT = experiment(2, "breast-cancer", (250,), statements=statements)
