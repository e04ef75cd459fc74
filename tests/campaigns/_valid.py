"""Valid certificates of every kind, made without the library from random numbers: their claims are true exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from campaigns._exact import DATA, EPS, Arrays, Statement, digest, rows_of_images, used

Random = np.random.Generator
LOSSES = ("squared", "squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy")
KINDS = ("rows", "rows", "rows", "blocks", "blocks", "sums", "statistics", "images")


def draw(rng: Random, extreme: bool = False) -> tuple[str, Arrays, Arrays | None]:
    """Return the kind, the fields and, unless they are in the file, the data of a certificate with a bound of zero.

    Extreme ones have data, targets, weights and penalties of sizes that are far apart.
    """
    while True:
        try:
            return _drawn(rng, extreme)
        except OverflowError:
            # Sums beyond floats have no certificate: another one is drawn.
            continue


def _drawn(rng: Random, extreme: bool) -> tuple[str, Arrays, Arrays | None]:
    kind = str(rng.choice(KINDS))
    loss = "squared" if kind in ("sums", "statistics") else str(rng.choice(LOSSES))
    C = 0 if kind == "statistics" else int(rng.integers(2, 4)) if loss == "cross_entropy" else int(rng.integers(0, 4))
    drawn = [float(10.0 ** rng.uniform(-90, 90)) if extreme and rng.random() < 0.6 else 1.0 for _ in range(3)]
    size = dict(zip(("X", "y", "sample_weight"), drawn, strict=True))
    if kind in ("sums", "images"):
        size = dict.fromkeys(size, 1.0)
    f, side, images = _rows(rng, kind)
    rows = "forms" if kind == "statistics" else "X"
    f |= {rows: f[rows] * size["X"] if size["X"] != 1 else f[rows], "loss": np.array(loss)}
    n = len(f[rows])
    f |= {"y": _targets(rng, loss, n, C, size["y"]), "parameters": np.zeros(0), "beta": np.array(1.0)}
    if loss == "huber":
        f["parameters"] = np.array([2.0 ** int(rng.integers(-3, 3)) * size["y"]])
    if kind != "statistics" and rng.random() < 0.4:
        f["sample_weight"] = rng.integers(1, 9, n) / 4.0 * size["sample_weight"]
    f |= _network(rng, f, side, C)
    if extreme:
        f["alpha"] = f["alpha"] * float(np.clip(size["y"] / size["X"] ** (1 if "sizes" in f else 2), 1e-250, 1e250))
    f |= {"bound_type": np.array("exact"), "lower_bound": np.array(0.0)}
    f["objective"] = np.array(0.0)
    data = images | {name: f[name] for name in ("y", "sample_weight") if name in f} if images else None
    if kind == "statistics":
        f |= _statistics(rng, f["forms"])
    if kind == "sums":
        f |= _sums(rng, f)
        data = {name: f.pop(name) for name in ("X", "y", "sample_weight") if name in f}
        data = data if rng.random() < 0.3 else None
    else:
        f["nu"] = _dual_vector(rng, Statement(f))
    statement = Statement(f)
    value, price = statement.value, statement.penalty
    beta = float(value / price) * 10.0 ** float(rng.uniform(-0.7, 0.2) + rng.uniform(-20, 20) * extreme)
    f["beta"] = np.array(beta if 1e-290 < beta < 1e290 else 1.0)
    f |= _proof(
        rng, len(statement.blocks) * statement.outputs, max(len(b.scales) for b in statement.blocks), float(value)
    )
    f["objective"] = np.array(float(Statement(f).objective))
    return kind, f, data


def without_data(f: Arrays, data: Arrays) -> Arrays:
    """Return fields with the digest of the data of a user in place of data."""
    rest = {name: array for name, array in f.items() if name not in DATA}
    return rest | {"data_sha256": np.array(digest(used(rest, data)))}


def data_in(f: Arrays) -> Arrays:
    """Return the data in a file, as a user would bring them."""
    return {name: array for name, array in f.items() if name in DATA and not ("X" in f and name == "patches")}


def _rows(rng: Random, kind: str) -> tuple[Arrays, int, Arrays]:
    """Return rows and the kind of networks, the number of first-layer weights of a neuron, and images behind rows."""
    n, f = int(rng.integers(2, 8)), {"activation": np.zeros(0), "levels": np.array(2)}
    if kind == "images":
        size, regions, channels = int(rng.integers(1, 3)), int(rng.integers(1, 3)), (2,) * int(rng.random() < 0.2)
        patches = [size, rng.integers(1, 3), rng.integers(0, size), regions, rng.integers(1, 3)]
        patches = np.array([*patches, rng.integers(0, 3), rng.integers(0, 2), rng.choice([0, 4, 8])])
        images = rng.integers(0, 9, (n, *rng.integers(8, 10, 2), *channels)).astype(str(rng.choice(["u1", "i2", "i8"])))
        side = size**2 * (channels or (1,))[0] + int(patches[6] != 0)
        f |= _layout(rng, [side] * regions**2, [False] * regions**2)
        f |= {"X": rows_of_images(images, patches.tolist()), "patches": patches}
        return f, side, {"images": images, "patches": patches}
    if kind in ("blocks", "sums"):
        sizes = rng.integers(1, 4, int(rng.integers(1, 4))).tolist()
        linear = (rng.random(len(sizes)) < 0.4).tolist()
        P = sum(N if flat else N * (N + 1) // 2 for N, flat in zip(sizes, linear, strict=True))
        # Sums of more samples than entries are far from singular.
        rows = rng.integers(-9, 10, (P + 4 if kind == "sums" else n, P))
        f |= _layout(rng, sizes, linear)
        return f | {"X": rows if kind == "sums" or rng.random() < 0.6 else rng.standard_normal((n, P))}, max(sizes), {}
    d, f["levels"] = int(rng.integers(1, 4)), np.array(rng.choice([2, 2, 3, 4, 7]))
    if rng.random() < 0.4:
        f["activation"] = np.round(rng.standard_normal(3), 1) * (rng.random(3) < 0.8)
    side = d + int(np.any(f["activation"][1:]))
    if kind == "statistics":
        return f | {"forms": rng.integers(-9, 10, (n, side * (side + 1) // 2)) / 4.0}, side, {}
    return f | {"X": rng.integers(-9, 10, (n, d)) if rng.random() < 0.5 else rng.standard_normal((n, d))}, side, {}


def _layout(rng: Random, sizes: list[int], linear: list[bool]) -> Arrays:
    omega = rng.choice([1.0, 1.0, 0.5, 0.3, 3.0], len(sizes))
    return {"sizes": np.array(sizes), "linear": np.array(linear, dtype=bool), "omega": omega}


def _targets(rng: Random, loss: str, n: int, C: int, size: float) -> np.ndarray:
    shape = (n, C) if C else (n,)
    if loss == "cross_entropy":
        return np.eye(C)[rng.integers(0, C, n)]
    if loss in ("logistic", "hinge", "squared_hinge"):
        return rng.choice([-1.0, 1.0], shape)
    return (rng.integers(-20, 21, shape) / 4.0 if rng.random() < 0.5 else rng.standard_normal(shape)) * size


def _network(rng: Random, f: Arrays, side: int, C: int) -> Arrays:
    """Return a network of up to four neurons, of which some may be equal."""
    m = int(rng.integers(1, 5))
    alpha = rng.integers(-9, 10, (m, C) if C else m) / 64.0
    if "sizes" in f:
        block = rng.integers(0, len(f["sizes"]), m)
        inside = np.arange(side) < f["sizes"][block, None]
        U, V = rng.choice([-1, 1], (2, m, side)) * inside
        return {"U": U, "V": V * ~f["linear"][block, None], "alpha": alpha, "block": block}
    lift, L = int(np.any(f["activation"][1:])), int(f["levels"]) - 1
    U, V = rng.integers(0, L + 1, (2, m, side)) * 2 - L
    for W in (U, V):
        W[:, side - lift :] = rng.choice([-1, 1], (m, lift))
    return {"U": U.astype(np.int8), "V": V.astype(np.int8), "alpha": alpha}


def _statistics(rng: Random, forms: np.ndarray) -> Arrays:
    """Return what a file of statistics has beside forms: here, the rows of its table are unit vectors."""
    n = len(forms)
    sizes = np.sqrt((forms**2).sum(axis=0))
    known = {
        "rounding": np.array(n * float(EPS) * 4),
        "n_samples": np.array(rng.integers(n, 1000)),
        "form_sizes": sizes,
    }
    return known | {"table": np.eye(n)[np.triu_indices(n)], "target_ratio": np.array(1.0 + rng.integers(0, 2))}


def _sums(rng: Random, f: Arrays) -> Arrays:
    """Return exact sums over samples, and the scores of a dual vector."""
    w = f.get("sample_weight", np.ones(len(f["X"])))
    y, X = np.round(4 * f["y"].reshape(len(w), -1)) / 4, f["X"].astype(float)
    f["y"] = y.reshape(f["y"].shape)
    G, h, q = (X.T * w) @ X, (X.T * w) @ y, w @ y**2
    rounding = np.array(float(rng.choice([8.0, 100.0])) * float(EPS))
    sums = {"gram": G[np.triu_indices(len(G))], "products": h, "squares": q, "rounding": rounding}
    scores = np.linalg.solve(G + len(w) * np.eye(len(G)), h).T.copy() * rng.random()
    return sums | {"scores": scores, "n_samples": np.array(len(w))}


def _dual_vector(rng: Random, statement: Statement) -> np.ndarray:
    """Return minus the gradient at the predictions of the network, or another vector of the domain."""
    y = np.array([[float(v) for v in row] for row in statement.y])
    w = np.array([[float(v)] for v in statement.weights])
    t = np.array([[float(v) for v in row] for row in statement.predictions]).reshape(y.shape)
    r, delta, p = y - t, float(statement.delta), rng.random(y.shape)
    if statement.loss == "cross_entropy":
        q = np.exp(t - t.max(axis=1, keepdims=True))
        unit = y - q / q.sum(axis=1, keepdims=True)
    else:
        choices: dict[str, Any] = {
            "squared": 2 * r,
            "absolute": np.sign(r) * p,
            "huber": np.clip(2 * r, -2 * delta, 2 * delta),
            "hinge": y * np.where(p < 0.2, 1.0, p),
            "squared_hinge": 2 * y * np.maximum(0.0, 1 - y * t),
            "logistic": y * np.where(p < 0.8, 1 / (1 + np.exp(np.minimum(y * t, 700.0))), p),
        }
        unit = choices[statement.loss]
    shape = statement.f["y"].shape
    return np.asarray((w * unit * (1.0 if rng.random() < 0.7 else rng.random())).reshape(shape))


def _proof(rng: Random, count: int, N: int, value: float) -> Arrays:
    """Return trees of random leaves, which are enumerated or have random shifts, some with cuts."""
    leaves, orders, counts = [], [], []
    for _ in range(count):
        pending: list[list[int]] = [[]]
        tree = []
        while pending:
            signs = pending.pop()
            if len(signs) < N and rng.random() < (0.3 if not signs else 0.4):
                pending += [[*signs, 1], [*signs, -1]] if signs else [[1]]
            else:
                tree.append((signs, bool(rng.random() < 0.4)))
        orders.append(rng.permutation(N))
        counts.append(len(tree))
        leaves += tree
    lengths = [len(signs) for signs, _ in leaves]
    shifts = [rng.random(1 + 2 * N - k) * value for k, (_, has) in zip(lengths, leaves, strict=True) if has]
    f = {
        "order": np.array(orders),
        "leaves": np.array(counts),
        "lengths": np.array(lengths),
        "signs": np.array([s for signs, _ in leaves for s in signs], dtype=np.int8),
        "shifted": np.array([has for _, has in leaves], dtype=bool),
        "shifts": np.concatenate([np.zeros(0), *shifts]),
    }
    # Entries of cuts beyond the side of a block are dropped, and what is left may have an even sum.
    if count > 1 or rng.random() < 0.5:
        return f
    cuts = [int(rng.integers(0, 3)) * has for _, has in leaves]
    sizes = [1 + 2 * N - k for k, number in zip(lengths, cuts, strict=True) for _ in range(number)]
    nodes = [rng.permutation(size)[: rng.choice([1, 3]) if size > 2 else 1] for size in sizes]
    return f | {
        "cuts": np.array(cuts),
        "cut_lengths": np.array([len(entries) for entries in nodes], dtype=np.int64),
        "cut_nodes": np.concatenate([np.zeros(0), *nodes]).astype(np.int32),
        "cut_values": np.concatenate([np.zeros(0), *(rng.choice([-1, 1], len(entries)) for entries in nodes)]).astype(
            "i1"
        ),
        "cut_weights": rng.random(len(sizes)) * (value if math.isfinite(value) else 0.0) / 8,
    }
