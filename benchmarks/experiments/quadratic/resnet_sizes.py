"""Sizes of residual networks with quadratic convolutions, beside Tables IV to VI of Fan et al.; and what a step costs.

Parameters are counted from the networks themselves. Processor seconds and memory are of one training step (forward,
backward) on CIFAR-sized noise. Errors on CIFAR-10 are not measured: they need its images and an
accelerator.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments._common import Records, experiment_in, timed, where
from qsdp.bench import Claim, Record, exact, not_measured

SOURCE = "Fan et al., Tables IV, V, VI"

NAMES = {
    "linear": "ResNet",
    "parabolic": "Parabolic-ResNet",
    "poly2": "PolyResNet",
    "fan_compact": "Compact-QResNet",
    "fan": "QResNet",
}

#: Parameters and time as printed, by family, depth, width of the first stage, and whether with ReZero.
PRINTED = {
    (family, int(depth), int(width), rezero == "1"): (parameters, None if spent == "-" else float(spent))
    for family, depth, width, rezero, parameters, spent in map(
        str.split, Path(__file__).with_name("resnets.txt").read_text(encoding="utf-8").splitlines()[1:]
    )
}

#: Images of a timed step; deepest timed network.
BATCH = 4
TIMED = 110


def cases(quick: bool) -> list[dict[str, Any]]:
    common = {"batch": BATCH, "repetitions": 1 if quick else 5}
    return [
        {"family": family, "depth": depth, "width": width, "timed": depth <= TIMED and width == 16, **common}
        | ({"rezero": True} if rezero else {})
        for family, depth, width, rezero in PRINTED
        if depth == 20 or not quick
    ]


def printed(case: dict[str, Any]) -> tuple[str, float | None]:
    return PRINTED[case["family"], case["depth"], case["width"], rezero(case)]


def rezero(case: dict[str, Any]) -> bool:
    return bool(case.get("rezero", False))


def name_of(case: dict[str, Any]) -> str:
    width = "" if case["width"] == 16 else f" ({case['width']} channels)"
    return f"{NAMES[case['family']]}{case['depth']}{width}{' + ReZero' if rezero(case) else ''}"


def run(case: dict[str, Any]) -> dict[str, Any]:
    import torch

    from benchmarks.experiments.quadratic._backward import saved_for_backward
    from qsdp.baselines.relinear import QResNet, count_trainable
    from qsdp.quadratic_theory import resnet_parameters

    depth, options = case["depth"], {"family": case["family"], "width": case["width"], "rezero": rezero(case)}
    measured: dict[str, Any] = {
        "parameters": count_trainable(QResNet(depth, device="meta", **options)),
        "parameters_with_separate_biases": resnet_parameters(depth, separate_biases=True, **options),
    }
    if not case["timed"]:
        return measured
    torch.manual_seed(0)
    network = QResNet(depth, **options)
    images, labels = torch.randn(case["batch"], 3, 32, 32), torch.arange(case["batch"]) % 10
    seconds = []
    for _ in range(case["repetitions"] + 1):
        step = timed(lambda: torch.nn.functional.cross_entropy(network(images), labels).backward())
        seconds.append(step[1] / case["batch"])
        network.zero_grad()
    measured["seconds_per_image"] = seconds[1:]
    measured["bytes_for_backward_per_image"] = saved_for_backward(network, images) / case["batch"]
    return measured


def shown(records: Records) -> list[Record]:
    """Return sizes and seconds beside the printed ones, seconds relative to those of the conventional network, too."""
    plain = {r.case["depth"]: r for r in where(records, family="linear", width=16)}
    found = []
    for record in records:
        case, measured = record.case, dict(record.measured)
        size, spent = printed(case)
        of_plain = PRINTED.get(("linear", case["depth"], 16, False), ("", None))[1]
        row = {
            "printed parameters": size,
            "as printed": _agrees(record),
            "printed time over ResNet": spent / of_plain if spent and of_plain else None,
        }
        if case["timed"]:
            row["time over ResNet"] = seconds(record) / seconds(plain[case["depth"]])
        found.append(replace(record, case={"network": name_of(case)}, measured=row | measured))
    return found


def seconds(record: Record) -> float:
    return float(np.median(record.measured["seconds_per_image"]))


def _agrees(record: Record) -> bool:
    """Return whether a count is the printed one, rounded or cut off."""
    size = printed(record.case)[0].rstrip("M")
    unit = 10.0 ** -len(size.partition(".")[2])
    counts = (record.measured["parameters"], record.measured["parameters_with_separate_biases"])
    return any(abs(count / 1e6 - float(size)) < unit for count in counts)


def claims(records: Records) -> list[Claim]:
    names = {f"{name_of(r.case)} ({r.measured['parameters'] / 1e6:.2f}M)": _agrees(r) for r in records}
    return [
        exact(SOURCE, "The networks have the printed numbers of parameters.", names),
        not_measured(
            SOURCE,
            "Errors of 5.44 to 9.80 % on CIFAR-10; quadratic networks beat the conventional and other quadratic ones.",
            "CIFAR-10 and an accelerator for 200 epochs are not here; networks, layers and rules are",
        ),
        not_measured(
            "Fan et al., Tables III, VII, VIII",
            "Quadratic VGG16, ResNets and LapDepth on CIFAR-100, ImageNet and KITTI.",
            "the data sets and an accelerator are not here",
        ),
    ]


EXPERIMENT = experiment_in(
    __name__,
    "Residual networks with quadratic convolutions: sizes and steps",
    "Fan, Li, Wang, Lai, Wang: On Expressivity and Trainability of Quadratic Networks, Tables IV, V, VI",
)
