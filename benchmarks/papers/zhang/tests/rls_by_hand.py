"""Recursive least squares transcribed from the algorithms, and back-propagation by hand, in NumPy.

Nothing here is shared with the package. Parameters of a map are (n_in + 1, n_out): weights over bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


def literal_update(theta, P, omega, G, mean, *, times=1, lam=1.0, k=0.1, eta=1.0, alpha=0.0, gamma=0.0):
    """Return theta, P, omega after one step: the lines of the algorithm, one by one."""
    kT = k * times
    u = P @ mean
    h = lam + kT * (mean @ u)
    omega = alpha * omega - (eta / h) * (P @ G)
    P = P / lam - (kT / (lam * h)) * np.outer(u, u)
    theta = theta + omega - gamma * (P @ np.sign(theta))
    return theta, P, omega


@dataclass
class Run:
    """Parameters by name, trained by `literal_update` with clipping."""

    thetas: dict
    lam: float = 1.0
    k: float = 0.1
    alpha: float = 0.0
    gamma: float = 0.0
    clip: float = np.inf
    etas: dict = field(default_factory=dict)

    def __post_init__(self):
        self.P = {name: np.eye(len(theta)) for name, theta in self.thetas.items()}
        self.omega = {name: np.zeros_like(theta) for name, theta in self.thetas.items()}

    def step(self, gradients, means, times):
        norm = np.sqrt(sum(np.sum(G * G) for G in gradients.values()))
        share = min(1.0, self.clip / (norm + 1e-6))
        for name, G in gradients.items():
            self.thetas[name], self.P[name], self.omega[name] = literal_update(
                self.thetas[name],
                self.P[name],
                self.omega[name],
                share * G,
                means[name],
                times=times[name],
                lam=self.lam,
                k=self.k,
                eta=self.etas.get(name, 1.0),
                alpha=self.alpha,
                gamma=self.gamma,
            )


def ones(X):
    return np.concatenate([X, np.ones((*X.shape[:-1], 1))], axis=-1)


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


# -- fully connected ---------------------------------------------------------------------------------


def dense(thetas, X, targets, names=("0", "2")):
    """Return gradients, means and times of a network with ReLU hidden layers, loss 1/(2M) ||Z - Z*||^2."""
    inputs, Y = [], X
    for number, name in enumerate(names):
        inputs.append(ones(Y))
        Z = inputs[-1] @ thetas[name]
        Y = np.maximum(Z, 0.0) if number + 1 < len(names) else Z
    delta = (Z - targets) / len(X)
    gradients = {}
    for number in reversed(range(len(names))):
        gradients[names[number]] = inputs[number].T @ delta
        delta = (delta @ thetas[names[number]][:-1].T) * (inputs[number][:, :-1] > 0.0)
    means = {name: A.mean(axis=0) for name, A in zip(names, inputs, strict=True)}
    return gradients, means, dict.fromkeys(names, 1)


# -- convolution -------------------------------------------------------------------------------------


def patches(images, kernel, stride=1, padding=0):
    """Return receptive fields of shape (M, U, V, C kh kw), in the order channel, row, column."""
    images = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows, columns = ((n - kernel) // stride + 1 for n in images.shape[2:])
    fields = [
        [
            images[:, :, u * stride : u * stride + kernel, v * stride : v * stride + kernel].reshape(len(images), -1)
            for v in range(columns)
        ]
        for u in range(rows)
    ]
    return np.array(fields).transpose(2, 0, 1, 3)


def convolution(thetas, images, targets, kernel=3, stride=1, padding=1):
    """Return gradients, means and times of convolution "0", ReLU, flattening and linear layer "3"."""
    fields = ones(patches(images, kernel, stride, padding))
    Z = fields @ thetas["0"]
    # PyTorch flattens (channel, row, column).
    Y = np.maximum(Z, 0.0).transpose(0, 3, 1, 2).reshape(len(images), -1)
    top = ones(Y)
    delta = (top @ thetas["3"] - targets) / len(images)
    back = (delta @ thetas["3"][:-1].T).reshape(len(images), Z.shape[3], *Z.shape[1:3]).transpose(0, 2, 3, 1)
    gradients = {"3": top.T @ delta, "0": np.einsum("muvi,muvo->io", fields, back * (Z > 0.0))}
    return gradients, {"3": top.mean(axis=0), "0": fields.mean(axis=(0, 1, 2))}, {"3": 1, "0": 1}


# -- recurrent layers, sequences (T, M, n) -----------------------------------------------------------


def rnn_forward(w, v, X):
    T, M, n = len(X), X.shape[1], v.shape[1]
    Y = np.zeros((T + 1, M, n))
    for t in range(T):
        Y[t + 1] = np.tanh(ones(X[t]) @ w + ones(Y[t]) @ v)
    return Y, None


def rnn_backward(w, v, X, Y, cache, above):
    """Return gradients of both maps, and that of the layer's inputs, given that of its outputs from above."""
    G_w, G_v, below = np.zeros_like(w), np.zeros_like(v), np.zeros_like(X)
    later = np.zeros_like(Y[0])
    for t in reversed(range(len(X))):
        delta = (above[t] + later) * (1.0 - Y[t + 1] ** 2)
        G_w += ones(X[t]).T @ delta
        G_v += ones(Y[t]).T @ delta
        later, below[t] = delta @ v[:-1].T, delta @ w[:-1].T
    return G_w, G_v, below


