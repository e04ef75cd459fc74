"""Further sets with more than two classes."""

from __future__ import annotations

import string
from collections.abc import Mapping
from types import MappingProxyType

from qsdp.datasets._fetch import RawFile
from qsdp.datasets._uci.spec import UCISpec, uci_file, words

_GLASS_KINDS = {
    "1": "building_windows_float_processed",
    "2": "building_windows_non_float_processed",
    "3": "vehicle_windows_float_processed",
    "5": "containers",
    "6": "tableware",
    "7": "headlamps",
}

_RED = uci_file("wine-quality/winequality-red.csv")
_WHITE = uci_file("wine-quality/winequality-white.csv")
_WINE_HEADER = (
    "fixed acidity;volatile acidity;citric acid;residual sugar;chlorides;free sulfur dioxide;total sulfur dioxide;"
    "density;pH;sulphates;alcohol;quality"
)


def _wine(files: tuple[RawFile, ...], n_samples: int, best: int, colours: str, note: str = "") -> UCISpec:
    """Return the declaration of a set of wines with qualities from 3 to `best`."""
    columns = tuple(_WINE_HEADER.split(";"))
    return UCISpec(
        files=files,
        columns=columns,
        target="quality",
        classes=tuple(str(quality) for quality in range(3, best + 1)),
        separator=";",
        first_lines=frozenset({";".join(f'"{name}"' for name in columns)}),
        n_samples=n_samples,
        title=f"quality of {colours} wines, 3 to {best} as classes 0 to {best - 3}, from 11 chemical measures",
        citation=(
            "P. Cortez, A. Cerdeira, F. Almeida, T. Matos, J. Reis. Modeling wine preferences by data mining from "
            "physicochemical properties. Decision Support Systems 47(4), 547-553, 2009. UCI Machine Learning "
            "Repository (Wine Quality)."
        ),
        note=note,
    )


SPECS: Mapping[str, UCISpec] = MappingProxyType(
    {
        "glass": UCISpec(
            files=(uci_file("glass/glass.data"),),
            columns=words("id RI Na Mg Al Si K Ca Ba Fe class"),
            target="class",
            classes=tuple(_GLASS_KINDS.values()),
            labels=_GLASS_KINDS,
            dropped={"id": "a running number"},
            n_samples=214,
            title="six kinds of glass from its refractive index and 8 oxides",
            citation=(
                "B. German. Glass Identification. Central Research Establishment, Home Office Forensic Science "
                "Service. UCI Machine Learning Repository, 1987."
            ),
            note="Kind 4, vehicle windows not float processed, is absent: classes 0 to 5 are kinds 1, 2, 3, 5, 6, 7.",
        ),
        "letter": UCISpec(
            files=(uci_file("letter/letter-recognition.data", "letter-recognition/letter-recognition.data"),),
            columns=words(
                "lettr x-box y-box width high onpix x-bar y-bar x2bar y2bar xybar x2ybr xy2br x-ege xegvy y-ege yegvx"
            ),
            target="lettr",
            classes=tuple(string.ascii_uppercase),
            n_train=16_000,
            n_samples=20_000,
            title="the 26 capital letters in many fonts from 16 moments and edge counts",
            citation=(
                "P. W. Frey, D. J. Slate. Letter recognition using Holland-style adaptive classifiers. Machine "
                "Learning 6, 161-182, 1991. UCI Machine Learning Repository (Letter Recognition)."
            ),
        ),
        "wine-quality": _wine(
            (_RED, _WHITE), 6497, 9, "red and white", "The first 1599 rows are the red wines; colour is no column."
        ),
        "wine-quality-red": _wine((_RED,), 1599, 8, "red"),
        "wine-quality-white": _wine((_WHITE,), 4898, 9, "white"),
    }
)
