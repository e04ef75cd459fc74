"""Back-propagating least squares and its competitors as classifiers: what one training measures."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.experiments._data import Split
from qsdp.baselines import History
from qsdp.baselines.bpls import BPLSClassifier
from qsdp.baselines.bpls._network import Network, random_weights
from qsdp.bench import Record
from qsdp.estimators.classes import choose_classes


def accuracies(network: Network, split: Split) -> list[float]:
    """Return the accuracies of a network in training and test; classes are 0, 1, ..."""
    X, X_test, y, y_test = split
    return [
        float(np.mean(choose_classes(network.preactivations(data)) == codes))
        for data, codes in ((X, y), (X_test, y_test))
    ]


def least_squares(split: Split, options: dict[str, Any], seed: int, *, stages: bool = True) -> dict[str, Any]:
    """Train once, and measure every pass; in a training of their own, the first pass's stages and the simpler models.

    "curve" are the accuracies, after every pass, of the network that is kept so far. "cpu" are the seconds of one
    thread, pass by pass, with the evaluation on the training data. The test data are looked at here only, outside the
    clock; nothing is chosen by them.
    """
    X, _, y, _ = split
    found: dict[str, Any] = {}
    curve: list[list[float]] = []
    cpu: list[float] = []
    with threadpool_limits(limits=1):
        if stages:
            first = BPLSClassifier(**{**options, "tau_max": 0}, references=True, random_state=seed).fit(X, y)
            found = {name: accuracies(each.network, split) for name, each in first.report_.references.items()}
            found["initial"] = accuracies(first.network_, split)

        def after(_: History) -> None:
            nonlocal start
            cpu.append(time.process_time() - start)
            curve.append(accuracies(model.network_, split))
            start = time.process_time()

        model = BPLSClassifier(**options, random_state=seed, callback=after)
        start = time.process_time()
        model.fit(X, y)
    history = model.history_
    return {
        **found,
        "final": accuracies(model.network_, split),
        "curve": curve,
        "epochs": history.n_epochs,
        "misses": history.extra["misses"],
        "seconds": history.seconds,
        "cpu": cpu,
        "clipped": history.extra["clipped"],
    }


def per_epoch(records: Sequence[Record]) -> float:
    """Return the median over trainings of the mean processor seconds of an epoch."""
    return float(np.median([np.mean(record.measured["cpu"]) for record in records if record.measured["cpu"]]))


def peak_memory(split: Split, options: dict[str, Any], seed: int) -> int:
    """Return the most bytes that the pass over all samples holds beside the data; no later pass has more samples."""
    X, _, y, _ = split
    model = BPLSClassifier(**{**options, "tau_max": 0}, random_state=seed)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return int(peak)


def optimizer_of(name: str, parameters: list[Any], rate: float) -> Any:
    """Return an optimiser of PyTorch with its defaults: momentum 0.9, betas (0.9, 0.999)."""
    import torch

    if name == "Adam":
        return torch.optim.Adam(parameters, rate, fused=True)
    if name == "AdaGrad":
        return torch.optim.Adagrad(parameters, rate, fused=True)
    if name == "NAG":
        return torch.optim.SGD(parameters, rate, momentum=0.9, nesterov=True, fused=True)
    return torch.optim.SGD(parameters, rate, fused=True)


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
    """Train the same network by a gradient method of PyTorch, from the same U[-1, 1] start, on the cross-entropy.

    By one thread; "cpu" are its seconds of an epoch, without evaluation.
    """
    import torch

    torch.set_num_threads(1)
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
    return {
        "curve": curve,
        "best": [max(values) for values in zip(*curve, strict=True)],
        "final": curve[-1],
        "seconds": seconds,
        "cpu": cpu,
        # Weights and gradients of four bytes, and what the optimiser keeps.
        "bytes": 8 * (first.numel() + last.numel()) + state,
    }


def courses(group: Sequence[Record]) -> tuple[dict[float, float], dict[float, float]]:
    """Return mean test accuracies by epoch, and by the mean processor seconds until then.

    A training that ended before others keeps its accuracy and needs no more seconds.
    """
    length = max(len(record.measured["curve"]) for record in group)
    tests = [[test for _, test in record.measured["curve"]] for record in group]
    accuracies = np.mean([test + test[-1:] * (length - len(test)) for test in tests], axis=0).tolist()
    cpu = [record.measured["cpu"] for record in group]
    seconds = np.cumsum(np.mean([each + [0.0] * (length - len(each)) for each in cpu], axis=0))
    return dict(enumerate(accuracies, start=1)), dict(zip(seconds.tolist(), accuracies, strict=True))
