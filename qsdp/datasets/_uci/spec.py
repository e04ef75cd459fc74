"""What a declaration of a set says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qsdp.datasets._dataset import Task
from qsdp.datasets._fetch import RawFile


@dataclass(frozen=True)
class UCISpec:
    """The declaration of one set.

    Attributes
    ----------
    files : tuple of RawFile
        Read one after the other.
    columns : tuple of str
        The columns of the files in order, the class among them.
    target : str
        The column that holds the class.
    classes : tuple of str
        The names of the classes. Two: the negative one, then the positive one. More: the class of 0, 1, ...
    n_samples : int
        The number of rows.
    title, citation, licence : str
        For people.
    labels : mapping of str to str
        The class of each label of the files that is not the class's name; several may stand for one class.
    categorical : frozenset of str
        The columns that hold symbols; all others hold numbers.
    dropped : mapping of str to str
        The columns left out, each with the reason.
    separator : str or None
        What stands between two fields; None for any run of blanks.
    first_lines : frozenset of str
        Lines that are no rows where a file begins with one of them.
    n_train : int or None
        The number of first rows on which the literature trains, testing on the others.
    note : str
        What else people should know, in a sentence or two.
    """

    files: tuple[RawFile, ...]
    columns: tuple[str, ...]
    target: str
    classes: tuple[str, ...]
    n_samples: int
    title: str
    citation: str
    licence: str = "CC BY 4.0"
    labels: Mapping[str, str] = field(default_factory=dict)
    categorical: frozenset[str] = frozenset()
    dropped: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = ","
    first_lines: frozenset[str] = frozenset()
    n_train: int | None = None
    note: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are kept, without the class."""
        return tuple(name for name in self.columns if name != self.target and name not in self.dropped)

    @property
    def task(self) -> Task:
        """What the class is."""
        return "binary" if len(self.classes) == 2 else "multiclass"
