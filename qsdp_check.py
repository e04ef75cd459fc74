r"""Check a certificate of qsdp with NumPy alone: no solver, no training code, nothing shared with the library.

The claim.  A training problem has data X (n, d), targets y, sample weights w > 0 (one where the file has none), a
convex loss >= 0, beta >= 0 and weights of levels -M, -M + 2, ..., M.  A network of any number of neurons predicts

    f(x) = sum_j alpha_j u_j' A(x) v_j,    A(x) = x x',  or, for an activation a t^2 + b t + c with b or c not 0,
                                           A(x) = [[a x x', b/2 x], [b/2 x', c]]  (u_j, v_j end in a sign then),

and has the objective  sum_i w_i loss(f(x_i), y_i) + beta D sum_j |alpha_j|,  D = d M (+ 1 if u_j, v_j end in a sign).
The file holds one network, and claims its objective and a lower bound of the objective of EVERY network of that kind.

A file of rows that came in batches has no data and no nu.  Matrices S_k of predictions t = <A(x_i), S_k> give the dual
vector, nu_i = w_i sum_k c_k times minus the derivative at t of the loss, or of its Moreau envelope for a positive step.

A file of statistics has no X.  It has n matrices A_i themselves, as upper triangles ("forms"), and targets y: a factor
of sums over all samples, for which a squared loss has the value that it has on these.  Read A_i for A(x_i) then.

The losses.  logistic: log(1 + exp(-y t)); cross_entropy: log sum_k exp(t_k) - t_y; all others are piecewise quadratic,

    loss(t, y) = max over a <= nu <= b of  nu (y - t) - c nu^2 / 2,      a <= 0 <= b,  c >= 0,

with the conjugate  u y + c u^2 / 2  of -u in [a, b].  The interval [a, b] and c follow from the names squared,
absolute, huber, hinge and squared_hinge; for "piecewise quadratic" the file has numbers, and its label is a mere name.

Why the bound holds.  Let l be the sum of the weighted losses, l*(u) = sum_i w_i loss*(u_i / w_i) its conjugate, and
M(nu) = sum_i nu_i A(x_i).  For every nu with

    tau(nu) = max |u' M(nu) v| <= beta D     (over all first-layer weights u, v of the levels)

and every network,  l(f) >= -nu'f - l*(-nu)  (the definition of l*), and
nu'f = sum_j alpha_j u_j' M(nu) v_j <= beta D sum_j |alpha_j|  in magnitude, so  objective >= -l*(-nu).
Several outputs have one nu, M(nu) and tau each.  A bilinear form on a box is largest at corners, so with the
columns of X times M only signs u, v count, and max over v of u'Mv is the 1-norm of M u; u may be negated, so one
coordinate is +1.  A tree splits the sign vectors u: a leaf fixes those of the first k coordinates F of its order,
u_F = s, and leaves R free.  (None) its completions are enumerated here.  (Shift) with c = M[:, F] s the form is
w' B w for w = (1, v, u_R), B = [[0, c'/2, 0], [c/2, 0, M[:, R]/2], [0, M[:, R]'/2, 0]], and for any numbers z
it is at most sum(z) + dim(B) max(0, -smallest eigenvalue of Diag(z) - B).  A shift may have cuts, integer vectors b
with an odd sum of entries and weights g >= 0: b'w is odd, (b'w)^2 >= 1, so w' B w <= w' (B + sum g b b') w - sum g, and
the matrix B + sum g b b' takes the place of B, while the bound is less by sum g.

Without a penalty, beta D = 0, the bound holds if M(nu) = 0.  In floating point, M(nu) is known up to rounding only: it
counts as zero if its tau is at most 8 times the allowance for rounding.  A network then gains at most tau sum_j
|alpha_j| from what is left.  The bound is less by this number for the network of the file: it holds for all networks
whose sum is no larger, and for others less tau times the excess.

What is accepted.  The arithmetic is ordinary floating point; every step adds an allowance for its rounding: the
worst case for sums, 10 dim(B) eps times the norm for eigenvalues, 16 eps for logarithms and for terms of l*.  If the
resulting bound of tau exceeds beta D, nu is scaled down until it does not; by 4 eps in any case, which makes up for
ends w a, w b and quotients nu / w that are rounded when the domain of l* is tested.  The answer is yes if the bound
computed so reaches the claimed one, and the objective equals the claimed one, both up to 1e-9 of the objective (or
1e-15 of that of the zero network, if larger).  Exit codes: 0 yes, 1 no, 2 not to be read, or not decided in time.

What a file costs.  Memory: the file, whose archive must not be compressed, and some ten matrices of its side 1 + 2 N.
Time: that of eigenvalues for every leaf with a shift, and up to 2^40 vectors for others; --time-limit bounds it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import sys
import time
import zipfile
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

Array = np.ndarray
Leaf = tuple[Array, Array | None, Array, Array]  # signs; shift, or None; vectors of cuts and their weights

MAGIC = b"qsdp certificate 2\n"
EPS = 2.0**-52
TOLERANCE = 1e-9
#: Piecewise quadratic losses: c, and a and b of targets y and Huber's parameter.
PIECEWISE: dict[str, tuple[float, Callable[[Array, float], tuple[Any, Any]]]] = {
    "squared": (0.5, lambda y, delta: (-np.inf, np.inf)),
    "absolute": (0.0, lambda y, delta: (-1.0, 1.0)),
    "huber": (0.5, lambda y, delta: (-2 * delta, 2 * delta)),
    "hinge": (0.0, lambda y, delta: (np.minimum(y, 0), np.maximum(y, 0))),
    "squared_hinge": (0.5, lambda y, delta: (np.where(y < 0, -np.inf, 0), np.where(y > 0, np.inf, 0))),
}
LOSSES = (*PIECEWISE, "logistic", "cross_entropy", "piecewise quadratic")
#: Kinds of the entries of arrays, and the arrays that are one number or text.
KINDS = {
    "fiu": "X forms y sample_weight nu alpha scores steps mixture shifts cut_weights interval activation parameters "
    "inverse_curvature beta lower_bound objective",
    "iu": "levels U V order leaves lengths signs cuts cut_lengths cut_nodes cut_values n_samples",
    "b": "shifted",
    "U": "loss label bound_type arithmetic data_sha256 rows_sha256",
}
SINGLE = "beta lower_bound objective inverse_curvature levels n_samples " + KINDS["U"]


class ClaimError(Exception):
    """The reason why a certificate does not hold."""


class Undecided(Exception):  # noqa: N818 (neither yes nor no)
    """The time is over."""


def need(condition: Any, reason: str) -> None:
    """Raise the reason unless the condition is true (a comparison with NaN is not)."""
    if not condition:
        raise ClaimError(reason)


def digest_of(f: dict[str, Array]) -> str:
    """SHA-256 of the shapes, as text, and the little-endian float64 bytes of X (or forms), y and, if any, weights."""
    arrays = [f[name] for name in ("X", "forms", "y", "sample_weight") if name in f]
    parts = (str(array.shape).encode() + np.ascontiguousarray(array + 0.0, "<f8").tobytes() for array in arrays)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def digest_of_rows(f: dict[str, Array]) -> str:
    """SHA-256 of all rows x, y and, if any, weight, one after the other, as little-endian float64."""
    digest, arrays = hashlib.sha256(), [f[name] for name in ("X", "y", "sample_weight") if name in f]
    for i in range(0, len(f["X"]), 4096):
        digest.update(np.ascontiguousarray(np.column_stack([v[i : i + 4096] for v in arrays]) + 0.0, "<f8").tobytes())
    return digest.hexdigest()


def read(path: str, data_path: str | None) -> tuple[dict[str, Array], str]:
    """Return the arrays of a file, with X (or forms) and y, from it or from the data given, and their digest."""
    with open(path, "rb") as stream:
        contents = stream.read()
    if not contents.startswith(MAGIC):
        raise OSError(f"{path} is no certificate of qsdp, version 2")
    line, body = contents[len(MAGIC) : len(MAGIC) + 65], contents[len(MAGIC) + 65 :]
    need(line == hashlib.sha256(body).hexdigest().encode() + b"\n", "the contents do not match their digest")
    with zipfile.ZipFile(io.BytesIO(body)) as members:
        need(all(one.compress_type == zipfile.ZIP_STORED for one in members.infolist()), "the archive is compressed")
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        f = dict(archive)
    for kinds, fields in KINDS.items():
        for name in set(fields.split()) & set(f):
            need(f[name].dtype.kind in kinds, f"the entries of {name} are of a wrong kind")
    need(all(f[name].ndim == 0 for name in set(SINGLE.split()) & set(f)), "a number or a text is an array")
    if data_path is not None:
        with np.load(data_path, allow_pickle=False) as archive:
            present = [name for name in ("X", "forms", "y", "sample_weight") if name in archive]
            data = {name: archive[name].astype(float) for name in present}
        if str(f["loss"]) == "cross_entropy" and data["y"].ndim == 1:
            data["y"] = np.equal(data["y"][:, None], np.arange(f["alpha"].shape[1])).astype(float)
        if "sample_weight" in data:
            data = {name: array[data["sample_weight"] > 0] for name, array in data.items()}
        found = digest_of_rows(data) if "rows_sha256" in f else ""
        if "sample_weight" in data and np.all(data["sample_weight"] == 1):
            del data["sample_weight"]
        stored = str(f["data_sha256"]) if "data_sha256" in f else digest_of(f)
        belongs = found == str(f["rows_sha256"]) if found else digest_of(data) == stored
        need(belongs, f"the certificate does not belong to {data_path}")
        f.update(data)
    need("X" in f or "forms" in f, "the file holds only a digest of its data: give them with --data")
    return f, str(f["rows_sha256"]) if "rows_sha256" in f else digest_of(f)


class Loss:
    """The weighted loss of a file."""

    def __init__(self, f: dict[str, Array], y: Array, w: Array) -> None:
        self.name, self.y, self.w, self.c = str(f["loss"]), y, w, 0.0
        need(self.name in LOSSES, f"the loss {self.name!r} is unknown")
        if self.name in ("logistic", "hinge", "squared_hinge"):
            need(np.all(np.abs(y) == 1), "the targets are no labels -1, +1")
        if self.name == "cross_entropy":
            one_hot = y.ndim == 2 and np.all((y == 0) | (y == 1)) and np.all(y.sum(axis=1) == 1)
            need(one_hot, "the targets are not one-hot")
        self.a, self.b = np.zeros(()), np.zeros(())
        if self.name == "piecewise quadratic":
            self.c, (self.a, self.b) = float(f["inverse_curvature"]), f["interval"].astype(float)
        elif self.name in PIECEWISE:
            delta = float(f["parameters"][0]) if self.name == "huber" else 1.0
            need(0 < delta < np.inf, "Huber's parameter is not positive")
            self.c, ends = PIECEWISE[self.name]
            self.a, self.b = (np.asarray(end, dtype=float) for end in ends(y, delta))
        need(self.a.shape in ((), y.shape) and np.all(self.a <= 0) and np.all(self.b >= 0), "no interval holds zero")
        need(0 <= self.c < np.inf and (self.c > 0 or np.all(np.isfinite(self.b - self.a))), "the loss is infinite")

    def value(self, t: Array) -> float:
        """Return the weighted loss of predictions t."""
        w, y = self.w, self.y
        if self.name == "cross_entropy":
            top = t.max(axis=1)
            terms, w = top + np.log(np.exp(t - top[:, None]).sum(axis=1)) - (y * t).sum(axis=1), w.ravel()
        elif self.name == "logistic":
            terms = np.logaddexp(0.0, -y * t)
        else:
            r, slope = y - t, self.c if self.c > 0 else 1.0
            nu = np.clip(r / slope, self.a, self.b) if self.c > 0 else np.where(r > 0, self.b, self.a)
            terms = nu * (r - self.c / 2 * nu)
        return math.fsum((w * terms).ravel())

    def multipliers(self, t: Array, step: float) -> Array:
        """Return minus the derivatives at t of the loss, or of its Moreau envelope, times the weights."""
        if self.name == "cross_entropy":
            p = np.exp(t - t.max(axis=1)[:, None])
            unit = self.y - p / p.sum(axis=1)[:, None]
        elif self.name == "logistic":
            unit = self.y / (1 + np.exp(self.y * t))
        else:
            slope, r = self.c + step, self.y - t
            unit = np.clip(r / slope, self.a, self.b) if slope > 0 else np.where(r > 0, self.b, self.a)
        return np.asarray(self.w * unit)

    def inside(self, nu: Array) -> Array:
        """Return nu, whose entries rounding may have moved out of an interval, back in it."""
        if self.name == "cross_entropy":
            return nu
        if self.name == "logistic":
            return np.asarray(self.y * np.clip(self.y * nu, 0.0, self.w))
        return np.asarray(np.clip(nu, self.w * self.a, self.w * self.b))

    def probabilities(self, nu: Array) -> Array:
        """Return p = u + y of u = -nu / w, of the cross-entropy; of the logistic loss that of the label, y nu / w."""
        p: Array = (self.w * self.y - nu if self.name == "cross_entropy" else self.y * nu) / self.w
        return p

    def check_domain(self, nu: Array) -> None:
        """Raise `ClaimError` unless nu lies in the domain of the conjugate, up to a rounding of ends or quotients."""
        if self.name in ("logistic", "cross_entropy"):
            p, coupled = self.probabilities(nu), self.name == "cross_entropy"
            # The own class of a sample has 1 - nu, which rounds; the signs of the others are exact.
            need(np.all(p >= (-EPS * self.y if coupled else 0.0)), "the dual vector leaves its domain, p >= 0")
            need(np.all(p <= 1 + 1e-12 * coupled), "the dual vector leaves its domain, p <= 1")
        else:
            within = (nu >= self.w * self.a) & (nu <= self.w * self.b)
            need(np.all(within), "the dual vector leaves its domain, w a <= nu <= w b")

    def dual_value(self, nu: Array) -> float:
        """Return -l*(-nu) less an allowance, for 1 - 4 eps times the nu given, which must lie in the domain."""
        self.check_domain(nu)
        nu, size = (1 - 4 * EPS) * nu, 0.0
        if self.name in ("logistic", "cross_entropy"):
            p = np.maximum(self.probabilities(nu), 0.0)
            q = np.where(p > 0, p, 1.0)
            entropy = -q * np.log(q)
            if self.name == "logistic":
                entropy -= (1 - p) * np.log1p(-np.where(p < 1, p, 0.0))
            terms = self.w * entropy
            # Rounding p changes its entropy by less than 16 eps: p log p is below 1, the slope next to p = 1 below 36.
            size = math.fsum((self.w + 0 * terms).ravel())
        else:
            terms = np.stack([nu * self.y, -self.c / 2 * nu / self.w * nu])
        return math.fsum(terms.ravel()) - 16 * EPS * (math.fsum(np.abs(terms).ravel()) + size)


def signs_of(k: int) -> Array:
    """Return all sign vectors of length k as the columns of a matrix."""
    return np.where((np.arange(2**k) >> np.arange(k)[:, None]) & 1, -1.0, 1.0)


def enumerate_leaf(M: Array, order: Array, s: Array, progress: TextIO, end: float = math.inf) -> float:
    """Return the largest 1-norm of M u over u[order[:k]] = s.

    Signs are added three at a time.  A partial vector is dropped if its norm plus the largest norm that the signs
    to come have alone (tails: known for the last 15) cannot exceed a norm that has been attained.
    """
    s = s if len(s) else np.ones(1)
    fixed, rest = M[:, order[: len(s)]] @ s, M[:, order[len(s) :]]
    rest = rest[:, np.any(rest != 0, axis=0)]
    free = rest.shape[1]
    need(free <= 40, f"a leaf of {free} free signs has too many sign vectors to enumerate")
    u = np.ones(free)
    for _ in range(20):
        u = np.where(rest.T @ np.where(fixed + rest @ u >= 0, 1.0, -1.0) >= 0, 1.0, -1.0)
    best = float(np.abs(fixed + rest @ u).sum())
    tails = [
        np.abs(rest[:, j:] @ signs_of(free - j)).sum(axis=0).max() if free - j < 16 else np.inf for j in range(free)
    ]
    stack, tried, start = [(0, fixed[:, None])] if free else [], 0, time.monotonic()
    said = start
    while stack:
        j, heads = stack.pop()
        if heads.shape[1] > 128:
            stack.append((j, heads[:, 128:]))
        added = rest[:, j : j + 3] @ signs_of(min(3, free - j))
        heads = (heads[:, :128, None] + added[:, None, :]).reshape(len(M), -1)
        norms, j, tried = np.abs(heads).sum(axis=0), j + 3, tried + heads.shape[1]
        if j < free:
            stack.append((j, heads[:, norms + tails[j] > best]))
        else:
            best = max(best, norms.max(initial=0.0))
        if time.monotonic() > end:
            raise Undecided
        if time.monotonic() > said + 2:
            said = time.monotonic()
            print(f"\renumerating: {tried / 1e6:.0f} million vectors tried", end="", file=progress, flush=True)
    if said > start:
        print(f"\renumerated: {tried / 1e6:.0f} million vectors tried ", file=progress)
    return float(best)


def pricing_bound(M: Array, order: Array, leaves: list[Leaf], progress: TextIO, end: float = math.inf) -> float:
    """Return an upper bound of max |u'Mv| over signs u, v, proven by leaves."""
    N, bound, covered = len(M), 0.0, 0
    need(sorted(order.tolist()) == list(range(N)), "the order of a tree is no permutation")
    prefixes = sorted(tuple(leaf[0].tolist()) for leaf in leaves)
    need(all(b[: len(a)] != a for a, b in zip(prefixes, prefixes[1:])), "a leaf lies in another one")  # noqa: B905, RUF007
    for s, z, cuts, weights in leaves:
        if time.monotonic() > end:
            raise Undecided
        k = len(s)
        need(k <= N and set(s.tolist()) <= {-1, 1} and (k == 0 or s[0] == 1), "a leaf fixes no signs, or -1 first")
        covered += 2 ** (N - max(k, 1))
        if z is None:
            bound = max(bound, enumerate_leaf(M, order, s, progress, end) + 4 * N * EPS * np.abs(M).sum())
            continue
        B = np.zeros((1 + N + N - k,) * 2)
        B[0, 1 : 1 + N], B[1 : 1 + N, 1 + N :] = M[:, order[:k]] @ s / 2, M[:, order[k:]] / 2
        need(z.shape == (len(B),) and np.all(np.isfinite(z)), "a shift has a wrong shape")
        need(np.all((weights >= 0) & np.isfinite(weights)), "the weight of a cut is negative")
        need(np.all(cuts.sum(axis=1) % 2 == 1), "a cut has an even sum")
        A = np.diag(z) - B - B.T - (cuts.T * weights) @ cuts
        size = np.abs(M).sum() + (len(cuts) + 8) / len(M) * (weights @ np.abs(cuts).sum(axis=1) ** 2)
        # Any w > 0 will do: with w^2 near z the eigenvalues are near one, however far apart the sizes of rows are.
        near, missing = np.sqrt(np.maximum(z, 1e-9 * np.abs(z).mean())), np.inf
        for w in (np.where(near > 0, near, 1.0), np.ones(len(z))):
            eigenvalues = np.linalg.eigvalsh(A / np.outer(w, w))
            worst = max(0.0, 10 * len(B) * EPS * np.abs(eigenvalues).max() - eigenvalues[0])
            missing = min(missing, worst * math.fsum(w**2))
        bound = max(bound, math.fsum(z) - math.fsum(weights) + missing + 4 * N * EPS * size)
    need(covered == 2 ** (N - 1), "the leaves do not cover all sign vectors")
    return float(bound)


