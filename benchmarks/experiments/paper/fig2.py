"""Figure 2 of the paper: accuracy against time on breast-cancer (228 x 9), m = 250; `_accuracy_time` says how.

Backpropagation's beta is 0.1 in the paper.
"""

from benchmarks.experiments.paper._accuracy_time_report import experiment

EXPERIMENT = experiment(2, "breast-cancer", (250,), epochs=100, decays=(300.0, 100.0, 10.0, 0.1))
