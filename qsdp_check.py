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

Blocks.  A file with "sizes" has R blocks of sides N_r.  A sample is a packed row, block after block: the upper
triangle, row by row, of a symmetric matrix A_r(x), every entry once, or a vector a_r(x) where "linear" is true.  A
neuron lives in one block r: alpha u'A_r(x)v, or alpha u'a_r(x), and costs beta omega_r N_r |alpha|.  Every output and
block has its own M(nu), Diag(sum_i nu_i a_r(x_i)) for a vector, its own tree, and needs tau <= beta omega_r N_r.  Here
and in the file, block r is divided by omega_r N_r, and matrices are filled with zeros to the largest side.

A file of sums has G = sum_i w_i x_i x_i' of packed rows x_i, h = sum_i w_i y_i x_i and q = sum_i w_i y_i^2 of a squared
loss in place of the samples: the loss of entries s is q - 2 s'h + s'Gs.  A vector t ("scores") gives the dual vector
nu_i = 2 w_i (y_i - x_i't), with sum_i nu_i x_i = 2 g, g = h - G t, and -l*(-s nu) = s (2 - s) (q - t'h) + s^2 t'g.
These differences cancel, so g is computed in twice the precision.  Without the data, sums are believed to be those of
some samples, and only their semidefiniteness is tested; with --data, they and the bound are computed from the samples.

Images.  With "patches" = (size, stride, padding, regions, pooling, centre, constant, floats), all integers, packed rows
follow from integer "images" (n, height, width) or (n, height, width, channels), given by --data in place of X.  Pixels
of pooling x pooling squares are summed (rows and columns beyond a multiple are dropped), zeros are padded on all sides,
the patch p at every stride-th place has its size x size pixels, row by row, minus centre, then the constant unless it
is 0; place i of k rows of places, and of columns, is in region i * regions // k.  A block is the sum of p p' over the
places of a region; if floats is 4 or 8, divided by their number and rounded to a float of so many bytes.

Rounding.  Sums and statistics stand for sums over the samples that were rounded.  A file states by how much, g
("rounding"), and is believed; bounds allow for it, and so hold for the samples.  Sums: what stands for T_i'T_j, with
columns T_i, T_j of the samples (packed entries and targets, times roots of weights), errs by at most g |T_i| |T_j|; for
exact sums of integers, g is 0.  With a = sqrt(q) + sum_j sqrt(G_jj) |t_j|, entry i of h - Gt errs by at most
g sqrt(G_ii) a, and -l*(-s nu), s <= 1, by g a^2.  Statistics: the upper triangular columns W_j of a "table",
|W_j| <= 1, stand for columns T_j of the samples, as the columns F_i of the forms and y do for theirs.  What stands for
T_i'T_j, F_i'T_j and y'T_j errs by at most g, g s_i and g k |y|.  The sizes s_i >= |F_i| ("form_sizes") and k >= 1
("target_ratio") are larger where sums were rounded while a column had another centre.  A dual vector nu = Wc + r,
where c solves the rows of the table, stands for the vector Tc of the samples.  With a = sum_j |c_j|, the sums of a form
i over both differ by at most g s_i a + |F_i'r|, and -l*(-nu) exceeds that of Tc by at most
g a (k |y| + a / 4) + |y'r| + |r'Wc| / 2.

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

Without signs, k = 0, the mirror image of a proof, with u and v exchanged, is one too, and so is their mean.  It falls
into two matrices, which take less time: with p = v + u, q = v - u, z = (z0, z1, z2), a = z1 + z2 and b = (b0, b1, b2),
4 (z0 + sum(a) - u'Mv - sum g) is at least the sum of  4 z0 + p' (Diag(a) - M) p - sum g (2 b0 + (b1 + b2)'p)^2  and
q' (Diag(a) + M) q - sum g ((b1 - b2)'q)^2.  One of p_i and q_i is 0, the other one +-2: numbers d_i that are added to
both diagonals, so that both are semidefinite, add sum(d) to the bound.

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

What a file costs.  Memory: the file, whose archive must not be compressed, and some ten matrices of the side N, or 1 +
2 N where leaves have signs.  Time: that of eigenvalues for every leaf with a shift, and up to 2^40 vectors for others;
--time-limit bounds it.
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
    "inverse_curvature beta lower_bound objective omega gram products squares rounding table form_sizes target_ratio",
    "iu": "levels U V order leaves lengths signs cuts cut_lengths cut_nodes cut_values n_samples block sizes patches",
    "b": "shifted linear",
    "U": "loss label bound_type arithmetic data_sha256 rows_sha256",
}
SINGLE = "rounding target_ratio beta lower_bound objective inverse_curvature levels n_samples " + KINDS["U"]


class ClaimError(Exception):
    """The certificate does not hold; the message says why."""


class Undecided(Exception):  # noqa: N818 (neither yes nor no)
    """The time limit has passed without an answer."""


def need(condition: Any, reason: str) -> None:
    """Raise `ClaimError` with a reason unless the condition is true; comparisons with NaN are false."""
    if not condition:
        raise ClaimError(reason)


def digest_of(f: dict[str, Array]) -> str:
    """Return the SHA-256 digest of the data (X, y and any weights): their shapes as text, and bytes as float64."""
    arrays = [f[n] for n in ("X", "forms", "gram", "products", "squares", "y", "sample_weight") if n in f]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(str(array.shape).encode())
        for i in range(0, len(array), 4096):
            digest.update(np.ascontiguousarray(array[i : i + 4096] + 0.0, "<f8").tobytes())
    return digest.hexdigest()