def matrix_of(E: Array, K: Array, nu: Array, defects: Array) -> tuple[Array, float]:
    """Return sum_i nu_i A(x_i) = K * (E' diag(nu) E), elementwise, and what rounding can add to a pricing value."""
    step = max(64, math.isqrt(len(E)))
    parts = [(E[i : i + step].T * nu[i : i + step]) @ E[i : i + step] for i in range(0, len(E), step)]
    size = np.einsum("ij,jk,ik->i", np.abs(E), np.abs(K), np.abs(E), optimize=True)
    M = K * sum(parts)
    # A sum of k products, in any order, errs by k half units of the last place of their magnitudes (Higham).
    return (M + M.T) / 2, 1.01 * float(((min(step, len(E)) + len(parts) + 12) * EPS / 2 * np.abs(nu) + defects) @ size)


def matrix_of_forms(F: Array, K: Array, nu: Array) -> tuple[Array, float]:
    """Return sum_i nu_i A_i, with entries times K, and what rounding can add to a pricing value; F are triangles."""
    M, sizes = np.zeros(K.shape), np.zeros(K.shape)
    upper = np.triu_indices(len(K))
    M[upper], sizes[upper] = nu @ F, np.abs(nu) @ np.abs(F)
    total = K * (sizes + np.triu(sizes, 1).T)
    return K * (M + np.triu(M, 1).T), 1.01 * (len(F) + 12) * EPS / 2 * float(total.sum())


