"""The four sets of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qsdp.datasets._fetch import RawFile
from qsdp.datasets._uci.spec import UCISpec

_VEHICLE_FILES = {
    "xaa.dat": "091ec73ae54031aea8432d00caaef101a445eae13196039db9079b0eac13331d",
    "xab.dat": "3fbc55ac03592425521df18d59ba2ed7ddca626b22f84f5fc3253ebda6b82145",
    "xac.dat": "43536f3aadb2a285fa2ba6e13dacc7013c2298fbd728f011e88669bb44856b8d",
    "xad.dat": "371b0de9ba3564d8220d8ad17c5f2f886bafebd2c486de1b0273ceb0c24d3035",
    "xae.dat": "503f9c87feb46dfaab6e3c4275e121640a39c0b30b29f120e679ce8e3fbc7be2",
    "xaf.dat": "460e14ec4746a1464d7a03671e09310695c348d6831452cb53172734a6a70531",
    "xag.dat": "c279f285c353beaa661168e68feeac726cd446f076f717662635267d89006601",
    "xah.dat": "467735394d1a058e15da81d51fd8e1147d425e7f53392ac6b8e730a34a02049e",
    "xai.dat": "feba2f3aad6db050bc7acbd224cd4e0d32846865ab5cfc53cc59baea2e1ff484",
}

SPECS: Mapping[str, UCISpec] = MappingProxyType(
    {
        "breast-cancer": UCISpec(
            files=(
                RawFile(
                    "uci/breast-cancer/breast-cancer.data",
                    "breast-cancer/breast-cancer.data",
                    "ca7d3fa97b62ff967b6894ffbb3acaaf4a51062e0149e5950b3ad6f685970b65",
                ),
            ),
            columns=(
                "class",
                "age",
                "menopause",
                "tumor-size",
                "inv-nodes",
                "node-caps",
                "deg-malig",
                "breast",
                "breast-quad",
                "irradiat",
            ),
            target="class",
            classes=("no-recurrence-events", "recurrence-events"),
            categorical=frozenset(
                {
                    "age",
                    "menopause",
                    "tumor-size",
                    "inv-nodes",
                    "node-caps",
                    "deg-malig",
                    "breast",
                    "breast-quad",
                    "irradiat",
                }
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
            files=(
                RawFile(
                    "uci/ionosphere/ionosphere.data",
                    "ionosphere/ionosphere.data",
                    "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
                ),
            ),
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
            files=(
                RawFile(
                    "uci/credit-approval/crx.data",
                    "credit-screening/crx.data",
                    "fff49bc186cbddb3ace7371d40d9fbbb3af4f126019c13ff3f562249b1454f4d",
                ),
            ),
            columns=(*(f"A{i}" for i in range(1, 16)), "class"),
            target="class",
            classes=("-", "+"),
            categorical=frozenset({"A1", "A4", "A5", "A6", "A7", "A9", "A10", "A12", "A13"}),
            n_samples=690,
            title="credit cards granted (+1) or not (-1) from 6 continuous and 9 categorical attributes",
            citation=(
                "J. R. Quinlan. Simplifying decision trees. International Journal of Man-Machine Studies 27, "
                "221-234, 1987. UCI Machine Learning Repository (Credit Approval)."
            ),
        ),
        "vehicle": UCISpec(
            files=tuple(
                RawFile(f"uci/vehicle/{name}", f"statlog/vehicle/{name}", sha256)
                for name, sha256 in _VEHICLE_FILES.items()
            ),
            columns=(
                "compactness",
                "circularity",
                "distance-circularity",
                "radius-ratio",
                "pr-axis-aspect-ratio",
                "max-length-aspect-ratio",
                "scatter-ratio",
                "elongatedness",
                "pr-axis-rectangularity",
                "max-length-rectangularity",
                "scaled-variance-major-axis",
                "scaled-variance-minor-axis",
                "scaled-radius-of-gyration",
                "skewness-major-axis",
                "skewness-minor-axis",
                "kurtosis-minor-axis",
                "kurtosis-major-axis",
                "hollows-ratio",
                "class",
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
