"""Figures 3 and 6 of the paper: accuracy against time on ionosphere (280 x 33), m = 2500; `_accuracy_time` says how.

Backpropagation's beta is 1e-6 in the paper, that of the ReLU network of 5000 neurons 1e-7, which its grid holds.
"""

from benchmarks.experiments.paper._accuracy_time_report import experiment

EXPERIMENT = experiment(
    3,
    "ionosphere",
    (2500,),
    epochs=60,
    decays=(300.0, 100.0, 10.0, 1e-6),
    rivals={"backprop, signs": 3, "ReLU, signs": 6},
)
