"""Export of models with binary inputs to Verilog: sums of products of two bits, without multipliers or memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.atomic_files import write_into
from qsdp._utils.summary import Summarized, Summary
from qsdp._utils.validation import FloatArray, check_flag
from qsdp.exceptions import ExportError, InvalidInputError, MissingPackageError
from qsdp.export._verilog.bits import BitModel, bit_model
from qsdp.export._verilog.verilog_text import KEYWORDS, bench_text, output_width, verilog_source
from qsdp.export._verilog.words import Words, column_words

__all__ = ["VerilogSource", "to_verilog"]

_NAME = "qsdp_model"


@dataclass(frozen=True, eq=False, repr=False)
class VerilogSource(Summarized):
    """Model exported to Verilog, the result of `to_verilog`.

    Attributes
    ----------
    name : str
        Name of the file and of the module that takes bits. The module ``NAME_columns`` takes columns. The names of the
        two modules with registers end in ``_registered``.
    source : str
        Contents of ``NAME.v``, Verilog-2001.
    model : BitModel
        Exactly what the module computes: see `BitModel.bits` and `BitModel.outputs`.
    words : Words or None
        Representation of columns in ``NAME_columns``, see `Words.columns` and `Words.bits`. None without an encoding.
    """

    name: str
    source: str
    model: BitModel
    words: Words | None

    @property
    def width(self) -> int:
        """Number of bits of an output, a signed integer; enough for any inputs."""
        return output_width(self.model)

    @property
    def unit(self) -> float:
        """Factor that converts the integer outputs to scores of the model."""
        return self.model.unit

    @property
    def error(self) -> FloatArray:
        """Error bounds of shape (C,): difference of these scores from the model's."""
        return self.model.error

    def files(self) -> dict[str, bytes]:
        """Return the contents of the file by name."""
        return {f"{self.name}.v": self.source.encode("ascii")}

    def write(self, directory: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the file to an existing directory and return its path.

        Raises
        ------
        InvalidInputError
            The file exists and `force` is False. With `force`, an existing file is overwritten.
        """
        (path,) = write_into(directory, self.files(), force=force)
        return path

    def simulate(
        self, rows: npt.NDArray[Any], *, columns: bool = False, registered: bool = False
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp] | None]:
        """Simulate with Icarus Verilog and return outputs of shape (n, C) and the decisions of `BitModel.description`.

        Parameters
        ----------
        rows : array of shape (n, d)
            Bits as returned by `BitModel.bits` or, with `columns`, words as returned by `Words.columns`.
        columns : bool, default=False
            Whether to simulate the module that takes columns.
        registered : bool, default=False
            Whether to simulate the module with registers.

        Raises
        ------
        MissingPackageError
            ``iverilog`` is not installed.
        InvalidInputError
            `columns` is True for a network alone, which has no columns, or `rows` has another shape.
        """
        if shutil.which("iverilog") is None:
            raise MissingPackageError("simulate needs Icarus Verilog: install iverilog")
        words = self.words if check_flag("columns", columns) else None
        if columns and words is None:
            raise InvalidInputError("columns must be False for a network alone, whose inputs are bits")
        entries, d = np.asarray(rows), self.model.n_bits if words is None else self.model.description.n_columns
        if entries.shape[1:] != (d,) or not entries.size:
            raise InvalidInputError(f"rows must have shape (n, {d}), n >= 1; got {entries.shape}")
        bits = entries.astype(np.uint8) if words is None else words.packed(entries)
        bench = bench_text(self.name, self.model, words, len(bits), registered=check_flag("registered", registered))
        lines_of_bits = "\n".join("".join(map(str, row[::-1])) for row in bits.tolist())
        with tempfile.TemporaryDirectory() as folder:
            for file, text in {"model.v": self.source, "bench.v": bench, "rows.txt": lines_of_bits}.items():
                (Path(folder) / file).write_text(text, encoding="ascii")
            for command in (
                ["iverilog", "-g2001", "-Wall", "-o", "bench", "model.v", "bench.v"],
                ["vvp", "-n", "bench"],
            ):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise ExportError(f"{command[0]} rejected the module: {done.stderr.strip():.400}")
        lines = [line.split() for line in done.stdout.splitlines()]
        scores = [[_signed(text, self.width, k) for k in range(self.model.n_outputs)] for text, _ in lines]
        return np.array(scores, dtype=np.int64), self._chosen([choice for _, choice in lines])

    def _chosen(self, choices: list[str]) -> npt.NDArray[np.intp] | None:
        decision = self.model.description.decision
        if decision == "none":
            return None
        return np.array([int(choice, 2) for choice in choices], dtype=np.intp)

    def facts(self) -> list[tuple[str, str]]:
        """Return a readable summary of inputs, outputs and bounds, as pairs of label and text."""
        products = int((np.count_nonzero(self.model.pairs, axis=(1, 2))).sum())
        columns = [] if self.words is None else [("columns", f"{len(self.words.words)}, {self.words.width} bits")]
        return [
            *columns,
            ("inputs", f"{self.model.n_bits} bits"),
            ("outputs", f"{self.model.n_outputs} of {self.width} bits"),
            ("products", f"{products} of two bits"),
            ("error", f"{float(self.error.max()):.3g} in a score"),
        ]

    def _summary(self) -> Summary:
        return Summary(f"VerilogSource {self.name!r}", self.facts())

    def __repr__(self) -> str:
        return f"VerilogSource(name={self.name!r}, n_bits={self.model.n_bits}, width={self.width})"


def to_verilog(
    model: Any,
    *,
    name: str = _NAME,
    digits: int = 8,
    values: tuple[float, float] = (0.0, 1.0),
    scales: Mapping[str, float] | None = None,
) -> VerilogSource:
    """Export a model whose inputs are bits to Verilog-2001 modules, combinational and with registers.

    Parameters
    ----------
    model : network, estimator, pipeline or model of `qsdp fit`
        All inputs of the network must be bits, such as those for thresholds, categories and missing entries made by
        ``encoding="thresholds"``. The module ``NAME`` takes these bits; ``NAME_columns`` takes the columns of the
        table. The head of the file describes both. The bits of a column must come from one entry: no entry is above a
        threshold but below a smaller one.
    name : str, default="qsdp_model"
        Name of the module and the file; an identifier that begins with a letter.
    digits : int, default=8
        Bits of the magnitude of coefficients, 1 to 30. Fewer bits make a smaller circuit and a larger `error`.
    values : (float, float), default=(0, 1)
        For a network alone, the inputs that the bits 0 and 1 represent, such as -1 and 1.
    scales : mapping of str to float, optional
        Scale of each column, by name. The word of an entry is the integer nearest to the entry times the scale. The
        default is the power of ten that keeps one decimal more than the thresholds.

    Raises
    ------
    ExportError
        An input of the network is not a bit.

    Notes
    -----
    A quadratic function of bits is a sum of bits and of products of two bits, with integer coefficients. The circuit
    counts the bits of the coefficients by their weight and adds the counts. It needs no multiplication and no memory.
    The number of products does not depend on the number of neurons. The word of a column has the minimum number of bits
    that distinguish its thresholds or categories.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.export import to_verilog
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> verilog = to_verilog(network, name="two_neurons", values=(-1, 1))
    >>> bits = verilog.model.bits([[1, 1], [1, -1]])
    >>> verilog.model.scores(verilog.model.outputs(bits)), network.predict([[1, 1], [1, -1]])
    (array([[0.],
           [2.]]), array([0., 2.]))
    """
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or name in KEYWORDS:
        raise InvalidInputError(
            f"name, also of the file, must be an identifier of Verilog that begins with a letter; got {name!r:.60}"
        )
    converted = bit_model(model, digits=digits, values=values)
    if converted.description.encoding is None and scales is not None:
        raise InvalidInputError("scales are for columns; a network alone takes bits, see values")
    words = None if converted.description.encoding is None else column_words(converted.description, scales)
    return VerilogSource(name, verilog_source(name, converted, words), converted, words)


def _signed(text: str, width: int, k: int) -> int:
    """Decode output k, a signed integer, from the bits of all outputs, most significant bit first."""
    end = len(text) - k * width
    value = int(text[end - width : end], 2)
    return value - (1 << width) if value >> (width - 1) else value