def multipliers_of(f: dict[str, Array], loss: Loss, X: Array, abc: tuple[float, float, float], lift: int) -> Array:
    """Return the dual vector that follows from predictions of the rows, for a file of batches."""
    S, steps, mixture = (np.asarray(f[name], dtype=float) for name in ("scores", "steps", "mixture"))
    (a, b, c), d = abc, X.shape[1]
    C = loss.y.shape[1] if loss.y.ndim == 2 else 1
    need(S.shape == (len(steps), C, d + lift, d + lift) and steps.shape == mixture.shape[:1], "the scores do not fit")
    need(mixture.ndim == 2 and mixture.shape[1] in (1, C) and np.all(mixture >= 0) and np.all(steps >= 0), "no mixture")
    nu = np.zeros(loss.y.shape)
    for forms, step, shares in zip(S, steps.tolist(), mixture):  # noqa: B905 (lengths are compared above)
        columns = []
        for form in forms:
            # Blocks of rows: their products stay small.
            parts = [X[i : i + 4096] for i in range(0, len(X), 4096)]
            t = a * np.concatenate([np.einsum("ij,ij->i", x @ form[:d, :d], x) for x in parts])
            columns.append(t + b / 2 * (X @ (form[:d, d] + form[d, :d])) + c * form[d, d] if lift else t)
        t = np.stack(columns, axis=1)
        nu += (shares if nu.ndim == 2 else shares[0]) * loss.multipliers(t if nu.ndim == 2 else t[:, 0], step)
    return loss.inside(nu)


