"""The four sets of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qsdp.datasets._uci.spec import UCISpec, uci_file, words

SPECS: Mapping[str, UCISpec] = MappingProxyType(
    {
        "breast-cancer": UCISpec(
            files=(uci_file("breast-cancer/breast-cancer.data"),),
            columns=words("class age menopause tumor-size inv-nodes node-caps deg-malig breast breast-quad irradiat"),
            target="class",
            classes=("no-recurrence-events", "recurrence-events"),
            categorical=frozenset(
                words("age menopause tumor-size inv-nodes node-caps deg-malig breast breast-quad irradiat")
            ),
            n_samples=286,
            title="recurrence (+1) or not (-1) of breast cancer from 9 categorical attributes",
            citation=(
                "M. Zwitter, M. Soklic. Breast Cancer. UCI Machine Learning Repository, 1988. Thanks go to "
                "M. Zwitter and M. Soklic of the University Medical Centre, Institute of Oncology, "
                "Ljubljana, Yugoslavia, for providing the data."
            ),
        ),
        "ionosphere": UCISpec(
            files=(uci_file("ionosphere/ionosphere.data"),),
            columns=(*(f"a{i}" for i in range(1, 35)), "class"),
            target="class",
            classes=("b", "g"),
            dropped={"a2": "constant 0"},
            n_samples=351,
            title="good (+1) or bad (-1) radar returns from the ionosphere, 17 complex pulses",
            citation=(
                "V. G. Sigillito, S. P. Wing, L. V. Hutton, K. B. Baker. Classification of radar returns "
                "from the ionosphere using neural networks. Johns Hopkins APL Technical Digest 10, 262-266, "
                "1989. UCI Machine Learning Repository (Ionosphere)."
            ),
        ),
        "credit-approval": UCISpec(
            files=(uci_file("credit-approval/crx.data", "credit-screening/crx.data"),),
            columns=(*(f"A{i}" for i in range(1, 16)), "class"),
            target="class",
            classes=("-", "+"),
            categorical=frozenset(words("A1 A4 A5 A6 A7 A9 A10 A12 A13")),
            n_samples=690,
            title="credit cards granted (+1) or not (-1) from 6 continuous and 9 categorical attributes",
            citation=(
                "J. R. Quinlan. Simplifying decision trees. International Journal of Man-Machine Studies 27, "
                "221-234, 1987. UCI Machine Learning Repository (Credit Approval)."
            ),
        ),
        "vehicle": UCISpec(
            files=tuple(uci_file(f"vehicle/xa{x}.dat", f"statlog/vehicle/xa{x}.dat") for x in "abcdefghi"),
            columns=words(
                "compactness circularity distance-circularity radius-ratio pr-axis-aspect-ratio "
                "max-length-aspect-ratio scatter-ratio elongatedness pr-axis-rectangularity max-length-rectangularity "
                "scaled-variance-major-axis scaled-variance-minor-axis scaled-radius-of-gyration skewness-major-axis "
                "skewness-minor-axis kurtosis-minor-axis kurtosis-major-axis hollows-ratio class"
            ),
            target="class",
            classes=("bus", "opel", "saab", "van"),
            separator=None,
            n_samples=846,
            title="four kinds of vehicle from 18 measures of their silhouettes",
            citation=(
                "J. P. Siebert. Vehicle recognition using rule based methods. Turing Institute Research "
                "Memorandum TIRM-87-018, 1987. UCI Machine Learning Repository (Statlog Vehicle). The "
                "data come from the Turing Institute, Glasgow, Scotland (P. Mowforth, B. Shepherd), which "
                "asks to be acknowledged."
            ),
        ),
    }
)
