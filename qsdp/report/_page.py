"""The page about a model of a table."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import qsdp
from qsdp._utils.atomic_files import write_whole
from qsdp._utils.summary import format_number, format_percent
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork
from qsdp.report._content import facts_of_model, facts_of_rows, measures, scores_of
from qsdp.report._trial import script_of
from qsdp.tables import read_table
from qsdp.tables.scored import ScoredRows, scored_rows

if TYPE_CHECKING:
    import jinja2

__all__ = ["Report", "make_report"]


@dataclass(frozen=True)
class Report:
    """Report of a model of a table, as a page of HTML.

    Attributes
    ----------
    name : str
        Name of the model's file, without the suffix.
    scores : mapping of str to mapping of str to float
        Scores by measure for each set of rows. The first measure is the most informative one: "R²" for numbers; for
        classes "accuracy", or "balanced accuracy" if the largest class has at least twice the rows of the smallest.
    facts : mapping of str to object
        What the template shows.
    """

    name: str
    scores: Mapping[str, Mapping[str, float]]
    facts: Mapping[str, Any]

    def to_html(self) -> str:
        """Return a self-contained HTML page for wide and narrow windows, in light and dark colours.

        Its script predicts rows that the reader enters, see `qsdp.export.to_js`. It loads and sends nothing.
        """
        return _template().render(**self.facts, name=self.name) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file whose name ends in .html."""
        check_suffix("the name of a report", path)
        write_whole(path, self.to_html().encode())


def make_report(model_file: str | os.PathLike[str], data_file: str | os.PathLike[str] | None = None) -> Report:
    """Create a report of a model of a table.

    Parameters
    ----------
    model_file : str or path-like
        A file of `qsdp fit`, or of an estimator's `save`.
    data_file : str or path-like, optional
        Table with the columns and the target of a model of `qsdp fit`. With the table of the training, the report
        separates training rows from held-out rows, and compares the network with logistic (or ridge) regression in 8
        bits and with boosted trees. With another table, it scores all rows. Without a table, it has no scores.

    Raises
    ------
    StorageError
        The file is damaged, has another version or is not a file of qsdp.
    InvalidInputError
        The file holds another object than a model of a table, the data lack a column or the target, no row has a known
        target, or the model does not know its target because it was saved in Python.
    """
    # Imported here because it loads scikit-learn, which sizes of rivals do not need.
    from qsdp.encoding import AdditiveBlocks

    model, parts, problem = qsdp.load(model_file), list[ScoredRows](), None
    network = getattr(model, "network_", None)
    columns = isinstance(network, BilinearNetwork) and network.blocks is None
    if not columns and not isinstance(getattr(model, "encoder_", None), AdditiveBlocks):
        raise InvalidInputError(
            f"reports are for models of tables; {os.fspath(model_file)!r} holds another object: {model!r:.60}"
        )
    source = getattr(model, "table_", None)
    files = [_digested("model", model_file)]
    if data_file is not None:
        if source is None:
            raise InvalidInputError(
                f"data cannot be scored: {os.fspath(model_file)!r} was saved in Python and does not know which column "
                "is its target; leave the data out, or train with `qsdp fit`"
            )
        parts, problem = scored_rows(model, read_table(data_file, **source.reading))
        files.append(_digested("data", data_file))
    if digest := getattr(source, "digest", None):
        files.append(("training rows, encoded", "", digest))
    facts = facts_of_model(model)
    judged = facts_of_rows(parts, problem, facts["bytes"]) if parts else None
    scores = {part.name: scores_of(part, measures(parts)) for part in parts}
    facts |= {"judged": judged, "files": files, "script": script_of(model), "version": qsdp.__version__}
    return Report(Path(model_file).stem, scores, facts)


def check_suffix(what: str, path: str | os.PathLike[str]) -> None:
    """Raise unless the name of a file ends in .html."""
    if Path(path).suffix != ".html":
        raise InvalidInputError(f"{what} must end in .html; got {os.fspath(path)!r}")


def _digested(what: str, path: str | os.PathLike[str]) -> tuple[str, str, str]:
    """Return the role, the name and the SHA-256 digest of a file, or of the files of a folder, ordered by name."""
    digest = hashlib.sha256()
    for file in sorted(entry for entry in [Path(path), *Path(path).rglob("*")] if entry.is_file()):
        digest.update(file.read_bytes())
    return what, Path(path).name, digest.hexdigest()


@cache
def _template() -> jinja2.Template:
    """Return the template, which escapes all values: only its macros write markup."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("qsdp.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        digest=lambda text: b64encode(hashlib.sha256(text.encode()).digest()).decode(),
        number=format_number,
        percent=format_percent,
    )
    return environment.get_template("page.html")