def cuts_of(f: dict[str, Array], sizes: list[int]) -> list[tuple[Array, Array]]:
    """Return the vectors and weights of the cuts of each leaf, of so many coordinates; files may have none at all."""
    if "cuts" not in f:
        return [(np.zeros((0, size)), np.zeros(0)) for size in sizes]
    counts, lengths = f["cuts"].tolist(), f["cut_lengths"].tolist()
    nodes, values, weights = f["cut_nodes"], f["cut_values"], f["cut_weights"]
    need(min(counts + lengths, default=0) >= 0 and len(counts) == len(sizes), "the cuts do not fit the leaves")
    need(sum(counts) == len(lengths) == len(weights), "the cuts do not fit the leaves")
    need(sum(lengths) == len(nodes) == len(values) and values.dtype.kind in "iu", "the cuts do not fit their entries")
    found, cut, entry = [], 0, 0
    for count, size in zip(counts, sizes):  # noqa: B905 (lengths are compared above)
        vectors = np.zeros((count, size))
        for row, length in enumerate(lengths[cut : cut + count]):
            own = nodes[entry : entry + length]
            need(np.all((own >= 0) & (own < size)) and len(set(own.tolist())) == length, "a cut has a wrong entry")
            vectors[row, own] = values[entry : entry + length]
            entry += length
        found.append((vectors, weights[cut : cut + count].astype(float)))
        cut += count
    return found


