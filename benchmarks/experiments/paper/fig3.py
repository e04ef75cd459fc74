"""Figure 3 of the paper: accuracy against time on ionosphere (280 x 33), m = 2500; `_accuracy_time` says how.

Backpropagation's beta is 1e-6 in the paper.
"""

from benchmarks.experiments.paper._accuracy_time_report import experiment

EXPERIMENT = experiment(3, "ionosphere", (2500,), epochs=60, decays=(300.0, 100.0, 10.0, 1e-6))
