"""Export to C99: one header and one source file with integer arithmetic and no library calls."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qsdp._utils.atomic_files import write_into
from qsdp._utils.summary import Summarized, Summary
from qsdp._utils.validation import FloatArray, check_flag, warn
from qsdp.exceptions import InvalidInputError
from qsdp.export._c.c_source import c_source
from qsdp.export._c.compiled import CompiledModel, compile_model
from qsdp.export._c.example import EXAMPLE, example_source
from qsdp.export._c.header import c_header, described_storage, state_bytes
from qsdp.export._description import ModelDescription, check_encoder, describe, is_on_blocks
from qsdp.export._integers.model import IntegerModel, integer_model

__all__ = ["CSource", "to_c"]

_NAME = "qsdp_model"


@dataclass(frozen=True, eq=False, repr=False)
class CSource(Summarized):
    """Model exported to C99, the result of `to_c`.

    Attributes
    ----------
    name : str
        Name of the files and prefix of functions and macros.
    header, source : str
        Contents of ``NAME.h`` and ``NAME.c``.
    model : IntegerModel
        Exactly what the code computes: see `IntegerModel.columns` and `IntegerModel.outputs`.
    packed : bool
        Whether weights are packed into bits.
    """

    name: str
    header: str
    source: str
    model: IntegerModel
    packed: bool = True

    @property
    def unit(self) -> FloatArray:
        """Factors of shape (C,) that convert the integer outputs to scores of the model."""
        return self.model.network.unit

    @property
    def error(self) -> FloatArray:
        """Error bounds of shape (C,): difference of these scores from the model's at the same fixed-point columns."""
        return self.model.error

    @property
    def rounding_error(self) -> FloatArray:
        """Bounds like `error`, for columns that are rounded to fixed-point numbers without crossing a threshold."""
        return self.model.rounding_error

    @property
    def state_bytes(self) -> int:
        """Bytes of memory between the samples of a series, where integers are aligned to their width; else 0."""
        return state_bytes(self.model)

    def files(self, *, example: bool = False) -> dict[str, bytes]:
        """Return the contents of the files by name, with `example` including ``main.c``; see `write`."""
        files = {f"{self.name}.h": self.header, f"{self.name}.c": self.source}
        if check_flag("example", example):
            if EXAMPLE in files:
                raise InvalidInputError(f"name must not be {self.name!r} with an example, whose file is {EXAMPLE}")
            files[EXAMPLE] = example_source(self.model, self.name)
        return {name: text.encode("ascii") for name, text in files.items()}

    def write(self, directory: str | os.PathLike[str], *, force: bool = False, example: bool = False) -> list[Path]:
        """Write the files, all or none, to an existing directory and return their paths.

        Parameters
        ----------
        directory : path
        force : bool, default=False
            Whether to overwrite existing files.
        example : bool, default=False
            Whether to write ``main.c`` as well: a program that evaluates a few rows, prints each, and exits with
            status 0 only if all outputs and decisions equal those computed by Python. The rows are spread over the
            ranges and categories of the columns; none comes from the training data.

        Raises
        ------
        InvalidInputError
            One of the files exists and `force` is False.
        """
        return write_into(directory, self.files(example=example), force=force)

    def compile(self, *, compiler: str | None = None) -> CompiledModel:
        """Compile the code, and return the compiled model, callable from Python.

        Parameters
        ----------
        compiler : str, optional
            Path of a C compiler. By default, the first of ``cc``, ``gcc`` and ``clang`` that is found.

        Raises
        ------
        MissingPackageError
            No compiler is found.
        """
        # Compilers vectorise tables of integers, but read packed bits one by one at every level tried.
        return compile_model(self.name, self.files(), self.model, compiler, "-O2" if self.packed else "-O3")

    def _summary(self) -> Summary:
        return Summary(f"CSource {self.name!r}", [("columns", str(self.model.n_columns)), *self.facts()])

    def facts(self) -> list[tuple[str, str]]:
        """Return a readable summary of weights, sums and bounds, as pairs of label and text."""
        layout, worst = self.model.layout, int(self.error.argmax())
        facts = [
            ("weights", described_storage(self.model, self.packed)),
            ("sums", f"{layout.sum_width} bits"),
            ("error", f"{self.error[worst]:.3g} in a score"),
        ]
        if self.model.series is not None:
            facts.insert(2, ("memory", f"{self.state_bytes} bytes between samples"))
        if self.model.inputs is not None:
            facts.append(
                ("rounding", f"{self.rounding_error[worst]:.3g} in a score, error included, of rounded columns")
            )
        return facts

    def __repr__(self) -> str:
        return f"CSource(name={self.name!r}, layout={self.model.layout.name!r}, width={self.model.layout.sum_width})"