def leaves_of(f: dict[str, Array], N: int) -> list[tuple[Array, list[Leaf]]]:
    """Return for each output the order and the leaves of its tree."""
    signs, shifts, leaf = f["signs"].tolist(), f["shifts"], 0
    trees: list[tuple[Array, list[Leaf]]] = []
    cuts = cuts_of(f, [1 + 2 * N - k for k in f["lengths"].tolist()])
    for order, count in zip(f["order"], f["leaves"].tolist()):  # noqa: B905 (lengths are compared below)
        leaves: list[Leaf] = []
        for k, shifted in zip(f["lengths"][leaf : leaf + count].tolist(), f["shifted"][leaf : leaf + count]):  # noqa: B905
            need(0 <= k <= min(N, len(signs)), "the leaves do not fit their signs")
            s, signs = np.array(signs[:k], dtype=int), signs[k:]
            z, shifts = (shifts[: 1 + 2 * N - k], shifts[1 + 2 * N - k :]) if shifted else (None, shifts)
            need(shifted or not len(cuts[leaf + len(leaves)][1]), "a leaf has cuts and no shift")
            leaves.append((s, z, *cuts[leaf + len(leaves)]))
        need(len(leaves) == count and count > 0, "a tree lacks leaves")
        trees.append((order, leaves))
        leaf += count
    need(len(trees) == len(f["leaves"]) == len(f["order"]), "the trees do not fit together")
    need(not signs and not len(shifts) and leaf == len(f["lengths"]) == len(f["shifted"]), "some leaves have no tree")
    return trees


