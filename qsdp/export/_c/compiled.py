"""Compilation of exported C code, and calls of the compiled code from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.outputs import squeezed
from qsdp._utils.validation import FloatArray
from qsdp.exceptions import ExportError, InvalidInputError, MissingPackageError
from qsdp.export._c.c_text import template_types
from qsdp.export._integers.model import IntegerModel

__all__ = ["FLAGS", "CompiledModel", "compile_model", "find_compiler"]

#: Flags with which the code compiles without a warning.
FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")

_COMPILERS = ("cc", "gcc", "clang")

#: Function that evaluates all rows of a table, compiled together with the source file.
_ROWS = Template("""\
#include <stddef.h>
#include "${name}.c"

void ${name}_rows(const ${column} *column, size_t n, ${total} *output)
{
    for (; n; n--, column += ${n_columns}, output += ${C}) {
        ${name}_outputs(column, output);
    }
}
""")


@dataclass(frozen=True, eq=False, repr=False)
class CompiledModel:
    """Exported model whose compiled C code is called from Python for whole tables.

    Attributes
    ----------
    model : IntegerModel
    """

    model: IntegerModel
    _rows: Any

    def outputs(self, X: Any) -> npt.NDArray[np.int64]:
        """Compute the integer outputs of shape (n, C) for data in the form that the original model accepts."""
        return self.evaluate(self.model.columns(X))

    def evaluate(self, columns: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Compute the integer outputs of shape (n, C) for integer columns within the input range, as on the device."""
        columns, d = np.asarray(columns), self.model.n_columns
        low, high = self.model.input_range
        if columns.dtype.kind not in "iu" or columns.shape[1:] != (d,):
            raise InvalidInputError(f"columns must be integers of shape (n, {d}); got {columns.dtype} {columns.shape}")
        if columns.size and not low <= columns.min() <= columns.max() <= high:
            raise InvalidInputError(
                f"columns must be integers from {low} to {high}; found {columns.min()}, {columns.max()}"
            )
        types = template_types(self.model, "")
        read, written = (str(types[key]).removesuffix("_t") for key in ("column", "total"))
        rows = np.ascontiguousarray(columns, dtype=read)
        outputs = np.empty((len(rows), self.model.network.n_outputs), dtype=written)
        first, last = (ctypes.c_void_p(array.ctypes.data) for array in (rows, outputs))
        self._rows(first, ctypes.c_size_t(len(rows)), last)
        return outputs.astype(np.int64)

    def scores(self, X: Any) -> FloatArray:
        """Return the outputs in the units of the model's scores, shape (n, C)."""
        return self.model.scores(self.outputs(X))

    def classes(self, X: Any) -> npt.NDArray[np.intp]:
        """Return class numbers of shape (n,)."""
        return self.model.description.decide(self.outputs(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict like the original model: labels for a classifier, else numbers."""
        description = self.model.description
        if description.classes:
            return description.predictions(self.classes(X))
        predictions: FloatArray = squeezed(self.scores(X), description.network.output_shape, axis=1)
        return predictions


def find_compiler(compiler: str | None = None) -> str:
    """Find a C compiler; raise MissingPackageError if there is none."""
    names = _COMPILERS if compiler is None else (compiler,)
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise MissingPackageError(f"no C compiler was found; install one of {', '.join(names)}")
    return path


def compile_model(
    name: str, files: Mapping[str, bytes], model: IntegerModel, compiler: str | None, level: str
) -> CompiledModel:
    """Compile exported files at an optimisation level, load them, and return the compiled model."""
    path = find_compiler(compiler)
    rows = _ROWS.substitute(template_types(model, name), n_columns=model.n_columns)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for file, contents in {**files, f"{name}_rows.c": rows.encode("ascii")}.items():
            (Path(folder) / file).write_bytes(contents)
        library = Path(folder) / f"{name}.so"
        command = [path, *FLAGS, level, "-shared", "-fPIC", "-o", str(library), str(Path(folder) / f"{name}_rows.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ExportError(f"{path} did not compile the code: {done.stderr.strip():.400}")
        # The file can be deleted once the code is loaded.
        function = getattr(ctypes.CDLL(str(library)), f"{name}_rows")
    function.restype = None
    return CompiledModel(model, function)
