"""Figure 6 of the paper: a ReLU network of 5000 neurons beside the SDP based one of 2500, ionosphere."""

from benchmarks.experiments._accuracy_time import better_claims, experiment


def statements(source, records):
    """Return the claims of the figure."""
    return better_claims(source, records, "ReLU, signs")


EXPERIMENT = experiment(
    6, "ionosphere", (2500,), methods=("paper", "qsdp", "polished"), relu=5000, statements=statements
)
