"""Reports of models, from files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qsdp._utils.files import write_whole
from qsdp._utils.summary import format_count, format_share
from qsdp._utils.validation import check_integer
from qsdp.estimators.provenance import versions
from qsdp.exceptions import InvalidInputError
from qsdp.report._blocks import Paragraph, Section, TextTable
from qsdp.report._card import card, usage_of_model
from qsdp.report._content import (
    accuracy_section,
    certificate_section,
    encoding_section,
    interaction_section,
    network_section,
    sizes_section,
)
from qsdp.report._files import load_file, read_plain
from qsdp.report._html import page
from qsdp.report._measure import measure_sizes
from qsdp.report._provenance import files_table, listed, sha256_of
from qsdp.report.figures import score_name, show_score
from qsdp.tables import read_table
from qsdp.tables.scored import ScoredRows, class_names, scored_rows
from qsdp.tables.training import evaluate, inputs_of, problem_on, solution_of, split, weights_of, with_target

__all__ = ["RENDERINGS", "Report", "make_report"]


@dataclass(frozen=True)
class Report:
    """Report on a model, as an HTML page for people and as a model card for model repositories.

    Attributes
    ----------
    name : str
        Name of the model's file, without the suffix.
    lead : str
        Description of the model in a sentence or two.
    task : {"tabular-classification", "tabular-regression"} or None
        None for a file without a table.
    scores : tuple of (str, float)
        Name of each set of rows and the accuracy, or R^2, on it.
    data : str or None
        Name of the file with these rows.
    sections : tuple of Section
    usage : str
        How to use the file, as Markdown.
    """

    name: str
    lead: str
    task: str | None
    scores: tuple[tuple[str, float], ...]
    data: str | None
    sections: tuple[Section, ...]
    usage: str

    def to_html(self) -> str:
        """Return a self-contained page for wide and narrow windows, in light and dark colours."""
        return page(self.name, self.lead, self.sections)

    def to_card(self) -> str:
        """Return Markdown with a YAML head: a model card as read by the Hugging Face Hub and others."""
        return card(self.name, self.lead, self.task, self.scores, self.data, self.sections, self.usage)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file whose name ends in .html, or the card to one whose name ends in .md."""
        write_whole(path, self.rendered(Path(path).suffix))

    def rendered(self, suffix: str) -> bytes:
        """Return the contents of a file with the given suffix."""
        if suffix not in RENDERINGS:
            raise InvalidInputError(f"the name of a report must end in {' or '.join(RENDERINGS)}; got {suffix!r}")
        return RENDERINGS[suffix](self).encode()


#: Options that do not concern the model.
_OF_THE_RUN = frozenset({"keep_data", "n_jobs", "verbose", "warm_start"})

#: Renderings by file suffix.
RENDERINGS: dict[str, Callable[[Report], str]] = {".html": Report.to_html, ".md": Report.to_card}


def make_report(
    model_file: str | os.PathLike[str], data_file: str | os.PathLike[str] | None = None, *, n_draws: int = 5
) -> Report:
    """Report on the file of a `qsdp fit` model, a network, a certificate or statistics, and on what the file lacks.

    Parameters
    ----------
    model_file : str or path-like
    data_file : str or path-like, optional
        Table with columns and target, for a model of `qsdp fit`. With the table used for training, the report tells
        training rows from held-out rows and computes gaps. With another table, it scores all rows. Without a table, it
        leaves out accuracy, other sizes and effects.
    n_draws : int, default=5
        Number of networks sampled for each size, to show gap and accuracy against the number of neurons.

    Raises
    ------
    StorageError
        The file is damaged, has another version or is not a file of qsdp.
    InvalidInputError
        The data lack a column or the target, or no row has a known target. Or data are given for a file that holds no
        columns.
    """
    n_draws = check_integer("n_draws", n_draws, minimum=1)
    model, path = load_file(model_file), Path(model_file)
    if not hasattr(model, "table_"):
        plain = read_plain(model, path)
        if data_file is not None:
            raise InvalidInputError(
                f"data are for models of `qsdp fit`, which know their columns; {os.fspath(model_file)!r} is a file of "
                f"{plain.holds}"
            )
        return Report(path.stem, plain.lead, None, (), None, plain.sections, plain.usage)
    parts: list[ScoredRows] = []
    judging: list[Section] = []
    number = class_names(model) is None
    if data_file is not None:
        table = read_table(data_file, model.table_.missing)
        parts, trained = scored_rows(model, table)
        if trained and math.isnan(model.certificate_.objective):
            evaluate(model, table)
        sizes = measure_sizes(model, parts[-1], problem_on(model, table) if trained else None, n_draws)
        whole = split(model.table_, table)[0] if trained else with_target(model.table_, table)
        weights = weights_of(model.table_, whole) if model.table_.weights in whole.columns else None
        effects = model.effects(inputs_of(model, whole), sample_weight=weights)
        judging = [
            accuracy_section(model, parts),
            sizes_section(model, sizes, parts[-1]),
            interaction_section(effects, model.table_.target, parts[0].name, number=number),
        ]
    data = None if data_file is None else Path(data_file).name
    sections = [
        certificate_section(model),
        *judging[:1],
        network_section(model),
        *judging[1:],
        encoding_section(model.encoder_),
        _provenance(model, path, None if data_file is None else Path(data_file)),
    ]
    scores = tuple((one.name, one.score()) for one in parts)
    task = "tabular-regression" if number else "tabular-classification"
    return Report(path.stem, _lead(model, scores), task, scores, data, tuple(sections), usage_of_model(path.stem))


def _lead(model: Any, scores: tuple[tuple[str, float], ...]) -> str:
    network, classes = model.network_, class_names(model)
    weights = "binary" if network.levels == 2 else f"{network.levels}-level"
    size = format_count(network.n_neurons, network.n_inputs, network.n_outputs)
    what = "a number" if classes is None else f"one of {len(classes)} classes"
    text = (
        f"A network of {size} and {weights} first-layer weights, {network.n_bits:,} bits, that predicts "
        f"`{model.table_.target}`, {what}."
    )
    if scores:
        name, score = scores[-1]
        number = classes is None
        text += f" On {name}: {score_name(number=number)} {show_score(score, number=number)}."
    if not math.isnan(model.certificate_.objective):
        gap = format_share(model.certificate_.relative_gap, ".3g")
        text += f" Proven: no such network, of any width, has a training objective more than {gap} lower."
    return text


def _provenance(model: Any, model_file: Path, data_file: Path | None) -> Section:
    files = [("model", model_file.name, sha256_of(model_file))]
    if data_file is not None:
        files.append(("data", data_file.name, sha256_of(data_file)))
    source, now = model.table_, versions()
    if source.digest is not None:
        files.append(("training rows, encoded", "", source.digest))
    weighting = [text for text in (source.weights, getattr(model, "class_weight", None)) if text]
    options = {name: value for name, value in model.get_params(deep=False).items() if name not in _OF_THE_RUN}
    facts = [
        ("held out", f"{format_share(source.test_size, 'g')} of the rows, chosen by seed {source.seed}"),
        ("weights of rows", ", ".join(map(str, weighting)) or "none"),
        ("regulariser", solution_of(model)[0].regularization),
        *((name.replace("_", " "), str(value)) for name, value in sorted(options.items())),
    ]
    return Section(
        "Provenance",
        [
            files_table(files),
            TextTable((), facts, caption="Options of training."),
            Paragraph(f"Trained with {listed(model.provenance_)}. This report was made with {listed(now)}."),
        ],
    )
