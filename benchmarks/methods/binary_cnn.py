"""Small convolutional networks of +-1 weights, trained by the straight-through estimator.

Convolutions of 3 x 3 filters are followed by batch normalisation and ReLU, and, where another convolution follows, by
means of 2 x 2 positions. Means over regions then feed one dense layer. All weights are +-1; activations are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["BinaryCNN", "train_binary_cnn"]

#: Side of the filters, images in a batch, and in a chunk of predictions.
_SIDE, _BATCH, _CHUNK = 3, 500, 2000

#: Bits of a real number: two for each channel, a scale and a threshold, and two for each class.
_REAL = 32


@dataclass(frozen=True, eq=False)
class BinaryCNN:
    """Trained network, with the side of its images and the squares of pixels that are averaged first."""

    module: Any
    image_side: int
    downsample: int

    @property
    def n_bits(self) -> int:
        """One bit for each weight, and 32 for each scale and threshold, into which the normalisation folds."""
        module = self.module
        weights = sum(one.numel() for one in [*module.filters, module.dense])
        reals = 2 * (sum(len(one) for one in module.filters) + module.dense.shape[0])
        return int(weights + _REAL * reals)

    def predict(self, images: Any) -> np.ndarray:
        """Return the outputs (n, C) for images (n, side * side)."""
        import torch

        self.module.eval()
        device = self.module.dense.device
        with torch.no_grad():
            parts = [
                self.module(_tensor(images[start : start + _CHUNK], self.image_side, self.downsample, device))
                for start in range(0, len(images), _CHUNK)
            ]
        return torch.cat(parts).cpu().double().numpy()


def train_binary_cnn(
    images: Any,
    labels: Any,
    channels: Sequence[int],
    *,
    regions: int,
    downsample: int = 1,
    rate: float = 3e-3,
    epochs: int = 100,
    seed: int = 0,
) -> BinaryCNN:
    """Train by Adam with a cosine schedule on the cross-entropy, on a GPU if there is one.

    Parameters
    ----------
    images : ndarray of shape (n, side * side), uint8
    labels : ndarray of shape (n,)
        Classes 0, 1, ...
    channels : sequence of int
        Filters of each convolution.
    regions : int
        The dense layer sees means over regions x regions parts of the last convolution's positions.
    downsample : int, default=1
        Squares of that many pixels are averaged first.
    """
    import torch

    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side = round(images.shape[1] ** 0.5)
    x, y = _tensor(images, side, downsample, device), torch.as_tensor(labels.astype(np.int64)).to(device)
    module = _module(channels, regions, int(labels.max()) + 1).to(device)
    steps = max(1, len(x) // _BATCH)
    optimizer = torch.optim.Adam(
        module.parameters(), lr=torch.tensor(rate, device=device), capturable=device.type == "cuda"
    )
    batch, classes = x[:_BATCH].clone(), y[:_BATCH].clone()
    step = _captured(module, optimizer, batch, classes)
    generator = torch.Generator().manual_seed(seed)
    module.train()
    for epoch in range(epochs):
        order = torch.randperm(len(x), generator=generator).to(device)
        for k in range(steps):
            done = (epoch + k / steps) / epochs
            optimizer.param_groups[0]["lr"].fill_(rate * 0.5 * (1.0 + np.cos(np.pi * done)))
            rows = order[k * _BATCH : (k + 1) * _BATCH]
            batch.copy_(x[rows])
            classes.copy_(y[rows])
            step()
    return BinaryCNN(module, side, downsample)


def _captured(module: Any, optimizer: Any, batch: Any, classes: Any) -> Any:
    """Return a function that takes a step on the batch, as one CUDA graph where there is a GPU."""
    import torch

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.cross_entropy(module(batch), classes).backward()
        optimizer.step()
        with torch.no_grad():
            for weight in [*module.filters, module.dense]:
                weight.clamp_(-1.0, 1.0)

    if batch.device.type != "cuda":
        return step
    state = {name: value.clone() for name, value in module.state_dict().items()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    # The steps before the capture do not count.
    module.load_state_dict(state)
    for one in optimizer.state.values():
        for value in one.values():
            value.zero_()
    return graph.replay


def _tensor(images: Any, side: int, downsample: int, device: Any) -> Any:
    """Return images as a tensor (n, 1, height, width) of pixels between -1 and 1."""
    import torch

    x = torch.as_tensor(np.asarray(images)).to(device).reshape(-1, 1, side, side).float()
    return torch.nn.functional.avg_pool2d(x, downsample) / 127.5 - 1.0


def _module(channels: Sequence[int], regions: int, n_classes: int) -> Any:
    import torch
    from torch import nn

    from qsdp.baselines.straight_through import straight_through

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inputs = [1, *channels[:-1]]
            shapes = [(out, n, _SIDE, _SIDE) for out, n in zip(channels, inputs, strict=True)]
            self.filters = nn.ParameterList([nn.Parameter(torch.empty(shape).uniform_(-1.0, 1.0)) for shape in shapes])
            self.norms = nn.ModuleList([nn.BatchNorm2d(out) for out in channels])
            self.dense = nn.Parameter(torch.empty(n_classes, channels[-1] * regions**2).uniform_(-1.0, 1.0))
            self.last = nn.BatchNorm1d(n_classes)
            self.pool = nn.AdaptiveAvgPool2d(regions)

        def forward(self, x: Any) -> Any:
            for k, (weights, norm) in enumerate(zip(self.filters, self.norms, strict=True)):
                x = nn.functional.conv2d(x, straight_through(weights, 1))
                if k + 1 < len(self.filters):
                    x = nn.functional.avg_pool2d(nn.functional.relu(norm(x)), 2)
            x = self.pool(nn.functional.relu(self.norms[-1](x))).flatten(1)
            return self.last(x @ straight_through(self.dense, 1).T)

    return Network()
