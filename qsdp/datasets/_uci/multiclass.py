"""Sets of more than two classes beside the paper's."""

from __future__ import annotations

import string
from collections.abc import Mapping
from types import MappingProxyType

from qsdp.datasets._fetch import RawFile
from qsdp.datasets._uci.spec import UCISpec

_GLASS_KINDS = {
    "1": "building_windows_float_processed",
    "2": "building_windows_non_float_processed",
    "3": "vehicle_windows_float_processed",
    "5": "containers",
    "6": "tableware",
    "7": "headlamps",
}

_RED = RawFile(
    "uci/wine-quality/winequality-red.csv",
    "wine-quality/winequality-red.csv",
    "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
)
_WHITE = RawFile(
    "uci/wine-quality/winequality-white.csv",
    "wine-quality/winequality-white.csv",
    "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
)
_WINE_COLUMNS = (
    "fixed acidity",
    "volatile acidity",
    "citric acid",
    "residual sugar",
    "chlorides",
    "free sulfur dioxide",
    "total sulfur dioxide",
    "density",
    "pH",
    "sulphates",
    "alcohol",
    "quality",
)


def _wine(files: tuple[RawFile, ...], n_samples: int, best: int, colours: str, note: str = "") -> UCISpec:
    """Declare a set of wines with qualities from 3 to `best`."""
    return UCISpec(
        files=files,
        columns=_WINE_COLUMNS,
        target="quality",
        classes=tuple(str(quality) for quality in range(3, best + 1)),
        separator=";",
        first_lines=frozenset({";".join(f'"{name}"' for name in _WINE_COLUMNS)}),
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
            files=(
                RawFile(
                    "uci/glass/glass.data",
                    "glass/glass.data",
                    "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d",
                ),
            ),
            columns=("id", "RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe", "class"),
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
            files=(
                RawFile(
                    "uci/letter/letter-recognition.data",
                    "letter-recognition/letter-recognition.data",
                    "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
                ),
            ),
            columns=(
                "lettr",
                "x-box",
                "y-box",
                "width",
                "high",
                "onpix",
                "x-bar",
                "y-bar",
                "x2bar",
                "y2bar",
                "xybar",
                "x2ybr",
                "xy2br",
                "x-ege",
                "xegvy",
                "y-ege",
                "yegvx",
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
