"""Problems that solvers are compared on, each named by a small dictionary."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import qsdp
from benchmarks.experiments._data import first_class, standardised, targets_of, with_constant

GRAPHS = ("mcp100", "mcp124-1", "G1")


def label(problem: dict[str, Any]) -> str:
    if problem["data"] == "uci":
        return str(problem["name"])
    if problem["data"] == "planted":
        return f"planted {problem['n']} x {problem['d']}"
    which = f"digit {problem['digit']}" if "digit" in problem else "10 digits"
    return f"MNIST {problem['n']} x {problem['components']} + 1, {which}"


def problem_of(problem: dict[str, Any]) -> qsdp.TrainingProblem:
    """Return the training problem; vehicle is its first class against the rest."""
    if problem["data"] == "uci":
        X, _, y, _ = standardised(problem["name"], 0)
        X, y = with_constant(X)[0], first_class(y)
    elif problem["data"] == "planted":
        X, y = qsdp.datasets.make_planted(problem["n"], problem["d"], random_state=0)
    else:
        X, labels = mnist_components(problem["n"], problem["components"])
        y = 2.0 * targets_of(labels) - 1.0
        y = y[:, problem["digit"]] if "digit" in problem else y
    return qsdp.TrainingProblem(X, y, beta=problem["beta"])


@functools.lru_cache(maxsize=1)
def mnist_components(n: int, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Return principal components of unit variance and a constant column, of the first n images, and labels."""
    images, labels = qsdp.datasets.load_mnist()
    images, labels = images[:n], labels[:n]
    blocks = [slice(start, start + 4096) for start in range(0, n, 4096)]
    mean = images.mean(axis=0)
    covariance = np.zeros((784, 784))
    for block in blocks:
        centred = images[block] - mean
        covariance += centred.T @ centred
    values, vectors = np.linalg.eigh(covariance / n)
    directions = vectors[:, : -components - 1 : -1] / np.sqrt(values[: -components - 1 : -1])
    return with_constant(np.vstack([(images[block] - mean) @ directions for block in blocks]))[0], labels


def graph(name: str) -> Any:
    """Return the matrix of the inner problem: a quarter of the Laplacian, as SDPLIB has it, sparse for Gset."""
    home = Path(os.environ.get("QSDP_DATA", ""), "gset" if name.startswith("G") else "sdplib")
    if "QSDP_DATA" not in os.environ or not home.is_dir():
        raise FileNotFoundError("set QSDP_DATA to a folder with sdplib/ and gset/")
    if name.startswith("G"):
        first, *edges = (home / f"{name}.txt").read_text().splitlines()
        n = int(first.split()[0])
        i, j, w = np.array([line.split() for line in edges if line.strip()], dtype=float).T
        W = scipy.sparse.coo_array((w, (i.astype(int) - 1, j.astype(int) - 1)), shape=(n, n)).tocsr()
        W = W + W.T
        return scipy.sparse.csr_array((scipy.sparse.diags_array(W.sum(axis=1)) - W) / 4.0)
    lines = [line for line in (home / f"{name}.dat-s").read_text().splitlines() if line[:1] not in {'"', "*"}]
    n = int(lines[2].split()[0])
    M = np.zeros((n, n))
    for line in lines[4:]:
        matrix, _, i, j, value = line.split()
        if matrix == "0":
            M[int(i) - 1, int(j) - 1] = M[int(j) - 1, int(i) - 1] = float(value)
    return M
