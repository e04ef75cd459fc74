"""What `qsdp-check` must say of a certificate: every number recomputed from the raw arrays, in fractions.

Nothing here is shared with `qsdp_check`: NumPy reads the arrays, and from then on numbers are fractions. Logarithms and
exponentials have sixty digits. By weak duality, the lower bound that is printed must be at most the dual value of the
dual vector in the file, at a multiple for which all neurons, enumerated here, cost at least what they gain.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import re
import struct
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "api" / "certificate_format.md"
_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (real|float|int|bool|text)\b", re.MULTILINE)
#: The type of every field, as the page about the format says.
TYPES = {name.strip("`"): kind for names, kind in _ROW.findall(_PAGE.read_text()) for name in names.split(", ")}
#: Fields that say what the data are: with the data of a user, those of a certificate do not exist.
DATA = set(list(TYPES)[: list(TYPES).index("data_sha256")])
DIGITS = Context(prec=60)
EPS = Fraction(1, 2**52)
#: Multipliers below this count as zero.
_LEAST = Fraction(1, 10**290)


def arrays_of(contents: bytes) -> Arrays:
    """Read the arrays of a certificate."""
    with np.load(io.BytesIO(contents.split(b"\n", 2)[2]), allow_pickle=False) as archive:
        return dict(archive)


def used(f: Arrays, data: Arrays | None) -> Arrays:
    """Return the arrays that a check is about: with the data of a user, none of the data of the file."""
    if data is not None:
        f = {name: array for name, array in f.items() if name not in DATA} | data
        if "images" in f:
            f["X"] = rows_of_images(f.pop("images"), f["patches"].tolist())
        if str(f["loss"]) == "cross_entropy" and f["y"].ndim == 1:
            f["y"] = np.array([[float(k == label) for k in range(f["alpha"].shape[-1])] for label in f["y"].tolist()])
        if "sample_weight" in f:
            rows = [i for i, w in enumerate(f["sample_weight"].tolist()) if w != 0]
            f |= {name: f[name][rows] for name in ("X", "y", "sample_weight")}
    if "sample_weight" in f and all(w == 1 for w in f["sample_weight"].tolist()):
        f = {name: array for name, array in f.items() if name != "sample_weight"}
    return f


def rows_of_images(images: np.ndarray, patches: list[int]) -> np.ndarray:
    """Compute the packed rows of images, pixel by pixel."""
    size, stride, padding, regions, pooling, centre, constant, floats = patches
    rows = []
    for image in images.tolist():
        height, width = len(image) // pooling, len(image[0]) // pooling
        x = {}
        for i, j in itertools.product(range(height * pooling), range(width * pooling)):
            channels = image[i][j] if isinstance(image[i][j], list) else [image[i][j]]
            for c, pixel in enumerate(channels):
                where = (i // pooling + padding, j // pooling + padding, c)
                x[where] = x.get(where, 0) + pixel
        tops, lefts = (range(0, side + 2 * padding - size + 1, stride) for side in (height, width))
        regional: dict[tuple[int, int], list[list[int]]] = {}
        for (a, top), (b, left) in itertools.product(enumerate(tops), enumerate(lefts)):
            window = itertools.product(range(top, top + size), range(left, left + size), range(len(channels)))
            patch = [x.get(where, 0) - centre for where in window] + [constant] * (constant != 0)
            regional.setdefault((a * regions // len(tops), b * regions // len(lefts)), []).append(patch)
        row: list[float] = []
        for _, members in sorted(regional.items()):
            for i, j in itertools.combinations_with_replacement(range(len(members[0])), 2):
                total = Fraction(sum(p[i] * p[j] for p in members), len(members) if floats else 1)
                row.append(float(np.float32(float(total)) if floats == 4 else float(total)))
        rows.append(row)
    return np.array(rows)


def digest(f: Arrays) -> str:
    """Return the digest of the data, as the page about the format defines it."""
    contents = b""
    for name in ("X", "forms", "gram", "products", "squares", "y", "sample_weight"):
        if name in f:
            numbers = [float(v) + 0.0 for v in f[name].ravel().tolist()]
            contents += str(f[name].shape).encode() + struct.pack(f"<{len(numbers)}d", *numbers)
    return hashlib.sha256(contents).hexdigest()


def digest_of_rows(f: Arrays) -> str:
    """Return the digest of all rows, one after the other."""
    numbers: list[float] = []
    for i in range(len(f["X"])):
        for name in ("X", "y", "sample_weight"):
            if name in f:
                numbers += [float(v) + 0.0 for v in np.atleast_1d(f[name][i]).tolist()]
    return hashlib.sha256(struct.pack(f"<{len(numbers)}d", *numbers)).hexdigest()


def _exactly(array: np.ndarray) -> list[Fraction]:
    return [Fraction(v) for v in array.ravel().tolist()]


def _table(array: np.ndarray) -> list[list[Fraction]]:
    """Return the fractions of an array of one or two axes, as rows."""
    return [_exactly(row) for row in (array[:, None] if array.ndim == 1 else array)]


def _decimal(x: Fraction) -> Decimal:
    return DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


def _log(x: Fraction) -> Fraction:
    return Fraction(DIGITS.ln(_decimal(x)))


def _exp(x: Fraction) -> Fraction:
    # What is smaller than 1e-400 does not count beside one.
    return Fraction(DIGITS.exp(_decimal(x))) if x > -1000 else Fraction(0)


class Block(NamedTuple):
    """Entries of a block in packed rows, sizes of its first-layer weights, and what a unit of alpha costs."""

    start: int
    pairs: list[tuple[int, int]]
    linear: bool
    scales: list[int]
    price: Fraction


class Statement:
    """A problem, a network and a dual vector."""

    def __init__(self, f: Arrays) -> None:
        self.f, self.loss, self.beta = f, str(f["loss"]), Fraction(float(f["beta"]))
        self.levels, self.neurons = int(f["levels"]), len(f["alpha"])
        self.delta = Fraction(float(f["parameters"][0])) if self.loss == "huber" else Fraction(1)
        self.alpha = _table(f["alpha"])
        self.outputs = f["alpha"].shape[1] if f["alpha"].ndim == 2 else 1
        a, b, c = _exactly(f["activation"]) or [Fraction(1), Fraction(0), Fraction(0)]
        lift = int(b != 0 or c != 0)
        self.rows: list[list[Fraction]] = []
        if "gram" in f:
            P = len(f["products"])
        else:
            self.rows = _table(f["forms" if "forms" in f else "X"])
            P = len(self.rows[0])
        self.blocks: list[Block] = []
        #: Packed entries that have real weights, the price of each, and their weights for all outputs.
        self.size, self.columns = 0, []
        self.prices: list[Fraction] = _exactly(f["weight_omega"]) if "weight_omega" in f else []
        self.real = _table(f["weights"]) if self.prices else []
        if "sizes" in f:
            listed = list(zip(f["sizes"].tolist(), f["linear"].tolist(), f["omega"].tolist(), strict=True))
            for position, count in f["weight_blocks"].tolist() if self.prices else []:
                listed.insert(position, (count, None, None))
            for N, linear, omega in listed:
                if linear is None:
                    self.columns += range(self.size, self.size + N)
                    self.size += N
                else:
                    self._add(N, linear, [1] * N, N * Fraction(omega))
        else:
            if "forms" not in f:
                side = P + lift
                self.rows = [
                    [self._form(x, i, j, a, b, c) for i in range(side) for j in range(i, side)] for x in self.rows
                ]
            else:
                side = (math.isqrt(8 * P + 1) - 1) // 2
            scales = [self.levels - 1] * (side - lift) + [1] * lift
            self._add(side, False, scales, Fraction(sum(scales)))
        self.weights = [Fraction(1)] * len(self.rows)
        if "sample_weight" in f:
            self.weights = _exactly(f["sample_weight"])
        self.y = _table(f["y"]) if "y" in f and "gram" not in f else []

    @staticmethod
    def _form(x: list[Fraction], i: int, j: int, a: Fraction, b: Fraction, c: Fraction) -> Fraction:
        """Return an entry of A(x), i <= j."""
        if j < len(x):
            return a * x[i] * x[j]
        return b / 2 * x[i] if i < len(x) else c

    def _add(self, N: int, linear: bool, scales: list[int], price: Fraction) -> None:
        pairs = [(i, j) for i in range(N) for j in ((i,) if linear else range(i, N))]
        self.blocks.append(Block(self.size, pairs, linear, scales, price))
        self.size += len(pairs)

    # -- the network --------------------------------------------------------------------------------------------------

    @cached_property
    def effects(self) -> list[list[Fraction]]:
        """Vectors, of each output, whose products with packed rows are the predictions."""
        effects = [[Fraction(0)] * self.size for _ in range(self.outputs)]
        for p, weights in zip(self.columns, self.real, strict=True):
            for k, weight in enumerate(weights):
                effects[k][p] += weight
        U, V, members = self.f["U"].tolist(), self.f["V"].tolist(), self.members
        for u, v, alpha, r in zip(U, V, self.alpha, members, strict=True):
            for p, (i, j) in enumerate(self.blocks[r].pairs, self.blocks[r].start):
                sign = u[i] if self.blocks[r].linear else u[i] * v[j] + (i != j) * u[j] * v[i]
                if sign:
                    for k, weight in enumerate(alpha):
                        effects[k][p] += sign * weight
        return effects

    @property
    def members(self) -> list[int]:
        """The block of each neuron."""
        return list(self.f["block"].tolist()) if "sizes" in self.f else [0] * self.neurons

    @cached_property
    def predictions(self) -> list[list[Fraction]]:
        """Predictions of each row."""
        return [[_product(row, effect) for effect in self.effects] for row in self.rows]

    @cached_property
    def magnitudes(self) -> Fraction:
        """The sum of |alpha|; with blocks, of omega_r N_r |alpha|, and of omega_k |w_k| of real weights."""
        prices = [self.blocks[r].price if "sizes" in self.f else 1 for r in self.members]
        prices, weights = [*prices, *self.prices], [*self.alpha, *self.real]
        return sum((price * sum(map(abs, row)) for price, row in zip(prices, weights, strict=True)), Fraction(0))

    @property
    def penalty(self) -> Fraction:
        """Return beta D."""
        return self.beta * (1 if "sizes" in self.f else self.blocks[0].price)

    @cached_property
    def objective(self) -> Fraction:
        """The objective of the network."""
        return self._fit(self.effects, self.predictions) + self.penalty * self.magnitudes

    @cached_property
    def zero(self) -> Fraction:
        """The objective of the network without neurons."""
        effects = [[Fraction(0)] * len(effect) for effect in self.effects]
        return self._fit(effects, [[Fraction(0)] * self.outputs for _ in self.rows])

    def _fit(self, effects: list[list[Fraction]], predictions: list[list[Fraction]]) -> Fraction:
        if "gram" in self.f:
            total = sum(_exactly(self.f["squares"]), Fraction(0))
            for effect, h in zip(effects, self.products, strict=True):
                total += _product(effect, self._times_gram(effect)) - 2 * _product(effect, h)
            return total
        terms = zip(self.weights, predictions, self.y, strict=True)
        return sum((w * self._loss(t, y) for w, t, y in terms), Fraction(0))

    def _loss(self, t: list[Fraction], y: list[Fraction]) -> Fraction:
        """Return the loss of the predictions of a sample."""
        if self.loss == "cross_entropy":
            top = max(t)
            return top + _log(sum((_exp(v - top) for v in t), Fraction(0))) - _product(y, t)
        return sum((self._term(a, b) for a, b in zip(t, y, strict=True)), Fraction(0))

    def _term(self, t: Fraction, y: Fraction) -> Fraction:
        r, short = y - t, max(Fraction(0), 1 - y * t)
        if self.loss == "logistic":
            return max(Fraction(0), -y * t) + _log(1 + _exp(-abs(t)))
        terms = {
            "squared": r * r,
            "absolute": abs(r),
            "huber": r * r if abs(r) <= self.delta else 2 * self.delta * abs(r) - self.delta**2,
            "hinge": short,
            "squared_hinge": short * short,
        }
        return terms[self.loss]

    @cached_property
    def products(self) -> list[list[Fraction]]:
        """Sums of rows times targets, of each output."""
        return [_exactly(column) for column in self.f["products"].T]

    @cached_property
    def gram(self) -> list[list[Fraction]]:
        """The whole matrix of sums of products of rows."""
        P, numbers = len(self.f["products"]), iter(_exactly(self.f["gram"]))
        G = [[Fraction(0)] * P for _ in range(P)]
        for i in range(P):
            for j in range(i, P):
                G[i][j] = G[j][i] = next(numbers)
        return G

    def _times_gram(self, vector: list[Fraction]) -> list[Fraction]:
        return [_product(row, vector) for row in self.gram]

    # -- the dual vector ----------------------------------------------------------------------------------------------

    @property
    def dual_is_in_the_file(self) -> bool:
        """Whether the dual vector needs no predictions of rows."""
        return "nu" in self.f or "gram" in self.f

    @cached_property
    def nu(self) -> list[list[Fraction]]:
        """The dual vector of each sample; that of the true class makes up for the sum of the others."""
        nu = [[v if abs(v) >= _LEAST else Fraction(0) for v in row] for row in _table(self.f["nu"])]
        if self.loss == "cross_entropy":
            others = [
                [v if label == 0 else Fraction(0) for v, label in zip(*pair, strict=True)] for pair in self._nu_y(nu)
            ]
            nu = [
                [v if label == 0 else -sum(rest, Fraction(0)) for v, label in zip(row, y, strict=True)]
                for row, y, rest in zip(nu, self.y, others, strict=True)
            ]
        return nu

    def _nu_y(self, nu: list[list[Fraction]]) -> Iterator[tuple[list[Fraction], list[Fraction]]]:
        return zip(nu, self.y, strict=True)

    @cached_property
    def scores(self) -> list[list[Fraction]]:
        """Vectors of each output, times rows, that give the dual vector of sums."""
        return _table(self.f["scores"])

    @cached_property
    def residuals(self) -> list[list[Fraction]]:
        """Return h - G t of each output, for sums."""
        return [
            [h - v for h, v in zip(products, self._times_gram(t), strict=True)]
            for products, t in zip(self.products, self.scores, strict=True)
        ]

    @cached_property
    def value(self) -> Fraction:
        """The largest |u' M(nu) v| of all neurons; with blocks, divided by omega_r N_r, or |m_k| / omega_k."""
        if "gram" in self.f:
            sums = [[2 * g for g in residual] for residual in self.residuals]
        else:
            columns = zip(*self.rows, strict=True)
            columns = [list(column) for column in columns]
            sums = [[_product(column, nu) for column in columns] for nu in map(list, zip(*self.nu, strict=True))]
        largest = Fraction(0)
        for entries, block in itertools.product(sums, self.blocks):
            value = _largest(entries[block.start : block.start + len(block.pairs)], block)
            largest = max(largest, value / block.price if "sizes" in self.f else value)
        for entries in sums:
            priced = zip(self.columns, self.prices, strict=True)
            largest = max([largest, *(abs(entries[p]) / price for p, price in priced)])
        return largest

    def dual_value(self, s: Fraction) -> Fraction | float:
        """Return -l*(-s nu), which is minus infinity outside the domain."""
        if "gram" in self.f:
            total, squares = Fraction(0), _exactly(self.f["squares"])
            for q, t, h, g in zip(squares, self.scores, self.products, self.residuals, strict=True):
                total += s * (2 - s) * (q - _product(t, h)) + s * s * _product(t, g)
            return total
        total = Fraction(0)
        for w, nu, y in zip(self.weights, self.nu, self.y, strict=True):
            term = self._conjugate([s * v for v in nu], y, w)
            if term is None:
                return -math.inf
            total += term
        return total

    def _conjugate(self, nu: list[Fraction], y: list[Fraction], w: Fraction) -> Fraction | None:
        """Return -w loss*(-nu / w) of a sample, or None outside the domain."""
        if self.loss in ("cross_entropy", "logistic"):
            if self.loss == "logistic":
                parts = [p for v, label in zip(nu, y, strict=True) for p in (label * v / w, 1 - label * v / w)]
            else:
                parts = [label - v / w for v, label in zip(nu, y, strict=True)]
            return -w * sum((p * _log(p) for p in parts if p), Fraction(0)) if min(parts) >= 0 else None
        total = Fraction(0)
        for v, target in zip(nu, y, strict=True):
            low, high = {
                "squared": (-math.inf, math.inf),
                "absolute": (-w, w),
                "huber": (-2 * w * self.delta, 2 * w * self.delta),
                "hinge": (min(w * target, 0), max(w * target, 0)),
                "squared_hinge": (-math.inf if target < 0 else 0, math.inf if target > 0 else 0),
            }[self.loss]
            if not low <= v <= high:
                return None
            total += v * target - (0 if self.loss in ("absolute", "hinge") else v * v / (4 * w))
        return total

    def best_bound(self, value: Fraction, slack: Fraction) -> Fraction:
        """Return the dual value at the multiple that belongs to a pricing value, known up to a relative slack."""
        feasible = min(Fraction(1), self.penalty / self.value) if self.value else Fraction(1)
        multiples = {feasible}
        if value:
            multiples = {min(feasible, self.penalty / (value * (1 + side * slack))) for side in (-1, 0, 1)}
        factor = 1 if "gram" in self.f else 1 - 4 * EPS
        return max([Fraction(0), *(Fraction(d) for s in multiples if (d := self.dual_value(factor * s)) > -math.inf)])


def _product(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def _largest(entries: list[Fraction], block: Block) -> Fraction:
    """Return the largest |u'Mv| over the first-layer weights of a block, of packed sums."""
    # Integers are faster than fractions.
    unit = math.lcm(*(v.denominator for v in entries))
    whole = [v.numerator * (unit // v.denominator) for v in entries]
    if block.linear:
        return Fraction(sum(map(abs, whole)), unit)
    N = len(block.scales)
    M = [[0] * N for _ in range(N)]
    for v, (i, j) in zip(whole, block.pairs, strict=True):
        M[i][j] = M[j][i] = v * block.scales[i] * block.scales[j]
    largest = 0
    for rest in itertools.product((-1, 1), repeat=N - 1):
        u = (1, *rest)
        largest = max(largest, sum(abs(sum(s * v for s, v in zip(u, row, strict=True))) for row in M))
    return Fraction(largest, unit)
