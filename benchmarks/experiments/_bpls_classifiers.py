"""Back-propagating least squares and its competitors as classifiers: what one training measures."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from benchmarks.experiments._bpls_toys import optimizer_of
from benchmarks.experiments._common import spread
from qsdp.baselines.bpls import BPLSClassifier
from qsdp.baselines.bpls._network import Network, random_weights
from qsdp.bench import Record
from qsdp.classes import choose_classes

#: scikit-learn's own, whose coding of the classes the specification's splits go by.
LOADERS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def digits() -> Split:
    """Return ``X, X_test, y, y_test`` of the specification: 1437 and 360 images, pixels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=360, stratify=y, random_state=0)
    return X, X_test, y, y_test


def bundled(name: str) -> Split:
    """Return a quarter of a set for testing, standardised by training statistics."""
    X, y = LOADERS[name](return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return (X - mean) / deviation, (X_test - mean) / deviation, y, y_test


def accuracies(network: Network, split: Split) -> list[float]:
    """Return the accuracies of a network in training and test; classes are 0, 1, ..."""
    X, X_test, y, y_test = split
    return [
        float(np.mean(choose_classes(network.preactivations(data)) == codes))
        for data, codes in ((X, y), (X_test, y_test))
    ]


def least_squares(split: Split, options: dict[str, Any], seed: int, *, stages: bool = True) -> dict[str, Any]:
    """Train once, and measure the end; in a training of their own, the stages before it and the simpler models.

    The test data are looked at here only; nothing is chosen by them. "cpu" are seconds of one processor, pass by pass,
    with the evaluation on the training data.
    """
    X, _, y, _ = split
    found: dict[str, Any] = {}
    if stages:
        first = BPLSClassifier(**{**options, "tau_max": 0}, references=True, random_state=seed).fit(X, y)
        found = {name: accuracies(each.network, split) for name, each in first.report_.references.items()}
        found["initial"] = accuracies(first.network_, split)
    marks = [time.process_time()]
    model = BPLSClassifier(**options, random_state=seed, callback=lambda _: marks.append(time.process_time()))
    model.fit(X, y)
    history, report = model.history_, model.report_
    return {
        **found,
        "final": accuracies(model.network_, split),
        "epochs": history.n_epochs,
        "misses": history.extra["misses"],
        "seconds": history.seconds,
        "cpu": list(np.diff(marks)),
        "clipped": history.extra["clipped"],
        "parameters": model.network_.n_weights,
        "rank": report.passes[0].layers[0].designs[0].rank,
    }


def per_epoch(records: Sequence[Record]) -> float:
    """Return the median over trainings of the mean processor seconds of an epoch."""
    return float(np.median([np.mean(record.measured["cpu"]) for record in records]))


def both(records: Sequence[Record], name: str, digits: int = 3) -> str:
    """Return mean accuracies in training and test as text, with the deviation in test."""
    values = np.array([record.measured[name] for record in records])
    return f"{values[:, 0].mean():.{digits}f} / {spread(values[:, 1], digits)}"


def peak_memory(split: Split, options: dict[str, Any], seed: int) -> int:
    """Return the most bytes that a training holds beside the data."""
    X, _, y, _ = split
    tracemalloc.start()
    BPLSClassifier(**options, random_state=seed).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return int(peak)


def gradient(
    split: Split,
    *,
    optimizer: str,
    rate: float,
    batch: int,
    epochs: int,
    activation: str,
    seed: int,
    width: int = 50,
) -> dict[str, Any]:
    """Train the same network by a gradient method of PyTorch, from the same U[-1, 1] start, on the cross-entropy."""
    import torch

    X, X_test, y, y_test = split
    classes = int(y.max()) + 1
    starts = random_weights(X.shape[1], (width, classes), "input", np.random.default_rng(seed))
    first, last = (torch.tensor(W, dtype=torch.float32, requires_grad=True) for W in starts)
    parts = [
        (torch.tensor(np.column_stack([data, np.ones(len(data))]), dtype=torch.float32), torch.tensor(codes))
        for data, codes in ((X, y.astype(np.int64)), (X_test, y_test.astype(np.int64)))
    ]
    method = optimizer_of(optimizer, [first, last], rate)
    order = torch.Generator().manual_seed(seed)

    def outputs(inputs: Any) -> Any:
        hidden = inputs @ first
        return (torch.softmax(hidden, 1) if activation == "softmax" else torch.sigmoid(hidden)) @ last

    data, labels = parts[0]
    curve, seconds, cpu = [], [], []
    for _ in range(epochs):
        start, begin = time.perf_counter(), time.process_time()
        for rows in torch.randperm(len(data), generator=order).split(batch):
            loss = torch.nn.functional.cross_entropy(outputs(data[rows]), labels[rows])
            method.zero_grad()
            loss.backward()
            method.step()
        cpu.append(time.process_time() - begin)
        seconds.append(time.perf_counter() - start)
        with torch.no_grad():
            curve.append([float((outputs(inputs).argmax(1) == codes).double().mean()) for inputs, codes in parts])
    state = sum(
        value.numel() * value.element_size()
        for kept in method.state.values()
        for value in kept.values()
        if torch.is_tensor(value)
    )
    weights = first.numel() + last.numel()
    return {
        "curve": curve,
        "best": [max(values) for values in zip(*curve, strict=True)],
        "final": curve[-1],
        "seconds": seconds,
        "cpu": cpu,
        "parameters": weights,
        # Weights and gradients of four bytes, and what the optimiser keeps.
        "bytes": 8 * weights + state,
    }