def to_c(
    model: Any,
    *,
    name: str = _NAME,
    input_range: Sequence[int] | None = None,
    scales: Mapping[str, float] | None = None,
    column_width: int | None = None,
    width: int = 64,
    layout: str = "auto",
    packed: bool = True,
    encoder: Any = None,
) -> CSource:
    """Export a model to C99 code without floats, allocation or library calls.

    Parameters
    ----------
    model : network, estimator, pipeline or model of `qsdp fit`
        A `BilinearNetwork`, `PolynomialNetwork` or `IntegerForm` takes integer inputs. A fitted
        `QuantizedNetworkClassifier` or `QuantizedNetworkRegressor`, alone or at the end of a pipeline, takes columns:
        fixed-point numbers and codes of categories. One whose encoding is `qsdp.encoding.Patches` or `Windows`, or a
        network or form on blocks with its `encoder`, takes images of bytes, or series of 16-bit integers.
    name : str, default="qsdp_model"
        Name of the files and prefix of functions and macros; a C identifier.
    input_range : (int, int), optional
        Smallest and largest input of a network alone; by default, those of 16 bits. Inputs outside it may overflow.
    scales : mapping of str to float, optional
        Scale of each column, by name. The fixed-point number of an entry is the integer nearest to the entry times the
        scale. The default is a power of ten: as far as 2^20 steps and `column_width` allow, it divides the range of a
        number into at least 6554 steps and keeps one decimal more than the thresholds. Channels of series are named
        "channel 0", "channel 1" and so on; 1 is the scale of a sensor whose integers the model was trained on.
    column_width : {16, 32}, optional
        Bits of the columns of an estimator; 32 by default, and 16 for series. 16 makes the code smaller, most of all on
        8-bit machines. Decimals that do not fit are rounded; ``rounding_error`` bounds the effect, unless
        rounding moves an entry across a threshold.
    width : {16, 32, 64}
        Bits of the widest accumulator allowed. Numbers that are not exact in integers are rounded to between 6 and 15
        bits: the maximum with which every sum provably fits.
    layout : {"auto", "neurons", "form"}
        Whether to store the weights of the neurons, of one bit each if binary, and those of inputs beside them as
        integers, or the integer quadratic form that computes the same outputs. "auto" chooses the smaller one.
    packed : bool, default=True
        Whether weights are packed into bits. Otherwise they are stored as the narrowest integers that hold them, of at
        least 8 bits, which suits processors with vector instructions. Networks on images are always packed.
    encoder : Patches or Windows, optional
        The fitted encoder of a network on blocks alone, such as one that `qsdp.refit` rounded to a few bits.

    Raises
    ------
    ExportError
        Sums do not fit into `width`, a column does not fit into `column_width`, or a transformer mixes columns.

    Warns
    -----
    QSDPWarning
        The proven bound on the error of a score exceeds the range of the scores on the training rows.

    Notes
    -----
    The header has a macro for each column of numbers, which converts an entry as `IntegerModel.columns` does: numbers
    beyond the integers of a column, including infinities, become the largest integer of their sign, and nan stands for
    a missing entry. Units, bounds, and names of columns and classes are macros, too. The code compiles without a
    warning with ``-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow``, and as C++ with ``-Wall -Wextra``.

    ``NAME_outputs(column, output)`` computes the integer outputs, which are scores in multiples of a unit given in the
    header. For a classifier, ``NAME_class(column)`` returns the number of the class. It agrees with the model's
    where scores are farther apart than the bounds in the header. Second-layer weights are exact if they are multiples
    of the smallest one that fit into the bits of rounding (see `width`), as weights of equal magnitude do. Then outputs
    for integer inputs and a bilinear or purely quadratic activation are exact, too, if the bias is also such a
    multiple.

    Series arrive sample by sample: ``NAME_push(state, column)`` takes a sample of all channels, and returns -1 or, with
    the last sample of a series, the class; outputs are in ``state->output`` then. All that it remembers is in a state
    of fixed size, which begins as zeros, and the next sample begins the next series. Channels that the encoder
    standardises are clipped at 16 standard deviations, between which the bounds hold.

    Neurons on images read their values from tables of sums, of at most 2 kB on the stack, where there are many neurons
    and patches have at most 15 entries or so.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.export import to_c
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> code = to_c(network, input_range=(-100, 100))
    >>> code
    CSource(name='qsdp_model', layout='form', width=32)
    >>> code.header[code.header.index("void") :].splitlines()[0]
    'void qsdp_model_outputs(const int8_t column[2], int32_t output[1]);'
    >>> code.model.outputs(code.model.columns([[3, 1]])) * code.unit, float(code.error[0])
    (array([[6.]]), 0.0)
    """
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        raise InvalidInputError(
            f"name, also of the files, must be a C identifier that begins with a letter; got {name!r:.60}"
        )
    packed = check_flag("packed", packed)
    description = describe(model, encoder=encoder, blocks=True)
    if is_on_blocks(description.network):
        of_series = {"scales": scales, "column_width": column_width}
        _check_blocks(description, {"input_range": input_range}, of_series, packed)
    quantized = integer_model(
        description,
        input_range=input_range,
        scales=scales,
        column_width=column_width,
        width=width,
        layout=layout,
    )
    _warn_of_error(quantized)
    header, source = (write(quantized, name, packed=packed) for write in (c_header, c_source))
    return CSource(name, header, source, quantized, packed)


