"""Problems of `solvers.py`, each named by a small dictionary that can be handed to another process."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import scipy.sparse

import qsdp
from qsdp.lifting import append_constant

UCI = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
GRAPHS = ("mcp100", "mcp124-1", "G1")


def label(case):
    """Return the name of a case in tables."""
    if case["data"] == "uci":
        return case["name"]
    if case["data"] == "planted":
        return f"planted {case['n']} x {case['d']}"
    which = f"digit {case['digit']}" if "digit" in case else "10 digits"
    return f"MNIST {case['n']} x {case['components']} + 1, {which}"


def problem_of(case):
    """Return the training problem of a case."""
    if case["data"] == "uci":
        X, y = uci(case["name"])
    elif case["data"] == "planted":
        X, y = qsdp.datasets.make_planted(case["n"], case["d"], random_state=0)
    else:
        X, labels = mnist_components(case["n"], case["components"])
        y = one_against_rest(labels)
        y = y[:, case["digit"]] if "digit" in case else y
    return qsdp.TrainingProblem(X, y, beta=case["beta"])


def uci(name):
    """Return the standardised training part with a constant column; vehicle is its first class against the rest."""
    dataset = qsdp.datasets.load_uci(name)
    X, _, y, _ = dataset.split(random_state=0)
    if dataset.task == "multiclass":
        y = np.where(y == 0, 1.0, -1.0)
    return append_constant((X - X.mean(axis=0)) / X.std(axis=0)), y


# -- MNIST -----------------------------------------------------------------------------------------------


def folder(name):
    """Return a folder of QSDP_DATA, or None where there is none."""
    path = Path(os.environ.get("QSDP_DATA", "")) / name
    return path if "QSDP_DATA" in os.environ and path.is_dir() else None


@functools.lru_cache(maxsize=1)
def mnist_components(n, components):
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
    return append_constant(np.vstack([(images[block] - mean) @ directions for block in blocks])), labels


def one_against_rest(labels):
    """Return targets +-1 of shape (n, 10)."""
    return 2.0 * np.eye(10)[labels] - 1.0


# -- graphs ----------------------------------------------------------------------------------------------


def graph(name):
    """Return the matrix of the inner problem: a quarter of the Laplacian, as SDPLIB has it, sparse for Gset."""
    home = folder("gset" if name.startswith("G") else "sdplib")
    if home is None:
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
