"""The formulas of the paper in NumPy, written without the package: layers, gradients, updates."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]


def value(family: str, p: Arrays, X: np.ndarray) -> np.ndarray:
    """Pre-activations by the definition of a family; complex numbers go through."""
    if family == "fan":
        return (X @ p["wr"].T + p["br"]) * (X @ p["wg"].T + p["bg"]) + (X * X) @ p["wb"].T + p["c"]
    if family == "fan_compact":
        return X @ p["wr"].T + (X * X) @ p["wb"].T + p["c"]
    if family == "parabolic":
        return (X @ p["wr"].T + p["br"]) * (X @ p["wg"].T + p["bg"])
    if family == "poly2":
        return (X @ p["wr"].T + p["br"]) * (X @ p["wg"].T + p["bg"] + 1.0)
    assert family == "square_act"
    return (X @ p["wr"].T + p["br"]) ** 2


def fan_forward(X: np.ndarray, p: Arrays) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    U = X @ p["wr"].T + p["br"]
    V = X @ p["wg"].T + p["bg"]
    X2 = X * X
    return U * V + X2 @ p["wb"].T + p["c"], (U, V, X2)


def fan_backward(D: np.ndarray, X: np.ndarray, p: Arrays, cache: tuple[np.ndarray, ...]) -> tuple[Arrays, np.ndarray]:
    U, V, X2 = cache
    DV, DU = D * V, D * U
    gradients = {
        "wr": DV.T @ X,
        "br": DV.sum(0),
        "wg": DU.T @ X,
        "bg": DU.sum(0),
        "wb": D.T @ X2,
        "c": D.sum(0),
    }
    return gradients, DV @ p["wr"] + DU @ p["wg"] + 2.0 * X * (D @ p["wb"])


def relinear_step(
    p: Arrays, step: Arrays, variant: str, rates: dict[str, float], s_g: float = 0.0, s_b: float = 0.0
) -> None:
    """One row of Table I, in place; `step` has gradients or an optimiser's directions."""
    group = {"wr": "r", "br": "r", "wg": "g", "bg": "g", "wb": "b", "c": "b"}
    for k, s in (("wg", s_g), ("wb", s_b)):
        if variant == "sw-l1":
            p[k] = p[k] - s * np.sign(p[k])
        elif variant == "sw-l2":
            p[k] = p[k] * (1.0 - s)
    for k in p:
        p[k] = p[k] - rates[group[k]] * step[k]
    if variant == "sw-soft":
        for k, s in (("wg", s_g), ("wb", s_b)):
            p[k] = np.sign(p[k]) * np.maximum(np.abs(p[k]) - s, 0.0)


class NumpyOptimizer:
    """Directions of plain descent, momentum and Adam, textbook formulas."""

    def __init__(self, kind: str) -> None:
        self.kind, self.t = kind, 0
        self.first: Arrays = {}
        self.second: Arrays = {}

    def direction(self, gradients: Arrays) -> Arrays:
        self.t += 1
        if self.kind == "gd":
            return gradients
        if self.kind == "sgd":
            self.first = {k: 0.9 * self.first.get(k, 0.0) + g for k, g in gradients.items()}
            return self.first
        self.first = {k: 0.9 * self.first.get(k, 0.0) + 0.1 * g for k, g in gradients.items()}
        self.second = {k: 0.999 * self.second.get(k, 0.0) + 0.001 * g * g for k, g in gradients.items()}
        corrected = {k: v / (1.0 - 0.999**self.t) for k, v in self.second.items()}
        return {k: m / (1.0 - 0.9**self.t) / (np.sqrt(corrected[k]) + 1e-8) for k, m in self.first.items()}
