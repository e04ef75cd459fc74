"""Accuracy of certified binary convolutional networks by file size, beside that of rivals, and proofs of optimality.

Networks have one hidden layer of products of two +-1 filters on patches, averaged over regions, of any width, with an
l1 price of the second layer. Patches end in a constant, and no constant column is appended. Networks and rivals are
trained on the first 50000 training images, without augmentation. Everything is chosen by the other 10000; claims are of
the test images for what was chosen. Patches are named by their side, the number of regions along an axis and the
side of the squares of pixels that are averaged first, as in 3/4/2; "+" puts two kinds side by side.

    certified   column generation for the cross-entropy of all ten classes; after rounding of the second layer, every
                network has a bound of its own: that of column generation, for networks of any width and weights
    refit       column generation for the squared loss, then `refit` of its second layer for the cross-entropy; no bound
                of its own
    relaxation  a rival: the quadratic forms of the semidefinite relaxation for the cross-entropy, rounded to integers
                instead of sampled; each share of beta_max has a limit of seconds, and the entry says the gap reached
    logistic    a rival: logistic regressions on the same moments, rounded, as integer forms; four strengths of the
                penalty, each of up to 500 iterations from the last
    binary_cnn  a rival: convolutions and a dense layer of +-1 weights, trained by the straight-through estimator for
                100 epochs with each of three learning rates: many more steps than our networks take, on a GPU.
                One convolution of 3 x 3 filters, or two. A bit for each weight, 32 for each scale and threshold
    forest      a rival: random forests and boosted trees on the averaged pixels, 16 bits for each threshold
    proof       column generation for the squared loss of ten classes to a relative gap of 1e-6 (5 x 5: 1 %), centred
                one-hot targets

The first tables show, for each size, the model of at most so many bytes that is best on the images for the choice. The
table of certified networks leaves out those that another one equals or beats in bytes and accuracy on these images; the
records hold all.

Shares are betas as parts of `beta_max`, in `refit` of the problem of its second layer. Where the limit of seconds
ended column generation, the gap says so. Bytes are those of the file on
disk (a kB is 1000), second-layer weights, scales and checks included; the encoder is eight integers more. Bits of a
`binary_cnn` and of a `forest` are counted, without any header. Seconds are CPU time of one thread, and wall time of
`binary_cnn`; fit includes the moments, and predict is that of 10000 images by `Patches.predict`.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.sets import pooled, targets_of
from benchmarks.machinery.common import (
    TARGET,
    Records,
    accuracy,
    experiment_in,
    grouped,
    table_row,
    timed,
    unfolded,
    where,
)
from benchmarks.machinery.process import in_own_process, peak
from benchmarks.machinery.summary import summary
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.methods.binary_cnn import train_binary_cnn
from benchmarks.runner import Record, Table
from benchmarks.uci.bits import REAL, boosting_bits, coded_bits, tree_bits
from qsdp.networks.compact import fold, integer_weights
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
#: Relative gap and largest number of seconds of proofs by size of the patches.
PROOFS = {3: (1e-6, 10.0), 4: (1e-6, 120.0), 5: (1e-2, 1800.0)}
#: Bytes of the file of a network on equal blocks besides codes and scales.
CONTAINER = 13
#: Shares of the first layer of a refit for smaller and larger shares of the second one.
FIRST = (0.0001, 0.0003)
#: Strengths C of logistic regressions; rates and epochs of binary CNNs; trees and leaves of forests.
STRENGTHS, RATES, EPOCHS = (0.01, 0.1, 1.0, 10.0), (1e-3, 3e-3, 1e-2), 100
FORESTS = ((10, 50), (10, 150), (30, 50), (30, 150), (100, 50))
BOOSTED = ((3, 8), (10, 8), (30, 8), (10, 31))
#: Filters of the convolutions of binary CNNs, as numbers joined by "-".
CHANNELS = {
    "mnist": ("16", "32", "64", "128", "256", "512", "16-16", "16-32", "32-32", "32-64", "64-64", "64-128", "96-192"),
    "fashion_mnist": ("16", "32", "64", "128", "16-16", "16-32", "32-32", "32-64"),
}
#: Data, patches, shares of beta_max, and seconds after which column generation ends; those of a refit come on top.
CERTIFIED_CASES = (
    *(("mnist", "3/4/2", share, 240) for share in (0.001, 0.0004, 0.0003, 0.0001)),
    ("mnist", "3/4/2", 0.00003, 215),
    ("mnist", "4/4/2", 0.0003, 215),
    *(("mnist", patches, 0.0001, 235) for patches in ("4/4/2", "3/4/2 + 3/7/1")),
    ("mnist", "5/3/2", 0.0001, 720),
    ("fashion_mnist", "3/7/1", 0.0003, 235),
    ("fashion_mnist", "3/7/1", 0.0001, 900),
)
REFIT_CASES = (
    *(("mnist", "3/4/2", share, 118) for share in (0.001, 0.0001)),
    *(("mnist", patches, 0.0001, 118) for patches in ("4/4/2", "5/3/2", "3/4/2 + 3/7/1")),
    *(("fashion_mnist", "3/7/1", share, 118) for share in (0.0001, 0.00003)),
)
RELAXATION_CASES = (
    *(("mnist", "3/4/2", share, 600) for share in (0.001, 0.0003, 0.0001)),
    ("fashion_mnist", "3/7/1", 0.0003, 900),
)


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        few = {"data": "mnist", "patches": "3/2/4", "samples": 100}
        some = {**few, "share": 0.03, "limit": 60}
        return [
            *({"kind": kind, **some} for kind in ("certified", "refit", "relaxation", "logistic", "proof")),
            {"kind": "binary_cnn", **few, "channels": "2"},
        ]
    small: dict[str, Any] = {"data": "mnist", "patches": "3/4/2"}
    full, names = {"samples": TRAINING}, ("data", "patches", "share", "limit")
    rivals = [small, {"data": "fashion_mnist", "patches": "3/7/1"}]
    return [
        *({"kind": "certified", **dict(zip(names, one, strict=True)), **full} for one in CERTIFIED_CASES),
        *({"kind": "refit", **dict(zip(names, one, strict=True)), **full} for one in REFIT_CASES),
        *({"kind": "relaxation", **dict(zip(names, one, strict=True)), **full} for one in RELAXATION_CASES),
        *({"kind": kind, **one, **full} for kind in ("logistic", "forest") for one in rivals),
        *(
            {"kind": "binary_cnn", **one, "channels": channels, **full}
            for one in rivals
            for channels in CHANNELS[one["data"]]
        ),
        *(
            {"kind": "proof", **small, "patches": f"{n}/4/2", "share": 0.001, "samples": 60_000, "limit": 1800}
            for n in PROOFS
        ),
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def loaded(case: dict[str, Any]) -> tuple[Any, ...]:
    """Return images and labels for training, choice and test, as 8-bit integers."""
    load = {"mnist": qsdp.datasets.load_mnist, "fashion_mnist": qsdp.datasets.load_fashion_mnist}[case["data"]]
    (X, y), (X_test, y_test) = load("train"), load("test")
    n = case["samples"]
    others = [X[TRAINING:], y[TRAINING:], X_test, y_test]
    return X[:n], y[:n], *(one if n >= TRAINING else one[:n] for one in others)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    X, y, *others = loaded(case)
    if case["kind"] in RIVALS:
        return RIVALS[case["kind"]](case, X, y, others)
    encoder = encoder_of(case["patches"])
    blocks, encoding = timed(lambda: encoder.fit_transform(X))
    found = KINDS[case["kind"]](case, encoder, blocks, y, others)
    return {**found, "encoding_seconds": encoding, "peak_mib": peak() / 2**20}


def numbers_of(patches: str) -> list[tuple[int, ...]]:
    """Return size, regions and downsample of each kind of patches."""
    return [tuple(map(int, one.split("/"))) for one in patches.split(" + ")]


def encoder_of(patches: str) -> Any:
    size, regions, downsample = zip(*numbers_of(patches), strict=True)
    return qsdp.encoding.Patches(size, regions=regions, downsample=downsample, image_shape=(28, 28))


def coupled(blocks: Any, y: np.ndarray, share: float) -> qsdp.TrainingProblem:
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss="cross_entropy")
    return problem.with_beta(share * qsdp.beta_max(problem))


def certified(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    problem = coupled(blocks, y, case["share"])
    result, seconds = timed(lambda: qsdp.column_generation(problem, tol=2e-3, time_limit=case["limit"]))
    bound = result.certificate.lower_bound
    networks = [(bits, in_bits(result.network, problem, bits)) for bits in BITS]
    gaps = {bits: 1.0 - bound / problem.objective(network) for bits, network in networks}
    entries = [{**entry, "gap": gaps[entry["bits"]]} for entry in scored(networks, encoder, others, case["share"])]
    _, predicting = timed(lambda: encoder.predict(result.network, others[2]))
    found = {"fit_seconds": seconds, "gap": result.relative_gap, "predict_seconds": predicting}
    return {**found, "entries": entries}


def refitted(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    problem = squared(blocks, y, FIRST[case["share"] >= 0.0003])
    first, seconds = timed(lambda: qsdp.column_generation(problem, tol=1e-6, time_limit=case["limit"]))
    second = coupled(blocks, y, case["share"])
    network, more = timed(
        lambda: qsdp.refit(
            first.network, problem, loss="cross_entropy", beta=second.beta, tol=3e-3, time_limit=case["limit"]
        )
    )
    entries = scored([(bits, in_bits(network, second, bits)) for bits in BITS], encoder, others, case["share"])
    return {"fit_seconds": seconds, "refit_seconds": more, "entries": entries}


def squared(blocks: Any, y: np.ndarray, share: float) -> qsdp.TrainingProblem:
    hot = targets_of(y)
    problem = qsdp.TrainingProblem(blocks, hot - hot.mean(axis=0), beta=1.0)
    return problem.with_beta(share * qsdp.beta_max(problem))


def relaxed(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    """Solve the relaxation, and round its quadratic forms."""
    problem = coupled(blocks, y, case["share"])
    relaxation, seconds = timed(lambda: qsdp.solve_relaxation(problem, tol=2e-3, time_limit=case["limit"]))
    vectors = np.hstack([packed(Z) for Z in relaxation.Z])
    entries = scored(rounded(vectors, blocks), encoder, others, case["share"])
    return {"fit_seconds": seconds, "solved_to": relaxation.relative_gap, "entries": entries}


def packed(Z: np.ndarray) -> np.ndarray:
    """Return the upper triangles of symmetric matrices (C, N, N), every entry once."""
    rows, columns = np.triu_indices(Z.shape[-1])
    return Z[:, rows, columns]


def logistic(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    """Fit logistic regressions to the moments, from strong to weak penalties, and round them."""
    from sklearn.linear_model import LogisticRegression

    rows, layout = blocks.rows, blocks.layout
    scale = np.sqrt(np.mean(np.square(rows, dtype=np.float64), axis=0))
    scale[scale == 0.0] = 1.0
    scaled = (rows / scale).astype(np.float32)
    model = LogisticRegression(max_iter=500, fit_intercept=False, tol=1e-5, warm_start=True)
    entries, seconds = [], 0.0
    for strength in STRENGTHS:
        _, more = timed(partial(model.set_params(C=strength).fit, scaled, y))
        seconds += more
        forms = rounded(model.coef_ / scale / layout.counts, blocks)
        entries += [{"strength": strength, **entry} for entry in scored(forms, encoder, others, 0.0)]
    return {"fit_seconds": seconds, "entries": entries}


def rounded(vectors: np.ndarray, blocks: Any) -> list[tuple[int, Any]]:
    """Round forms (C, P), every entry of their upper triangles once, in the norm of their outputs on blocks."""
    counted = blocks.rows * blocks.layout.counts
    gram = counted.T @ counted
    forms = []
    for bits in BITS:
        nearest = [nearest_integers(one, gram, 2 ** (bits - 1) - 1) for one in vectors]
        weights = np.stack([numbers * scale for numbers, scale in nearest])
        integers, scales = integer_weights(weights.T)
        parts = blocks.layout.unstack(blocks.layout.matrices(integers.T))
        matrices = [part.astype(np.int64) for part in parts]
        forms.append((bits, qsdp.IntegerForm(matrices, scales, blocks.layout, output_shape=(len(vectors),))))
    return forms


def binary_cnn(case: dict[str, Any], X: np.ndarray, y: np.ndarray, others: Any) -> dict[str, Any]:
    """Train binary CNNs with several rates and seeds, and choose by the images for it."""
    ((_, regions, downsample),) = numbers_of(case["patches"])
    channels = [int(one) for one in case["channels"].split("-")]
    regions = regions if len(channels) == 1 else 4 // downsample
    epochs, entries = EPOCHS if len(X) == TRAINING else 1, []
    start = time.perf_counter()
    for rate in RATES:
        model = train_binary_cnn(X, y, channels, regions=regions, downsample=downsample, rate=rate, epochs=epochs)
        entries.append({"rate": rate, **judged_model(model.predict, model.n_bits, others)})
    return {"fit_seconds": time.perf_counter() - start, "entries": entries}


def forest(case: dict[str, Any], X: np.ndarray, y: np.ndarray, others: Any) -> dict[str, Any]:
    """Train random forests and boosted trees of several sizes on the averaged pixels."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    ((_, _, area),) = numbers_of(case["patches"])

    pixels = partial(pooled, side=28 // area)
    entries: list[dict[str, Any]] = []

    def fit() -> None:
        for trees, leaves in FORESTS:
            model = RandomForestClassifier(trees, max_leaf_nodes=leaves, random_state=0).fit(pixels(X), y)
            bits = sum(tree_bits(tree) for tree in model.estimators_)
            score = judged_model(lambda images, m=model: m.predict_proba(pixels(images)), bits, others)
            entries.append({"model": "random forest", "trees": trees, "leaves": leaves, **score})
        for trees, leaves in BOOSTED:
            boosted = HistGradientBoostingClassifier(
                max_iter=trees, max_leaf_nodes=leaves, learning_rate=0.3, random_state=0
            ).fit(pixels(X), y)
            score = judged_model(
                lambda images, m=boosted: m.predict_proba(pixels(images)), boosting_bits(boosted), others
            )
            entries.append({"model": "boosting", "trees": trees, "leaves": leaves, **score})

    _, seconds = timed(fit)
    return {"fit_seconds": seconds, "entries": entries}


def judged_model(predict: Any, bits: int, others: Any) -> dict[str, Any]:
    X_choice, y_choice, X_test, y_test = others
    return {
        "bytes": -(-int(bits) // 8),
        "choice_accuracy": accuracy(predict(X_choice), y_choice),
        "test_accuracy": accuracy(predict(X_test), y_test),
    }


def scored(networks: Any, encoder: Any, others: Any, share: float) -> list[dict[str, Any]]:
    """Return bits, bytes on disk and accuracies on images for choice and test of networks or forms."""
    X_choice, y_choice, X_test, y_test = others
    entries = []
    for bits, network in networks:
        if isinstance(network, qsdp.IntegerForm):
            again, n_bytes = network, bytes_of_form(network)
        else:
            with TemporaryDirectory() as folder:
                path = Path(folder, "network")
                network.save(path)
                again, n_bytes = qsdp.load_network(path), path.stat().st_size
        entries.append(
            {
                "bits": bits,
                "second_share": share,
                "bytes": n_bytes,
                "neurons": getattr(again, "n_neurons", None),
                "choice_accuracy": accuracy(encoder.predict(again, X_choice), y_choice),
                "test_accuracy": accuracy(encoder.predict(again, X_test), y_test),
            }
        )
    return entries


def bytes_of_form(form: qsdp.IntegerForm) -> int:
    """Return the bytes of a form with a Golomb-Rice code for each output and block, in the container of a network."""
    parts = np.split(form.integers, form.layout.starts[1:-1], axis=1)
    bits = sum(coded_bits(fold(row)) for part in parts for row in part) + REAL * form.n_outputs
    return CONTAINER + -(-bits // 8)


def proof(case: dict[str, Any], encoder: Any, blocks: Any, y: np.ndarray, others: Any) -> dict[str, Any]:
    ((size, *_),) = numbers_of(case["patches"])
    problem = squared(blocks, y, case["share"])
    result, seconds = timed(lambda: qsdp.column_generation(problem, tol=PROOFS[size][0], time_limit=case["limit"]))
    return {
        "fit_seconds": seconds,
        "gap": result.relative_gap,
        "kind": result.certificate.bound_type,
        "neurons": result.network.n_neurons,
        "test_accuracy": accuracy(encoder.predict(result.network, others[2]), others[3]),
    }


#: Kinds of networks of this package, of which the better one is compared with rivals.
OURS = ("certified", "refit")
#: What is measured on blocks, and rivals on images.
KINDS = {"certified": certified, "refit": refitted, "relaxation": relaxed, "logistic": logistic, "proof": proof}
RIVALS = {"binary_cnn": binary_cnn, "forest": forest}
RIVAL_NAMES = {
    "relaxation": "the rounded form of the relaxation",
    "logistic": "a rounded logistic regression on the same moments",
    "binary_cnn": "a binary CNN by the straight-through estimator",
    "forest": "a decision forest",
}
MODELS = {
    "certified": "certified network",
    "refit": "network with a refitted second layer",
    "relaxation": "rounded form of the relaxation",
    "logistic": "rounded logistic regression",
    "binary_cnn": "binary CNN",
    "forest": "decision forest",
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
            case = f"{target:g} % in {largest / 1e3:g} kB"
            judged = claim(
                f"{data}: {target:g} % of the test images in {largest / 1e3:g} kB.", target, best(OURS, data, largest)
            )
            made.append(replace(judged, group=f"{data}: test accuracy within a file size", case=case))
    for largest, target in CERTIFIED:
        name = f"mnist: {target:g} % in {largest / 1e3:g} kB with a certified gap of {GAP:g} of the network itself."
        made.append(claim(name, target, best(("certified",), "mnist", largest, GAP)))
    for data, front in FRONT.items():
        for largest, _ in front:
            for kind, words in RIVAL_NAMES.items():
                ours, rival = best(OURS, data, largest), best((kind,), data, largest)
                if ours and rival:
                    case = f"{largest / 1e3:g} kB"
                    judged = claim(f"{data}: above {words} in {case}.", 100.0 * rival["test_accuracy"], ours)
                    figures = f"{100.0 * ours['test_accuracy']:.2f} against {100.0 * rival['test_accuracy']:.2f} %"
                    group = f"{data}: more accurate than {words}, within the same file size"
                    made.append(replace(judged, figures=figures, number=figures, group=group, case=case))
    for size, (tol, limit) in PROOFS.items():
        own = [r.measured for r in where(full, kind="proof", patches=f"{size}/4/2")]
        holds = [m["gap"] <= tol and m["kind"] == "exact" and m["fit_seconds"] <= limit for m in own]
        figures = "; ".join("{fit_seconds:.0f} s, gap {gap:.1g}, {neurons} neurons".format(**m) for m in own)
        statement = f"Squared loss, ten classes, patches {size} x {size}: proven to {tol:g} in {limit:g} s."
        made.append(exact(TARGET, statement, holds, figures))
    return made


def tables(records: Records) -> list[Table]:
    """Return what each model reaches within each size of the file, the certified networks, and the proofs."""
    made = []
    for data, front in FRONT.items():
        rows = []
        for kind, words in MODELS.items():
            entries = [entry for record in where(records, kind=kind, data=data) for entry in record.measured["entries"]]
            best = [chosen(entries, largest) for largest, _ in front]
            if any(best):
                cells = [f"{100.0 * e['test_accuracy']:.2f} ({e['bytes'] / 1e3:.2f} kB)" if e else "" for e in best]
                rows.append([words, *cells])
        headings = ["model", *(f"{largest / 1e3:g} kB" for largest, _ in front)]
        made.append(Table(f"{data}: test accuracy, %, within a file size", headings, rows))
    return [*made, *summary(shown(records))]


def shown(records: Records) -> list[Record]:
    """Return the certified networks that could be preferred to others, and the proofs."""
    names = ("bytes", "neurons", "test_accuracy", "gap", "fit_seconds")
    entries = unfolded(where(records, kind="certified"), "entries", "bits", shared=("fit_seconds",))
    rows = [row for group in grouped(entries, "data").values() for row in preferable(group)]
    proofs = [
        (replace(record, measured={name: record.measured[name] for name in names if name in record.measured}))
        for record in where(records, kind="proof")
    ]
    certified = [replace(row, measured={name: row.measured.get(name) for name in names}) for row in rows]
    return [*certified, *proofs]


def preferable(records: Records) -> list[Record]:
    """Return the records that no other equals or beats in bytes and accuracy on the images for the choice."""
    costs = np.array([(m["bytes"], -m["choice_accuracy"]) for m in (record.measured for record in records)])
    beaten = [((costs <= cost).all(axis=1) & (costs < cost).any(axis=1)).any() for cost in costs]
    return [record for record, worse in zip(records, beaten, strict=True) if not worse]


def quotes(records: Records) -> dict[str, str]:
    """Return a row for the README: the certified network preferred in 1.9 kB, and the binary CNN in no more bytes."""
    own = where(records, kind="certified", data="mnist", samples=TRAINING)
    entries = [entry for record in own for entry in record.measured["entries"] if entry["gap"] <= GAP]
    best = chosen(entries, CERTIFIED[0][0])
    if best is None:
        return {}
    # A bound is rounded up: "within 0.33 %" must hold for a gap of 0.3305 %.
    gap = math.ceil(1e4 * best["gap"]) / 100.0
    said = f"{best['neurons']} binary convolutions, within {gap:.2f} % of the best objective of all such networks"
    size, accuracy_of_best = f"{best['bytes'] / 1e3:.1f} kB", f"{100 * best['test_accuracy']:.1f} %"
    answer = f"{accuracy_of_best} of the MNIST test images correctly, in {size}: {said}"
    rivals = where(records, kind="binary_cnn", data="mnist", samples=TRAINING)
    if cnn := chosen([entry for record in rivals for entry in record.measured["entries"]], best["bytes"]):
        said += f"; a binary CNN trained by gradients reaches {100 * cnn['test_accuracy']:.1f} % in "
        said += f"{cnn['bytes'] / 1e3:.1f} kB, without a bound"
    short = f"of the MNIST test images are classified correctly by a network of {size}: {said}"
    return {"answer": answer, "short": table_row(f"**{accuracy_of_best}**", short)}


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    ours = dict.fromkeys(("certified", "refit", "proof"), ("column_generation", "refinement", "encoding"))
    moments = {"relaxation": ("relaxation", "encoding"), "logistic": ("encoding",)}
    return (ours | moments).get(case["kind"], ())


#: The answer on top of the page.
ANSWER = """\
A certified network classifies {convolutions.answer}. Such networks are more accurate than
[decision forests]{convolutions: above a decision forest = 7 supported} in files of equal size, and less accurate than
[binary CNNs]{convolutions: above a binary CNN = 7 contradicted}, which have no bound. With the squared loss, optima
over all networks are [proven]{convolutions: Squared loss = 3 supported}, to 1e-6 for patches up to 4 x 4.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("relaxation", "column_generation", "refinement", "encoding")
EXPERIMENT = experiment_in(__name__, "Certified convolutions", "Targets of the package", version=2)
