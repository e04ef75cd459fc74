"""Certificates of user-defined losses: valid in memory, refused on disk."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import Pinball, global_optimum, optimal_network, random_problem

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import LOSSES, Huber, Logistic, Squared


class Same(Huber):
    """The Huber loss in a class derived from it, whose values a file could not know."""


class Derived(Squared):
    """The squared loss in a class derived from it."""


class Shadow(Pinball):
    """Another loss under the name of the absolute loss."""

    name = "absolute"


class Other(Logistic):
    name = "other"


def refused(certificate: qsdp.Certificate, loss: Any, folder: Path, include_data: bool | str = True) -> None:
    with pytest.raises(InvalidInputError) as caught:
        certificate.save(folder / "c", include_data=include_data)
    message = str(caught.value)
    assert f"a certificate of the user-defined loss {loss!r} cannot be saved" in message
    assert "the certificate in memory is valid: to have it again later, save the network" in message
    assert all(name in message for name in LOSSES)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("include_data", [True, False])
@pytest.mark.parametrize("loss", [Pinball(0.9), Same(0.3), Derived(), Shadow(0.2), Other()], ids=repr)
def test_certificates_are_refused_on_disk(loss: Any, include_data: bool, tmp_path: Path) -> None:
    base = random_problem(1, 3, 9, "logistic" if loss.labels else "squared")
    problem = qsdp.TrainingProblem(base.X, base.y, beta=0.1, loss=loss)
    network = qsdp.BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.5])
    refused(qsdp.certify(network, problem), loss, tmp_path, include_data)


def test_the_certificate_in_memory_is_valid(tmp_path: Path) -> None:
    base = random_problem(2, 3, 9, "absolute")
    problem = qsdp.TrainingProblem(base.X, base.y, beta=0.2, loss=Pinball(0.7))
    optimum = global_optimum(problem)
    network = optimal_network(problem, optimum)
    certificate = qsdp.certify(network, problem, qsdp.solve_relaxation(problem), bound_type="exact")
    assert 0.0 < certificate.lower_bound <= optimum.upper * (1 + 1e-9)
    refused(certificate, problem.loss, tmp_path)
    assert certificate == qsdp.certify(network, problem, qsdp.solve_relaxation(problem), bound_type="exact")


def test_certificates_of_blocks_and_batches_are_refused_on_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((12, 6)), rng.standard_normal(12)
    blocks = qsdp.TrainingProblem(qsdp.Blocks(rows, sizes=[2, 2]), y, beta=0.1, loss=Derived())
    network = qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [0.5], [1], [2, 2])
    for include_data in (True, False, "sums"):
        refused(qsdp.certify(network, blocks), Derived(), tmp_path, include_data)
    labels = np.where(y > 0.0, 1.0, -1.0)
    problem = qsdp.TrainingProblem(rows[:, :3], labels, beta=0.5, loss=Other())
    relaxation = qsdp.solve_relaxation(problem, solver="splitting", tol=1e-3)
    batches = [(rows[:6, :3], labels[:6]), (rows[6:, :3], labels[6:])]
    network = qsdp.BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.5])
    certificate = qsdp.certify_stream(network, batches, relaxation)
    refused(certificate, Other(), tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"loss": "piecewise quadratic", "interval": [-0.1, 0.9], "inverse_curvature": 0.0, "label": "pinball"},
        {"loss": "piecewise quadratic"},
        {"interval": [-0.1, 0.9]},
        {"inverse_curvature": 0.5},
        {"label": "pinball"},
    ],
)
def test_files_with_user_defined_losses_are_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    problem = random_problem(1, 3, 9, "absolute")
    network, path = qsdp.BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.5]), tmp_path / "c"
    qsdp.certify(network, problem).save(path)
    with np.load(io.BytesIO(path.read_bytes().split(b"\n", 2)[2])) as archive:
        contents = {**archive, **arrays}
    np.savez(body := io.BytesIO(), **contents)
    path.write_bytes(
        b"qsdp certificate 2\n" + hashlib.sha256(body.getvalue()).hexdigest().encode() + b"\n" + body.getvalue()
    )
    for given in (None, problem):
        with pytest.raises(StorageError, match="it has a stored user-defined loss; files hold only the losses squared"):
            qsdp.load_certificate(path, given)
