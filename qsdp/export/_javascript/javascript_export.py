"""Export to JavaScript: one module for browsers and Node, with TypeScript declarations."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from qsdp._utils.atomic_files import write_into
from qsdp._utils.summary import Summarized, Summary
from qsdp.encoding.steps import identity
from qsdp.exceptions import ExportError
from qsdp.export._description import ModelDescription, describe, described, is_on_blocks
from qsdp.export._javascript.data import columns_data, effects_data, image_data, network_data, output_names
from qsdp.export._javascript.declarations import declarations

__all__ = ["JavaScriptModule", "to_js"]

#: Integers beyond these are not exact in JavaScript.
_LARGEST = 2**53


@dataclass(frozen=True, repr=False)
class JavaScriptModule(Summarized):
    """Model exported to a JavaScript module, the result of `to_js`.

    Attributes
    ----------
    name : str
        Name of the files.
    source : str
        Contents of ``NAME.js``: ASCII text without dependencies.
    declarations : str
        Contents of ``NAME.d.ts``: the types of what the module exports, for TypeScript and editors.
    exports : tuple of str
        Names that the module exports.
    n_data : int
        Bytes of `source` that hold the model; the others are code.
    """

    name: str
    source: str
    declarations: str
    exports: tuple[str, ...]
    n_data: int

    @property
    def n_code(self) -> int:
        """Bytes of `source` that are code."""
        return len(self.source) - self.n_data

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files by name."""
        return {f"{self.name}.js": self.source.encode("ascii"), f"{self.name}.d.ts": self.declarations.encode()}

    def write(self, directory: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write the files, all or none, to an existing directory and return their paths.

        Raises
        ------
        InvalidInputError
            One of the files exists and `force` is False.
        """
        return write_into(directory, self.files(), force=force)

    def facts(self) -> list[tuple[str, str]]:
        """Return a readable summary, as pairs of label and text."""
        return [("exports", ", ".join(self.exports)), ("size", f"{self.n_data} bytes of model, {self.n_code} of code")]

    def _summary(self) -> Summary:
        return Summary(f"JavaScriptModule {self.name!r}", self.facts())

    def __repr__(self) -> str:
        return f"JavaScriptModule(name={self.name!r}, n_data={self.n_data}, n_code={self.n_code})"


def to_js(model: Any, *, name: str = "qsdp_model", encoder: Any = None) -> JavaScriptModule:
    """Export a model to one ES module without dependencies, for browsers and Node, with TypeScript declarations.

    Parameters
    ----------
    model : network, estimator or pipeline
        A `BilinearNetwork`, `PolynomialNetwork` or `IntegerForm`, which takes arrays of numbers; a fitted
        `QuantizedNetworkClassifier` or `QuantizedNetworkRegressor`, alone or at the end of a pipeline, which takes
        rows of a table. A network or form on blocks with its `encoder`, or an estimator whose encoding is
        `qsdp.encoding.Patches`, takes images.
    name : str, default="qsdp_model"
        Name of the files.
    encoder : Patches, optional
        The fitted encoder of a network on blocks without an estimator.

    Returns
    -------
    JavaScriptModule
        ``predict(row)`` returns what `predict` does: a label, a number, or an array of numbers. ``scores(row)`` returns
        `decision_function` of a classifier, ``predictProba(row)`` an array of probabilities in the order of
        ``classes``, and ``contributions(row)`` the contributions of columns and pairs of columns, as `contributions` of
        the estimator. ``columns`` has name, type, unit, categories and range in training of every column, and the
        limits to which its entries are clipped. A module of a network alone has ``predict`` and ``columns``. One of
        images has ``shape``, which is height, width and channels, in place of ``columns``, and its ``contributions``
        are those of regions.

    Raises
    ------
    ExportError
        A transformer of the pipeline mixes columns, a label is an integer beyond 2^53, which JavaScript would round, or
        blocks are not those of `Patches`.

    Notes
    -----
    A row is an object by names of the columns, such as parsed JSON, or an array. Entries are numbers, booleans, null
    where an entry is missing, and text, which is read by the rule of Python in the kind of its column: "12.5" is a
    number, "2024-01-31" a date, "TRUE" a truth value, "NA" is missing. A missing column or an entry that cannot be read
    is an error that names the column. An unknown category sets none of the bits and warns on the console, as in Python;
    ``predict(row, { unknown: "ignore" })`` is silent, and ``"error"`` makes it an error. Any other option is an error.
    Numbers beyond the ``limits`` of their column are clipped, as in Python.

    An image is an array of numbers, flat or nested by rows, columns and channels, in the unit of training. Another
    size, or a pixel that is not a finite number, is an error.

    Arithmetic is in double precision, as in Python, but sums in another order: scores agree to about 1e-15 of the
    largest term, labels wherever scores do not tie within that.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.export import to_js
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> module = to_js(qsdp.QuantizedNetworkClassifier(beta="5%", random_state=0).fit(X, y))
    >>> module.exports
    ('classes', 'columns', 'contributions', 'predict', 'predictProba', 'scores')
    """
    description = describe(model, encoder=encoder, blocks=True)
    blocks = is_on_blocks(description.network)
    data = _answers_data(description) | (image_data if blocks else _table_data)(description)
    parts = ["values", *(["images"] if blocks else ["columns", "network"]), "answers"]
    exports = ["shape" if blocks else "columns", "predict"]
    if description.classes:
        exports += ["classes", "scores"]
    if description.link != "none":
        exports.append("predictProba")
    if blocks or description.moments is not None:
        exports.append("contributions")
        parts += [] if blocks else ["contributions"]
    exports.sort()
    # A page may hold the module: text that closes a script must not occur in it.
    stored = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    folder = files("qsdp.export").joinpath("_javascript")
    source = (
        f"// {described(description.network).capitalize()}, made by qsdp.\nconst MODEL = {stored};\n\n"
        + "\n".join(folder.joinpath(f"{part}.js").read_text() for part in parts)
        + f"\nexport {{ {', '.join(exports)} }};\n"
    )
    return JavaScriptModule(name, source, declarations(description, exports), tuple(exports), len(stored))


def _answers_data(description: ModelDescription) -> dict[str, Any]:
    """Build the part of the data that turns scores into answers, as JSON values."""
    data: dict[str, Any] = {
        "several": bool(description.network.output_shape),
        # A network alone predicts its outputs, as in Python.
        "decision": description.decision if description.classes else "none",
        "link": description.link,
    }
    if description.classes:
        data["classes"] = [_exact(label) for label in description.classes]
    return data


def _table_data(description: ModelDescription) -> dict[str, Any]:
    """Return network and columns, as JSON values."""
    network, encoding = description.network, description.encoding
    data: dict[str, Any] = {
        "width": network.n_inputs if encoding is None else encoding.width,
        "network": network_data(description),
    }
    if encoding is None:
        return data
    names = [column.name for column in encoding.columns]
    data["columns"] = columns_data(description)
    if encoding != identity(names):
        data["fills"] = [column.fill for column in encoding.columns]
        fields = ("position", "kind", "value", "center", "scale", "low", "high")
        rows = [[getattr(expression, field) for field in fields] for expression in encoding.expressions]
        codes = [column.categories and list(column.categories) for column in encoding.columns]
        for row in rows:
            if row[1] == "equals":
                row[2] = codes[row[0]].index(row[2])
            if row[-1] is None:
                del row[-2:]
        data["inputs"] = rows
    if description.moments is not None:
        data["effects"], data["effectOutputs"] = effects_data(description), output_names(description)
    return data


def _exact(label: Any) -> Any:
    if isinstance(label, int) and abs(label) > _LARGEST:
        raise ExportError(f"a label is {label}, which JavaScript would round; use text instead")
    return label
