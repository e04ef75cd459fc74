"""Networks of printed sizes: a small run, sizes, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from benchmarks.runner import Record

bits_of_models = pytest.importorskip("benchmarks.methods.bits", reason="not in the installed package")
study = pytest.importorskip("benchmarks.experiments.accuracy.bthowen", reason="not in the installed package")


@pytest.mark.parametrize(("n_classes", "bits"), [(2, 500), (2, 10_000), (3, 1000)])
def test_networks_fill_the_size(n_classes: int, bits: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 5))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [0.0, 1.0][: n_classes - 1])
    model = qsdp.QuantizedNetworkClassifier(beta="10%", encoding="standard", random_state=0).fit(X, y)
    study.resample_to(model, bits, 0)
    network = model.network_
    outputs = network.n_outputs
    assert bits_of_models.network_bits(network) <= bits
    # Another neuron is 12 bits.
    assert network.n_neurons == study.MOST * outputs or bits - network.n_bits < 12


def made(change: dict[str, float] | None = None, rivals: float = 0.0, bits: int = 100) -> list[Record]:
    """Return records of all cases: three points above the printed accuracy, but for changes of sets and rivals."""
    records = []
    for case in study.cases(False):
        printed, _ = study.PRINTED[case["set"]]
        test, noise = printed + (change or {}).get(case["set"], 0.03), 0.001 * (case["seed"] % 3 - 1)
        if "family" in case:
            names = study.RIVALS["the form of the relaxation"] if case["family"] == "form" else ("logistic", "tree")
            own = {"test": printed + rivals - noise, "bits": bits, "encoding_bits": 10}
            records.append(Record(case, {"models": dict.fromkeys(names, own)}, 1.0))
            continue
        measured = {"bits": 100, "neurons": 10, "inputs": 5, "gap": 0.1, "seconds": 1.0, "n_classes": 3}
        records.append(Record(case, {**measured, "test": test + noise}, 1.0))
    return records


def verdicts(records: list[Record]) -> dict[str, str]:
    return {claim.statement.split(":")[0]: claim.verdict for claim in study.claims(records)[: len(study.PRINTED)]}


#: A large set has three splits.
HOLDS = {name: "supported" if study.SPLITS.get(name, 0) >= 10 else "not measured" for name in study.PRINTED}


def test_verdicts_turn_with_the_records() -> None:
    assert verdicts(made()) == HOLDS
    assert verdicts(made({"vehicle": -0.02})) == HOLDS | {
        "vehicle": "contradicted",
    }
    assert verdicts(made()[:10])["iris"] == "not measured"


@pytest.mark.parametrize(("rivals", "verdict"), [(0.0, "supported"), (0.06, "contradicted")])
def test_rivals_of_the_printed_size(rivals: float, verdict: str) -> None:
    claims = study.claims(made(rivals=rivals))[len(study.PRINTED) :]
    assert [claim.verdict for claim in claims] == [verdict] * len(study.RIVALS)
    # Iris has 0.28 KiB, which the encoding does not count against.
    limit = int(study.PRINTED["iris"][1] * study.KIB)
    for bits, fits in ((limit + 10, "supported"), (limit + 11, "not measured")):
        assert study.claims(made(bits=bits))[-1].verdict == fits
    fitting = {name for name, _ in study.fitting(made(bits=limit + 11), "a decision tree")}
    assert fitting == set(study.SPLITS) - {"iris"}


def test_sets_that_are_not_here_are_named() -> None:
    assert set(study.PRINTED) - set(study.SPLITS) == {"ecoli", "satimage"}
    why = {claim.statement.split(":")[0]: claim.why for claim in study.claims(made())}
    assert study.ABSENT in why["ecoli"]