def check(
    f: dict[str, Array], progress: TextIO | None = None, time_limit: float = math.inf
) -> tuple[float, float, float, float]:
    """Return objective, lower bound, largest pricing value and beta D, recomputed, or raise `ClaimError`.

    `Undecided` is raised after so many seconds.
    """
    end = time.monotonic() + time_limit
    of_forms = "forms" in f
    X, y, alpha = (np.asarray(f[name], dtype=float) for name in ("forms" if of_forms else "X", "y", "alpha"))
    beta, levels = float(f["beta"]), int(f["levels"])
    n, d = X.shape
    w = np.asarray(f.get("sample_weight", np.ones(n)), dtype=float)
    need(y.ndim in (1, 2) and n > 0 and len(y) == n and y.size and w.shape == (n,), "no training problem")
    need(all(np.all(np.isfinite(v)) for v in (X, y, alpha)) and 0 <= beta < np.inf, "some numbers are not finite")
    need(np.all((w > 0) & (w < np.inf)), "the sample weights are not positive")
    loss = Loss(f, y, w if y.ndim == 1 else w[:, None])
    a, b, c = f["activation"].tolist() or (1.0, 0.0, 0.0)
    lift, L = int(b != 0 or c != 0), levels - 1
    if of_forms:
        d = (math.isqrt(8 * X.shape[1] + 1) - 1) // 2 - lift
        need((d + lift) * (d + lift + 1) == 2 * X.shape[1] and d > 0, "the forms are no triangles")
        need(str(f["loss"]) == "squared", "only a squared loss has statistics")
    need(L >= 1 and np.all(np.isfinite([a, b, c])), "the levels or the activation are none")

    U, V = (f[name].astype(int) for name in ("U", "V"))
    need(U.shape == V.shape == (len(alpha), d + lift) and alpha.shape[1:] == y.shape[1:], "the network does not fit")
    for W in (U, V):
        need(np.all(np.abs(W[:, :d]) <= L) and np.all((W[:, :d] + L) % 2 == 0), "a weight is none of the levels")
        need(np.all(np.abs(W[:, d:]) == 1), "a last weight is no sign")
    prediction = np.zeros(y.shape)
    if of_forms:
        products = [(U.T * weights) @ V for weights in (alpha.T if alpha.ndim == 2 else [alpha])]
        upper = np.triu_indices(d + lift)
        entries = np.stack([(S + S.T)[upper] * np.where(upper[0] == upper[1], 0.5, 1.0) for S in products], axis=1)
        prediction = (X @ entries).reshape(y.shape)
    for i in range(0, 0 if of_forms else n, 1024):
        left, right = X[i : i + 1024] @ U[:, :d].T, X[i : i + 1024] @ V[:, :d].T
        hidden = a * left * right
        if lift:
            hidden += b / 2 * (left * V[:, d] + right * U[:, d]) + c * U[:, d] * V[:, d]
        prediction[i : i + 1024] = hidden @ alpha
    penalty = beta * (d * L + lift)
    objective = loss.value(prediction) + penalty * math.fsum(np.abs(alpha).ravel())
    need(math.isfinite(objective) and math.isfinite(penalty), "the numbers are too large")
    tolerance = TOLERANCE * max(objective, 1e-6 * loss.value(np.zeros(y.shape)))
    claimed = float(f["objective"])
    need(abs(objective - claimed) <= tolerance, f"the objective is {objective:.12g}, not {claimed:.12g} as claimed")

    if of_forms:
        sides = np.append(np.full(d, float(L)), np.ones(lift))
        K = np.outer(sides, sides)
    else:
        E = np.hstack([L * X, np.ones((n, lift))])
        K = np.full((d + lift, d + lift), a)
        K[d:, :], K[:, d:], K[d:, d:] = b / 2, b / 2, c
    nu = np.asarray(f["nu"], dtype=float) if "nu" in f else multipliers_of(f, loss, X, (a, b, c), lift)
    need(nu.shape == y.shape and np.all(np.isfinite(nu)), "the dual vector does not fit the targets")
    defects = np.zeros(n)
    if loss.name == "cross_entropy":
        # Probabilities of a sample must sum to one; what they miss moves the matrix.
        defects = np.abs(nu.sum(axis=1)) + nu.shape[1] * EPS * np.abs(nu).sum(axis=1)
    need(np.all(defects <= 1e-12 * w * (nu.shape[-1] + 1)), "the dual vector leaves its domain, sum p = 1")
    trees, values, vanish = leaves_of(f, d + lift), [], True
    columns = nu.T if nu.ndim == 2 else [nu]
    need(len(trees) == len(columns), "there must be one tree an output")
    for column, (order, leaves) in zip(columns, trees):  # noqa: B905
        M, rounding = matrix_of_forms(X, K, column) if of_forms else matrix_of(E, K, column, defects)
        largest = pricing_bound(M, order, leaves, progress or sys.stderr, end)
        values.append(largest + rounding)
        vanish = vanish and largest <= 8 * rounding
    value = max(0.0, *values)
    need(math.isfinite(value), "the numbers are too large")
    scale = min(1.0, penalty / value) if value > 0 and penalty > 0 else float(penalty > 0 or vanish)
    bound = loss.dual_value(scale * nu) if scale > 0 else 0.0
    if penalty == 0:
        bound -= math.fsum(values * np.abs(alpha).reshape(len(alpha), -1).sum(axis=0))
    bound = max(0.0, bound)
    claimed = float(f["lower_bound"])
    need(bound >= claimed - tolerance, f"only {bound:.12g} is proven, not {claimed:.12g} as claimed")
    need(claimed <= objective + tolerance, "the lower bound exceeds the objective")
    return objective, bound, value, penalty


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="qsdp-check", description="Check a certificate of qsdp with NumPy alone.")
    parser.add_argument("file", help="certificate")
    parser.add_argument(
        "--data", metavar="DATA.npz", help="archive with X, y and sample_weight, if any, that it must belong to"
    )
    parser.add_argument("--time-limit", metavar="SECONDS", type=float, default=math.inf, help="give up after so long")
    options = parser.parse_args(arguments)
    try:
        f, digest = read(options.file, options.data)
        bound_type, arithmetic, shifted = str(f["bound_type"]), str(f["arithmetic"]), f["shifted"]
        need(bound_type in ("sdp", "exact") and arithmetic in ("float", "verified"), "it claims an unknown bound type")
        with np.errstate(all="ignore"):
            objective, bound, value, penalty = check(f, time_limit=options.time_limit)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Undecided:
        print(f"error: not decided in {options.time_limit:g} seconds", file=sys.stderr)
        return 2
    except ClaimError as reason:
        print(f"no: {reason}")
        return 1
    except Exception as error:  # whatever a malformed archive leads to
        print(f"no: the file is malformed ({type(error).__name__}: {error})")
        return 1
    relative = (objective - bound) / objective if objective else 0.0
    activation = f"activation {tuple(f['activation'].tolist())}" if len(f["activation"]) else "bilinear activation"
    weighted = "weighted " if "sample_weight" in f else ""
    size = (
        f"statistics of {f['n_samples']} samples in {len(f['y'])} rows"
        if "forms" in f
        else f"{f['X'].shape[0]} {weighted}samples, {f['X'].shape[1]} features"
    )
    print(f"problem      {size}, {f['loss']} loss, beta {f['beta']:g},")
    print(f"             {f['levels']} levels, {activation}; data sha256 {digest}")
    if str(f["loss"]) == "piecewise quadratic":
        print(
            f"loss         {str(f['label'])!r}: max over a <= nu <= b of nu (y - t) - c nu^2 / 2, a, b, c of the file"
        )
    print(f"network      {len(f['alpha'])} neurons, objective {objective:.12g}")
    print(f"proof        {np.sum(shifted)} leaves by eigenvalues, {np.sum(~shifted)} enumerated: u'M(nu)v at most")
    print(f"             {value:.12g}, beta D = {penalty:.12g}; cuts: {len(f.get('cut_weights', ()))}")
    print(f"lower bound  {bound:.12g} ({bound_type}; claimed {float(f['lower_bound']):.12g}, {arithmetic})")
    print(f"gap          {objective - bound:.4g}, relative {relative:.4g}")
    limited = "" if penalty > 0 or bound == 0 else f" of sum |alpha| up to {np.abs(f['alpha']).sum():.6g}"
    print(
        f"yes: every such network{limited}, of any width, has an objective of at least {bound:.12g}, to a relative "
        f"{TOLERANCE:g}"
    )
    if limited:
        print(f"     (less {value:.3g} for every unit by which the sum is larger, to allow for rounding)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
