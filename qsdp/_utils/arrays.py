"""Array libraries for large matrix products: NumPy on the CPU, or torch on a device.

Products take arrays of the library and return NumPy arrays in double precision. torch is imported only if a device is
requested.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import symmetrised
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidInputError, InvalidTypeError, UnavailableSolverError

__all__ = ["LARGEST_SINGLE", "ON_PROCESSOR", "ArrayLibrary", "check_device", "library_of", "squared_rows"]

#: Largest entry of data for products in single precision, where sums of 1 / eps fourth powers must fit.
LARGEST_SINGLE = float(np.finfo(np.float32).max * np.finfo(np.float32).eps) ** 0.25

#: Floats of a temporary array on a device, where only large products reach full speed.
_DEVICE_FLOATS = 2**24


class ArrayLibrary:
    """NumPy as array library; the base class of other array libraries.

    Functions that torch has by the same name are called through `_module`, with new arrays as in `_new`. Arrays that
    already have the library's precision are not copied.
    """

    _module: Any = np

    def __init__(self, dtype: Any = np.float64) -> None:
        self.dtype = dtype
        self._new: dict[str, Any] = {"dtype": dtype}

    def to_device(self, array: Any) -> Any:
        """Convert an array to one of the library, in its precision and on its device."""
        return np.asarray(array, dtype=self.dtype)

    def to_numpy(self, array: Any) -> FloatArray:
        """Convert an array of the library to a NumPy array in double precision."""
        return np.asarray(array, dtype=np.float64)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return an array of zeros in double precision, an accumulator for products."""
        return self._module.zeros(shape, **{**self._new, "dtype": self._module.float64})

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return an uninitialised array in the library's precision."""
        return self._module.empty(shape, **self._new)

    def multiply(self, first: Any, second: Any, into: Any) -> None:
        """Write the elementwise product of two arrays to the array (or view) `into`."""
        self._module.multiply(first, second, out=into)

    def chunks(self, count: int, floats: int, minimum: int = 1) -> list[slice]:
        """Return slices of `count` items of `floats` floats each, to be processed at once."""
        return chunks(count, floats, minimum)


class _Torch(ArrayLibrary):
    def __init__(self, dtype: Any, device: str) -> None:
        super().__init__(dtype)
        try:
            torch = importlib.import_module("torch")
        except ImportError as error:
            raise UnavailableSolverError(f"device={device!r} needs torch: pip install torch") from error
        self._module = torch
        try:
            self._new = {"dtype": getattr(torch, np.dtype(dtype).name), "device": torch.device(device)}
            # Copy there and back: the device "meta" keeps no numbers, and others do not support this precision.
            self.empty((1,)).cpu()
        except (RuntimeError, AssertionError, TypeError) as error:
            raise InvalidInputError(f"device {device!r} is not available to torch: {error}") from error

    def to_device(self, array: Any) -> Any:
        if not isinstance(array, self._module.Tensor):
            # Read-only arrays are copied, because torch would share their memory.
            array = np.asarray(array)
            array = np.ascontiguousarray(array if array.flags.writeable else array.copy())
        return self._module.as_tensor(array, **self._new)

    def to_numpy(self, array: Any) -> FloatArray:
        return np.asarray(array.cpu().numpy(), dtype=np.float64)

    def chunks(self, count: int, floats: int, minimum: int = 1) -> list[slice]:
        return chunks(count, floats, minimum, work=_DEVICE_FLOATS)


#: NumPy, in double precision.
ON_PROCESSOR = ArrayLibrary()


def check_device(device: object) -> str | None:
    """Check the argument `device`, a torch device as a string or None, and return it.

    Raises
    ------
    InvalidTypeError
        It is neither a string nor None.
    UnavailableSolverError, InvalidInputError
        torch is not installed, or has no such device.
    """
    if device is None:
        return None
    if not isinstance(device, str):
        raise InvalidTypeError(f"device must be a string or None; got {type(device).__name__}")
    library_of(device)
    return device


def library_of(device: str | None = None, dtype: Any = np.float64) -> ArrayLibrary:
    """Create the array library for a device: NumPy for None, else torch on a device such as "cuda".

    Raises
    ------
    UnavailableSolverError
        torch is not installed.
    InvalidInputError
        It has no such device.
    """
    return ArrayLibrary(dtype) if device is None else _Torch(dtype, device)


def squared_rows(X: npt.NDArray[Any], weights: FloatArray) -> FloatArray:
    r"""Compute :math:`X^T \mathrm{Diag}(w) X`, symmetric, by chunks of rows of X in its precision."""
    total = None
    for rows in chunks(*X.shape):
        # This order keeps rows of a C-contiguous array, times a column, contiguous for the product.
        product = (X[rows].T @ (weights[rows, None].astype(X.dtype, copy=False) * X[rows])).astype(float, copy=False)
        # The sum starts from the first product: zeros would take another matrix, a large one for wide data.
        total = product if total is None else np.add(total, product, out=total)
    return np.zeros((X.shape[1],) * 2) if total is None else symmetrised(total)
