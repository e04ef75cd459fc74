"""Loading of files for reports, and template variables of networks, certificates and statistics."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import qsdp
from qsdp._utils.files import check_path
from qsdp._utils.summary import format_number
from qsdp.certificates import Certificate, load_certificate
from qsdp.certificates.proof import Proof
from qsdp.networks import NETWORK_KINDS, BilinearNetwork, BlockNetwork, IntegerForm
from qsdp.networks.storage import ESTIMATOR_KIND, read_archive
from qsdp.report._content import sizes_of
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.files import STATISTICS_KIND

__all__ = ["facts_of_file", "load_file"]

#: First bytes of certificate files of every version.
_CERTIFICATE = b"qsdp certificate "

#: Number of terms of a function that are listed.
_TERMS = 20


def load_file(path: str | os.PathLike[str]) -> Any:
    """Return the object stored in a file of this package.

    Raises
    ------
    StorageError
        The file is damaged, has another version or is not a file of qsdp.
    """
    path = check_path(path)
    with open(path, "rb") as file:
        begins = file.read(len(_CERTIFICATE))
    if begins == _CERTIFICATE:
        return load_certificate(path)
    kind, *_ = read_archive(path, ESTIMATOR_KIND, *NETWORK_KINDS, STATISTICS_KIND)
    return SufficientStatistics.load(path) if kind == STATISTICS_KIND else qsdp.load(path)


def facts_of_file(stored: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the template and its variables for a network, a certificate or statistics; None for a model."""
    if isinstance(stored, Certificate):
        proof = stored.proof
        known = {"network": None} if proof is None else {**_of_network(proof.network), "problem": _problem(proof)}
        return "certificate", {"certificate": stored, **known}
    if isinstance(stored, SufficientStatistics):
        layout = stored.blocks_
        columns = "columns" if layout is None else f"packed entries of {layout.n_blocks} blocks"
        outputs = str(stored.n_outputs_ or 1)
        return "statistics", {
            "statistics": stored, "columns": columns, "d": str(stored.n_features_in_), "outputs": outputs
        }  # fmt: skip
    return ("network", _of_network(stored)) if hasattr(stored, "n_bits") else None


def _of_network(network: Any) -> dict[str, Any]:
    return {
        "network": network,
        "form": isinstance(network, IntegerForm),
        "stored_sizes": sizes_of(network) if isinstance(network, (BilinearNetwork, BlockNetwork)) else [],
        **({"terms": None} if isinstance(network, BlockNetwork) else _terms(network)),
    }


def _terms(network: Any) -> dict[str, Any]:
    """Return the largest coefficients of the quadratic function."""
    d, (S, s, s0) = network.n_inputs, network.to_quadratic_form().parts
    rows, columns = np.triu_indices(d)
    products = S[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
    names = ["constant", *(f"x{j}" for j in range(d))]
    names += [f"x{i} * x{j}" if i != j else f"x{i}^2" for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
    values = np.hstack([s0[:, None], s, products])
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:_TERMS]
    places = [divmod(place, values.shape[1]) for place in order.tolist()]
    cells = [(str(k), names[j], format_number(float(values[k, j]))) for k, j in places if values[k, j] != 0.0]
    first = 0 if len(values) > 1 else 1
    return {
        "terms": [cell[first:] for cell in cells],
        "terms_header": ("output", "term", "coefficient")[first:],
        "n_terms": np.count_nonzero(values),
    }


def _problem(proof: Any) -> list[tuple[str, str]]:
    """Return the description of the problem of a certificate."""
    batches = not isinstance(proof, Proof)
    problem = proof if batches else proof.problem
    return [
        ("rows", f"{problem.n_samples:,}" + (", which came in batches and are not in the file" if batches else "")),
        ("inputs", str(proof.network.n_inputs if batches else problem.n_features)),
        ("outputs", str(proof.network.n_outputs)),
        ("loss", problem.loss.name),
        ("beta", format_number(problem.beta)),
    ]