def lstm_forward(w, v, X):
    T, M, n = len(X), X.shape[1], v.shape[1] // 4
    Y, cache = np.zeros((T + 1, M, n)), []
    C = np.zeros((M, n))
    for t in range(T):
        z = ones(X[t]) @ w + ones(Y[t]) @ v
        # PyTorch's order of the gates: input, forget, modulation, output.
        i, f, g, o = sigmoid(z[:, :n]), sigmoid(z[:, n : 2 * n]), np.tanh(z[:, 2 * n : 3 * n]), sigmoid(z[:, 3 * n :])
        before, C = C, i * g + f * C
        Y[t + 1] = o * np.tanh(C)
        cache.append((i, f, g, o, before, C))
    return Y, cache


def lstm_backward(w, v, X, Y, cache, above):
    G_w, G_v, below = np.zeros_like(w), np.zeros_like(v), np.zeros_like(X)
    later, dC_next = np.zeros_like(Y[0]), np.zeros_like(Y[0])
    for t in reversed(range(len(X))):
        i, f, g, o, before, C = cache[t]
        dY = above[t] + later
        dO, dC = dY * np.tanh(C), dY * o * (1.0 - np.tanh(C) ** 2) + dC_next
        dI, dG, dF, dC_next = dC * g, dC * i, dC * before, dC * f
        delta = np.concatenate(
            [dI * i * (1 - i), dF * f * (1 - f), dG * (1 - g**2), dO * o * (1 - o)],
            axis=1,
        )
        G_w += ones(X[t]).T @ delta
        G_v += ones(Y[t]).T @ delta
        later, below[t] = delta @ v[:-1].T, delta @ w[:-1].T
    return G_w, G_v, below


CELLS = {"RNN": (rnn_forward, rnn_backward), "LSTM": (lstm_forward, lstm_backward)}


def recurrent(cell, thetas, X, targets, layers=("first", "second"), output="output", t0=1):
    """Return gradients, means and times of stacked recurrent layers and a linear output at t = t0, ..., T.

    Sequences are (T, M, n), targets (T - t0 + 1, M, C); loss 1/(2M) summed over time.
    """
    forward, backward = CELLS[cell]
    T, M = X.shape[:2]
    inputs, states, caches = [X], [], []
    for layer in layers:
        Y, cache = forward(thetas[f"{layer}.input"], thetas[f"{layer}.recurrent"], inputs[-1])
        inputs.append(Y[1:])
        states.append(Y)
        caches.append(cache)
    top = ones(inputs[-1][t0 - 1 :])
    delta = (top @ thetas[output] - targets) / M
    gradients = {output: np.einsum("tmi,tmo->io", top, delta)}
    means, times = {output: top.mean(axis=(0, 1))}, {output: T - t0 + 1}
    above = np.zeros_like(inputs[-1])
    above[t0 - 1 :] = delta @ thetas[output][:-1].T
    for number in reversed(range(len(layers))):
        w, v = f"{layers[number]}.input", f"{layers[number]}.recurrent"
        gradients[w], gradients[v], above = backward(
            thetas[w], thetas[v], inputs[number], states[number], caches[number], above
        )
        means[w] = ones(inputs[number]).mean(axis=(0, 1))
        means[v] = ones(states[number][:-1]).mean(axis=(0, 1))
        times[w] = times[v] = T
    return gradients, means, times
