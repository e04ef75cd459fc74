"""Options with which the tests of exports train estimators in milliseconds."""

#: The logistic loss needs no calibration, and to choose an encoding takes forty solves.
FAST = {
    "n_neurons": 12,
    "beta": "20%",
    "loss": "logistic",
    "encoding": "standard",
    "refine": "none",
    "tol": 0.1,
    "random_state": 0,
}
#: Of regressors.
NUMBERS = {**FAST, "loss": "squared"}
