"""One seed, one result, whatever the processor: OpenBLAS is told to compute as on others."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

#: Kernels of different order of summation. A processor that lacks the instructions of one ends the program; another
#: BLAS does not know the variable, and all of them are one.
CORES = ("Prescott", "Haswell", "SkylakeX")

PROGRAM = """
import sys
import numpy as np
import qsdp

rng = np.random.default_rng(7)
X = rng.standard_normal((40, 6))
y = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] + 0.1 * rng.standard_normal(40)
drawn = {}


def keep(name, network):
    drawn[f"{name}/bits"] = np.hstack([network.U, network.V])
    drawn[f"{name}/alpha"] = network.alpha


for name, targets, options in (
    ("bilinear", y, {}),
    ("three levels", y, {"levels": 3}),
    ("polynomial", y, {"activation": qsdp.PolynomialActivation(0.09, 0.5, 0.47)}),
    ("outputs", np.column_stack([y, X[:, 4] * X[:, 5]]), {}),
    ("singular", X[:, 0] ** 2, {}),
):
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, targets, beta=0.5, **options))
    for method in ("krivine", "adaptive"):
        covariance = qsdp.shape_covariance(relaxation, method)
        keep(f"{name}, {method}", qsdp.sample_network(covariance, 200, random_state=3))
problem = qsdp.TrainingProblem(X, y, beta=0.5)
relaxation = qsdp.solve_relaxation(problem, solver="low-rank")
keep("low-rank", qsdp.sample_network(qsdp.shape_covariance(relaxation), 200, random_state=3))
keep("pipeline", qsdp.solve_and_sample(X, y, beta=0.5, n_neurons=50, random_state=3).network)
np.savez(sys.argv[1], **drawn)
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """What each kind of processor draws, by its name."""
    folder = tmp_path_factory.mktemp("cores")
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    programs = {
        core: subprocess.Popen(
            [sys.executable, "-c", PROGRAM, folder / f"{core}.npz"],
            env={**os.environ, **threads, "OPENBLAS_CORETYPE": core},
            stderr=subprocess.PIPE,
            text=True,
        )
        for core in CORES
    }
    errors = {core: program.communicate()[1] for core, program in programs.items()}
    able = [core for core in CORES if programs[core].returncode != -getattr(signal, "SIGILL", 4)]
    assert all(programs[core].returncode == 0 for core in able), errors
    return {core: dict(np.load(folder / f"{core}.npz")) for core in able}


def test_a_seed_means_the_same_on_every_processor(drawn):
    first, *others = drawn.values()
    for other in others:
        for name, expected in first.items():
            if name.endswith("/alpha"):
                np.testing.assert_allclose(other[name], expected, rtol=1e-4, err_msg=name)
            else:
                # Rounding, and what a solver's tolerance leaves open, decide one sign in thousands; the signs of
                # eigenvectors would decide a third of them.
                assert np.mean(other[name] != expected) < 0.01, name
