"""Checks of arguments: each raises one error that names the argument, its value and what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import check_array

from qsdp.exceptions import InvalidInputError, InvalidTypeError

FloatArray = npt.NDArray[np.float64]

_SHOWN = 60


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def check_choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the `allowed` names; the error suggests the closest one."""
    choices = sorted(allowed)
    if isinstance(value, str) and value in choices:
        return value
    listing = ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be one of {listing}; got {_show(value)}")
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidInputError(f"{name} must be one of {listing}; got {_show(value)}{hint}")


def check_integer(name: str, value: object, *, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`; booleans and fractions are refused."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be an integer >= {minimum}; got {_show(value)}")
    if value < minimum:
        raise InvalidInputError(f"{name} must be an integer >= {minimum}; got {_show(value)}")
    return int(value)


def check_real(name: str, value: object, *, minimum: float = 0.0, strict: bool = False) -> float:
    """Return `value` as a finite float that is at least (`strict`: above) `minimum`."""
    allowed = f"a finite number {'>' if strict else '>='} {minimum:g}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise InvalidTypeError(f"{name} must be {allowed}; got {_show(value)}")
    number = float(value)
    if not math.isfinite(number) or number < minimum or (strict and number == minimum):
        raise InvalidInputError(f"{name} must be {allowed}; got {_show(value)}")
    return number


def check_random_state(random_state: object) -> np.random.Generator:
    """Return a `numpy.random.Generator` from None, a seed, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral):
        return np.random.default_rng(check_integer("random_state", random_state, minimum=0))
    raise InvalidTypeError(
        "random_state must be None, a non-negative integer, a numpy Generator or a RandomState; "
        f"got {_show(random_state)}"
    )


def check_matrix(name: str, value: Any, *, n_columns: int | None = None) -> FloatArray:
    """Return `value` as a finite float64 array of shape ``(n >= 1, d >= 1)``.

    Accepts anything scikit-learn accepts as dense numeric data, pandas frames included.
    """
    if scipy.sparse.issparse(value):
        raise InvalidTypeError(
            f"{name} must be a dense array; got a sparse one, convert it with {name}.toarray()"
        )
    try:
        array = check_array(
            value, dtype=np.float64, input_name=name, ensure_min_samples=1, ensure_min_features=1
        )
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a numeric array of shape (n, d): {error}") from None
    except ValueError as error:
        raise InvalidInputError(
            f"{name} must be a numeric array of shape (n, d): {_first_line(error)}"
        ) from None
    if n_columns is not None and array.shape[1] != n_columns:
        raise InvalidInputError(f"{name} must have {n_columns} columns; got shape {array.shape}")
    return np.ascontiguousarray(array)


def check_targets(name: str, value: Any, *, length: int | None) -> FloatArray:
    """Return `value` as finite float64 targets of shape ``(n,)`` or ``(n, C)``."""
    if np.ndim(value) == 2:
        array = check_matrix(name, value)
        if length is not None and array.shape[0] != length:
            raise InvalidInputError(f"{name} must have {length} rows, as X has; got {array.shape[0]}")
        return array
    return check_vector(name, value, length=length)


def check_vector(name: str, value: Any, *, length: int | None = None) -> FloatArray:
    """Return `value` as a finite float64 array of shape ``(n,)``; ``(n, 1)`` columns are refused by name."""
    if scipy.sparse.issparse(value):
        raise InvalidTypeError(f"{name} must be a dense array; got a sparse one")
    try:
        array = check_array(value, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name=name)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a numeric array of shape (n,): {error}") from None
    except ValueError as error:
        raise InvalidInputError(
            f"{name} must be a numeric array of shape (n,): {_first_line(error)}"
        ) from None
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have shape (n,); got shape {array.shape}")
    if length is not None and array.shape[0] != length:
        raise InvalidInputError(
            f"{name} must have {length} entries, one for each row of X; got {array.shape[0]}"
        )
    return np.ascontiguousarray(array)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `array` with its write flag cleared, so that what was checked stays as it was."""
    array.flags.writeable = False
    return array