def digest_of_rows(f: dict[str, Array]) -> str:
    """Return the SHA-256 digest of all rows (x, y and any weight), one after the other, as little-endian float64."""
    digest, arrays = hashlib.sha256(), [f[name] for name in ("X", "y", "sample_weight") if name in f]
    for i in range(0, len(f["X"]), 4096):
        digest.update(np.ascontiguousarray(np.column_stack([v[i : i + 4096] for v in arrays]) + 0.0, "<f8").tobytes())
    return digest.hexdigest()


def read(path: str, data_path: str | None) -> tuple[dict[str, Array], str]:
    """Read a certificate; return its arrays, with X (or forms) and y from it or from `data_path`, and their digest."""
    with open(path, "rb") as stream:
        contents = stream.read()
    if not contents.startswith(MAGIC):
        raise OSError(f"{path} is not a certificate of qsdp, version 2")
    line, body = contents[len(MAGIC) : len(MAGIC) + 65], contents[len(MAGIC) + 65 :]
    need(line == hashlib.sha256(body).hexdigest().encode() + b"\n", "the contents do not match their digest")
    with zipfile.ZipFile(io.BytesIO(body)) as members:
        need(all(one.compress_type == zipfile.ZIP_STORED for one in members.infolist()), "the archive is compressed")
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        f = dict(archive)
    for kinds, fields in KINDS.items():
        for name in set(fields.split()) & set(f):
            need(f[name].dtype.kind in kinds, f"the entries of {name} have a wrong type")
    need(all(f[name].ndim == 0 for name in set(SINGLE.split()) & set(f)), "a number or a text is an array")
    # These names describe the data of the user, so the file must not set them.
    f = {name: array for name, array in f.items() if name not in ("given", "images")}
    if data_path is not None:
        f.update(data_of(f, data_path), given=np.array(True))
        f = {name: array for name, array in f.items() if name not in ("gram", "products", "squares")}
    need(
        any(name in f for name in ("X", "forms", "gram")),
        "the file holds only a digest of its data: give them with --data",
    )
    return f, str(f["rows_sha256"]) if "rows_sha256" in f else digest_of(f)


def data_of(f: dict[str, Array], path: str) -> dict[str, Array]:
    """Read the data from an archive, and check that the certificate belongs to them."""
    names = ("X", "forms", "y", "sample_weight", *(("images",) if "patches" in f else ()))
    try:
        with np.load(path, allow_pickle=False) as archive:
            data = {name: archive[name] for name in names if name in archive}
    except OSError:
        raise
    except Exception:  # whatever another file leads to
        raise OSError(f"{path} is not an archive of arrays, as numpy.savez writes them") from None
    if "images" in data:
        data["X"] = packed_rows(data["images"], f["patches"].tolist())
        data["images"] = data["images"][:0]
    data = {name: array if name == "X" and "sizes" in f else array.astype(float) for name, array in data.items()}
    if str(f["loss"]) == "cross_entropy" and data["y"].ndim == 1:
        data["y"] = np.equal(data["y"][:, None], np.arange(f["alpha"].shape[1])).astype(float)
    if "sample_weight" in data and np.any(data["sample_weight"] <= 0):
        data = {n: array if n == "images" else array[data["sample_weight"] > 0] for n, array in data.items()}
    found = digest_of_rows(data) if "rows_sha256" in f else ""
    if "sample_weight" in data and np.all(data["sample_weight"] == 1):
        del data["sample_weight"]
    if "gram" in f:
        need(same_sums(f, data), f"the sums are not those of {path}")
        y = data["y"].reshape(int(f["n_samples"]), -1)
        nu = 2 * data.get("sample_weight", np.ones(len(y)))[:, None] * (y - product(data["X"], f["scores"].T))
        return {**data, "nu": nu.reshape(data["y"].shape)}
    stored = str(f["data_sha256"]) if "data_sha256" in f else digest_of(f)
    belongs = found == str(f["rows_sha256"]) if found else digest_of(data) == stored
    need(belongs, f"the certificate does not belong to {path}")
    return data


