"""Figure 2 of the paper: accuracy against time on breast-cancer (228 x 9), m = 250; `_accuracy_time` says how."""

from benchmarks.experiments.paper._accuracy_time_report import experiment

EXPERIMENT = experiment(2, "breast-cancer", (250,), printed=0.1)
