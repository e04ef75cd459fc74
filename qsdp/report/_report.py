"""Reports of models, from files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qsdp._utils.files import write_whole
from qsdp._utils.summary import format_count, format_share
from qsdp._utils.validation import check_integer
from qsdp.certificates import Certificate
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
from qsdp.report._measure import ScoredRows, measure_sizes, scored_rows
from qsdp.report._provenance import files_table, listed, sha256_of
from qsdp.report.figures import score_name, show_score
from qsdp.tabular import TabularModel, read_table, versions

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
    if not isinstance(model, TabularModel):
        plain = read_plain(model, path)
        if data_file is not None:
            raise InvalidInputError(
                f"data are for models of `qsdp fit`, which know their columns; {os.fspath(model_file)!r} is a file of "
                f"{plain.holds}"
            )
        return Report(path.stem, plain.lead, None, (), None, plain.sections, plain.usage)
    parts: list[ScoredRows] = []
    judging: list[Section] = []
    if data_file is not None:
        table = read_table(data_file, frozenset(model.markers))
        parts, trained = scored_rows(model, table)
        if trained and model.objective is None:
            model = model.evaluated(table)
        sizes = measure_sizes(model, parts[-1], table if trained else None, n_draws)
        whole = model.split(table)[0] if trained else table.known(model.target.name)
        judging = [
            accuracy_section(model, parts),
            sizes_section(model, sizes, parts[-1]),
            interaction_section(
                model.effects(whole), model.target.name, parts[0].name, number=model.target.classes is None
            ),
        ]
    data = None if data_file is None else Path(data_file).name
    sections = [
        certificate_section(model),
        *judging[:1],
        network_section(model),
        *judging[1:],
        encoding_section(model.encoder),
        _provenance(model, path, None if data_file is None else Path(data_file)),
    ]
    scores = tuple((one.name, one.score(model.network)) for one in parts)
    task = "tabular-regression" if model.target.classes is None else "tabular-classification"
    return Report(path.stem, _lead(model, scores), task, scores, data, tuple(sections), usage_of_model(path.stem))


def _lead(model: TabularModel, scores: tuple[tuple[str, float], ...]) -> str:
    network, classes = model.network, model.target.classes
    weights = "binary" if network.levels == 2 else f"{network.levels}-level"
    size = format_count(network.n_neurons, network.n_inputs, network.n_outputs)
    what = "a number" if classes is None else f"one of {len(classes)} classes"
    text = (
        f"A network of {size} and {weights} first-layer weights, {network.n_bits:,} bits, that predicts "
        f"`{model.target.name}`, {what}."
    )
    if scores:
        name, score = scores[-1]
        number = classes is None
        text += f" On {name}: {score_name(number=number)} {show_score(score, number=number)}."
    if model.objective is not None:
        gap = format_share(Certificate(model.lower_bound, model.objective).relative_gap, ".3g")
        text += f" Proven: no such network, of any width, has a training objective more than {gap} lower."
    return text


def _provenance(model: TabularModel, model_file: Path, data_file: Path | None) -> Section:
    files = [("model", model_file.name, sha256_of(model_file))]
    if data_file is not None:
        files.append(("data", data_file.name, sha256_of(data_file)))
    files.append(("training rows, encoded", "", model.digest))
    now = versions()
    then = {name: version for name, version in model.provenance.items() if name in now}
    weighting = [text for text in (model.weighting.column, model.weighting.class_weight) if text]
    held = f"{format_share(model.holdout.test_size, 'g')} of the rows, chosen by seed {model.holdout.seed}"
    facts = [
        ("held out", held),
        ("weights of rows", ", ".join(weighting) or "none"),
        ("regulariser", model.solution.regularization),
        *((name.replace("_", " "), text) for name, text in model.provenance.items() if name not in now),
    ]
    return Section(
        "Provenance",
        [
            files_table(files),
            TextTable((), facts, caption="Options of training."),
            Paragraph(f"Trained with {listed(then)}. This report was made with {listed(now)}."),
        ],
    )
