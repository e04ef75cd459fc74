"""Certificates of every kind there is, small enough that the optimum behind a file is known by enumeration."""

from __future__ import annotations

import hashlib
import io
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
import qsdp_check
from campaigns._optimum import Enumeration, network_value
from qsdp._utils.deadline import NEVER
from qsdp.certificates.certificate import certificate_of
from qsdp.column_generation.floor import Floor
from qsdp.forms import FormMap
from qsdp.losses import LOSSES
from qsdp.pricing import BilinearOracle, BoundTree, Leaf
from qsdp.relaxation.instance import Instance

__all__ = ["Arrays", "Sample", "file_of", "samples", "truth"]

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Sample:
    """A valid file: its bytes, its arrays, and the data that it holds a digest of only."""

    kind: str
    contents: bytes
    arrays: Arrays
    data: Arrays | None


@cache
def samples() -> list[Sample]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [_sample(kind, certificate) for kind, certificate in _certificates()]
        problem = _problem("squared")
        certificate = qsdp.column_generation(problem).certificate
        made.append(_sample("digest of data", certificate, {"X": problem.X, "y": problem.y}, include_data=False))
        for loss in ("logistic", "hinge"):
            problem = _problem(loss, n=9)
            relaxation = qsdp.solve_relaxation(problem.take(np.arange(6)), tol=1e-6)
            batches = [(problem.X[:5], problem.y[:5]), (problem.X[5:], problem.y[5:])]
            network = qsdp.column_generation(problem).network
            certificate = qsdp.certify(network, batches, relaxation, beta=problem.beta, passes=2)
            made.append(_sample(f"batches, {loss}", certificate, {"X": problem.X, "y": problem.y}))
    return made


def file_of(arrays: Arrays) -> bytes:
    """Return the file of arrays, with a digest that is right."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return with_digest(stream.getvalue())


def with_digest(body: bytes) -> bytes:
    """Return the file of an archive."""
    return qsdp_check.MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def body_of(contents: bytes) -> bytes:
    """Return the archive in a file."""
    return contents[len(qsdp_check.MAGIC) + 65 :]


def truth(f: Arrays) -> tuple[float, float, float]:
    """Return the objective of the network in a file, what it errs by, and an upper bound of the optimum.

    A `QSDPError` or `ValueError` says that nothing is known: the library has no such problem, or no such loss.
    """
    problem = _stored_problem(f)
    network = qsdp.BilinearNetwork(f["U"], f["V"], f["alpha"], problem.levels, problem.activation)
    value, error, rounding = network_value(problem, network)
    return value, rounding, min(value + error, Enumeration.of(problem).upper)


def _stored_problem(f: Arrays) -> qsdp.TrainingProblem:
    name = str(f["loss"])
    if name not in LOSSES:
        raise ValueError(f"the loss {name!r} is a stranger's")
    parameters = f["parameters"].tolist()[:1] if name == "huber" else []
    options: dict[str, Any] = {"beta": float(f["beta"]), "levels": int(f["levels"])}
    options["activation"] = tuple(f["activation"].tolist()) or None
    if "forms" in f:
        problem = qsdp.TrainingProblem(np.ones((2, 1)), [0.0, 1.0], beta=options["beta"])
        lifted = options["activation"] is not None and any(options["activation"][1:])
        problem.activation = qsdp.PolynomialActivation(*options["activation"]) if options["activation"] else None
        problem.levels, problem.y = options["levels"], np.asarray(f["y"], dtype=float)
        problem._forms = FormMap.of(np.asarray(f["forms"], dtype=float), lifted, len(f["y"]))
        return problem
    loss = LOSSES[name](*parameters)
    return qsdp.TrainingProblem(f["X"], f["y"], loss=loss, sample_weight=f.get("sample_weight"), **options)


# -- kinds ----------------------------------------------------------------------------------------------------------


def _problem(loss: str, n: int = 7, d: int = 3, outputs: int = 0, **options: Any) -> qsdp.TrainingProblem:
    rng = np.random.default_rng([n, d, outputs])
    X = rng.standard_normal((n, d))
    y = rng.standard_normal((n, outputs) if outputs else n)
    if loss in ("logistic", "hinge", "squared_hinge"):
        y = np.where(y > np.median(y), 1.0, -1.0)
    if loss == "cross_entropy":
        y = np.arange(n) % 3.0
    problem = qsdp.TrainingProblem(X, y, beta=1.0, loss=loss, **options)
    return problem.with_beta(0.2 * float(np.max(qsdp.beta_max(problem))))


_LOSSES = ("squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy")


def _certificates() -> list[tuple[str, qsdp.Certificate]]:
    made = [({"cross_entropy": "cross-entropy"}.get(loss, loss), _exact(_problem(loss))) for loss in _LOSSES]
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0])
    made.append(("weighted, levels", _exact(_problem("hinge", levels=3, sample_weight=weights))))
    made.append(("lifted, outputs", _exact(_problem("huber", outputs=2, d=2, activation="relu_like"))))
    problem = _problem("squared", d=4)
    relaxation = qsdp.solve_relaxation(problem)
    network = qsdp.column_generation(problem).network
    made.append(("relaxation", qsdp.certify(network, problem, relaxation)))
    made.append(("verified", qsdp.certify(network, problem, relaxation, bound_type="exact", arithmetic="verified")))
    made.append(("tree", _tree(problem, network)))
    made.append(("cuts", _cuts(_problem("squared", n=9, d=4), 0)))
    statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
    forms = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    made.append(("statistics", qsdp.certify(network, forms)))
    return made


def _exact(problem: qsdp.TrainingProblem) -> qsdp.Certificate:
    return qsdp.column_generation(problem).certificate


def _tree(problem: qsdp.TrainingProblem, network: qsdp.BilinearNetwork) -> qsdp.Certificate:
    """Return a certificate whose proof has several leaves, one of them with a shift."""
    relaxation = qsdp.solve_relaxation(problem)
    nu = problem.data_fit.project(-problem.data_fit.gradient(network.predict(problem.X)))
    (tree,) = BilinearOracle(problem.size, enumerated=0).prove(problem.adjoint(nu), shift=relaxation.dual.z).trees
    order, N = tree.order, problem.size
    signs = [np.array(one, dtype=np.int8) for one in ((1, 1), (1, -1, 1), (1, -1, -1))]
    M = problem.adjoint(nu)
    ordered = np.abs(M).sum(axis=1)[order]
    # Row sums, halved: every entry is shared by its row and its column.
    generous = np.concatenate([[ordered.sum()], 2.0 * np.abs(M).sum(axis=1), 2.0 * ordered[3:]])
    leaves = (Leaf(signs[0], None, None), Leaf(signs[1], None, None), Leaf(signs[2], generous, None))
    assert len(generous) == 1 + N + N - 3
    return certificate_of(problem, network, nu, [BoundTree(order, leaves)], "sdp")


def _cuts(problem: qsdp.TrainingProblem, seed: int) -> qsdp.Certificate:
    relaxation = qsdp.solve_relaxation(problem)
    floor = Floor(Instance.of(problem), relaxation.dual, NEVER, np.random.default_rng(seed))
    for _ in range(4):
        floor.improve()
    nu, trees = floor.proof()
    network = qsdp.column_generation(problem).network
    return certificate_of(problem, network, nu, trees, "sdp")


def _sample(kind: str, certificate: qsdp.Certificate, data: Arrays | None = None, **options: Any) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.qsdp"
        certificate.save(path, **options)
        contents = path.read_bytes()
    with np.load(io.BytesIO(body_of(contents)), allow_pickle=False) as archive:
        return Sample(kind, contents, dict(archive), data)
