"""Declaration of a set, and the files of all sets with their checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qsdp.datasets._dataset import Task
from qsdp.datasets._fetch import RawFile

#: The sha256 of every file, by its path below the folder ``uci``.
_SHA256 = {
    "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "banknote/data_banknote_authentication.txt": "d0539aaed2139ba7a587b3e34fb345ce503ff7d5d33dbf9912d8e195ce425cb9",
    "breast-cancer/breast-cancer.data": "ca7d3fa97b62ff967b6894ffbb3acaaf4a51062e0149e5950b3ad6f685970b65",
    "credit-approval/crx.data": "fff49bc186cbddb3ace7371d40d9fbbb3af4f126019c13ff3f562249b1454f4d",
    "glass/glass.data": "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d",
    "heart/heart.dat": "f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
    "ionosphere/ionosphere.data": "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
    "letter/letter-recognition.data": "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
    "pima/pima-indians-diabetes.data": "06f5b7c2cd7bca686fda4f92eab5f61e7ff6426a9acefa2e3dda04fc54293cf5",
    "spambase/spambase.data": "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12",
    "vehicle/xaa.dat": "091ec73ae54031aea8432d00caaef101a445eae13196039db9079b0eac13331d",
    "vehicle/xab.dat": "3fbc55ac03592425521df18d59ba2ed7ddca626b22f84f5fc3253ebda6b82145",
    "vehicle/xac.dat": "43536f3aadb2a285fa2ba6e13dacc7013c2298fbd728f011e88669bb44856b8d",
    "vehicle/xad.dat": "371b0de9ba3564d8220d8ad17c5f2f886bafebd2c486de1b0273ceb0c24d3035",
    "vehicle/xae.dat": "503f9c87feb46dfaab6e3c4275e121640a39c0b30b29f120e679ce8e3fbc7be2",
    "vehicle/xaf.dat": "460e14ec4746a1464d7a03671e09310695c348d6831452cb53172734a6a70531",
    "vehicle/xag.dat": "c279f285c353beaa661168e68feeac726cd446f076f717662635267d89006601",
    "vehicle/xah.dat": "467735394d1a058e15da81d51fd8e1147d425e7f53392ac6b8e730a34a02049e",
    "vehicle/xai.dat": "feba2f3aad6db050bc7acbd224cd4e0d32846865ab5cfc53cc59baea2e1ff484",
    "wine-quality/winequality-red.csv": "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    "wine-quality/winequality-white.csv": "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
}


def uci_file(local: str, remote: str | None = None, *mirrors: str) -> RawFile:
    """Return a file, given its path below ``uci`` and its path in the archive, by default the same."""
    return RawFile(f"uci/{local}", remote or local, _SHA256[local], mirrors=mirrors)


def words(text: str) -> tuple[str, ...]:
    """Return the names in a text, separated by blanks."""
    return tuple(text.split())


@dataclass(frozen=True)
class UCISpec:
    """Declaration of one set.

    Attributes
    ----------
    files : tuple of RawFile
        Files, concatenated in this order.
    columns : tuple of str
        Columns of the files in order, including the class.
    target : str
        Column of the class.
    classes : tuple of str
        Names of the classes: for two, the negative and the positive one; for more, those of 0, 1, ...
    n_samples : int
        Number of rows.
    title, citation, licence : str
        Parts of the description.
    labels : mapping of str to str
        Class of each label that differs from the class's name; several labels may have one class.
    categorical : frozenset of str
        Columns of symbols; all others are numeric.
    dropped : mapping of str to str
        Columns that are left out, with the reason.
    separator : str or None
        Field separator; None for any run of blanks.
    first_lines : frozenset of str
        Lines to skip if a file begins with one of them.
    n_train : int or None
        Number of leading rows that the literature uses for training; the others are for testing.
    note : str
        Further remarks for the description.
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
        """Columns that are kept, without the class."""
        return tuple(name for name in self.columns if name != self.target and name not in self.dropped)

    @property
    def task(self) -> Task:
        """Task, by the number of classes."""
        return "binary" if len(self.classes) == 2 else "multiclass"
