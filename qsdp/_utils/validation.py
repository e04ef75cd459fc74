"""Validation of arguments; errors name the argument, its value and the allowed values."""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from numbers import Integral, Real
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Magnitudes whose squares, products and sums stay representable in double precision.
SMALLEST, LARGEST = 1e-100, 1e100

#: The argument of `check_random_state`.
RandomState = int | np.random.Generator | np.random.RandomState | None


def _show(value: object) -> str:
    return f"{value!r:.60}"


def check_choice(name: str, value: object, allowed: Iterable[str], excluded: Mapping[str, str] | None = None) -> str:
    """Check that `value` is one of the `allowed` names; the error suggests the closest one.

    The error for an `excluded` name states the reason.
    """
    choices = sorted(allowed)
    if isinstance(value, str) and value in choices:
        return value
    listing = ", ".join(repr(choice) for choice in choices)
    if isinstance(value, str) and excluded and value in excluded:
        raise InvalidInputError(f"{name} must be one of {listing}; {value!r} is excluded: {excluded[value]}")
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be one of {listing}; got {_show(value)}")
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidInputError(f"{name} must be one of {listing}; got {_show(value)}{hint}")


def check_integer(name: str, value: object, *, minimum: int, maximum: int | None = None) -> int:
    """Check an integer in ``minimum .. maximum``, and return an int; integral floats are accepted, booleans are not."""
    allowed = f"an integer >= {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    if not _is_integral(value):
        raise InvalidTypeError(f"{name} must be {allowed}; got {_show(value)}")
    number: int = int(value)  # type: ignore[call-overload]
    if number < minimum or (maximum is not None and number > maximum):
        raise InvalidInputError(f"{name} must be {allowed}; got {_show(value)}")
    return number


def check_real(name: str, value: object, *, minimum: float = 0.0, strict: bool = False) -> float:
    """Check a finite number that is at least (`strict`: above) `minimum`, and return a float."""
    allowed = "a finite number"
    if minimum > -math.inf:
        allowed += f" {'>' if strict else '>='} {minimum:g}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, Decimal)):
        raise InvalidTypeError(f"{name} must be {allowed}; got {_show(value)}")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        # Integers beyond the range of floats, and signalling NaNs of Decimal.
        number = math.nan
    if not math.isfinite(number) or number < minimum or (strict and number == minimum):
        raise InvalidInputError(f"{name} must be {allowed}; got {_show(value)}")
    return number


def check_beta(name: str, value: object) -> float:
    """Check a penalty, a finite number above zero, and return a float."""
    try:
        return check_real(name, value, strict=True)
    except InvalidTypeError:
        raise
    except InvalidInputError as error:
        remedy = "; for nearly no penalty take 1e-6 times qsdp.beta_max(problem)"
        raise InvalidInputError(f"{error}{remedy}") from None


def _is_integral(value: object) -> bool:
    """Whether `value` is an integer or an integral float, such as an entry of a NumPy grid."""
    if isinstance(value, Integral):
        return not isinstance(value, bool)
    return isinstance(value, (float, np.floating)) and float(value).is_integer()


def check_jobs(n_jobs: object, name: str = "n_jobs") -> int | None:
    """Check that `n_jobs` is None or an integer other than zero, as in joblib."""
    if n_jobs is None:
        return None
    if not _is_integral(n_jobs):
        raise InvalidTypeError(f"{name} must be None or an integer other than 0; got {_show(n_jobs)}")
    if n_jobs == 0:
        raise InvalidInputError(f"{name} must be None or an integer other than 0; got 0")
    number: int = int(n_jobs)  # type: ignore[call-overload]
    return number


