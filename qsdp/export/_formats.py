"""Export formats of the command line, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qsdp._utils.summary import first_few
from qsdp.export._c.c_export import to_c
from qsdp.export._c.example import EXAMPLE
from qsdp.export._graphs.onnx_export import to_onnx
from qsdp.export._javascript.javascript_export import to_js
from qsdp.export._verilog.verilog_export import to_verilog

__all__ = ["FORMATS", "ExportFormat", "ExportedFiles"]

#: Metadata of graphs that are shown; there may be too many names of columns and classes.
_NUMBERS = ("unit", "error", "input_range")


@dataclass(frozen=True)
class ExportedFiles:
    """Exported model: the contents of its files, and facts about it.

    Attributes
    ----------
    contents : mapping of str to bytes
        Contents of the files, by name.
    facts : sequence of (str, str)
        Labels and readable texts.
    """

    contents: Mapping[str, bytes]
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ExportFormat:
    """Format of `qsdp export`.

    Attributes
    ----------
    suffixes : tuple of str
        Suffixes of the files; the first one is that of the requested name.
    export : callable
        Function of a model, as for `describe`, and the name of its files without suffix; returns `ExportedFiles`.
    options : tuple of str
        Names of the further keyword arguments of `export`.
    extra : mapping of str to str
        Names of the files that an option adds, by option.
    """

    suffixes: tuple[str, ...]
    export: Callable[..., ExportedFiles]
    options: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def files(self, name: str, options: Collection[str] = ()) -> list[str]:
        """Return the names of the files that `export` creates with these options."""
        return [
            *(f"{name}{suffix}" for suffix in self.suffixes),
            *(self.extra[option] for option in options if option in self.extra),
        ]


def _as_source(convert: Callable[..., Any]) -> Callable[..., ExportedFiles]:
    def export(model: Any, name: str, *, example: bool = False, **options: Any) -> ExportedFiles:
        code = convert(model, name=name, **options)
        return ExportedFiles(code.files(example=True) if example else code.files(), code.facts())

    return export


def _as_graph(convert: Callable[[Any], Any]) -> Callable[[Any, str], ExportedFiles]:
    def export(model: Any, name: str) -> ExportedFiles:
        graph = convert(model)
        contents: bytes = graph.SerializeToString()
        properties = {entry.key: entry.value for entry in graph.metadata_props}
        facts = [
            ("inputs", first_few([tensor.name for tensor in graph.graph.input])),
            ("outputs", ", ".join(tensor.name for tensor in graph.graph.output)),
            *((key.replace("_", " "), text) for key, text in properties.items() if key in _NUMBERS),
            ("size", f"{len(contents)} bytes"),
        ]
        return ExportedFiles({f"{name}.onnx": contents}, facts)

    return export


FORMATS: dict[str, ExportFormat] = {
    "c": ExportFormat((".c", ".h"), _as_source(to_c), ("width", "column_width", "example"), {"example": EXAMPLE}),
    "js": ExportFormat((".js", ".d.ts"), _as_source(to_js)),
    "onnx": ExportFormat((".onnx",), _as_graph(to_onnx)),
    "verilog": ExportFormat((".v",), _as_source(to_verilog)),
}
