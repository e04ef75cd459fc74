"""Certified convolutions: accuracy of binary convolutional networks at bytes on disk, and proofs for larger patches.

Networks have one hidden layer of products of two +-1 filters on patches, averaged over 4 x 4 or 7 x 7 regions, of any
width, with an l1 price of the second layer. Patches end in a constant, and no constant column is appended. Networks are
trained on the first 50000 training images, without augmentation. Everything is chosen by the other 10000; claims are of
the test images for what was chosen.

    certified   column generation for the cross-entropy of all ten classes; after rounding of the second layer, every
                network has a bound of its own: that of column generation, for networks of any width and weights
    refit       column generation for the squared loss, then `refit` of its second layer for the cross-entropy; no bound
                of its own
    form        a rival: a logistic regression on the same moments (C = 1, not tuned), rounded, as an integer form
    proof       column generation for the squared loss of ten classes to a relative gap of 1e-6, centred one-hot targets

Shares are betas as parts of `beta_max`, in `refit` of the problem of its second layer. Bytes are those of the file on
disk (a kB is 1000), second-layer weights, scales and checks included; the encoder is eight integers more. Seconds are
CPU time of one thread; fit includes the moments, and predict is that of 10000 images by `Patches.predict`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import qsdp
from benchmarks.data.sets import targets_of
from benchmarks.machinery.common import TARGET, Records, accuracy, experiment_in, timed, unfolded, where
from benchmarks.machinery.process import in_own_process, peak
from benchmarks.machinery.verdicts import Claim, exact
from qsdp.networks.compact import integer_weights
from qsdp.refinement import in_bits
from qsdp.refinement._alpha_bits import nearest_integers

TRAINING, BITS = 50_000, (3, 4, 5, 6, 8)
#: Largest files in bytes and percentages on the test images that should be reached in them.
FRONT = {
    "mnist": ((1700, 97.0), (3200, 98.0), (6000, 98.3), (20_000, 98.6)),
    "fashion_mnist": ((4000, 85.5), (9000, 88.0), (20_000, 88.5)),
}
#: The same for networks with a certified gap of at most GAP.
CERTIFIED, GAP = ((1900, 97.7), (6000, 98.2)), 0.01
#: Largest number of seconds for proofs to PROVEN by size of the patches.
PROOFS, PROVEN = {3: 10.0, 4: 120.0, 5: 1800.0}, 1e-6
#: Seconds after which column generation or a refit ends.
LIMIT = 1800.0


def cases(quick: bool) -> list[dict[str, Any]]:
    small = {"data": "mnist", "size": 3, "regions": 4, "downsample": 2}
    if quick:
        return [
            {"kind": kind, **small, "share": 0.01, "samples": 1000} for kind in ("certified", "refit", "form", "proof")
        ]
    full = {"samples": TRAINING}
    fashion = {"data": "fashion_mnist", "size": 3, "regions": 7, "downsample": 1}
    return [
        *({"kind": "certified", **small, "share": share, **full} for share in (0.001, 0.0003, 0.0001)),
        *({"kind": "refit", **small, "share": share, **full} for share in (0.001, 0.0003, 0.0001)),
        {"kind": "form", **small, "share": 0.0, **full},
        *({"kind": "refit", **fashion, "share": share, **full} for share in (0.0003, 0.0001)),
        *({"kind": "proof", **{**small, "size": size}, "share": 0.001, "samples": 60_000} for size in PROOFS),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def loaded(case: dict[str, Any]) -> tuple[Any, ...]:
    """Return images and labels for training, choice and test, as 8-bit integers."""
    load = {"mnist": qsdp.datasets.load_mnist, "fashion_mnist": qsdp.datasets.load_fashion_mnist}[case["data"]]
    (X, y), (X_test, y_test) = load("train"), load("test")
    n = case["samples"]
    return X[:n], y[:n], X[TRAINING:], y[TRAINING:], X_test, y_test


def measure(case: dict[str, Any]) -> dict[str, Any]:
    X, y, *others = loaded(case)
    names = ("size", "regions", "downsample")
    encoder = qsdp.encoding.Patches(image_shape=(28, 28), **{name: case[name] for name in names})
    blocks, encoding = timed(lambda: encoder.fit_transform(X))
    found = {"certified": certified, "refit": refitted, "form": rounded_form, "proof": proof}[case["kind"]](
        case, encoder, blocks, y, others
    )
    return {**found, "encoding_seconds": encoding, "peak_mib": peak() / 2**20}


def coupled(blocks: Any, y: np.ndarray, share: float) -> qsdp.TrainingProblem:
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss="cross_entropy")
    return problem.with_beta(share * qsdp.beta_max(problem))


def certified(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    problem = coupled(blocks, y, case["share"])
    result, seconds = timed(lambda: qsdp.column_generation(problem, tol=2e-3, time_limit=LIMIT))
    bound = result.certificate.lower_bound
    networks = [(bits, in_bits(result.network, problem, bits)) for bits in BITS]
    gaps = {bits: 1.0 - bound / problem.objective(network) for bits, network in networks}
    entries = [{**entry, "gap": gaps[entry["bits"]]} for entry in scored(networks, encoder, others, case["share"])]
    _, predicting = timed(lambda: encoder.predict(result.network, others[2]))
    found = {"fit_seconds": seconds, "gap": result.relative_gap, "predict_seconds": predicting}
    return {**found, "entries": entries}


def refitted(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    problem = squared(blocks, y, 0.0003)
    first, seconds = timed(lambda: qsdp.column_generation(problem, tol=PROVEN, time_limit=LIMIT))
    second = coupled(blocks, y, case["share"])
    network, more = timed(
        lambda: qsdp.refit(first.network, problem, loss="cross_entropy", beta=second.beta, tol=3e-3, time_limit=LIMIT)
    )
    entries = scored([(bits, in_bits(network, second, bits)) for bits in BITS], encoder, others, case["share"])
    return {"fit_seconds": seconds, "refit_seconds": more, "entries": entries}


def squared(blocks: Any, y: np.ndarray, share: float) -> qsdp.TrainingProblem:
    hot = targets_of(y)
    problem = qsdp.TrainingProblem(blocks, hot - hot.mean(axis=0), beta=1.0)
    return problem.with_beta(share * qsdp.beta_max(problem))


def rounded_form(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    """Fit a logistic regression of fixed strength to the moments, and round it in the norm of the outputs."""
    rows, layout = blocks.rows, blocks.layout
    scale = np.sqrt(np.mean(np.square(rows, dtype=np.float64), axis=0))
    scale[scale == 0.0] = 1.0
    model = LogisticRegression(C=1.0, max_iter=150, fit_intercept=False, tol=1e-3)
    _, seconds = timed(lambda: model.fit(rows / scale, y))
    vectors = model.coef_ / scale / layout.counts
    counted = rows * layout.counts
    gram = counted.T @ counted
    forms = []
    for bits in BITS:
        weights = np.stack([nearest_integers(one, gram, 2 ** (bits - 1) - 1) for one in vectors])
        integers, scales = integer_weights(weights.T)
        forms.append((bits, qsdp.BlockForm(layout, integers.T, scales, (len(vectors),))))
    return {"fit_seconds": seconds, "entries": scored(forms, encoder, others, case["share"])}


def scored(networks: Any, encoder: Any, others: Any, share: float) -> list[dict[str, Any]]:
    """Return bits, bytes on disk and accuracies on images for choice and test of networks."""
    X_choice, y_choice, X_test, y_test = others
    entries = []
    with TemporaryDirectory() as folder:
        for bits, network in networks:
            path = Path(folder, "network")
            network.save(path, **({} if isinstance(network, qsdp.BlockForm) else {"form": "smallest"}))
            again = qsdp.load_network(path)
            entries.append(
                {
                    "bits": bits,
                    "second_share": share,
                    "bytes": path.stat().st_size,
                    "neurons": getattr(again, "n_neurons", None),
                    "choice_accuracy": accuracy(encoder.predict(again, X_choice), y_choice),
                    "test_accuracy": accuracy(encoder.predict(again, X_test), y_test),
                }
            )
    return entries


def proof(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    problem = squared(blocks, y, case["share"])
    result, seconds = timed(lambda: qsdp.column_generation(problem, tol=PROVEN, time_limit=LIMIT))
    return {
        "fit_seconds": seconds,
        "gap": result.relative_gap,
        "kind": result.certificate.bound_type,
        "neurons": result.network.n_neurons,
        "test_accuracy": accuracy(encoder.predict(result.network, others[2]), others[3]),
    }


def chosen(entries: list[dict[str, Any]], largest: int) -> dict[str, Any] | None:
    """Return the entry of at most so many bytes that is best on the images for the choice."""
    small = [entry for entry in entries if entry["bytes"] <= largest]
    return max(small, key=lambda entry: entry["choice_accuracy"]) if small else None


def claims(records: Records) -> list[Claim]:
    full, made = [record for record in records if record.case in cases(quick=False)], []

    def best(kinds: tuple[str, ...], data: str, largest: int, gap: float | None = None) -> dict[str, Any] | None:
        entries = [e for r in where(full, kind=kinds, data=data) for e in r.measured["entries"]]
        return chosen([e for e in entries if gap is None or e.get("gap", np.inf) <= gap], largest)

    def claim(name: str, target: float, entry: dict[str, Any] | None) -> Claim:
        holds = [] if entry is None else [100.0 * entry["test_accuracy"] >= target]
        figures = "" if entry is None else f"{100.0 * entry['test_accuracy']:.2f} % in {entry['bytes'] / 1e3:.2f} kB"
        return exact(TARGET, name, holds, figures)

    for data, front in FRONT.items():
        for largest, target in front:
            name = f"{data}: {target:g} % of the test images in {largest / 1e3:g} kB."
            made.append(claim(name, target, best(("certified", "refit"), data, largest)))
    for largest, target in CERTIFIED:
        name = f"mnist: {target:g} % in {largest / 1e3:g} kB with a certified gap of {GAP:g} of the network itself."
        made.append(claim(name, target, best(("certified",), "mnist", largest, GAP)))
    for largest, _ in FRONT["mnist"][1:]:
        ours, rival = best(("certified", "refit"), "mnist", largest), best(("form",), "mnist", largest)
        if ours and rival:
            name = f"mnist: above a rounded logistic regression on the same moments in {largest / 1e3:g} kB."
            made.append(claim(name, 100.0 * rival["test_accuracy"], ours))
    for size, limit in PROOFS.items():
        own = [r.measured for r in where(full, kind="proof", size=size)]
        holds = [m["gap"] <= PROVEN and m["kind"] == "exact" and m["fit_seconds"] <= limit for m in own]
        figures = "; ".join("{fit_seconds:.0f} s, gap {gap:.1g}, {neurons} neurons".format(**m) for m in own)
        statement = f"Squared loss, ten classes, patches {size} x {size}: proven to {PROVEN:g} in {limit:g} s."
        made.append(exact(TARGET, statement, holds, figures))
    return made


def shown(records: Records) -> list[Any]:
    """Return an entry for each network, and the proofs."""
    proofs = where(records, kind="proof")
    own = where(records, kind=("certified", "refit", "form"))
    names = ("fit_seconds", "refit_seconds", "predict_seconds", "encoding_seconds")
    entries = unfolded(own, "entries", "bits", shared=names)
    parameters = {"bits", "second_share"}
    measured = [{name: one for name, one in r.measured.items() if name not in parameters} for r in entries]
    return [*(replace(r, measured=kept) for r, kept in zip(entries, measured, strict=True)), *proofs]


#: Methods whose versions are stored with the records.
MEASURED = ("column_generation", "refinement", "encoding")
EXPERIMENT = experiment_in(__name__, "Certified convolutions", "Targets of the package")
