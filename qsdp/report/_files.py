"""Reports on files without a table: networks, certificates and statistics."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qsdp._utils.summary import format_number
from qsdp.certificates import Certificate, load_certificate
from qsdp.certificates.proof import Proof
from qsdp.estimators import load
from qsdp.estimators.provenance import versions
from qsdp.networks import NETWORK_KINDS, BilinearNetwork, BlockNetwork, IntegerForm, PolynomialNetwork, load_network
from qsdp.networks.storage import ESTIMATOR_KIND, read_archive
from qsdp.report._blocks import Block, Paragraph, Section, TextTable
from qsdp.report._content import bound_bar, sizes_table
from qsdp.report._provenance import files_table, listed, sha256_of
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.files import STATISTICS_KIND

__all__ = ["PlainFile", "load_file", "read_plain"]

Network = BilinearNetwork | BlockNetwork | PolynomialNetwork | IntegerForm

#: First bytes of certificate files of every version.
_CERTIFICATE = b"qsdp certificate "

#: Readers of the other files, by the kind of content.
_READERS: dict[str, Callable[[Any], Any]] = {
    ESTIMATOR_KIND: load,
    **dict.fromkeys(NETWORK_KINDS, load_network),
    STATISTICS_KIND: SufficientStatistics.load,
}

#: Number of terms of a function that are listed.
_TERMS = 20


@dataclass(frozen=True)
class PlainFile:
    """Content of the report on a file without a table.

    Attributes
    ----------
    holds : str
        Kind of content, such as "network".
    lead : str
    usage : str
        How to use the file, as Markdown.
    sections : tuple of Section
    """

    holds: str
    lead: str
    usage: str
    sections: tuple[Section, ...]


def load_file(path: str | os.PathLike[str]) -> Any:
    """Return the object stored in a file of this package.

    Raises
    ------
    StorageError
        The file is damaged, has another version or is not a file of qsdp.
    """
    with open(path, "rb") as file:
        begins = file.read(len(_CERTIFICATE))
    if begins == _CERTIFICATE:
        return load_certificate(path)
    return _READERS[read_archive(path, *_READERS)[0]](path)


def read_plain(subject: Network | Certificate | SufficientStatistics, path: Path) -> PlainFile:
    """Return the report on a network, a certificate or statistics, including what the file does not tell."""
    if isinstance(subject, Certificate):
        made = _of_certificate(subject, path.name)
    elif isinstance(subject, SufficientStatistics):
        made = _of_statistics(subject, path.name)
    else:
        made = _of_network(subject, path.name)
    provenance: list[Block] = [
        files_table([(made.holds, path.name, sha256_of(path))]),
        Paragraph(f"This report was made with {listed(versions())}."),
    ]
    return PlainFile(made.holds, made.lead, made.usage, (*made.sections, Section("Provenance", provenance)))


def _of_network(network: Network, name: str) -> PlainFile:
    lead = f"A {_named(network)} of {network.n_inputs} inputs, {network.n_bits:,} bits, without the data it is of."
    unknown = (
        "The file holds the network alone: not what its inputs and outputs mean, on which data, with which loss and "
        "beta it was trained, how well it predicts, or what was proven of it. A model of `qsdp fit` has all of it; "
        "`qsdp.certify(network, problem).save(path)` writes a file that has what is proven."
    )
    usage = f"```python\nimport qsdp\n\nnetwork = qsdp.load_network({name!r})\noutputs = network.predict(X)\n```\n\n"
    if not isinstance(network, BlockNetwork):
        usage += f"```console\n$ qsdp export {shlex.quote(name)} --to c\n```"
    return PlainFile(
        "network", lead, usage, (*_network_sections(network), Section("What is not known", [Paragraph(unknown)]))
    )


def _named(network: Network) -> str:
    if isinstance(network, IntegerForm):
        return "quadratic function with integer coefficients"
    return f"quantized network of {network.n_neurons:,} neurons"


def _network_sections(network: Network) -> Iterator[Section]:
    blocks: list[Block] = [TextTable((), network._summary().rows)]
    if isinstance(network, BilinearNetwork):
        blocks.append(sizes_table(network))
    yield Section("Network and size", blocks)
    if not isinstance(network, BlockNetwork):
        yield _terms_section(network)


def _terms_section(network: Any) -> Section:
    """Return the largest coefficients of the quadratic function."""
    d, (S, s, s0) = network.n_inputs, network.to_quadratic_form().parts
    rows, columns = np.triu_indices(d)
    products = S[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
    names = ["constant", *(f"x{j}" for j in range(d))]
    names += [f"x{i} * x{j}" if i != j else f"x{i}^2" for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
    values = np.hstack([s0[:, None], s, products])
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:_TERMS]
    places = [divmod(place, values.shape[1]) for place in order.tolist()]
    several = len(values) > 1
    cells = [
        (*([str(k)] if several else []), names[j], format_number(float(values[k, j])))
        for k, j in places
        if values[k, j] != 0.0
    ]
    words = (
        f"{'Every output' if several else 'The output'} is a polynomial of degree two in the inputs, with nothing left "
        "over. Its largest coefficients say which terms matter where inputs are of like size."
    )
    header = (*(["output"] if several else []), "term", "coefficient")
    table = TextTable(header, cells, frozenset({len(header) - 1}), f"{len(cells)} of {np.count_nonzero(values)} terms")
    return Section("The function", [Paragraph(words), table] if cells else [Paragraph(words)])


def _of_certificate(certificate: Certificate, name: str) -> PlainFile:
    proof = certificate.proof
    meaning = (
        "The lower bound holds for every network of the problem below, of any number of neurons: none has a smaller "
        "training objective. It says nothing of rows that were not in training. This report shows what the file "
        f"claims; `qsdp-check {shlex.quote(name)}` computes it again."
    )
    claims: list[Block] = [
        Paragraph(meaning),
        bound_bar(certificate),
        TextTable((), certificate._summary().rows),
    ]
    sections = [Section("Certificate", claims)]
    if proof is None:
        missing = (
            "The certificate was saved without its data: problem and network are read with the data, as by "
            "`qsdp.load_certificate(path, problem)`."
        )
        sections.append(Section("What is not known", [Paragraph(missing)]))
    else:
        sections.append(Section("Problem", [TextTable((), list(_problem_facts(proof)))]))
        sections += _network_sections(proof.network)
        unknown = "What the columns of the data mean, and how well the network predicts other rows, is not in the file."
        sections.append(Section("What is not known", [Paragraph(unknown)]))
    usage = f"```console\n$ qsdp-check {shlex.quote(name)}\n```"
    return PlainFile("certificate", f"A certificate: {certificate}.", usage, tuple(sections))


def _problem_facts(proof: Any) -> Iterator[tuple[str, str]]:
    if isinstance(proof, Proof):
        problem = proof.problem
        yield "rows", f"{problem.n_samples:,}"
        yield "inputs", str(problem.n_features)
        yield "outputs", str(problem.n_outputs)
        yield "loss", problem.loss.name
        yield "beta", format_number(problem.beta)
        return
    yield "rows", f"{proof.n_samples:,}, which came in batches and are not in the file"
    yield "inputs", str(proof.network.n_inputs)
    yield "loss", proof.loss.name
    yield "beta", format_number(proof.beta)


def _of_statistics(statistics: SufficientStatistics, name: str) -> PlainFile:
    d, outputs = statistics.n_features_in_, statistics.n_outputs_ or 1
    names, layout = statistics.feature_names_in_, statistics.blocks_
    columns = "columns" if layout is None else f"packed entries of {layout.n_blocks} blocks"
    facts = [
        ("rows", f"{statistics.n_samples_seen_:,}"),
        ("sum of weights", format_number(statistics.total_weight_)),
        (columns, str(d)),
        ("targets", str(outputs)),
        ("rows kept", f"at most {statistics.keep}" if statistics.keep else "none"),
        ("names of columns", ", ".join(names) if names else "not known"),
    ]
    unknown = "There is no network in the file, and of single rows only those that are kept."
    lead = f"Sums of products of {d} {columns} and {outputs} targets over {statistics.n_samples_seen_:,} rows."
    usage = (
        f"```python\nimport qsdp\n\nstatistics = qsdp.SufficientStatistics.load({name!r})\n"
        "problem = qsdp.TrainingProblem.from_statistics(statistics, beta=0.1)\n```"
    )
    sections = (Section("Statistics", [TextTable((), facts)]), Section("What is not known", [Paragraph(unknown)]))
    return PlainFile("statistics", lead, usage, sections)