def _warn_of_error(model: IntegerModel) -> None:
    """Warn if the bound on the error of a score is larger than the range of the scores in training."""
    if (scores := model.description.scores_in_training) is None:
        return
    low, high = scores
    span = high - low
    wide = np.flatnonzero((span > 0.0) & (model.rounding_error > span))
    if not wide.size:
        return
    worst = wide[np.argmax(model.rounding_error[wide] / span[wide])]
    remedies = []
    if model.layout.sum_width < 64:
        remedies.append("a larger width")
    if model.inputs is not None and model.series is None and model.inputs.max_entry < 2**16:
        remedies.append("column_width=32")
    if model.series is not None:
        remedies.append("series with as many windows in every segment")
    take = f"; take {' or '.join(remedies)}, or compare" if remedies else "; compare"
    warn(
        f"the proven error bound of output {worst}, {model.rounding_error[worst]:.3g}, exceeds the range of its scores "
        f"on the training rows, {low[worst]:.3g} to {high[worst]:.3g}, so it proves nothing about predictions{take} "
        "compile().predict(X) with the model's predictions"
    )


def _check_blocks(
    description: ModelDescription, never: dict[str, Any], of_series: dict[str, Any], packed: bool
) -> None:
    """Refuse arguments that are not for a network on images or series."""
    encoder = check_encoder(description, series=True)
    series = hasattr(encoder, "lags")
    if passed := [name for name, value in (never if series else never | of_series).items() if value is not None]:
        what = "series, whose samples have scales" if series else "images, which takes bytes"
        raise InvalidInputError(f"{passed[0]} is not for a network on {what}")
    if not packed:
        raise InvalidInputError("packed must be True for a network on images or series")
