"""One seed, one result, whatever the processor: OpenBLAS is told to compute as on an old one."""

import os
import subprocess
import sys

import numpy as np

#: Sums in another order than processors of today do. Another BLAS does not know the variable.
CORE = "Prescott"

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


def test_a_seed_means_the_same_on_every_processor(tmp_path, monkeypatch):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_CORETYPE": CORE}
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "other.npz"], env=environment, check=True)
    monkeypatch.setattr(sys, "argv", ["", tmp_path / "here.npz"])
    exec(PROGRAM, {})
    here, other = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("here", "other"))
    assert here.keys() == other.keys()
    for name, expected in here.items():
        if name.endswith("/alpha"):
            np.testing.assert_allclose(other[name], expected, rtol=1e-4, err_msg=name)
        else:
            # Rounding, and what a solver's tolerance leaves open, decide one sign in thousands; the signs of
            # eigenvectors would decide a third of them.
            assert np.mean(other[name] != expected) < 0.01, name
