"""Figure 6 of the paper: a ReLU network of 5000 neurons beside the SDP based one of 2500, ionosphere.

`_accuracy_time` says how. The ReLU network's beta is 1e-7 in the paper, which its grid holds; backpropagation's that of
Figure 3 on the same set.
"""

from benchmarks.experiments.paper._accuracy_time_report import experiment

EXPERIMENT = experiment(6, "ionosphere", (2500,), epochs=60, decays=(300.0, 100.0, 10.0, 1e-6), rival="ReLU, signs")
