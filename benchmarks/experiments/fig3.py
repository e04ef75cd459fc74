"""Figure 3 of the paper: accuracy against time on ionosphere (280 x 33), m = 2500."""

from benchmarks.experiments._accuracy_time import better_claims, experiment


def statements(source, records):
    """Return the claims of the figure."""
    return better_claims(source, records, "backprop, signs")


EXPERIMENT = experiment(3, "ionosphere", (2500,), statements=statements)
