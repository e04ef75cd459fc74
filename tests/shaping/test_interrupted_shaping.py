"""An interrupt of the program (27) is one, and no failure of its solver, which catches it itself."""

import subprocess
import sys

SCRIPT = """
import os, signal, threading
import numpy as np
import scs
import qsdp

class Interrupted(scs.SCS):
    def solve(self, *arguments, **options):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return super().solve(*arguments, **options)

rng = np.random.default_rng(0)
X = rng.standard_normal((100, 120))
relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=100.0), tol=1e-1)
scs.SCS = Interrupted
try:
    qsdp.shape_covariance(relaxation, method="sdp")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupt_of_the_program() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    assert "interrupted" in run.stdout.splitlines()
