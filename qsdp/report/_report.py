"""Reports on files of models, networks, certificates and statistics."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qsdp._utils.files import write_whole
from qsdp._utils.validation import check_integer
from qsdp.estimators.provenance import versions
from qsdp.exceptions import InvalidInputError
from qsdp.report._content import facts_of_model, measured, measures
from qsdp.report._files import facts_of_file, load_file
from qsdp.report._model import judge
from qsdp.report._rendering import RENDERINGS, render
from qsdp.report._trial import script_of
from qsdp.tables.scored import class_names

__all__ = ["Report", "make_report"]

#: Names of measures in model cards.
_METRICS = {"R²": "r_squared", "AUC": "roc_auc", "balanced accuracy": "balanced_accuracy"}


@dataclass(frozen=True)
class Report:
    """Report on a model, as an HTML page for readers and as a model card for model repositories.

    Attributes
    ----------
    name : str
        Name of the model's file, without the suffix.
    kind : {"model", "network", "certificate", "statistics"}
    task : {"tabular-classification", "tabular-regression", "image-classification"} or None
        None for a file that is not a model, and for other models of images and series.
    scores : mapping of str to mapping of str to float
        Scores by measure for each set of rows. The first measure is the most informative one: "R²" for numbers; for
        classes "accuracy", or "AUC" or "balanced accuracy" if the largest class has at least twice the rows of the
        smallest.
    facts : mapping of str to object
        What the templates show.
    """

    name: str
    kind: str
    task: str | None
    scores: Mapping[str, Mapping[str, float]]
    facts: Mapping[str, Any]

    def to_html(self) -> str:
        """Return a self-contained HTML page for wide and narrow windows, in light and dark colours.

        The page of a model of a table has a script that predicts rows which the reader enters, see `qsdp.export.to_js`.
        """
        return self.rendered(".html")

    def to_card(self) -> str:
        """Return Markdown with a YAML head: a model card as read by the Hugging Face Hub and others."""
        return self.rendered(".md")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file whose name ends in .html, or the card to one whose name ends in .md."""
        write_whole(path, self.rendered(Path(path).suffix).encode())

    def rendered(self, suffix: str) -> str:
        """Return the text of a file with the given suffix."""
        if suffix not in RENDERINGS:
            raise InvalidInputError(f"the name of a report must end in {' or '.join(RENDERINGS)}; got {suffix!r}")
        results = [
            (rows, {_METRICS.get(name, name): round(value, 6) for name, value in part.items() if math.isfinite(value)})
            for rows, part in self.scores.items()
        ]
        about = {"name": self.name, "kind": self.kind, "task": self.task, "results": results}
        return render(suffix, {**self.facts, **about})


def make_report(
    model_file: str | os.PathLike[str], data_file: str | os.PathLike[str] | None = None, *, n_draws: int = 5
) -> Report:
    """Create a report on the file of a model (and its data), a network, a certificate or statistics.

    Parameters
    ----------
    model_file : str or path-like
        A file of `qsdp fit`, of an estimator's `save`, or of a network, a certificate or statistics.
    data_file : str or path-like, optional
        Table with columns and target, for a model of `qsdp fit`. For an estimator that was saved in Python, arrays X, y
        and maybe sample_weight as `numpy.savez` writes them. With the data used for training, the report tells
        training rows from held-out rows and computes gaps. With other data, it scores all rows. Without data, it
        leaves out accuracy, other sizes and effects.
    n_draws : int, default=5
        Number of networks sampled for each size, to show gap and accuracy against the number of neurons.

    Raises
    ------
    StorageError
        The file is damaged, has another version or is not a file of qsdp.
    InvalidInputError
        The data lack a column or the target, or no row has a known target. Or data are given for a file of another
        kind.
    """
    n_draws = check_integer("n_draws", n_draws, minimum=1)
    stored, name = load_file(model_file), Path(model_file).stem
    facts: dict[str, Any] = {"file": Path(model_file).name, "made_with": versions(), "options": [], "trained_with": {}}
    facts["script"] = None
    plain = facts_of_file(stored)
    if plain is not None:
        kind, found = plain
        if data_file is not None:
            raise InvalidInputError(
                f"data are for models; {os.fspath(model_file)!r} is a file of {kind}, without the meaning of its inputs"
            )
        return Report(name, kind, None, {}, facts | found | {"files": [_digested(kind, model_file)]})
    model, judged = stored, None
    files, scores = [_digested("model", model_file)], dict[str, dict[str, float]]()
    if data_file is not None:
        judged = judge(model, data_file)
        scores = {
            part.name: {measure: measured(part, measure) for measure in measures(judged)} for part in judged.parts
        }
        files.append(_digested("data", data_file))
        facts |= {"data": Path(data_file).name, "data_type": Path(data_file).suffix[1:]}
    if digest := getattr(getattr(model, "table_", None), "digest", None):
        files.append(("training rows, encoded", "", digest))
    facts |= facts_of_model(model, judged, n_draws) | {"files": files, "script": script_of(model)}
    return Report(name, "model", _task(model), scores, facts)


def _task(model: Any) -> str | None:
    """Return the name of the task in model repositories, which have none for numbers predicted from images."""
    # Imported here because they load scikit-learn, which the options of commands do not need.
    from qsdp.encoding import Patches
    from qsdp.estimators.inputs import makes_blocks

    what = "regression" if class_names(model) is None else "classification"
    if not makes_blocks(model.encoder_):
        return f"tabular-{what}"
    return "image-classification" if isinstance(model.encoder_, Patches) and what == "classification" else None


def _digested(what: str, path: str | os.PathLike[str]) -> tuple[str, str, str]:
    """Return the role, the name and the SHA-256 digest of a file, or of the files of a folder, ordered by name."""
    digest = hashlib.sha256()
    for file in sorted(one for one in [Path(path), *Path(path).rglob("*")] if one.is_file()):
        digest.update(file.read_bytes())
    return what, Path(path).name, digest.hexdigest()
