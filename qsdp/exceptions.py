"""Errors and warnings of qsdp, all derived from `QSDPError` or `QSDPWarning`."""

from __future__ import annotations

__all__ = [
    "DatasetError",
    "ExportError",
    "InvalidInputError",
    "InvalidTypeError",
    "MissingPackageError",
    "QSDPError",
    "QSDPWarning",
    "SolverError",
    "StorageError",
    "UnavailableSolverError",
]


class QSDPError(Exception):
    """Base class of all errors that qsdp raises deliberately."""


class InvalidInputError(QSDPError, ValueError):
    """An argument has an invalid value; the message names the argument, its value and what is allowed."""


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has an invalid type, such as text for a number or a sparse matrix for an array."""


class ExportError(InvalidInputError):
    """A model cannot be exported: the format cannot represent a part of it, or its numbers do not fit."""


class MissingPackageError(QSDPError, ImportError):
    """A package that only some functions need is not installed; the message says what to install."""


class SolverError(QSDPError, RuntimeError):
    """A convex solver cannot be used for this problem."""


class UnavailableSolverError(SolverError, ImportError):
    """A solver's package or licence is missing; the message says what to install or set."""


class StorageError(QSDPError, ValueError):
    """A file is not what its reader expects: it is damaged, truncated, or of another kind or version."""


class DatasetError(QSDPError, OSError):
    """A data set cannot be found, downloaded or verified."""


class QSDPWarning(UserWarning):
    """The result is valid, but possibly not as intended; the message gives the reason and a remedy."""