def packed_rows(images: Array, patches: list[int]) -> Array:
    """Compute the packed rows of images by the patch settings in a certificate."""
    size, stride, padding, regions, pooling, centre, constant, floats = patches
    need(images.dtype.kind in "iu" and images.ndim in (3, 4), "the images are not integers (n, height, width)")
    need(min(size, stride, regions, pooling) > 0 and 0 <= padding < size and floats in (0, 4, 8), "invalid patches")
    n, height, width = len(images), *(side // pooling for side in images.shape[1:3])
    counts = [(side + 2 * padding - size) // stride + 1 for side in (height, width)]
    need(min(counts) >= regions, "some regions have no patches")
    edges = [[-(-r * count // regions) for r in range(regions + 1)] for count in counts]
    parts = []
    for i in range(0, n, 1024):
        x = images[i : i + 1024, : height * pooling, : width * pooling].astype(float)
        x = x.reshape(len(x), height, pooling, width, pooling, -1).sum(axis=(2, 4))
        x = np.pad(x, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
        ends = [stride * (count - 1) + 1 for count in counts]
        shifted = [x[:, a : a + ends[0] : stride, b : b + ends[1] : stride] for a in range(size) for b in range(size)]
        p = np.concatenate(shifted, axis=3) - centre
        if constant:
            p = np.concatenate([p, np.full((*p.shape[:3], 1), float(constant))], axis=3)
        # Sums of integers in double precision are exact up to 2^53.
        need(np.abs(p).max() ** 2 * counts[0] * counts[1] < 2**53, "the pixels are too large")
        upper = np.triu_indices(p.shape[3])
        sums = []
        for a, b in [(a, b) for a in range(regions) for b in range(regions)]:
            own = p[:, edges[0][a] : edges[0][a + 1], edges[1][b] : edges[1][b + 1]].reshape(len(p), -1, p.shape[3])
            total = np.matmul(own.transpose(0, 2, 1), own)[:, upper[0], upper[1]]
            sums.append(total / own.shape[1] if floats else total)
        parts.append(np.hstack(sums).astype(f"<f{floats}" if floats else "<i8"))
    return np.concatenate(parts)


def sums_of(X: Array, Y: Array) -> tuple[Array, Array]:
    """Return X'Y and bounds on the rounding errors of its entries, which are zero for moderate integers."""
    total, sizes = np.zeros((X.shape[1], Y.shape[1])), np.zeros((2, max(X.shape[1], Y.shape[1])))
    whole = True
    for i in range(0, len(X), 1024):
        x, y = X[i : i + 1024].astype(float), Y[i : i + 1024].astype(float)
        total += x.T @ y
        sizes[0, : x.shape[1]] += (x * x).sum(axis=0)
        sizes[1, : y.shape[1]] += (y * y).sum(axis=0)
        whole = whole and bool(np.all(x == np.rint(x)) and np.all(y == np.rint(y)))
    bounds = np.sqrt(np.outer(sizes[0, : X.shape[1]], sizes[1, : Y.shape[1]]))
    # Partial sums of integers are at most these bounds, and exact below 2^53.
    exact = whole and bounds.max(initial=0.0) < 2.0**53 / 1.01
    return total, 0.0 * bounds if exact else 2 * (len(X) + 16) * EPS * bounds


def same_sums(f: dict[str, Array], data: dict[str, Array]) -> bool:
    """Return whether the sums in a file agree with those of the data up to rounding errors."""
    X, y = data["X"], data["y"].reshape(len(data["y"]), -1)
    w = data.get("sample_weight", np.ones(len(y)))[:, None]
    need(len(X) == len(y) == len(w) == int(f["n_samples"]) and X.ndim == 2, "the data have other shapes")
    pairs = [(f["products"], sums_of(X, w * y)), (f["squares"][None], [v.diagonal() for v in sums_of(y, w * y)])]
    gram, rounding = sums_of(X, w * X if np.any(w != 1) else X)
    upper = np.triu_indices(len(gram))
    pairs.append((f["gram"], (gram[upper], rounding[upper])))
    return all(bool(np.all(np.abs(own - found) <= allowance)) for own, (found, allowance) in pairs)


class Loss:
    """The loss of a certificate, with targets and sample weights."""

    def __init__(self, f: dict[str, Array], y: Array, w: Array) -> None:
        self.name, self.y, self.w, self.c = str(f["loss"]), y, w, 0.0
        need(self.name in LOSSES, f"the loss {self.name!r} is unknown")
        if self.name in ("logistic", "hinge", "squared_hinge"):
            need(np.all(np.abs(y) == 1), "the targets are not labels -1, +1")
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
        need(self.a.shape in ((), y.shape) and np.all(self.a <= 0) and np.all(self.b >= 0), "an interval lacks zero")
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
        """Clip nu to the domain of the conjugate, which rounding may have left."""
        if self.name == "cross_entropy":
            return nu
        if self.name == "logistic":
            return np.asarray(self.y * np.clip(self.y * nu, 0.0, self.w))
        return np.asarray(np.clip(nu, self.w * self.a, self.w * self.b))

    def probabilities(self, nu: Array) -> Array:
        """Return the probabilities that nu represents: y - nu / w, or y nu / w for the logistic loss."""
        p: Array = (self.w * self.y - nu if self.name == "cross_entropy" else self.y * nu) / self.w
        return p

    def check_domain(self, nu: Array) -> None:
        """Raise `ClaimError` unless nu lies in the domain of the conjugate, up to rounding."""
        if self.name in ("logistic", "cross_entropy"):
            p, coupled = self.probabilities(nu), self.name == "cross_entropy"
            # For the true class, 1 - nu is rounded; for the others, the sign is exact.
            need(np.all(p >= (-EPS * self.y if coupled else 0.0)), "the dual vector leaves its domain, p >= 0")
            need(np.all(p <= 1 + 1e-12 * coupled), "the dual vector leaves its domain, p <= 1")
        else:
            within = (nu >= self.w * self.a) & (nu <= self.w * self.b)
            need(np.all(within), "the dual vector leaves its domain, w a <= nu <= w b")

    def dual_value(self, nu: Array) -> float:
        """Return -l*(-nu) minus a bound on rounding, at (1 - 4 eps) nu, for nu in the domain."""
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
    """Return the maximum of the 1-norm of M u over sign vectors u with u[order[:k]] = s, by enumeration.

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


def lacking(A: Array, w: Array) -> float:
    """Return a multiple of Diag(w)^2 that makes A positive semidefinite, with an allowance for rounding."""
    A = A / np.outer(w, w)
    if not np.all(np.isfinite(A)):
        return math.inf
    eigenvalues = np.linalg.eigvalsh(A)
    found = float(10 * len(A) * EPS * np.abs(eigenvalues).max() - eigenvalues[0])
    # NaN compares false.
    return max(0.0, found) if found < math.inf else math.inf


def mirrored(vectors: Array, order: Array) -> Array:
    """Return the entries of u, in an order, of vectors in (1, v, u) as entries of (0, v)."""
    found = np.zeros((*vectors.shape[:-1], 1 + len(order)))
    found[..., 1:][..., order] = vectors[..., 1 + len(order) :]
    return found


def halves_of(M: Array, z: Array, v: Array, u: Array, weights: Array) -> list[Array]:
    """Return the matrices in (2, v + u) and v - u of a leaf without signs; z, v and u are shifts and cuts of (1, v)."""
    plus, minus = np.diag(z), np.diag(z[1:]) + M
    plus[1:, 1:] -= M
    return [A - (b.T * weights) @ b for A, b in ((plus, v + u), (minus, (v - u)[:, 1:]))]


def pricing_bound(M: Array, order: Array, leaves: list[Leaf], progress: TextIO, end: float = math.inf) -> float:
    """Return an upper bound of max |u'Mv| over sign vectors u and v, proven by the leaves of a tree."""
    N, bound, covered = len(M), 0.0, 0
    need(np.all(np.isfinite(M)), "the numbers are too large")
    need(sorted(order.tolist()) == list(range(N)), "the order of a tree is not a permutation")
    prefixes = sorted(tuple(leaf[0].tolist()) for leaf in leaves)
    need(all(b[: len(a)] != a for a, b in zip(prefixes, prefixes[1:])), "a leaf is contained in another one")  # noqa: B905, RUF007
    for s, z, cuts, weights in leaves:
        if time.monotonic() > end:
            raise Undecided
        k = len(s)
        need(k <= N and set(s.tolist()) <= {-1, 1} and (k == 0 or s[0] == 1), "a leaf fixes no signs, or -1 first")
        covered += 2 ** (N - max(k, 1))
        if z is None:
            bound = max(bound, enumerate_leaf(M, order, s, progress, end) + 4 * N * EPS * np.abs(M).sum())
            continue
        need(z.shape == (1 + N + N - k,) and np.all(np.isfinite(z)), "a shift has a wrong shape")
        need(np.all((weights >= 0) & np.isfinite(weights)), "the weight of a cut is negative")
        need(np.all(cuts.sum(axis=1) % 2 == 1), "a cut has an even sum")
        size = np.abs(M).sum() + (len(cuts) + 8) / len(M) * (weights @ np.abs(cuts).sum(axis=1) ** 2)
        # Any w > 0 will do: with w^2 near z the eigenvalues are near one, however far apart the sizes of rows are.
        near, missing = np.maximum(z, 1e-9 * np.abs(z).mean()), np.inf
        squares = [np.where(near > 0, near, 1.0), np.ones(len(z))]
        if k == 0 and np.array_equal(M, M.T):
            # The mirror image of a leaf without signs, u and v exchanged, proves the same; their mean has two parts.
            z, *squares = ((own[: 1 + N] + mirrored(own, order)) for own in (z, *squares))
            matrices = halves_of(M, z, cuts[:, : 1 + N], mirrored(cuts, order), weights)
        else:
            B = np.zeros((len(z),) * 2)
            B[0, 1 : 1 + N], B[1 : 1 + N, 1 + N :] = M[:, order[:k]] @ s / 2, M[:, order[k:]] / 2
            matrices = [np.diag(z) - B - B.T - (cuts.T * weights) @ cuts]
        for square in squares:
            worst = max(lacking(A, np.sqrt(square[len(square) - len(A) :])) for A in matrices)
            missing = min(missing, worst * math.fsum(square))
            if missing <= 1e-10 * np.abs(z).sum():
                break
        bound = max(bound, math.fsum(z) - math.fsum(weights) + missing + 4 * N * EPS * size)
    need(covered == 2 ** (N - 1), "the leaves do not cover all sign vectors")
    return float(bound)


def matrix_of(E: Array, K: Array, nu: Array, defects: Array) -> tuple[Array, float]:
    """Return sum_i nu_i A(x_i) = K * (E' diag(nu) E), elementwise, and a bound on the error of a pricing value."""
    step = max(64, math.isqrt(len(E)))
    parts = [(E[i : i + step].T * nu[i : i + step]) @ E[i : i + step] for i in range(0, len(E), step)]
    size = np.einsum("ij,jk,ik->i", np.abs(E), np.abs(K), np.abs(E), optimize=True)
    M = K * sum(parts)
    # A sum of k products, in any order, errs by k half units of the last place of their magnitudes (Higham).
    return (M + M.T) / 2, 1.01 * float(((min(step, len(E)) + len(parts) + 12) * EPS / 2 * np.abs(nu) + defects) @ size)


class Blocks:
    """Layout of packed rows as blocks: positions of their entries in matrices, and factors of these matrices."""

    def __init__(self, sizes: Array, linear: Array, factors: list[Array]) -> None:
        self.sizes, self.linear, self.factors = sizes.tolist(), linear.tolist(), factors
        kinds = zip(self.sizes, self.linear)  # noqa: B905
        self.pairs = [(np.arange(N),) * 2 if flat else np.triu_indices(N) for N, flat in kinds]
        self.ends = np.cumsum([0] + [len(first) for first, _ in self.pairs]).tolist()
        self.side = max(self.sizes)

    @classmethod
    def of(cls, f: dict[str, Array], P: int) -> Blocks:
        """Read the blocks of a file with P packed entries."""
        sizes, linear, omega = (f[name] for name in ("sizes", "linear", "omega"))
        need(sizes.ndim == 1 and sizes.shape == linear.shape == omega.shape, "the blocks do not fit together")
        counts = [N if flat else N * (N + 1) // 2 for N, flat in zip(sizes.tolist(), linear.tolist())]  # noqa: B905
        need(min(sizes.tolist(), default=0) > 0 and sum(counts) == P, "the blocks do not fit their rows")
        # Within these limits, dividing by a price neither overflows nor loses digits.
        need(np.all((omega >= 1e-100) & (omega <= 1e100)), "a penalty factor is not positive, or extreme")
        return cls(sizes, linear, [1 / np.asarray(cost) for cost in (omega * sizes).tolist()])

    def entries(self, U: Array, V: Array, alpha: Array, block: Array) -> Array:
        """Return the vectors (P, C) whose products with packed rows are the predictions of a network."""
        parts = []
        for r, (first, second) in enumerate(self.pairs):
            mine = block == r
            u, v, weights = U[mine, : self.sizes[r]], V[mine, : self.sizes[r]], alpha.reshape(len(U), -1)[mine]
            if self.linear[r]:
                parts.append(u.T @ weights)
                continue
            products = [(u.T * own) @ v for own in weights.T]
            places = np.where(first == second, 0.5, 1.0)
            parts.append(np.stack([(S + S.T)[first, second] * places for S in products], axis=1))
        return np.concatenate(parts)

    def matrices(self, entries: Array, errors: Array) -> list[tuple[Array, float]]:
        """Return the matrices of packed entries, padded to the largest side, and bounds on their total errors."""
        found = []
        for r, (first, second) in enumerate(self.pairs):
            own, K = slice(self.ends[r], self.ends[r + 1]), self.factors[r]
            M, E = np.zeros((2, self.side, self.side))
            M[first, second] = M[second, first] = entries[own]
            E[first, second] = E[second, first] = errors[own] + 4 * EPS * np.abs(entries[own])
            found.append((K * M, 1.01 * float((K * E).sum())))
        return found


def product(F: Array, vectors: Array) -> Array:
    """Return F times vectors, in blocks of rows; F may have any numeric type."""
    return np.concatenate([F[i : i + 4096].astype(float) @ vectors for i in range(0, len(F), 4096)])


def sums_over(F: Array, nu: Array) -> tuple[Array, Array, float]:
    """Return sum_i nu_i F_i, the sum of the magnitudes of its terms, and its rounding error relative to that sum."""
    total, sizes = np.zeros((2, F.shape[1]))
    step = max(64, math.isqrt(len(F)))
    for i in range(0, len(F), step):
        rows = F[i : i + step].astype(float)
        total += nu[i : i + step] @ rows
        sizes += np.abs(nu[i : i + step]) @ np.abs(rows)
    return total, sizes, (min(step, len(F)) + -(-len(F) // step) + 12) * EPS / 2


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a b as an unevaluated sum of two floats, exact without overflow and underflow (Dekker)."""
    c, (A, B) = a * b, (134217729.0 * x - (134217729.0 * x - x) for x in (a, b))
    return c, (a - A) * (b - B) - (((c - A * B) - (a - A) * B) - A * (b - B))


def rounding_of(f: dict[str, Array], least: float) -> float:
    """Return the rounding of sums or statistics that a file states, if it is at least that of any such sums."""
    why = "the file does not say how its sums were rounded, as those of older versions: its bound is one of the sums"
    need("rounding" in f, f"{why}, not of the samples; certify the network again")
    rounding = float(f["rounding"])
    need(least <= rounding < np.inf, f"sums have no rounding of {rounding:g}, which must be at least {least:g}")
    return rounding


class Sums:
    """Sums over samples, which determine a squared loss."""

    def __init__(self, f: dict[str, Array]) -> None:
        self.h, self.q, self.t = (np.asarray(f[name], dtype=float) for name in ("products", "squares", "scores"))
        P, C = (math.isqrt(8 * f["gram"].size + 1) - 1) // 2, self.q.size
        need(f["gram"].shape == (P * (P + 1) // 2,) and str(f["loss"]) == "squared", "only a squared loss has sums")
        self.blocks, upper = Blocks.of(f, P), np.triu_indices(P)
        self.G = np.zeros((P, P))
        self.G[upper] = self.G.T[upper] = f["gram"]
        self.shape: tuple[int, ...] = (C,) if C > 1 or f["alpha"].ndim > 1 else ()
        need(
            self.h.shape == (P, C) and self.t.shape == (C, P) and self.q.shape == (C,) and C > 0, "the sums do not fit"
        )
        need(all(np.all(np.isfinite(v)) for v in (self.G, self.h, self.q, self.t)), "some numbers are not finite")
        # Sums of integers are exact, up to a final rounding of numbers above 2^53; the others have many terms.
        largest = max(np.abs(v).max(initial=0.0) for v in (self.G, self.h, self.q))
        whole = all(np.all(v == np.rint(v)) for v in (self.G, self.h, self.q))
        self.rounding = rounding_of(f, 8 * EPS if not whole else EPS if largest > 2.0**53 else 0.0)
        # Sums of samples are semidefinite, here of G and of each h and q; a little is added to allow for rounding.
        self.roots = np.sqrt(np.maximum(self.G.diagonal(), 0))
        self.sizes = np.sqrt(np.maximum(self.q, 0)) + np.abs(self.t) @ self.roots
        roots = np.where(self.roots > 0, self.roots, 1.0)
        try:
            L = np.linalg.cholesky(self.G / np.outer(roots, roots) + 1e-9 * np.eye(P))
        except np.linalg.LinAlgError:
            raise ClaimError("no samples have these sums") from None
        rest = self.q * (1 + 1e-9) - np.square(np.linalg.solve(L, self.h / roots[:, None])).sum(axis=0)
        need(np.all(rest >= 0), "no samples have these sums")

    def residuals(self, t: Array) -> tuple[Array, Array, Array]:
        """Return h - G t as a sum of two floats, and bounds on their errors."""
        high, low = self.h.copy(), np.zeros(self.h.shape)
        for column, row in zip(self.G, t):  # noqa: B905
            c, e = exact_product(column[:, None], -row)
            total = high + c
            moved = total - high
            low += (high - (total - moved)) + (c - moved) + e
            high = total
        return high, low, ((len(t) + 8) * EPS) ** 2 * (np.abs(self.h) + np.abs(self.G) @ np.abs(t))

    def values(self, t: Array) -> tuple[Array, Array, float]:
        """Return q - t'h and t'(h - G t) for each column t, and bounds on the errors of their sums."""
        high, low, errors = self.residuals(t)
        own = range(t.shape[1])
        first = np.array([math.fsum([self.q[c], *np.ravel(exact_product(-t[:, c], self.h[:, c]))]) for c in own])
        second = np.array([math.fsum([*np.ravel(exact_product(t[:, c], high[:, c])), *(t * low)[:, c]]) for c in own])
        slack = 4 * EPS * (np.abs(first) + np.abs(second)).sum() + 2 * (np.abs(t) * errors).sum()
        return first, second, float(slack)

    def objective(self, U: Array, V: Array, alpha: Array, block: Array) -> tuple[float, float]:
        """Return the losses of a network and of zero."""
        first, second, _ = self.values(self.blocks.entries(U, V, alpha, block))
        return math.fsum(first - second), math.fsum(self.q)

    def matrices(self) -> list[tuple[Array, float]]:
        """Return the matrices of all outputs and blocks, and bounds on the rounding errors of pricing values."""
        high, low, errors = self.residuals(self.t.T)
        errors += 1.01 * self.rounding * np.outer(self.roots, self.sizes)
        columns = zip(2 * (high + low).T, 2 * errors.T)  # noqa: B905
        return [one for entries, errors in columns for one in self.blocks.matrices(entries, errors)]

    def dual_value(self, scale: float) -> float:
        """Return the dual value of a multiple of the dual vector, minus a bound on rounding errors."""
        first, second, slack = self.values(self.t.T)
        lost = 1.01 * self.rounding * math.fsum(self.sizes**2)
        return math.fsum(scale * (2 - scale) * first + scale**2 * second) - 4 * slack - lost


def multipliers_of(f: dict[str, Array], loss: Loss, X: Array, abc: tuple[float, float, float], lift: int) -> Array:
    """Compute the dual vector from predictions of the rows, for a certificate of batches."""
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
    """Read the vectors and weights of the cuts of each leaf; `sizes` are its numbers of coordinates."""
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
    """Read the tree of each output: its order of coordinates and its leaves."""
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


class Rows:
    """Samples, or statistics that replace them, with targets and a loss."""

    def __init__(self, f: dict[str, Array], abc: tuple[float, float, float], L: int) -> None:
        packed, self.f, self.abc, self.L = "forms" in f or "sizes" in f, f, abc, L
        X, y = f["forms"] if "forms" in f else f["X"], np.asarray(f["y"], dtype=float)
        (n, self.d), self.shape = X.shape, y.shape[1:]
        w = np.asarray(f.get("sample_weight", np.ones(n)), dtype=float)
        need(y.ndim in (1, 2) and n > 0 and len(y) == n and y.size and w.shape == (n,), "the shapes do not fit")
        need(np.all(np.isfinite(X)) and np.all(np.isfinite(y)), "some numbers are not finite")
        need(np.all((w > 0) & (w < np.inf)), "the sample weights are not positive")
        need("forms" not in f or (str(f["loss"]) == "squared" and np.all(w == 1)), "only a squared loss has statistics")
        self.X, self.w, self.loss = X if packed else X.astype(float), w, Loss(f, y, w if y.ndim == 1 else w[:, None])
        self.nu, self.lift, self.lost = np.zeros(y.shape), int(abc[1] != 0 or abc[2] != 0), 0.0
        self.blocks = Blocks.of(f, self.d) if "sizes" in f else None
        if packed and self.blocks is None:
            self.d = (math.isqrt(8 * X.shape[1] + 1) - 1) // 2 - self.lift
            N = self.d + self.lift
            need(2 * X.shape[1] == N * (N + 1) and self.d > 0, "the forms are not triangles")
            sides = np.append(np.full(self.d, float(L)), np.ones(self.lift))
            self.blocks = Blocks(np.array([N]), np.array([False]), [np.outer(sides, sides)])

    def objective(self, U: Array, V: Array, alpha: Array, block: Array) -> tuple[float, float]:
        """Return the losses of a network and of zero."""
        found, (a, b, c), d = np.zeros(self.loss.y.shape), self.abc, self.d
        zero = self.loss.value(found)
        if self.blocks is not None:
            found = product(self.X, self.blocks.entries(U, V, alpha, block)).reshape(found.shape)
            return self.loss.value(found), zero
        for i in range(0, len(found), 1024):
            left, right = self.X[i : i + 1024] @ U[:, :d].T, self.X[i : i + 1024] @ V[:, :d].T
            hidden = a * left * right
            if self.lift:
                hidden += b / 2 * (left * V[:, d] + right * U[:, d]) + c * U[:, d] * V[:, d]
            found[i : i + 1024] = hidden @ alpha
        return self.loss.value(found), zero

    def matrices(self) -> list[tuple[Array, float]]:
        """Return the matrices of all outputs and blocks, and bounds on the rounding errors of pricing values."""
        f, d, (a, b, c) = self.f, self.d, self.abc
        nu = self.nu = f["nu"].astype(float) if "nu" in f else multipliers_of(f, self.loss, self.X, self.abc, self.lift)
        need(nu.shape == self.loss.y.shape and np.all(np.isfinite(nu)), "the dual vector does not fit the targets")
        defects = np.zeros(len(nu))
        if self.loss.name == "cross_entropy":
            # Probabilities of a sample must sum to one; what they miss moves the matrix.
            defects = np.abs(nu.sum(axis=1)) + nu.shape[1] * EPS * np.abs(nu).sum(axis=1)
        need(np.all(defects <= 1e-12 * self.w * (nu.shape[-1] + 1)), "the dual vector leaves its domain, sum p = 1")
        columns = nu.T if nu.ndim == 2 else [nu]
        if self.blocks is not None:
            moved = sums_over(self.X, defects)[1] if np.any(defects) else 0.0
            found = []
            for k, column in enumerate(columns):
                total, sizes, u = sums_over(self.X, column)
                errors = u * sizes + moved + (self.rounded(column, k) if "forms" in f else 0.0)
                found += self.blocks.matrices(total, errors)
            return found
        E = np.hstack([self.L * self.X, np.ones((len(nu), self.lift))])
        K = np.full((d + self.lift, d + self.lift), a)
        K[d:, :], K[:, d:], K[d:, d:] = b / 2, b / 2, c
        return [matrix_of(E, K, column, defects) for column in columns]

    def dual_value(self, scale: float) -> float:
        """Return the value of a multiple of the dual vector, less an allowance."""
        return self.loss.dual_value(scale * self.nu) - self.lost

    def rounded(self, nu: Array, k: int) -> Array:
        """Return what the rounding of statistics can change in entries of M(nu); add what it takes of -l*(-nu)."""
        f, n, y = self.f, len(nu), self.loss.y.reshape(len(nu), -1)[:, k]
        g, s, ratio = rounding_of(f, n * EPS / 2), np.asarray(f["form_sizes"], dtype=float), float(f["target_ratio"])
        m = (math.isqrt(8 * f["table"].size + 1) - 1) // 2
        fits = f["table"].shape == (m * (m + 1) // 2,) and m <= n and s.shape == self.X.shape[1:]
        need(fits, "the table does not fit")
        W = np.zeros((m, m))
        W[np.triu_indices(m)] = f["table"]
        units = np.where(s > 0, s, 1.0)
        need(np.all(np.isfinite(W)) and np.all(np.isfinite(s)) and np.all(W.diagonal() > 0), "the table is singular")
        need(np.all(np.linalg.norm(W, axis=0) <= 1 + TOLERANCE), "the table has columns of norms above one")
        small = np.linalg.norm(self.X / units, axis=0) > 1 + TOLERANCE
        need(ratio >= 1 and not np.any(small | (s < 0)), "some sizes are smaller than the norms of their columns")
        c, rest = np.linalg.solve(W, nu[:m]), nu.copy()
        rest[:m] -= W @ c
        a, (r, size, target) = 1.01 * float(np.abs(c).sum()), (float(np.linalg.norm(v)) for v in (rest, nu, y))
        error = (g + (n + 16) * EPS) * a + (n + 16) * EPS * r
        self.lost += error * (ratio * target + a / 4 + size / 2) + float(abs(y @ rest) + abs((nu - rest) @ rest) / 2)
        return np.asarray(error * s + np.abs(self.X.T @ rest))


def check(
    f: dict[str, Array], progress: TextIO | None = None, time_limit: float = math.inf
) -> tuple[float, float, float, float]:
    """Recompute objective, lower bound, largest pricing value and beta D, or raise `ClaimError`.

    `Undecided` is raised after `time_limit` seconds. With blocks, D is one, since their matrices are divided by it.
    """
    end = time.monotonic() + time_limit
    alpha, beta, levels = np.asarray(f["alpha"], dtype=float), float(f["beta"]), int(f["levels"])
    abc, L = f["activation"].tolist() or (1.0, 0.0, 0.0), levels - 1
    need(np.all(np.isfinite(alpha)) and alpha.ndim in (1, 2) and 0 <= beta < np.inf, "some numbers are not finite")
    need(L >= 1 and np.all(np.isfinite(abc)), "the levels or the activation are invalid")
    data: Rows | Sums = Sums(f) if "gram" in f else Rows(f, abc, L)
    U, V = (f[name].astype(int) for name in ("U", "V"))
    need(alpha.shape[1:] == data.shape, "the network and the data differ in outputs")
    if "sizes" in f and data.blocks is not None:
        need(levels == 2 and not len(f["activation"]), "blocks have two levels and no activation")
        block, penalty = f["block"], beta
        check_signs(U, V, alpha, block, data.blocks)
        weights = weights_of(alpha, block, data.blocks)
    else:
        assert isinstance(data, Rows)
        block, penalty = np.zeros(len(alpha), dtype=int), beta * (data.d * L + data.lift)
        check_levels(U, V, alpha, data.d, data.lift, L)
        weights = np.abs(alpha).reshape(len(alpha), -1).sum(axis=0)
    loss, zero = data.objective(U, V, alpha, block)
    objective = loss + penalty * math.fsum(weights)
    need(math.isfinite(objective) and math.isfinite(penalty), "the numbers are too large")
    need(penalty > 0 or isinstance(data, Rows), "sums need a penalty")
    tolerance = TOLERANCE * max(objective, 1e-6 * zero)
    claimed = float(f["objective"])
    need(abs(objective - claimed) <= tolerance, f"the objective is {objective:.12g}, not {claimed:.12g} as claimed")

    matrices = data.matrices()
    trees, values, vanish = leaves_of(f, len(matrices[0][0])), [], True
    need(len(trees) == len(matrices), "there must be one tree for each output and block")
    for (M, rounding), (order, leaves) in zip(matrices, trees):  # noqa: B905
        largest = pricing_bound(M, order, leaves, progress or sys.stderr, end)
        values.append(largest + rounding)
        vanish = vanish and largest <= 8 * rounding
    # Unlike max, this is NaN if any of them is NaN.
    value = float(np.max([0.0, *values]))
    need(math.isfinite(value), "the numbers are too large")
    scale = min(1.0, penalty / value) if value > 0 and penalty > 0 else float(penalty > 0 or vanish)
    bound = data.dual_value(scale) if scale > 0 else 0.0
    if penalty == 0:
        bound -= math.fsum(values * weights)
    bound = max(0.0, bound)
    claimed = float(f["lower_bound"])
    need(bound >= claimed - tolerance, f"only {bound:.12g} is proven, not {claimed:.12g} as claimed")
    need(claimed <= objective + tolerance, "the lower bound exceeds the objective")
    return objective, bound, value, penalty


def check_levels(U: Array, V: Array, alpha: Array, d: int, lift: int, L: int) -> None:
    """Raise `ClaimError` unless all first-layer weights are levels, and the last ones signs."""
    need(U.shape == V.shape == (len(alpha), d + lift), "the network does not fit")
    for W in (U, V):
        need(np.all(np.abs(W[:, :d]) <= L) and np.all((W[:, :d] + L) % 2 == 0), "a weight is not one of the levels")
        need(np.all(np.abs(W[:, d:]) == 1), "a last weight is not a sign")


def check_signs(U: Array, V: Array, alpha: Array, block: Array, blocks: Blocks) -> None:
    """Raise `ClaimError` unless the weights of neurons are signs in their blocks, and zeros elsewhere."""
    R, m = len(blocks.sizes), len(alpha)
    need(U.shape == V.shape == (m, blocks.side) and block.shape == (m,), "the network does not fit")
    need(np.all((block >= 0) & (block < R)), "a neuron is in no block")
    inside = np.arange(blocks.side) < np.array(blocks.sizes)[block, None]
    quadratic = inside & ~np.array(blocks.linear)[block, None]
    need(np.all(np.abs(U) == inside) and np.all(np.abs(V) == quadratic), "a weight is not a sign, or outside its block")


def weights_of(alpha: Array, block: Array, blocks: Blocks) -> Array:
    """Return the sum of |alpha| omega_r N_r of each output and block."""
    members = np.arange(len(blocks.sizes))[:, None] == block
    costs = np.array([1 / float(factor) for factor in blocks.factors])
    sums = (members @ np.abs(alpha).reshape(len(block), -1)) * costs[:, None]
    return np.asarray(sums.T.ravel())


def described(f: dict[str, Array], digest: str) -> list[tuple[str, str]]:
    """Describe the problem, and which statements about its data cannot be checked."""
    activation = f"activation {tuple(f['activation'].tolist())}" if len(f["activation"]) else "bilinear activation"
    weighted, kind = "weighted " if "sample_weight" in f else "", f"{f['levels']} levels, {activation}"
    if "gram" in f:
        size = f"sums of {f['n_samples']} samples"
    elif "forms" in f:
        size = f"statistics of {f['n_samples']} samples in {len(f['y'])} rows"
    else:
        size = f"{f['X'].shape[0]} {weighted}samples, {f['X'].shape[1]} {'entries' if 'sizes' in f else 'features'}"
    if "sizes" in f:
        kind = f"{len(f['sizes'])} blocks of sides up to {f['sizes'].max()}, {f['linear'].sum()} linear"
    lines = [("problem", f"{size}, {f['loss']} loss, beta {f['beta']:g},"), ("", f"{kind}; data sha256 {digest}")]
    if "gram" in f:
        errors = f"up to a rounding of {float(f['rounding']):.2g}"
        lines.append(
            ("believed", f"the sums are those of samples, {errors}: to compute them from packed rows, give --data")
        )
    elif "forms" in f:
        errors = f"up to a rounding of {float(f['rounding']):.2g} of their sizes"
        lines.append(("believed", f"the rows and targets have the sums of the samples, {errors}"))
    elif "sizes" in f:
        source = "images given" if "images" in f else "rows given" if "given" in f else "rows of the file"
        lines.append(("believed", f"the {source} and the targets are those of the samples"))
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="qsdp-check",
        description="Check a certificate of qsdp with NumPy alone.",
        epilog="Exit status: 0 for yes, 1 for no, 2 if undecided or if a file cannot be read.",
    )
    parser.add_argument("file", help="certificate, as written by qsdp certify or Certificate.save")
    parser.add_argument(
        "--data",
        metavar="DATA.npz",
        help="arrays X (or images), y and, if there are weights, sample_weight, as numpy.savez writes them: "
        "also check that the certificate is about these data",
    )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=float,
        default=math.inf,
        help="stop undecided after this time; no limit by default",
    )
    options = parser.parse_args(arguments)
    try:
        f, digest = read(options.file, options.data)
        bound_type, arithmetic, shifted = str(f["bound_type"]), str(f["arithmetic"]), f["shifted"]
        need(bound_type in ("sdp", "exact") and arithmetic in ("float", "verified"), "it claims an unknown bound type")
        with np.errstate(all="ignore"):
            objective, bound, value, penalty = check(f, time_limit=options.time_limit)
    except OSError as error:
        named = error.filename is not None and error.strerror
        print(f"error: {error.filename!r}: {error.strerror}" if named else f"error: {error}", file=sys.stderr)
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
    for name, line in described(f, digest):
        print(f"{name:12} {line}")
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
