"""Certificates of every kind there is, small enough that the optimum behind a file is known by enumeration."""

from __future__ import annotations

import hashlib
import io
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
import qsdp_check
from campaigns._optimum import network_value, optimum, optimum_of_blocks
from campaigns._problems import LOSSES, simple
from qsdp.certificates.certificate import Proof, certificate_of
from qsdp.column_generation.generator import RelaxationBound
from qsdp.forms import FormMap
from qsdp.losses import LOSSES as KNOWN
from qsdp.pricing import BilinearOracle, BoundTree
from qsdp.problem import quadratic_problem
from qsdp.relaxation.instance import Instance
from qsdp.training_data import QuadraticModel

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
    made = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for kind, certificate, data in _certificates():
            path = Path(folder) / "one.qsdp"
            include: bool | str = {"digest of data": False, "blocks, sums": "sums"}.get(kind, True)
            _looser(certificate).save(path, include_data=include)
            contents = path.read_bytes()
            with np.load(io.BytesIO(body_of(contents)), allow_pickle=False) as archive:
                made.append(Sample(kind, contents, dict(archive), data))
    return made


def file_of(arrays: Arrays) -> bytes:
    """Return the file of arrays, with a digest that is right."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return with_digest(stream.getvalue())


def with_digest(body: bytes) -> bytes:
    return qsdp_check.MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def body_of(contents: bytes) -> bytes:
    return contents[len(qsdp_check.MAGIC) + 65 :]


def truth(f: Arrays) -> tuple[float, float, float]:
    """Return the objective of the network in a file, what it errs by, and an upper bound of the optimum.

    A `QSDPError` or `ValueError` says that nothing is known: the library has no such problem, or no such loss.
    """
    if "sizes" in f:
        return _truth_of_blocks(f)
    problem = _stored_problem(f)
    network = qsdp.BilinearNetwork(f["U"], f["V"], f["alpha"], levels=problem.levels, activation=problem.activation)
    value, error, rounding = network_value(problem, network)
    return value, rounding, min(value + error, optimum(problem)[0])


def _truth_of_blocks(f: Arrays) -> tuple[float, float, float]:
    kinds, constant = np.where(f["linear"], "linear", "quadratic").tolist(), 0.0
    sizes, omega = f["sizes"].tolist(), f["omega"].tolist()
    start, weights = 0, f.get("weights")
    for position, count in f["weight_blocks"].tolist() if weights is not None else []:
        sizes.insert(position, count)
        kinds.insert(position, "weights")
        omega.insert(position, f["weight_omega"][start : start + count])
        start += count
    if "X" in f:
        blocks = qsdp.Blocks(f["X"], sizes, kinds, omega)
        problem = qsdp.TrainingProblem(
            blocks, f["y"], beta=float(f["beta"]), loss=_stored_loss(f), sample_weight=f.get("sample_weight")
        )
    else:
        rows, y, constant = _samples_of_sums(f)
        problem = qsdp.TrainingProblem(qsdp.Blocks(rows, sizes, kinds, omega), y, beta=float(f["beta"]))
    network = qsdp.BilinearNetwork(f["U"], f["V"], f["alpha"], f["block"], sizes, kinds, weights=weights)
    value, error, rounding = network_value(problem, network)
    return value + constant, rounding, min(value + error, optimum_of_blocks(problem)[0]) + constant


def _samples_of_sums(f: Arrays) -> tuple[np.ndarray, np.ndarray, float]:
    """Return samples whose sums are those of a file, but for a constant; sums that are nearly singular tell nothing."""
    G = np.zeros((len(f["products"]),) * 2)
    upper = np.triu_indices(len(G))
    G[upper] = G.T[upper] = f["gram"]
    values, vectors = np.linalg.eigh(G)
    if not values[0] > 1e-7 * values[-1]:
        raise ValueError("the sums are those of no samples, or of many")
    y = (vectors.T @ f["products"]) / np.sqrt(values)[:, None]
    rest = f["squares"] - (y**2).sum(axis=0)
    if not np.all(rest >= 1e-6 * f["squares"]):
        raise ValueError("the targets are those of no samples, or of many")
    return vectors.T * np.sqrt(values)[:, None], y if f["alpha"].ndim > 1 else y[:, 0], float(rest.sum())


def _stored_loss(f: Arrays) -> Any:
    name = str(f["loss"])
    if name not in KNOWN:
        raise ValueError(f"the loss {name!r} is a stranger's")
    return KNOWN[name](*(f["parameters"].tolist()[:1] if name == "huber" else []))


def _stored_problem(f: Arrays) -> qsdp.TrainingProblem:
    loss = _stored_loss(f)
    activation = tuple(f["activation"].tolist()) or None
    options: dict[str, Any] = {"beta": float(f["beta"]), "levels": int(f["levels"]), "activation": activation}
    if "forms" not in f:
        return qsdp.TrainingProblem(f["X"], f["y"], loss=loss, sample_weight=f.get("sample_weight"), **options)
    lifted = activation is not None and any(activation[1:])
    forms, y = (
        FormMap.from_forms(np.asarray(f["forms"], dtype=float), lifted, len(f["y"])),
        np.asarray(f["y"], dtype=float),
    )
    return quadratic_problem(QuadraticModel(forms, y), **options)


def _halved(network: Any) -> Any:
    return replace(network, alpha=network.alpha / 2)


def _looser(certificate: qsdp.Certificate) -> qsdp.Certificate:
    """Return the same proof beside a network that is not optimal: false claims fit between its bound and objective."""
    proof = certificate.proof
    if not isinstance(proof, Proof):
        return certificate
    network = _halved(proof.network)
    return replace(certificate, objective=proof.problem.objective(network), proof=replace(proof, network=network))


def simple_blocks(loss: str, outputs: int, *, real: bool = False) -> qsdp.TrainingProblem:
    """Return a problem on three blocks of both kinds, with whole numbers as data, and `real` weights if asked for."""
    rng = np.random.default_rng(outputs)
    columns = 6 + 2 + 3 + (2 + 1) * real
    rows, y = rng.integers(-9, 10, (16, columns)).astype(np.int8), rng.standard_normal((16, outputs or 1))
    y = y if outputs else y[:, 0]
    if loss != "squared":
        y = np.where(y > 0, 1.0, -1.0) if loss == "hinge" else np.arange(16) % 3.0
    sizes, kinds, omega = [3, 2, 2], ["quadratic", "linear", "quadratic"], [1.0, 0.5, 2.0]
    if real:
        sizes, kinds = [3, 2, 2, 2, 1], [kinds[0], "weights", *kinds[1:], "weights"]
        omega = [1.0, [0.3, 2.0], 0.5, 2.0, 0.7]  # type: ignore[list-item]
    blocks = qsdp.Blocks(rows, sizes, kinds, omega)
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss=loss)
    return problem.with_beta(0.2 * float(np.max(qsdp.beta_max(problem))))


def _certified(problem: qsdp.TrainingProblem) -> qsdp.Certificate:
    return qsdp.column_generation(problem).certificate


def _certificates() -> Iterator[tuple[str, qsdp.Certificate, Arrays | None]]:
    """Yield a certificate of every kind, and its data where the file does not hold them."""
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0])
    exact = {loss: simple(loss) for loss in LOSSES}
    exact["weighted, levels"] = simple("hinge", levels=3, sample_weight=weights)
    exact["lifted, outputs"] = simple("huber", outputs=2, d=2, activation="relu_like")
    for kind, problem in exact.items():
        yield kind.replace("cross_e", "cross-e"), qsdp.column_generation(problem).certificate, None
    problem = simple("squared", d=4)
    relaxation, network = qsdp.solve_relaxation(problem), qsdp.column_generation(problem).network
    yield "relaxation", qsdp.certify(network, problem, relaxation), None
    yield "exact", qsdp.certify(network, problem, relaxation, bound_type="exact"), None
    # A tree of several leaves, all but the first with a shift.
    nu = problem.data_fit.project(-problem.data_fit.gradient(problem.outputs(network)))
    proven = (
        BilinearOracle(problem.size, enumerated=0)
        .prove(problem.map.adjoint(nu[:, 0]), shift=relaxation.dual.z)
        .trees[0]
    )
    leaves = (replace(proven.leaves[0], shift=None, cuts=None), *proven.leaves[1:])
    yield "tree", certificate_of(problem, network, nu, [BoundTree(proven.order, leaves)], "sdp"), None
    wide = simple("squared", n=9, d=4)
    relaxation_bound = RelaxationBound(
        Instance.from_problem(wide), qsdp.solve_relaxation(wide).bound, np.random.default_rng(0)
    )
    for _ in range(4):
        relaxation_bound.improve()
    proof = relaxation_bound.proof()
    yield "cuts", certificate_of(wide, qsdp.column_generation(wide).network, proof.nu, proof.trees, "sdp"), None
    statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
    forms = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    yield "statistics", qsdp.certify(network, forms), None
    for kind, loss, outputs in (
        ("rows", "squared", 2),
        ("hinge", "hinge", 0),
        ("cross-entropy", "cross_entropy", 3),
        ("sums", "squared", 2),
        ("sums", "squared", 0),
    ):
        problem = simple_blocks(loss, outputs)
        data = {"X": problem.X.rows, "y": problem.y} if kind == "sums" else None
        yield f"blocks, {kind}", _certified(problem), data
    for kind, loss, outputs in (("rows", "squared", 2), ("hinge", "hinge", 0), ("sums", "squared", 2)):
        problem = simple_blocks(loss, outputs, real=True)
        data = {"X": problem.X.rows, "y": problem.y} if kind == "sums" else None
        yield f"real weights, {kind}", _certified(problem), data
    problem = simple("squared")
    yield "digest of data", qsdp.column_generation(problem).certificate, {"X": problem.X, "y": problem.y}
    for loss in ("logistic", "hinge"):
        problem = simple(loss, n=9)
        relaxation = qsdp.solve_relaxation(problem.take(np.arange(6)), tol=1e-6)
        batches = [(problem.X[:5], problem.y[:5]), (problem.X[5:], problem.y[5:])]
        network = _halved(qsdp.column_generation(problem).network)
        certificate = qsdp.certify_stream(network, batches, relaxation, beta=problem.beta, passes=2)
        yield f"batches, {loss}", certificate, {"X": problem.X, "y": problem.y}
