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
    """Base of all errors raised by qsdp on purpose."""


class InvalidInputError(QSDPError, ValueError):
    """An argument has a value that is not allowed; the message names argument, value and what is allowed."""


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument is of a kind that is not allowed (text for a number, a sparse matrix for an array)."""


class ExportError(InvalidInputError):
    """A model cannot be written in a format: the format cannot represent a part of it, or its numbers do not fit."""


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
    """The result is valid, but probably not what was wanted; the message says why and what to do."""