def check_flag(name: str, value: object) -> bool:
    """Check that `value` is a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{name} must be True or False; got {_show(value)}")
    return bool(value)


def check_verbose(verbose: object) -> bool | None:
    """Check `verbose`, a boolean or an integer >= 0 as in scikit-learn, and return whether to show progress bars.

    None, the default of estimators, stays None; see `progress`.
    """
    if verbose is None:
        return None
    if isinstance(verbose, (bool, np.bool_)):
        return bool(verbose)
    if not _is_integral(verbose):
        raise InvalidTypeError(f"verbose must be True, False or an integer >= 0; got {_show(verbose)}")
    return check_integer("verbose", verbose, minimum=0) > 0


def check_random_state(random_state: object) -> np.random.Generator:
    """Create a `numpy.random.Generator` from None, a seed, a Generator or a legacy RandomState."""
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


def check_matrix(
    name: str,
    value: Any,
    *,
    n_columns: int | None = None,
    unread_dtypes: Collection[str] = (),
) -> FloatArray:
    """Check a matrix of shape ``(n >= 1, d >= 1)``, finite; return it as float64.

    Dense numeric data, including pandas frames, are accepted as in scikit-learn. Text is rejected, even if it
    looks like numbers. The result may share memory with `value`. Arrays of the data types in `unread_dtypes`, such as
    "i1", are returned without a conversion, which could take eight times the memory, and without a check of their
    entries.
    """
    unread = isinstance(value, np.ndarray) and value.dtype.str[1:] in unread_dtypes
    array = np.asarray(value) if unread else check_numbers(name, value, "(n, d)")
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must have shape (n, d); got shape {array.shape}")
    if not array.size:
        raise InvalidInputError(f"{name} must have at least one row and one column; got shape {array.shape}")
    if n_columns is not None and array.shape[1] != n_columns:
        raise InvalidInputError(f"{name} must have {n_columns} columns; got shape {array.shape}")
    return array


def check_targets(name: str, value: Any, *, length: int | None) -> FloatArray:
    """Check finite targets of shape ``(n,)`` or ``(n, C)``, and return them as float64."""
    if value is None:
        raise InvalidInputError(f"{name} must be an array of shape (n,) or (n, C), one row for each row of X; got None")
    array = check_numbers(name, value, "(n,) or (n, C)")
    if array.ndim not in {1, 2} or array.size == 0:
        raise InvalidInputError(f"{name} must have shape (n,) or (n, C); got shape {array.shape}")
    if length is not None and array.shape[0] != length:
        raise InvalidInputError(f"{name} must have {length} entries, one for each row of X; got {array.shape[0]}")
    return array


def check_sample_weight(sample_weight: Any, n_samples: int, *, positive: bool = True) -> FloatArray | None:
    """Check sample weights (n,), finite and >= 0, with at least one positive entry if `positive`; None is unchanged."""
    if sample_weight is None:
        return None
    weights = check_numbers("sample_weight", sample_weight, f"({n_samples},)")
    if weights.shape != (n_samples,):
        raise InvalidInputError(
            f"sample_weight must have shape ({n_samples},), one entry for each row of X; got {weights.shape}"
        )
    if np.any(weights < 0.0):
        raise InvalidInputError(f"sample_weight must be >= 0; found {weights[weights < 0.0][0]:g}")
    counting = weights[weights > 0.0]
    if len(counting):
        check_magnitude("sample_weight", counting, "divide it by its mean and adapt beta")
    elif positive:
        raise InvalidInputError("sample_weight must have a positive entry; all are zero")
    return weights


def check_magnitude(name: str, array: npt.NDArray[Any], remedy: str, *, degree: int = 1) -> None:
    """Check that the squares of the entries (fourth powers if the `degree` is two) stay representable."""
    # Python numbers, since minus an unsigned integer of NumPy overflows.
    largest = float(max(array.max().item(), -array.min().item()))
    low, high = SMALLEST ** (1.0 / degree), LARGEST ** (1.0 / degree)
    if largest and not low <= largest <= high:
        raise InvalidInputError(
            f"{name} must be zero or have its largest magnitude within {low:g} .. {high:g}, "
            f"so that squares stay representable; got {largest:g}: {remedy}"
        )


def check_unmasked(name: str, value: Any) -> None:
    """Refuse arrays with masked entries, whose mask a conversion would silently drop."""
    # Columns of data frames may be called `_mask`, which `np.ma.is_masked` would read.
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{name} must have no masked entries; fill them, for instance with {name}.filled(0)")


def check_numbers(name: str, value: Any, shape: str) -> FloatArray:
    """Check a finite numeric array of any shape, and return it as float64; errors state the expected `shape`."""
    if scipy.sparse.issparse(value):
        raise InvalidTypeError(f"{name} must be a dense array; got a sparse one, convert it with {name}.toarray()")
    check_unmasked(name, value)
    if isinstance(value, np.ndarray):
        # Masked arrays, matrices and memory maps become plain views.
        value = np.asarray(value)
        if np.can_cast(value.dtype, np.float64) and np.isfinite(value).all():
            finite: FloatArray = value.astype(np.float64, order="C", copy=False)
            return finite
    # Imported here: the import takes longer than all else, and finite arrays do not need it.
    from sklearn.utils import check_array

    try:
        raw = np.asarray(value)
        text = raw.dtype.kind in "USmM" or (
            raw.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in raw.flat)
        )
        if text:
            first = next(entry for entry in raw.flat if raw.dtype.kind != "O" or isinstance(entry, (str, bytes)))
            raise TypeError(f"got text or dates, such as {_show(first)}")
        array = check_array(
            value,
            dtype=np.float64,
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a numeric array of shape {shape}: {error}") from None
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be a numeric array of shape {shape}: {_first_line(error)}") from None
    return np.asarray(array, order="C")


def equal_weights(first: FloatArray | None, other: FloatArray | None) -> bool:
    """Whether two sample weights are equal, or both None."""
    return first is other or (first is not None and other is not None and np.array_equal(first, other))


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Convert errors of scikit-learn's validation of `what` to errors of this package."""
    try:
        yield
    except TypeError as error:
        raise InvalidTypeError(f"{what} is not valid: {error}") from None
    except (ValueError, OverflowError) as error:
        # Drop advice to use other estimators, which comes in lines that link to them.
        lines = [line for line in str(error).splitlines() if "scikit-learn.org" not in line]
        raise InvalidInputError(f"{what} is not valid: {' '.join(lines)}") from None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(":")


#: Packages that call this one on behalf of a user: a warning refers to the line that called them.
_BETWEEN = frozenset({"qsdp", "sklearn", "joblib"})


def warn(message: str) -> None:
    """Issue a `QSDPWarning` that refers to the line of the user's code that called this package."""
    level, user = 0, 1
    frame: FrameType | None = sys._getframe(1)
    within = True
    while frame is not None:
        level += 1
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package == "qsdp":
            within = True
        elif within and package not in _BETWEEN:
            user, within = level, False
        frame = frame.f_back
    warnings.warn(message, QSDPWarning, stacklevel=user + 1)


class ReadOnlyArrays:
    """Mixin that keeps the arrays of an object, also those in tuples, read-only when it is copied or unpickled."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for value in state.values():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False


def read_only_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only copy, so that later changes of the original have no effect."""
    return read_only(array.copy())


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Clear the write flag of `array` and return it."""
    array.flags.writeable = False
    return array
