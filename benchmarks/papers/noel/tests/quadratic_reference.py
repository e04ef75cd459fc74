"""What the quadratic systems are checked against: formulas written out in torch, and loops that count products."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.papers.noel import Layer, QuadraticNetwork, get_family, starting_parameters

#: z(x) of every family as the specification's table has it, for one start: A (B, n) -> (B, m).
FORMULAS: dict[str, Any] = {
    "linear": lambda A, P: A @ P["W"].T + P["b"],
    "qnn": lambda A, P: torch.einsum("si,kij,sj->sk", A, P["Q"], A) + A @ P["W"].T + P["b"],
    "rpqnn": lambda A, P: (A @ P["W"].T + P["b"]) * (A @ P["U"].T + P["c"]),
    "fan": lambda A, P: (A @ P["Wr"].T + P["br"]) * (A @ P["Wg"].T + P["bg"]) + (A * A) @ P["Wb"].T + P["c"],
    "fan_compact": lambda A, P: A @ P["Wr"].T + (A * A) @ P["Wb"].T + P["c"],
    "poly2": lambda A, P: (A @ P["Wr"].T + P["br"]) * (A @ P["Wg"].T + P["bg"] + 1.0),
    "product_linear": lambda A, P: (A @ P["W1"].T) * (A @ P["W2"].T) + A @ P["W3"].T,
    "power_only": lambda A, P: (A * A) @ P["Wb"].T + P["c"],
    "form_only": lambda A, P: torch.einsum("si,kij,sj->sk", A, P["Q"], A),
    "square_act": lambda A, P: (A @ P["W"].T + P["b"]) ** 2,
}

ACTIVATIONS: dict[str, Any] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "identity": lambda z: z,
}


def random_layer(
    name: str, n: int, m: int, rng: np.random.Generator, activation: str = "identity", coupling: str = "tied"
) -> Layer:
    """Return a layer with all its parameters random, biases included."""
    family = get_family(name, coupling)
    P = starting_parameters(family, n, m, rng)
    for value in P.values():
        if value.ndim == 1:
            value += rng.normal(0.0, 0.5, value.shape)
    return Layer(family, P, activation)


def random_network(
    specs: list[tuple[str, int, str]], n: int, rng: np.random.Generator, coupling: str = "tied"
) -> QuadraticNetwork:
    """Return a network of (family, width, activation)."""
    layers = []
    for name, m, activation in specs:
        layers.append(random_layer(name, n, m, rng, activation, coupling))
        n = m
    return QuadraticNetwork(layers)


class TorchNetwork:
    """The same network on free variables of torch, as a coupling defines them; plain gradient descent by autograd."""

    def __init__(self, network: QuadraticNetwork, coupling: str = "tied") -> None:
        self.coupling = coupling
        self.names = [(layer.family.name, layer.activation.name) for layer in network.layers]
        self.free = [
            {name: torch.tensor(self._free(value), requires_grad=True) for name, value in layer.parameters.items()}
            for layer in network.layers
        ]

    def _free(self, value: np.ndarray) -> np.ndarray:
        if value.ndim < 3 or self.coupling == "full":
            return value.copy()
        rows, columns = np.triu_indices(value.shape[-1])
        scale = np.where(rows == columns, 1.0, 2.0) if self.coupling == "packed" else 1.0
        return value[:, rows, columns] * scale

    def parameters(self) -> list[dict[str, torch.Tensor]]:
        """Return Q, W, b, ... from the free variables."""
        return [
            {name: self._matrix(value) if name == "Q" else value for name, value in layer.items()}
            for layer in self.free
        ]

    def _matrix(self, value: torch.Tensor) -> torch.Tensor:
        if self.coupling == "full":
            return 0.5 * (value + value.transpose(1, 2))
        m, length = value.shape
        n = int((np.sqrt(8 * length + 1) - 1) / 2 + 0.5)
        rows, columns = np.triu_indices(n)
        half = torch.tensor(np.where(rows == columns, 1.0, 0.5)) if self.coupling == "packed" else 1.0
        Q = torch.zeros((m, n, n), dtype=torch.float64)
        Q[:, rows, columns] = value * half
        Q[:, columns, rows] = value * half
        return Q

    def loss(self, X: np.ndarray, Y: np.ndarray, loss: str) -> torch.Tensor:
        """Return the mean over samples."""
        A = Z = torch.as_tensor(X)
        for (family, activation), P in zip(self.names, self.parameters(), strict=True):
            Z = FORMULAS[family](A, P)
            A = ACTIVATIONS[activation](Z)
        T = torch.as_tensor(Y)
        if loss == "cross_entropy":
            return -(T * torch.log_softmax(Z, dim=1)).sum(dim=1).mean()
        every = torch.nn.functional.binary_cross_entropy_with_logits(Z, T, reduction="none")
        return every.sum(dim=1).mean()

    def variables(self) -> list[torch.Tensor]:
        """Return all free variables."""
        return [value for layer in self.free for value in layer.values()]

    def step(self, X: np.ndarray, Y: np.ndarray, loss: str, rate: float) -> None:
        """Take one step of gradient descent."""
        found = torch.autograd.grad(self.loss(X, Y, loss), self.variables())
        with torch.no_grad():
            for value, gradient in zip(self.variables(), found, strict=True):
                value -= rate * gradient


class Counted:
    """A number that counts the products it takes part in; additions are free, and so is doubling by one."""

    count = 0

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return Counted(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        Counted.count += 1
        return Counted(self.value * other.value)


def counted(array: np.ndarray) -> np.ndarray:
    """Return an array of counted numbers."""
    return np.vectorize(Counted, otypes=[object])(array)


def plain(array: np.ndarray) -> np.ndarray:
    """Return the values of counted numbers."""
    return np.vectorize(lambda number: number.value, otypes=[float])(array)


def since(before: int) -> int:
    """Return the products since a count."""
    return Counted.count - before


class LoopLayer:
    """Algorithms A1 and A2 for one layer and one sample, one number at a time, as the specification writes them."""

    def __init__(self, layer: Layer) -> None:
        self.name = layer.family.name
        self.n, self.m = layer.size
        self.P = {name: counted(value) for name, value in layer.parameters.items()}

    def _dot(self, w: np.ndarray, x: np.ndarray) -> Counted:
        total = w[0] * x[0]
        for a, b in zip(w[1:], x[1:], strict=True):
            total = total + a * b
        return total

    def _dots(self, W: str, x: np.ndarray, b: str) -> list[Counted]:
        return [self._dot(row, x) + bias for row, bias in zip(self.P[W], self.P[b], strict=True)]

    def forward(self, a: np.ndarray) -> list[Counted]:
        self.a = a
        if self.name == "linear":
            return self._dots("W", a, "b")
        if self.name == "qnn":
            self.V = [[self._dot(row, a) for row in Q] for Q in self.P["Q"]]
            sums = [[w + v for w, v in zip(*rows, strict=True)] for rows in zip(self.P["W"], self.V, strict=True)]
            return [self._dot(np.array(row), a) + b for row, b in zip(sums, self.P["b"], strict=True)]
        if self.name == "rpqnn":
            self.v1, self.v2 = self._dots("W", a, "b"), self._dots("U", a, "c")
            return [p * q for p, q in zip(self.v1, self.v2, strict=True)]
        self.squares = [x * x for x in a]
        self.v1, self.v2 = self._dots("Wr", a, "br"), self._dots("Wg", a, "bg")
        power = self._dots("Wb", np.array(self.squares), "c")
        return [p * q + r for p, q, r in zip(self.v1, self.v2, power, strict=True)]

    def _transposed(self, W: np.ndarray, e: list[Counted]) -> list[Counted]:
        return [self._dot(column, np.array(e)) for column in W.T]

    def delta(self, d: list[Counted], slope: np.ndarray) -> list[Counted]:
        self.d = d
        if self.name == "linear":
            back = self._transposed(self.P["W"], d)
        elif self.name == "qnn":
            rows = [[w + (v + v) for w, v in zip(*pair, strict=True)] for pair in zip(self.P["W"], self.V, strict=True)]
            back = self._transposed(np.array(rows), d)
        else:
            self.e1 = [x * y for x, y in zip(d, self.v2, strict=True)]
            self.e2 = [x * y for x, y in zip(d, self.v1, strict=True)]
            first, second = ("W", "U") if self.name == "rpqnn" else ("Wr", "Wg")
            sums = (self._transposed(self.P[first], self.e1), self._transposed(self.P[second], self.e2))
            back = [p + q for p, q in zip(*sums, strict=True)]
            if self.name == "fan":
                power = self._transposed(self.P["Wb"], d)
                back = [b + self._double(x * p) for b, x, p in zip(back, self.a, power, strict=True)]
        return [b * s for b, s in zip(back, slope, strict=True)]

    @staticmethod
    def _double(number: Counted) -> Counted:
        return number + number

    def update(self, rate: Counted) -> None:
        if self.name in {"linear", "qnn"}:
            steps = [rate * d for d in self.d]
            self._outer("W", "b", steps, self.a)
            if self.name == "qnn":
                self._form(steps)
            return
        e1, e2 = [rate * e for e in self.e1], [rate * e for e in self.e2]
        if self.name == "rpqnn":
            self._outer("W", "b", e1, self.a)
            self._outer("U", "c", e2, self.a)
            return
        self._outer("Wr", "br", e1, self.a)
        self._outer("Wg", "bg", e2, self.a)
        self._outer("Wb", "c", [rate * d for d in self.d], np.array(self.squares))

    def _outer(self, W: str, b: str, steps: list[Counted], x: np.ndarray) -> None:
        for k, step in enumerate(steps):
            self.P[b][k] = self.P[b][k] - step
            for i in range(self.n):
                self.P[W][k, i] = self.P[W][k, i] - step * x[i]

    def _form(self, steps: list[Counted]) -> None:
        n, a = self.n, self.a
        M = {(i, j): a[i] * a[j] for i in range(n) for j in range(i, n)}
        for k, step in enumerate(steps):
            for (i, j), product in M.items():
                change = step * product
                change = change if i == j else self._double(change)
                self.P["Q"][k, i, j] = self.P["Q"][k, i, j] - change
                if i != j:
                    self.P["Q"][k, j, i] = self.P["Q"][k, i, j]
