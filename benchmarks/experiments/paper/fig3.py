"""Figures 3 and 6 of the paper: accuracy against time on ionosphere (280 x 33), m = 2500; `_accuracy_time` says how."""

from benchmarks.experiments.paper._accuracy_time_report import experiment

EXPERIMENT = experiment(3, "ionosphere", (2500,), printed=1e-6, rivals={"backprop, signs": 3, "ReLU, signs": 6})
