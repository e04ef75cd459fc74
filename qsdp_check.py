r"""Check a certificate of qsdp with NumPy alone: no solver, no training code, nothing shared with the library.

The claim.  A training problem has data X (n, d), targets y, sample weights w > 0 (one where there are none), a convex
loss >= 0, beta > 0 and weights of levels -M, -M + 2, ..., M.  A network of any number of neurons predicts

    f(x) = sum_j alpha_j u_j' A(x) v_j,    A(x) = x x',  or, for an activation a t^2 + b t + c with b or c not 0,
                                           A(x) = [[a x x', b/2 x], [b/2 x', c]]  (u_j, v_j end in a sign then),

and has the objective  sum_i w_i loss(f(x_i), y_i) + beta D sum_j |alpha_j|,  D = d M (+ 1 if u_j, v_j end in a sign).
The file holds one network, and claims its objective and a lower bound of the objective of EVERY network of that kind.
`FIELDS` lists all fields of a file; docs/api/certificate_format.md says of each what it is and what is done with it.

Whose data.  With --data, every field that says what the data are comes from the user's archive, or does not exist:
those of the certificate are dropped before anything is computed (`DATA_FIELDS`).  Arrays are cast to float64 or int64
once, when they are read, and refused if a value changes by it; no arithmetic happens in a type that a file chose.

Centred data.  How rows and targets were made of samples (the encoding, the means that were subtracted) is stated, not
checked.  Whether all columns of packed rows and of targets have the weighted mean zero, to 1e-9 of their weighted mean
magnitude, is computed and printed for a squared loss: an intercept without a price is then zero for every network.

A file of rows that came in batches has no data and no nu.  Matrices S_k of predictions t = <A(x_i), S_k> give the dual
vector, nu_i = w_i sum_k c_k times minus the derivative at t of the loss, or of its Moreau envelope for a positive step.

A file of statistics has no X.  It has n matrices A_i themselves, as upper triangles ("forms"), and targets y: a factor
of sums over all samples, for which a squared loss has the value that it has on these.  Read A_i for A(x_i) then.

Blocks.  A file with "sizes" has R blocks of sides N_r.  A sample is a packed row, block after block: the upper
triangle, row by row, of a symmetric matrix A_r(x), every entry once, or a vector a_r(x) where "linear" is true.  A
neuron lives in one block r: alpha u'A_r(x)v, or alpha u'a_r(x), and costs beta omega_r N_r |alpha|.  Every output and
block has its own M(nu) and its own tree, and needs tau <= beta omega_r N_r; for a vector, m = sum_i nu_i a_r(x_i), tau
is the sum of |m_k| and the tree is not used.  Here, block r is divided by omega_r N_r.  The trees in a file are those
of matrices filled with zeros to the largest side; entries beyond the side of a block are dropped.

Real weights.  "weight_blocks" has the positions, among all blocks of a packed row, and the numbers of columns of blocks
without neurons, which "sizes" does not count.  A network adds sum_k w_k x_k over these columns, with any real w (its
own: "weights"), at a cost of beta sum_k omega_k |w_k| ("weight_omega").  They need |m_k| <= beta omega_k for every
output and column, m = sum_i nu_i x_i, since nu'f then has at most beta sum_k omega_k |w_k| more.  There is no tree.

A file of sums has G = sum_i w_i x_i x_i' of packed rows x_i, h = sum_i w_i y_i x_i and q = sum_i w_i y_i^2 of a squared
loss in place of the samples: the loss of entries s is q - 2 s'h + s'Gs.  A vector t ("scores") gives the dual vector
nu_i = 2 w_i (y_i - x_i't), with sum_i nu_i x_i = 2 g, g = h - G t, and -l*(-s nu) = s (2 - s) (q - t'h) + s^2 t'g.
These differences cancel, so g is computed in twice the precision.  Without the data, only the semidefiniteness of the
sums is tested; with --data, the bound is computed from the samples.

Images.  With "patches" = (size, stride, padding, regions, pooling, centre, constant, floats), all integers, packed rows
follow from integer "images" (n, height, width) or (n, height, width, channels), both given by --data in place of X.
Pixels of pooling x pooling squares are summed (rows and columns beyond a multiple are dropped), zeros are padded on all
sides, the patch p at every stride-th position has its size x size pixels, row by row, minus centre, then the constant
unless it is 0; position i of k rows of positions, and of columns, is in region i * regions // k.  A block is the sum of
p p' over the positions of a region; if floats is 4 or 8, divided by their number and rounded to a float of so many
bytes.

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
absolute, huber (with its parameter delta), hinge and squared_hinge.

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

What is accepted.  The arithmetic is ordinary floating point; every step adds an allowance for its rounding: the
worst case for sums, 10 dim(B) eps times the norm for eigenvalues, 16 eps for logarithms and for terms of l*, and the
smallest float for every product that may underflow.  If the resulting bound of tau exceeds beta D, nu is scaled down
until it does not; by 4 eps in any case, which makes up for ends w a, w b and quotients nu / w that are rounded when the
domain of l* is tested.  Probabilities of the cross-entropy are divided by their sum first.  The predictions of the
network have a bound of their rounding; where the objective is not known to 1e-10 by it, they are computed in twice the
precision.  The answer is yes if

    |claimed objective - objective| + its rounding  <=  1e-9 max(objective, 1e-6 zero),
    claimed bound - bound                           <=  1e-9 min(objective, zero),

both plus 1e-300, where zero is the objective of the network without neurons, and no number is infinite.  Exit codes: 0
yes, 1 no, 2 not to be read, or not decided within the time limit or the memory.

What a file costs.  Memory: the file, whose archive must not be compressed and whose entries must not overlap, and some
ten matrices of the side N, or 1 + 2 N where leaves have signs.  Time: that of eigenvalues for every leaf with a shift,
and up to 2^40 vectors for others; --time-limit bounds it, reading included.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import os
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, TextIO

import numpy as np

Array = np.ndarray
Fields = dict[str, Array]
Leaf = tuple[Array, Array | None, Array, Array]  # signs; shift, or None; vectors of cuts and their weights

MAGIC = b"qsdp certificate 2\n"
EPS = 2.0**-52
TOLERANCE = 1e-9
#: The smallest positive float: a product that underflows errs by at most this.
TINY = 2.0**-1074
#: The largest magnitude of rows, targets, weights and parameters is within these numbers, so that products of them
#: neither overflow nor underflow; that of products (forms and sums) is within their squares, beta within their cubes.
SMALLEST, LARGEST = 1e-100, 1e100
#: Entries of the largest array that is made here (2 GiB), so that a small file cannot ask for a large one.
MAX_ENTRIES = 2**28
#: Piecewise quadratic losses: c, and a and b of targets y and Huber's parameter.
PIECEWISE: dict[str, tuple[float, Callable[[Array, float], tuple[Any, Any]]]] = {
    "squared": (0.5, lambda y, delta: (-np.inf, np.inf)),
    "absolute": (0.0, lambda y, delta: (-1.0, 1.0)),
    "huber": (0.5, lambda y, delta: (-2 * delta, 2 * delta)),
    "hinge": (0.0, lambda y, delta: (np.minimum(y, 0), np.maximum(y, 0))),
    "squared_hinge": (0.5, lambda y, delta: (np.where(y < 0, -np.inf, 0), np.where(y > 0, np.inf, 0))),
}
LOSSES = (*PIECEWISE, "logistic", "cross_entropy")

#: What a certificate may hold: the kind of entries of each field, and its numbers of axes. Kinds: little-endian
#: float64; signed integers; booleans; text; and "real", the rows, booleans, integers, float32 or float64.
FIELDS: dict[str, tuple[str, tuple[int, ...]]] = {
    # the data
    "X": ("real", (2,)),
    "y": ("float", (1, 2)),
    "sample_weight": ("float", (1,)),
    "forms": ("float", (2,)),
    "table": ("float", (1,)),
    "form_sizes": ("float", (1,)),
    "target_ratio": ("float", (0,)),
    "rounding": ("float", (0,)),
    "gram": ("float", (1,)),
    "products": ("float", (2,)),
    "squares": ("float", (1,)),
    "patches": ("int", (1,)),
    "n_samples": ("int", (0,)),
    "data_sha256": ("text", (0,)),
    "rows_sha256": ("text", (0,)),
    # the kind of networks and their objective
    "beta": ("float", (0,)),
    "loss": ("text", (0,)),
    "parameters": ("float", (1,)),
    "activation": ("float", (1,)),
    "levels": ("int", (0,)),
    "sizes": ("int", (1,)),
    "linear": ("bool", (1,)),
    "omega": ("float", (1,)),
    "weight_blocks": ("int", (2,)),
    "weight_omega": ("float", (1,)),
    # the network
    "U": ("int", (2,)),
    "V": ("int", (2,)),
    "alpha": ("float", (1, 2)),
    "block": ("int", (1,)),
    "weights": ("float", (1, 2)),
    # the proof
    "nu": ("float", (1, 2)),
    "scores": ("float", (2, 4)),
    "steps": ("float", (1,)),
    "mixture": ("float", (2,)),
    "order": ("int", (2,)),
    "leaves": ("int", (1,)),
    "lengths": ("int", (1,)),
    "signs": ("int", (1,)),
    "shifted": ("bool", (1,)),
    "shifts": ("float", (1,)),
    "cuts": ("int", (1,)),
    "cut_lengths": ("int", (1,)),
    "cut_nodes": ("int", (1,)),
    "cut_values": ("int", (1,)),
    "cut_weights": ("float", (1,)),
    # the claims
    "bound_type": ("text", (0,)),
    "lower_bound": ("float", (0,)),
    "objective": ("float", (0,)),
}
#: Fields that say what the data are: with --data, those of the certificate are dropped.
DATA_FIELDS = {*list(FIELDS)[: list(FIELDS).index("data_sha256")]}
#: Names in the archive of a user, and those which the three sources of data need beside y.
USER_FIELDS = {"images", *DATA_FIELDS} - {"gram", "products", "squares"}
STATISTICS = {"table", "form_sizes", "target_ratio", "rounding", "n_samples"}
BLOCKS = {"sizes", "linear", "omega", "block"}
WEIGHTS = {"weight_blocks", "weight_omega", "weights"}
CUTS = {name for name in FIELDS if name.startswith("cut")}
PROBLEM = {"beta", "loss", "parameters", "activation", "levels", "U", "V", "alpha"}
PROOF = {"order", "leaves", "lengths", "signs", "shifted", "shifts"}
CLAIMS = {"bound_type", "lower_bound", "objective"}


class ClaimError(Exception):
    """The certificate does not hold; the message says why."""


class Undecided(Exception):  # noqa: N818 (neither yes nor no)
    """There is no answer within the time limit or the memory; the message says which."""


class Verdict(NamedTuple):
    """What was computed: objective, lower bound, largest pricing value and what it may be, beta D."""

    objective: float
    bound: float
    value: float
    penalty: float


def need(condition: Any, reason: str) -> None:
    """Raise `ClaimError` with a reason unless the condition is true; comparisons with NaN are false."""
    if not condition:
        raise ClaimError(reason)


def in_time(end: float) -> None:
    """Raise `Undecided` after the end of the time limit."""
    if time.monotonic() > end:
        raise Undecided("time")


def affordable(*sides: int) -> None:
    """Raise `Undecided` if an array of these sides is larger than all that this check makes."""
    if math.prod(sides) > MAX_ENTRIES:
        raise Undecided(f"an array of {' x '.join(map(str, sides))} numbers needs more memory than this check uses")


# -- reading --------------------------------------------------------------------------------------------------------


def cast(name: str, array: Array) -> Array:
    """Cast real numbers to float64; raise `ClaimError` if a value changes by it."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    need(kind in "biu" or (kind == "f" and size in (4, 8)), f"{name}: entries of type {array.dtype} are not read")
    need(array.size or max(array.shape) <= 2**20, f"{name}: it has the shape {array.shape}, and no entries")
    with np.errstate(all="ignore"):
        numbers = np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)
    if kind in "iu" and size == 8:
        fits = np.abs(numbers) < 2.0**63
        need(np.all(fits), f"{name}: an integer is not a float64")
        need(np.all(numbers.astype(np.int64) == array), f"{name}: an integer is not a float64")
    return numbers


def entry_of(name: str, raw: bytes) -> Array:
    """Return the array in an entry of an archive, whose header must agree with its size."""
    stream = io.BytesIO(raw)
    try:
        version = np.lib.format.read_magic(stream)
        need(version == (1, 0), f"{name}: its header has version {version}")
        with warnings.catch_warnings():
            # Of headers written by Python 2.
            warnings.simplefilter("ignore")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ClaimError(f"{name}: its header is malformed") from None
    need(not fortran and all(side >= 0 for side in shape), f"{name}: its entries are not in C order")
    need(math.prod(shape) or max(shape) <= 2**20, f"{name}: it has the shape {shape}, and no entries")
    need(dtype.kind in "biufU" and dtype.itemsize > 0, f"{name}: entries of type {dtype} are not read")
    count, start = math.prod(shape), stream.tell()
    need(count * dtype.itemsize == len(raw) - start, f"{name}: its header does not agree with its size")
    return np.frombuffer(raw, dtype, count, start).reshape(shape) if count else np.zeros(shape, dtype)


def field_of(name: str, array: Array) -> Array:
    """Return a field of a certificate as float64, int64, booleans or text, if it has the type that `FIELDS` says."""
    kind, axes = FIELDS[name]
    dtype = array.dtype
    need(array.ndim in axes, f"{name}: it has {array.ndim} axes in place of {' or '.join(map(str, axes))}")
    if kind == "text":
        need(dtype.kind == "U" and dtype.isnative and dtype.itemsize <= 1024, f"{name}: it is not a short text")
        return array
    native = dtype.isnative or dtype.itemsize == 1
    fits = {"float": dtype == np.float64, "int": dtype.kind == "i", "bool": dtype.kind == "b", "real": True}[kind]
    need(fits and native, f"{name}: entries of type {dtype} are not read, but {kind} ones")
    if kind in ("float", "real"):
        return cast(name, array)
    return array.astype(np.int64) if kind == "int" else array


def archive_of(path: str, end: float) -> Fields:
    """Read the fields of a certificate, and nothing else."""
    with open(path, "rb") as stream:
        contents = stream.read()
    if not contents.startswith(MAGIC):
        raise OSError(f"{path} is not a certificate of qsdp, version 2")
    line, body = contents[len(MAGIC) : len(MAGIC) + 65], contents[len(MAGIC) + 65 :]
    need(line == hashlib.sha256(body).hexdigest().encode() + b"\n", "the contents do not match their digest")
    del contents
    arrays: Fields = {}
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        members, previous = archive.infolist(), 0
        names = [member.filename.removesuffix(".npy") for member in members]
        need(len(set(names)) == len(names), "two entries of the archive have one name")
        need(min((member.header_offset for member in members), default=0) == 0, "the archive begins with other bytes")
        for member in sorted(members, key=lambda member: member.header_offset):
            need(member.compress_type == zipfile.ZIP_STORED, "the archive is compressed")
            need(member.header_offset >= previous, "entries of the archive overlap")
            previous = member.header_offset + 30 + len(member.filename) + member.compress_size
        need(previous <= len(body), "entries of the archive overlap")
        for name, member in zip(names, members):  # noqa: B905 (one name for each)
            in_time(end)
            known = name in FIELDS and member.filename == f"{name}.npy"
            if known or name in ("loss", "interval", "inverse_curvature", "label"):
                arrays[name] = entry_of(name, archive.read(member))
            need(name in arrays, f"{member.filename!r:.40}: there is no such field")
    stored = str(arrays["loss"]) if "loss" in arrays else ""
    strange = stored == "piecewise quadratic" or not FIELDS.keys() >= arrays.keys()
    need(not strange, "loss: a stored user-defined loss; only losses of the package can be checked")
    return {name: field_of(name, array) for name, array in arrays.items()}


def data_of(path: str, f: Fields, end: float) -> Fields:
    """Read the data of a user from an archive, as float64 (or images, whose packed rows become X)."""
    try:
        with zipfile.ZipFile(path) as members:
            methods = {member.compress_type for member in members.infolist()}
        if methods - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise OSError(f"{path} is compressed otherwise than by numpy.savez_compressed")
        with np.load(path, allow_pickle=False) as archive:
            strange = sorted(set(archive.files) - USER_FIELDS)
            data = {} if strange else {name: archive[name] for name in archive.files}
    except OSError:
        raise
    except Exception:  # whatever another file leads to
        raise OSError(f"{path} is not an archive of arrays, as numpy.savez writes them") from None
    need(not strange, f"{''.join(strange[:1])!r:.40}: {path} may hold {', '.join(sorted(USER_FIELDS))} alone")
    need("y" in data, f"y: {path} has no targets")
    need(len({"X", "images", "forms"} & set(data)) == 1, f"X: {path} must have one of X, images and forms")
    need(("images" in data) == ("patches" in data), f"patches: {path} must have images and patches, or neither")
    fits = set(data) >= STATISTICS if "forms" in data else not STATISTICS & set(data)
    need(fits, f"forms: {path} must have forms and {', '.join(sorted(STATISTICS))}, or none of them")
    data = {name: array if name in ("images", "patches") else cast(name, array) for name, array in data.items()}
    if "images" in data:
        patches = data["patches"]
        need(patches.dtype.kind in "iu" and patches.shape == (8,), "patches: they are not eight integers")
        data["X"] = cast("X", packed_rows(data.pop("images"), patches.tolist(), end))
    for name in set(data) & set(FIELDS):
        need(data[name].ndim in FIELDS[name][1], f"{name}: in {path}, it has {data[name].ndim} axes")
    y = data["y"]
    if str(f["loss"]) == "cross_entropy" and y.ndim == 1:
        classes = f["alpha"].shape[-1]
        affordable(len(y), classes)
        need(np.all((y >= 0) & (y < classes) & (y == np.rint(y))), "y: its entries are not the numbers of classes")
        data["y"] = np.equal(y[:, None], np.arange(classes)).astype(float)
    if "sample_weight" in data:
        w = data["sample_weight"]
        fits = "X" in data and w.shape == y.shape[:1] == data["X"].shape[:1]
        need(fits and np.all((w >= 0) & (w < np.inf)), "sample_weight: it is not one number >= 0 for each row")
        if np.any(w == 0):
            data.update({name: data[name][w > 0] for name in ("X", "y", "sample_weight")})
    return data


def read(path: str, data_path: str | None = None, end: float = math.inf) -> tuple[Fields, str, str]:
    """Read a certificate; return its fields, with the data, where these come from, and their digest."""
    f, source = archive_of(path, end), "the certificate"
    missing = sorted((PROBLEM | PROOF | CLAIMS) - set(f))
    need(not missing, f"{''.join(missing[:1])}: the field is missing")
    other, where = "", "the data in it"
    if data_path is not None:
        # Nothing is computed from the data of the certificate, but they must be the same.
        other = digest_of(f, end) if {"X", "y"} <= set(f) or {"forms", "y"} <= set(f) else ""
        data, source = data_of(data_path, f, end), data_path
        f, where = {name: array for name, array in f.items() if name not in DATA_FIELDS} | data, data_path
    sources = sorted({"X", "forms", "gram"} & set(f))
    if not sources:
        raise ClaimError("the file holds only a digest of its data: give them with --data")
    need(len(sources) == 1, f"{sources[-1]}: the file has {sources[0]}, too")
    check_fields(f, sources[0])
    # Before weights of one are dropped, since batches may have had them.
    if "rows_sha256" in f:
        same = str(f["rows_sha256"]) == digest_of_rows(f, end)
        need(same, f"rows_sha256: the certificate does not belong to {where}")
    if "sample_weight" in f and np.all(f["sample_weight"] == 1):
        del f["sample_weight"]
    digest = digest_of(f, end)
    need(other in ("", digest), f"X: the certificate does not belong to {where}")
    if "data_sha256" in f:
        need(str(f["data_sha256"]) == digest, f"data_sha256: the certificate does not belong to {where}")
    return f, source, digest


def check_fields(f: Fields, source: str) -> None:
    """Raise `ClaimError` unless the fields are those of a problem with this source of data."""
    needed = PROBLEM | PROOF | CLAIMS
    needed |= {"X": {"X", "y"}, "forms": {"forms", "y", *STATISTICS}, "gram": {"gram", "products", "squares"}}[source]
    optional = {"data_sha256"}
    if "sizes" in f:
        needed |= BLOCKS
        optional |= {"patches"}
        needed |= WEIGHTS if WEIGHTS & set(f) else set()
    if CUTS & set(f):
        needed |= CUTS
    if source == "X":
        optional |= {"sample_weight", "n_samples"}
    if source == "gram":
        needed |= {"rounding", "n_samples", "scores"}
    elif source == "forms" or "nu" in f:
        needed |= {"nu"}
        optional |= {"rows_sha256"} if source == "X" else set()
    elif "steps" in f:
        needed |= {"rows_sha256", "scores", "steps", "mixture"}
    else:
        needed |= {"scores", "sizes"} if "scores" in f else {"nu"}
    missing, strange = sorted(needed - set(f)), sorted(set(f) - needed - optional)
    need(not missing, f"{''.join(missing[:1])}: the field is missing")
    need(not strange, f"{''.join(strange[:1])}: a certificate of {source} has no such field")
    scores = f["scores"].ndim if "scores" in f else 0
    need(scores in ((4,) if "steps" in f else (0, 2)), "scores: their shape does not fit")


def check_range(name: str, array: Array, degree: int = 1) -> None:
    """Raise `ClaimError` unless all entries are finite, and the largest magnitude is zero or in the allowed range."""
    # NaN is the maximum and the minimum of what it is in.
    ends = array.min(initial=0.0), array.max(initial=0.0)
    need(np.all(np.isfinite(ends)), f"{name}: some numbers are not finite")
    largest, low, high = float(max(-ends[0], ends[1])), SMALLEST**degree, LARGEST**degree
    need(largest == 0 or low <= largest <= high, f"{name}: {largest:g} is not within {low:g} .. {high:g}")


def digest_of(f: Fields, end: float = math.inf) -> str:
    """Return the SHA-256 digest of the data (X, y, weights other than one): shapes as text, and bytes as float64."""
    names = ["X", "forms", "gram", "products", "squares", "y", "sample_weight"]
    if np.all(f.get("sample_weight", 1.0) == 1):
        names.remove("sample_weight")
    arrays, digest = [f[name] for name in names if name in f], hashlib.sha256()
    for array in arrays:
        digest.update(str(array.shape).encode())
        for i in range(0, len(array), 4096):
            in_time(end)
            digest.update(np.ascontiguousarray(array[i : i + 4096] + 0.0, "<f8"))
    return digest.hexdigest()


def digest_of_rows(f: Fields, end: float = math.inf) -> str:
    """Return the SHA-256 digest of all rows (x, y and any weight), one after the other, as little-endian float64."""
    digest, arrays = hashlib.sha256(), [f[name] for name in ("X", "y", "sample_weight") if name in f]
    need(len({len(array) for array in arrays}) == 1, "X: X, y and the weights have different numbers of rows")
    for i in range(0, len(f["X"]), 4096):
        in_time(end)
        digest.update(np.ascontiguousarray(np.column_stack([v[i : i + 4096] for v in arrays]) + 0.0, "<f8"))
    return digest.hexdigest()


def packed_rows(images: Array, patches: list[int], end: float = math.inf) -> Array:
    """Compute the packed rows of images by their patch settings."""
    size, stride, padding, regions, pooling, centre, constant, floats = patches
    fits = images.dtype.kind in "iu" and images.ndim in (3, 4) and images.size
    need(fits, "images: they are not integers (n, height, width)")
    valid = min(size, stride, regions, pooling) > 0 and 0 <= padding < size and floats in (0, 4, 8)
    need(valid and max(abs(centre), abs(constant)) < 2**53, "patches: they are invalid")
    largest = max(int(images.max(initial=0)), -int(images.min(initial=0)))
    need(largest * pooling**2 < 2**53, "images: the pixels are too large")
    n, height, width = len(images), *(side // pooling for side in images.shape[1:3])
    counts = [(side + 2 * padding - size) // stride + 1 for side in (height, width)]
    need(min(counts) >= regions, "patches: some regions have no patches")
    N = size * size * math.prod(images.shape[3:]) + (constant != 0)
    entries = N * (N + 1) // 2 * regions**2
    affordable(n, entries)
    edges = [[-(-r * count // regions) for r in range(regions + 1)] for count in counts]
    parts, step = [np.zeros((0, entries), f"<f{floats}" if floats else "<i8")], 1024
    step = max(1, min(step, MAX_ENTRIES // (16 * N * math.prod(counts))))
    for i in range(0, n, step):
        in_time(end)
        x = images[i : i + step, : height * pooling, : width * pooling].astype(float)
        x = x.reshape(len(x), height, pooling, width, pooling, -1).sum(axis=(2, 4))
        x = np.pad(x, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
        ends = [stride * (count - 1) + 1 for count in counts]
        shifted = [x[:, a : a + ends[0] : stride, b : b + ends[1] : stride] for a in range(size) for b in range(size)]
        p = np.concatenate(shifted, axis=3) - centre
        if constant:
            p = np.concatenate([p, np.full((*p.shape[:3], 1), float(constant))], axis=3)
        # Sums of integers in double precision are exact up to 2^53.
        need(np.abs(p).max() ** 2 * counts[0] * counts[1] < 2**53, "images: the pixels are too large")
        upper = np.triu_indices(p.shape[3])
        sums = []
        for a, b in [(a, b) for a in range(regions) for b in range(regions)]:
            in_time(end)
            region = p[:, edges[0][a] : edges[0][a + 1], edges[1][b] : edges[1][b + 1]].reshape(len(p), -1, p.shape[3])
            total = np.matmul(region.transpose(0, 2, 1), region)[:, upper[0], upper[1]]
            sums.append(total / region.shape[1] if floats else total)
        parts.append(np.hstack(sums).astype(parts[0].dtype))
    return np.concatenate(parts)


# -- twice the precision --------------------------------------------------------------------------------------------


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b as an unevaluated sum of two floats, exact without overflow (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a b as an unevaluated sum of two floats, exact without overflow and underflow (Dekker)."""
    c, (A, B) = a * b, (134217729.0 * x - (134217729.0 * x - x) for x in (a, b))
    return c, (a - A) * (b - B) - (((c - A * B) - (a - A) * B) - A * (b - B))


def product_of_pairs(A: Array, a: Array | None, B: Array, b: Array | None, end: float) -> tuple[Array, Array]:
    """Return (A + a)(B + b) as a sum of two floats (Ogita, Rump, Oishi), where |a| <= eps |A| and |b| <= eps |B|.

    Its error is at most ((k + 8) eps)^2 |A| |B| for k columns of A.
    """
    high, low = np.zeros((2, len(A), B.shape[1]))
    for k in range(A.shape[1]):
        in_time(end)
        column, row = A[:, k, None], B[None, k]
        c, e = exact_product(column, row)
        high, s = two_sum(high, c)
        low += s + e
        if a is not None:
            low += a[:, k, None] * row
        if b is not None:
            low += column * b[None, k]
    return two_sum(high, low)


# -- losses ---------------------------------------------------------------------------------------------------------


class Loss:
    """The loss of a certificate, with targets and sample weights."""

    def __init__(self, f: Fields, y: Array, w: Array) -> None:
        self.name, self.y, self.w, self.c = str(f["loss"]), y, w, 0.0
        need(self.name in LOSSES, f"loss: {self.name!r:.40} is unknown")
        if self.name in ("logistic", "hinge", "squared_hinge"):
            need(np.all(np.abs(y) == 1), "y: the targets are not labels -1, +1")
        if self.name == "cross_entropy":
            one_hot = y.ndim == 2 and np.all((y == 0) | (y == 1)) and np.all(y.sum(axis=1) == 1)
            need(one_hot, "y: the targets are not one-hot")
        self.a, self.b = np.zeros(()), np.zeros(())
        self.delta = delta_of(f)
        if self.name in PIECEWISE:
            self.c, ends = PIECEWISE[self.name]
            self.a, self.b = (np.asarray(end, dtype=float) for end in ends(y, self.delta))

    def terms(self, t: Array) -> Array:
        """Return the losses of predictions t, of each sample or of each sample and output."""
        y = self.y
        if self.name == "cross_entropy":
            top = t.max(axis=1)
            return np.asarray(top + np.log(np.exp(t - top[:, None]).sum(axis=1)) - (y * t).sum(axis=1))
        if self.name == "logistic":
            return np.asarray(np.logaddexp(0.0, -y * t))
        r, slope = y - t, self.c if self.c > 0 else 1.0
        nu = np.clip(r / slope, self.a, self.b) if self.c > 0 else np.where(r > 0, self.b, self.a)
        return np.asarray(nu * (r - self.c / 2 * nu))

    def value(self, t: Array) -> float:
        """Return the weighted loss of predictions t."""
        w = self.w.ravel() if self.name == "cross_entropy" else self.w
        return math.fsum((w * self.terms(t)).ravel())

    def rounding(self, t: Array, error: Array) -> float:
        """Return what the value errs by, if the predictions err by at most `error`."""
        error, terms = error + 4 * EPS * (np.abs(t) + np.abs(self.y)), self.terms(t)
        if self.name == "cross_entropy":
            # log sum exp and t_y change by at most the largest error each.
            moved, w = 2 * error.max(axis=1), self.w.ravel()
        else:
            # Convex functions rise by more than they fall.
            moved, w = np.maximum(self.terms(t + error), self.terms(t - error)) - terms, self.w
        underflow = 8 * TINY * float((self.w + 1 + np.zeros(self.y.shape)).sum())
        # The digits that these sums lose are far below a hundredth of them, as no term is negative.
        return 1.01 * (float((w * moved).sum()) + 64 * EPS * float((w * terms).sum())) + underflow

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

    def normalised(self, nu: Array) -> tuple[Array, Array]:
        """Return nu with probabilities that sum to one, and by how much each sample still errs (cross-entropy).

        The entry of the true class becomes minus the sum of the others, so that digits of small entries stay.
        """
        if self.name != "cross_entropy":
            return nu, np.zeros(len(nu))
        self.check_domain(nu)
        missing, C = np.abs(nu.sum(axis=1)), nu.shape[1]
        need(np.all(missing <= 1e-12 * self.w.ravel() * (C + 1)), "nu: the dual vector leaves its domain, sum p = 1")
        others = np.where(self.y == 1, 0.0, nu)
        nu = np.where(self.y == 1, -others.sum(axis=1)[:, None], nu)
        return nu, (C + 2) * EPS * np.abs(nu).sum(axis=1) + C * 1e-290

    def check_domain(self, nu: Array) -> None:
        """Raise `ClaimError` unless nu lies in the domain of the conjugate, up to rounding."""
        if self.name in ("logistic", "cross_entropy"):
            p, coupled = self.probabilities(nu), self.name == "cross_entropy"
            # For the true class, 1 - nu is rounded; for the others, the sign is exact.
            need(np.all(p >= (-EPS * self.y if coupled else 0.0)), "nu: the dual vector leaves its domain, p >= 0")
            need(np.all(p <= 1 + 1e-12 * coupled), "nu: the dual vector leaves its domain, p <= 1")
        else:
            within = (nu >= self.w * self.a) & (nu <= self.w * self.b)
            need(np.all(within), "nu: the dual vector leaves its domain, w a <= nu <= w b")

    def dual_value(self, nu: Array) -> float:
        """Return -l*(-nu) minus a bound on rounding, at (1 - 4 eps) nu, for nu in the domain."""
        self.check_domain(nu)
        nu, size, terms_each = (1 - 4 * EPS) * nu, 0.0, 16
        if self.name in ("logistic", "cross_entropy"):
            p = np.maximum(self.probabilities(nu), 0.0)
            q = np.where(p > 0, p, 1.0)
            entropy = -q * np.log(q)
            if self.name == "logistic":
                entropy -= (1 - p) * np.log1p(-np.where(p < 1, p, 0.0))
            terms = self.w * entropy
            # Rounding p changes its entropy by less than 16 eps: p log p is below 1, the slope next to p = 1 below 36.
            # Probabilities of classes sum to one up to as many roundings as there are classes.
            size = math.fsum((self.w + 0 * terms).ravel())
            terms_each += 2 * p.shape[-1] * (self.name == "cross_entropy")
        else:
            terms = np.stack([nu * self.y, -self.c / 2 * nu / self.w * nu])
        allowance = terms_each * EPS * (math.fsum(np.abs(terms).ravel()) + size) + 8 * TINY * (
            terms.size + float(np.abs(nu).sum())
        )
        return float(math.fsum(terms.ravel()) - allowance)


def delta_of(f: Fields) -> float:
    """Return Huber's parameter, and one for other losses, which have none."""
    if str(f["loss"]) != "huber":
        return 1.0
    need(f["parameters"].shape == (1,), "parameters: Huber's loss has one, delta")
    delta = float(f["parameters"][0])
    need(SMALLEST <= delta <= LARGEST, f"parameters: delta = {delta:g} is not within {SMALLEST:g} .. {LARGEST:g}")
    return delta


# -- the pricing value ----------------------------------------------------------------------------------------------


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
    known = min(15, (2**24 // len(M)).bit_length() - 1)
    tails = [
        np.abs(rest[:, j:] @ signs_of(free - j)).sum(axis=0).max() if free - j <= known else np.inf for j in range(free)
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
        in_time(end)
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
    """Return an upper bound of max |u'Mv| over sign vectors u and v, proven by leaves that cover all u (`Trees`)."""
    N, bounds = len(M), [0.0]
    total = float(np.abs(M).sum())
    need(math.isfinite(total), "nu: the numbers are too large")
    for s, z, cuts, weights in leaves:
        in_time(end)
        k = len(s)
        if z is None:
            bounds.append(enumerate_leaf(M, order, s, progress, end) + 4 * N * EPS * total)
            continue
        need(z.shape == (1 + N + N - k,) and np.all(np.isfinite(z)), "shifts: one has a wrong shape, or is not finite")
        need(np.all((weights >= 0) & np.isfinite(weights)), "cut_weights: the weight of a cut is negative")
        need(np.all(cuts.sum(axis=1) % 2 == 1), "cut_values: a cut has an even sum")
        size = total + (len(cuts) + 8) / len(M) * (weights @ np.abs(cuts).sum(axis=1) ** 2)
        # Any w > 0 will do: with w^2 near z the eigenvalues are near one, however far apart the sizes of rows are.
        near, missing = np.maximum(z, 1e-9 * np.abs(z).mean()), math.inf
        squares = [np.where(near > 0, near, 1.0), np.ones(len(z))]
        if k == 0 and np.array_equal(M, M.T):
            # The mirror image of a leaf without signs, u and v exchanged, proves the same; their mean has two parts.
            z, *squares = ((part[: 1 + N] + mirrored(part, order)) for part in (z, *squares))
            matrices = halves_of(M, z, cuts[:, : 1 + N], mirrored(cuts, order), weights)
        else:
            affordable(len(z), len(z))
            B = np.zeros((len(z),) * 2)
            B[0, 1 : 1 + N], B[1 : 1 + N, 1 + N :] = M[:, order[:k]] @ s / 2, M[:, order[k:]] / 2
            matrices = [np.diag(z) - B - B.T - (cuts.T * weights) @ cuts]
        for square in squares:
            worst = max(lacking(A, np.sqrt(square[len(square) - len(A) :])) for A in matrices)
            missing = min(missing, worst * math.fsum(square))
            if missing <= 1e-10 * np.abs(z).sum():
                break
        bounds.append(math.fsum(z) - math.fsum(weights) + missing + 4 * N * EPS * size)
    # Unlike max, this is NaN if any of them is NaN.
    bound = float(np.max(bounds))
    need(math.isfinite(bound), "shifts: a leaf proves nothing, or its numbers are too large")
    return bound


def matrix_of(E: Array, K: Array, nu: Array, defects: Array) -> tuple[Array, float]:
    """Return sum_i nu_i A(x_i) = K * (E' diag(nu) E), elementwise, and a bound on the error of a pricing value."""
    step = max(64, math.isqrt(len(E)))
    parts = [(E[i : i + step].T * nu[i : i + step]) @ E[i : i + step] for i in range(0, len(E), step)]
    magnitudes = np.abs(E)
    size = np.einsum("ij,jk,ik->i", magnitudes, np.abs(K), magnitudes, optimize=True)
    M = K * sum(parts)
    # A sum of k products, in any order, errs by k half units of the last place of their magnitudes (Higham).
    rounding = 1.01 * float(((min(step, len(E)) + len(parts) + 12) * EPS / 2 * np.abs(nu) + defects) @ size)
    underflow = 8 * TINY * float(np.maximum(np.abs(K), 1).sum()) * (float(magnitudes.sum()) + len(E) + 1)
    return (M + M.T) / 2, rounding + underflow


class Blocks:
    """Layout of packed rows as blocks: positions of their entries in matrices, and factors of these matrices.

    Columns with real weights have the positions `columns`, the prices `omega` and, in a network, the weights `real`.
    """

    def __init__(self, sizes: Array, linear: Array, factors: list[Array]) -> None:
        self.sizes, self.linear, self.factors = sizes.tolist(), linear.tolist(), factors
        kinds = zip(self.sizes, self.linear)  # noqa: B905
        self.pairs = [(np.arange(N),) * 2 if flat else np.triu_indices(N) for N, flat in kinds]
        self.side = max(self.sizes, default=0)
        self.columns, self.omega, self.real = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 1))
        self.place([])

    def place(self, weight_blocks: list[list[int]]) -> None:
        """Set the positions of all packed entries, those with real weights included."""
        counts, weighted, columns = [len(first) for first, _ in self.pairs], [False] * len(self.pairs), [self.columns]
        for position, count in weight_blocks:
            need(0 <= position <= len(counts) and count > 0, "weight_blocks: a position or a number is invalid")
            counts.insert(position, count)
            weighted.insert(position, True)
        # Insertions in ascending order leave every block at its position.
        ascending = [position for position, _ in weight_blocks]
        need(ascending == sorted(set(ascending)), "weight_blocks: the positions are not in ascending order")
        ends = np.cumsum([0, *counts]).tolist()
        self.parts = [slice(a, b) for a, b, real in zip(ends, ends[1:], weighted) if not real]  # noqa: B905
        columns += [np.arange(a, b) for a, b, real in zip(ends, ends[1:], weighted) if real]  # noqa: B905
        self.length, self.columns = ends[-1], np.concatenate(columns)

    @classmethod
    def from_fields(cls, f: Fields, P: int) -> Blocks:
        """Read the blocks of a file with P packed entries."""
        sizes, linear, omega = (f[name] for name in ("sizes", "linear", "omega"))
        need(sizes.ndim == 1 and sizes.shape == linear.shape == omega.shape, "sizes: linear and omega are not as long")
        counts = [N if flat else N * (N + 1) // 2 for N, flat in zip(sizes.tolist(), linear.tolist())]  # noqa: B905
        real = f.get("weight_blocks", np.zeros((0, 2), dtype=np.int64))
        need(
            real.shape[1:] == (2,) and np.all(real >= 0), "weight_blocks: they are not pairs of a position and a number"
        )
        some = len(sizes) + len(real) and min(sizes.tolist(), default=1) > 0
        need(some and sum(counts) + sum(real[:, 1].tolist()) == P, "sizes: the blocks do not fit their rows")
        # Within these limits, dividing by a price neither overflows nor loses digits.
        need(np.all((omega >= SMALLEST) & (omega <= LARGEST)), "omega: a factor is not positive, or extreme")
        blocks = cls(sizes, linear, [1 / np.asarray(cost) for cost in (omega * sizes).tolist()])
        if len(real):
            blocks.place(real.tolist())
            blocks.omega, w, alpha = f["weight_omega"], f["weights"], f["alpha"]
            p = len(blocks.columns)
            need(blocks.omega.shape == (p,), f"weight_omega: it is not one price for each of {p} columns")
            fits = (blocks.omega >= SMALLEST) & (blocks.omega <= LARGEST)
            need(np.all(fits), "weight_omega: a price is not positive, or extreme")
            need(w.shape == (p, *alpha.shape[1:]), "weights: they do not fit the columns and the outputs")
            check_range("weights", w, 3)
            blocks.real = w.reshape(p, -1)
        return blocks

    def members(self, block: Array) -> list[Array]:
        """Return the neurons of each block."""
        order = np.argsort(block, kind="stable")
        return np.split(order, np.searchsorted(block[order], np.arange(1, len(self.sizes))))

    def entries(self, U: Array, V: Array, alpha: Array, block: Array, end: float) -> tuple[Array, Array, Array]:
        """Return vectors (P, C) whose products with packed rows are the predictions of a network, in two floats.

        The third array is a bound on the rounding errors of the first alone.
        """
        C = alpha.shape[1]
        all_high, all_low, all_errors = np.zeros((3, self.length, C))
        for r, (members, (first, second)) in enumerate(zip(self.members(block), self.pairs)):  # noqa: B905
            high, low, size = np.zeros((3, len(first), C))
            for j in members.tolist():
                in_time(end)
                u, v = U[j, : self.sizes[r]].astype(float), V[j, : self.sizes[r]].astype(float)
                signs = u if self.linear[r] else np.where(first == second, u[first] * v[first], u[first] * v[second])
                if not self.linear[r]:
                    signs = np.where(first == second, signs, signs + u[second] * v[first])
                high, error = two_sum(high, signs[:, None] * alpha[j])
                low += error
                size += np.abs(alpha[j])
            part = self.parts[r]
            all_high[part], all_low[part] = two_sum(high, low)
            all_errors[part] = 2 * EPS * size
        if len(self.columns):
            all_high[self.columns] = self.real
        return all_high, all_low, all_errors

    def matrices(self, entries: Array, errors: Array) -> Iterator[tuple[Array, float]]:
        """Yield the matrix of each block, or its vector, and a bound on the error of its pricing value.

        Last, if there are real weights, come their sums divided by their prices, and the largest error of one.
        """
        for r, (first, second) in enumerate(self.pairs):
            part, K = self.parts[r], self.factors[r]
            twice = np.where(first == second, 1.0, 2.0)
            if self.linear[r]:
                M, factor = K * entries[part], K
            else:
                M = np.zeros((self.sizes[r], self.sizes[r]))
                M[first, second] = M[second, first] = entries[part]
                M, factor = K * M, K[first, second] if K.ndim else K
            each = (errors[part] + 4 * EPS * np.abs(entries[part])) * factor + 4 * TINY
            yield M, 1.01 * float((twice * each).sum())
        if len(self.columns):
            m, missed = entries[self.columns], errors[self.columns]
            each = (missed + 4 * EPS * np.abs(m)) / self.omega + 4 * TINY
            yield m / self.omega, 1.01 * float(np.max(each))


def product(F: Array, vectors: Array) -> Array:
    """Return F times vectors, in blocks of rows."""
    return np.concatenate([F[i : i + 4096] @ vectors for i in range(0, len(F), 4096)])


def sums_over(F: Array, nu: Array) -> tuple[Array, Array, float]:
    """Return sum_i nu_i F_i, the sum of the magnitudes of its terms, and its rounding error relative to that sum."""
    total, sizes = np.zeros((2, F.shape[1]))
    step = max(64, math.isqrt(len(F)))
    for i in range(0, len(F), step):
        rows = F[i : i + step]
        total += nu[i : i + step] @ rows
        sizes += np.abs(nu[i : i + step]) @ np.abs(rows)
    return total, sizes + len(F) * TINY / EPS, (min(step, len(F)) + -(-len(F) // step) + 12) * EPS / 2


# -- problems -------------------------------------------------------------------------------------------------------


def rounding_of(f: Fields, least: float) -> float:
    """Return the rounding of sums or statistics that a file states, if it is at least that of any such sums."""
    rounding = float(f["rounding"])
    need(least <= rounding < np.inf, f"rounding: sums have none of {rounding:g}, it must be at least {least:g}")
    return rounding


class Sums:
    """Sums over samples, which determine a squared loss."""

    def __init__(self, f: Fields, end: float) -> None:
        self.h, self.q, self.t, self.end = f["products"], f["squares"], f["scores"], end
        P, C = (math.isqrt(8 * f["gram"].size + 1) - 1) // 2, self.q.size
        need(str(f["loss"]) == "squared", "loss: only a squared loss has sums")
        need(f["gram"].shape == (P * (P + 1) // 2,) and "sizes" in f, "gram: the sums are not those of blocks")
        self.blocks, upper = Blocks.from_fields(f, P), np.triu_indices(P)
        self.G = np.zeros((P, P))
        self.G[upper] = self.G.T[upper] = f["gram"]
        self.shape: tuple[int, ...] = (C,) if C > 1 or f["alpha"].ndim > 1 else ()
        need(C > 0 and self.h.shape == (P, C) and self.q.shape == (C,), "products: they do not fit gram and squares")
        need(self.t.shape == (C, P) and np.all(np.isfinite(self.t)), "scores: they do not fit the sums")
        for name in ("gram", "products", "squares"):
            check_range(name, f[name], 3)
        # Sums of integers are exact, up to a final rounding of numbers above 2^53; the others have many terms.
        largest = max(np.abs(v).max(initial=0.0) for v in (self.G, self.h, self.q))
        whole = all(np.all(v == np.rint(v)) for v in (self.G, self.h, self.q))
        self.rounding = rounding_of(f, 8 * EPS if not whole else EPS if largest > 2.0**53 else 0.0)
        # Sums of samples are semidefinite, here of G and of each h and q; a little is added to allow for rounding.
        self.roots = np.sqrt(np.maximum(self.G.diagonal(), 0))
        self.sizes = np.sqrt(np.maximum(self.q, 0)) + np.abs(self.t) @ self.roots
        roots = np.where(self.roots > 0, self.roots, 1.0)
        in_time(end)
        try:
            L = np.linalg.cholesky(self.G / np.outer(roots, roots) + 1e-9 * np.eye(P))
        except np.linalg.LinAlgError:
            raise ClaimError("gram: no samples have these sums") from None
        rest = self.q * (1 + 1e-9) - np.square(np.linalg.solve(L, self.h / roots[:, None])).sum(axis=0)
        need(np.all(rest >= 0), "squares: no samples have these sums")
        self.dual_residuals = self.residuals(self.t.T)

    def residuals(self, t: Array) -> tuple[Array, Array, Array]:
        """Return h - G t as a sum of two floats, and bounds on their errors."""
        high, low = product_of_pairs(self.G, None, -t, None, self.end)
        high, error = two_sum(self.h, high)
        errors = ((len(t) + 8) * EPS) ** 2 * (np.abs(self.h) + np.abs(self.G) @ np.abs(t)) + len(t) * 1e-300
        return high, low + error, errors

    def values(self, t: Array, residuals: tuple[Array, Array, Array]) -> tuple[Array, Array, float]:
        """Return q - t'h and t'(h - G t) for each column t, and bounds on the errors of their sums."""
        high, low, errors = residuals
        columns = range(t.shape[1])
        parts = [np.concatenate([*exact_product(-t, self.h), self.q[None]])]
        parts += [np.concatenate([*exact_product(t, high), t * low])]
        # A sum of infinite numbers of both signs is none.
        need(all(np.all(np.isfinite(part)) for part in parts), "objective: the numbers are too large")
        first, second = (np.array([math.fsum(part[:, c]) for c in columns]) for part in parts)
        slack = 4 * EPS * (np.abs(first) + np.abs(second)).sum() + 2 * (np.abs(t) * errors).sum()
        return first, second, float(slack)

    def objective(self, U: Array, V: Array, alpha: Array, block: Array) -> tuple[float, float, float]:
        """Return the losses of a network and of zero, and the rounding of the first."""
        high, low, errors = self.blocks.entries(U, V, alpha, block, self.end)
        moved = EPS * np.abs(high) + np.abs(low) + EPS * errors
        gradient, rest, missing = residuals = self.residuals(high)
        first, second, slack = self.values(high, residuals)
        slack += float((2 * moved * (np.abs(gradient) + np.abs(rest) + missing)).sum())
        slack += float(((self.roots @ moved) ** 2).sum())
        loss = max(0.0, math.fsum(first - second))
        return loss, math.fsum(self.q), slack + 4 * EPS * (np.abs(first) + np.abs(second)).sum()

    def matrices(self) -> Iterator[tuple[Array, float]]:
        """Yield the matrices of all outputs and blocks, and bounds on the rounding errors of pricing values."""
        high, low, errors = self.dual_residuals
        errors = errors + 1.01 * self.rounding * np.outer(self.roots, self.sizes)
        for entries, error in zip(2 * (high + low).T, 2 * errors.T):  # noqa: B905
            yield from self.blocks.matrices(entries, error)

    def dual_value(self, scale: float) -> float:
        """Return the dual value of a multiple of the dual vector, minus a bound on rounding errors."""
        first, second, slack = self.values(self.t.T, self.dual_residuals)
        lost = 1.01 * self.rounding * math.fsum(self.sizes**2)
        return math.fsum(scale * (2 - scale) * first + scale**2 * second) - 4 * slack - lost


def multipliers_of(f: Fields, loss: Loss, X: Array, abc: tuple[float, float, float], lift: int, end: float) -> Array:
    """Compute the dual vector from predictions of the rows, for a certificate of batches."""
    S, steps, mixture = f["scores"], f["steps"], f["mixture"]
    (a, b, c), d = abc, X.shape[1]
    C = loss.y.shape[1] if loss.y.ndim == 2 else 1
    need(S.shape == (len(steps), C, d + lift, d + lift) and steps.shape == mixture.shape[:1], "scores: they do not fit")
    fits = mixture.shape[1] in (1, C) and np.all(mixture >= 0) and np.all(steps >= 0)
    need(fits, "mixture: it has other numbers than those >= 0, one for each step and output")
    nu = np.zeros(loss.y.shape)
    for forms, step, shares in zip(S, steps.tolist(), mixture):  # noqa: B905 (lengths are compared above)
        columns = []
        for form in forms:
            in_time(end)
            # Blocks of rows: their products stay small.
            parts = [X[i : i + 4096] for i in range(0, len(X), 4096)]
            t = a * np.concatenate([np.einsum("ij,ij->i", x @ form[:d, :d], x) for x in parts])
            columns.append(t + b / 2 * (X @ (form[:d, d] + form[d, :d])) + c * form[d, d] if lift else t)
        t = np.stack(columns, axis=1)
        nu += (shares if nu.ndim == 2 else shares[0]) * loss.multipliers(t if nu.ndim == 2 else t[:, 0], step)
    return loss.inside(nu)


class Rows:
    """Samples, or statistics that replace them, with targets and a loss."""

    def __init__(self, f: Fields, abc: tuple[float, float, float], L: int, end: float) -> None:
        packed, self.f, self.abc, self.L, self.end = "forms" in f or "sizes" in f, f, abc, L, end
        name = "forms" if "forms" in f else "X"
        self.X, y = f[name], f["y"]
        (n, self.d), self.shape = self.X.shape, y.shape[1:]
        w = self.w = f.get("sample_weight", np.ones(n))
        need(self.d > 0 and n > 0 and len(y) == n and y.size, f"y: its shape does not fit {name}")
        fits = w.shape == (n,) and np.all((w >= SMALLEST**2) & (w < np.inf))
        need(fits, "sample_weight: it is not one number > 0, or at least 1e-200, for each row")
        check_range(name, self.X, 2 if packed else 1)
        check_range("y", y, 2 if packed else 1)
        check_range("sample_weight", w)
        if "forms" in f:
            need(str(f["loss"]) == "squared", "loss: only a squared loss has statistics")
        elif "n_samples" in f:
            need(int(f["n_samples"]) == n, f"n_samples: the data have {n} rows")
        self.loss = Loss(f, y, w if y.ndim == 1 else w[:, None])
        self.nu, self.lift, self.lost = np.zeros(y.shape), int(abc[1] != 0 or abc[2] != 0), 0.0
        self.blocks = Blocks.from_fields(f, self.d) if "sizes" in f else None
        if packed and self.blocks is None:
            self.d = (math.isqrt(8 * self.X.shape[1] + 1) - 1) // 2 - self.lift
            N = self.d + self.lift
            need(2 * self.X.shape[1] == N * (N + 1) and self.d > 0, "forms: they are not triangles")
            sides = np.append(np.full(self.d, float(L)), np.ones(self.lift))
            self.blocks = Blocks(np.array([N]), np.array([False]), [np.outer(sides, sides)])

    def objective(self, U: Array, V: Array, alpha: Array, block: Array, tolerance: float) -> tuple[float, float]:
        """Return the loss of a network and a bound on its rounding, if possible below a tolerance."""
        loss, rounding = self._objective(U, V, alpha, block, False)
        # NaN compares false.
        return (loss, rounding) if rounding <= tolerance else self._objective(U, V, alpha, block, True)

    def zero(self) -> float:
        """Return the loss of zero predictions."""
        return self.loss.value(np.zeros(self.loss.y.shape))

    def _objective(self, U: Array, V: Array, alpha: Array, block: Array, twice: bool) -> tuple[float, float]:
        t, errors = np.zeros((2, len(self.X), alpha.shape[1]))
        if self.blocks is not None:
            high, low, missing = self.blocks.entries(U, V, alpha, block, self.end)
            step, count = max(1, 2**22 // len(high)), len(high) + 8
        else:
            step = max(1, 2**17 // (len(alpha) + self.d + 1))
        for i in range(0, len(t), step):
            in_time(self.end)
            x, rows = self.X[i : i + step], slice(i, i + step)
            if self.blocks is None:
                t[rows], errors[rows] = (self._twice if twice else self._once)(x, U, V, alpha)
            elif twice:
                t[rows] = product_of_pairs(x, None, high, low, self.end)[0]
                errors[rows] = np.abs(x) @ (EPS * missing) + (count * EPS) ** 2 * (np.abs(x) @ np.abs(high))
            else:
                t[rows] = x @ high
                errors[rows] = np.abs(x) @ (np.abs(low) + EPS * missing + count * EPS / 2 * np.abs(high))
        # More than all products that underflow amount to, and far less than digits of any target.
        t, errors = (array.reshape(self.loss.y.shape) for array in (t, 1.01 * errors + 1e-250))
        return self.loss.value(t), self.loss.rounding(t, errors)

    def _once(self, x: Array, U: Array, V: Array, alpha: Array) -> tuple[Array, Array]:
        """Return predictions of rows, and bounds on their rounding errors."""
        (a, b, c), d, sizes = self.abc, self.d, np.abs(alpha)
        left, right = x @ U[:, :d].T.astype(float), x @ V[:, :d].T.astype(float)
        delta = ((d + 2) * EPS / 2 * self.L * np.abs(x).sum(axis=1))[:, None]
        hidden = left * right
        # Sums over neurons, weighted by |alpha_j|: of 1, |u_j'x| + |v_j'x|, and |u_j'x v_j'x|.
        total, product = sizes.sum(axis=0), np.abs(hidden) @ sizes
        if self.lift:
            hidden = a * hidden + b / 2 * (left * V[:, d] + right * U[:, d]) + c * U[:, d] * V[:, d]
        predictions = hidden @ alpha
        both = np.abs(left, out=left)
        both += np.abs(right, out=right)
        both = both @ sizes
        lost = 8 * TINY * (1 + abs(a))
        error = (abs(a) * delta + lost) * both + (abs(a) * delta**2 + abs(b) * delta + lost) * total
        size = abs(a) * product + abs(b) / 2 * both + abs(c) * total
        return (predictions if self.lift else a * predictions), error + (len(alpha) + 16) * EPS / 2 * size

    def _twice(self, x: Array, U: Array, V: Array, alpha: Array) -> tuple[Array, Array]:
        """Return predictions of rows in twice the precision, and bounds on their rounding errors."""
        (a, b, c), d, one = self.abc, self.d, np.ones((len(x), 1))
        left, right = (product_of_pairs(x, None, W[:, :d].T.astype(float), None, self.end) for W in (U, V))
        high, low = exact_product(left[0], right[0])
        low = low + left[0] * right[1] + left[1] * right[0]
        A, rest, weights = [high], [low], [exact_product(alpha, np.asarray(a))]
        if self.lift:
            ends = [W[:, d:].astype(float) for W in (V, U)]
            A, rest = [high, left[0], right[0], one], [low, left[1], right[1], 0 * one]
            weights += [exact_product(alpha * end, np.asarray(b / 2)) for end in ends]
            terms = np.concatenate(exact_product(alpha * ends[0] * ends[1], np.asarray(c)))
            totals = [[math.fsum(column) for column in terms.T]]
            leftover = [[math.fsum([*column, -total]) for column, total in zip(terms.T, totals[0])]]  # noqa: B905
            weights.append((np.array(totals), np.array(leftover)))
        B, b_low = (np.concatenate(parts) for parts in zip(*weights))  # noqa: B905
        F = np.hstack(A)
        t = product_of_pairs(F, np.hstack(rest), B, b_low, self.end)[0]
        delta = (((d + 8) * EPS) ** 2 * self.L * np.abs(x).sum(axis=1))[:, None]
        both = np.abs(left[0]) + np.abs(right[0])
        error = (abs(a) * (both * delta + delta**2) + abs(b) * delta) @ np.abs(alpha)
        underflow = 16 * TINY * (np.abs(F).sum(axis=1)[:, None] + 1) * (np.abs(B).sum(axis=0) + len(alpha))
        return t, error + underflow + 16 * ((F.shape[1] + 8) * EPS) ** 2 * (np.abs(F) @ np.abs(B))

    def matrices(self) -> Iterator[tuple[Array, float]]:
        """Yield the matrices of all outputs and blocks, and bounds on the rounding errors of pricing values."""
        f, d, (a, b, c) = self.f, self.d, self.abc
        nu = self._dual_vector()
        need(nu.shape == self.loss.y.shape and np.all(np.isfinite(nu)), "nu: the dual vector does not fit the targets")
        # Probabilities of a sample must sum to one; what they miss moves the matrix.
        self.nu, defects = self.loss.normalised(nu)
        # Multiples of what is left do not underflow, and weights are far above what is left out.
        self.nu = np.where(np.abs(self.nu) < 1e-290, 0.0, self.nu)
        columns = self.nu.T if nu.ndim == 2 else [self.nu]
        if self.blocks is not None:
            moved = sums_over(self.X, defects)[1] if np.any(defects) else 0.0
            for k, column in enumerate(columns):
                in_time(self.end)
                total, sizes, u = sums_over(self.X, column)
                errors = u * sizes + moved + (self.rounded(column, k) if "forms" in f else 0.0)
                yield from self.blocks.matrices(total, errors)
            return
        affordable(d + self.lift, d + self.lift)
        E = np.hstack([self.L * self.X, np.ones((len(nu), self.lift))])
        K = np.full((d + self.lift, d + self.lift), a)
        K[d:, :], K[:, d:], K[d:, d:] = b / 2, b / 2, c
        for column in columns:
            in_time(self.end)
            yield matrix_of(E, K, column, defects)

    def _dual_vector(self) -> Array:
        f, y = self.f, self.loss.y
        if "nu" in f:
            return f["nu"]
        if "steps" in f:
            return multipliers_of(f, self.loss, self.X, self.abc, self.lift, self.end)
        # Of a file of sums, with the data: 2 w (y - X t).
        t = f["scores"].T
        need(str(f["loss"]) == "squared" and t.shape == (self.X.shape[1], y.size // len(y)), "scores: they do not fit")
        return np.asarray(2 * self.loss.w * (y - product(self.X, t).reshape(y.shape)))

    def dual_value(self, scale: float) -> float:
        """Return the value of a multiple of the dual vector, less an allowance."""
        return self.loss.dual_value(scale * self.nu) - self.lost

    def rounded(self, nu: Array, k: int) -> Array:
        """Return what the rounding of statistics can change in entries of M(nu); add what it takes of -l*(-nu)."""
        f, n, y = self.f, len(nu), self.loss.y.reshape(len(nu), -1)[:, k]
        g, s, ratio = rounding_of(f, n * EPS / 2), f["form_sizes"], float(f["target_ratio"])
        m = (math.isqrt(8 * f["table"].size + 1) - 1) // 2
        need(f["table"].shape == (m * (m + 1) // 2,) and m <= n, "table: it is not a triangle of a side up to n")
        need(s.shape == self.X.shape[1:], "form_sizes: they do not fit the forms")
        W = np.zeros((m, m))
        W[np.triu_indices(m)] = f["table"]
        units = np.where(s > 0, s, 1.0)
        check_range("form_sizes", s, 2)
        need(np.all(np.isfinite(W)) and np.all(W.diagonal() > 0), "table: it is singular")
        need(np.all(np.linalg.norm(W, axis=0) <= 1 + TOLERANCE), "table: it has columns of norms above one")
        fits = np.linalg.norm(self.X / units, axis=0) <= 1 + TOLERANCE
        need(
            np.all(fits & ((s > 0) | ~np.any(self.X, axis=0))),
            "form_sizes: some are smaller than the norms of their columns",
        )
        need(1 <= ratio < np.inf, "target_ratio: it is not at least one")
        c, rest = np.linalg.solve(W, nu[:m]), nu.copy()
        rest[:m] -= W @ c
        a, (r, size, target) = 1.01 * float(np.abs(c).sum()), (float(np.linalg.norm(v)) for v in (rest, nu, y))
        error = (g + (n + 16) * EPS) * a + (n + 16) * EPS * r
        self.lost += error * (ratio * target + a / 4 + size / 2) + float(abs(y @ rest) + abs((nu - rest) @ rest) / 2)
        return np.asarray(error * s + np.abs(self.X.T @ rest))


class Trees:
    """The trees of a proof, of matrices of side N or smaller ones filled with zeros."""

    def __init__(self, f: Fields, N: int, count: int) -> None:
        self.f, self.order, self.lengths, self.shifted = f, f["order"], f["lengths"], f["shifted"]
        need(self.order.shape == (count, N), f"order: there must be {count} trees of {N} coordinates")
        need(f["leaves"].shape == (count,) and np.all(f["leaves"] > 0), "leaves: every tree must have some")
        L, cuts = len(self.lengths), f.get("cuts", np.zeros(len(self.lengths), dtype=np.int64))
        need(sum(f["leaves"].tolist()) == L == len(self.shifted) == len(cuts), "leaves: some leaves have no tree")
        need(np.all((self.lengths >= 0) & (self.lengths <= N)), "lengths: a leaf fixes more signs than there are")
        need(np.all((cuts >= 0) & (self.shifted | (cuts == 0))), "cuts: a leaf has cuts and no shift")
        sizes = np.where(self.shifted, 1 + 2 * N - self.lengths, 0).tolist()
        self.leaves, self.signs, self.shifts, self.cuts = (
            np.cumsum([0, *counts]) for counts in (f["leaves"].tolist(), self.lengths.tolist(), sizes, cuts.tolist())
        )
        need(self.signs[-1] == len(f["signs"]), "signs: their number is not the sum of the lengths")
        need(self.shifts[-1] == len(f["shifts"]), "shifts: their number does not fit the leaves")
        if "cuts" in f:
            lengths, entries = f["cut_lengths"], len(f["cut_nodes"])
            need(self.cuts[-1] == len(lengths) == len(f["cut_weights"]), "cut_lengths: they do not fit the cuts")
            need(np.all(lengths >= 0) and sum(lengths.tolist()) == entries, "cut_nodes: they do not fit the lengths")
            need(len(f["cut_values"]) == entries, "cut_values: they do not fit the nodes")
            self.entries = np.cumsum([0, *lengths.tolist()])

    def tree(self, number: int, side: int) -> tuple[Array, list[Leaf]]:
        """Return order and leaves of a tree, restricted to the coordinates below `side`."""
        order, N = self.order[number], self.order.shape[1]
        need(np.array_equal(np.sort(order), np.arange(N)), "order: it is not a permutation")
        self._check_cover(number, N)
        leaves = []
        for i in range(self.leaves[number], self.leaves[number + 1]):
            k, inside = int(self.lengths[i]), order < side
            s = self.f["signs"][self.signs[i] : self.signs[i + 1]]
            z = self.f["shifts"][self.shifts[i] : self.shifts[i + 1]] if self.shifted[i] else None
            vectors, weights = self._cuts(i, 1 + 2 * N - k)
            if z is not None and side < N:
                coordinates = np.concatenate([[True], np.arange(N) < side, inside[k:]])
                z, vectors = z[coordinates], vectors[:, coordinates]
            leaves.append((s[inside[:k]], z, vectors, weights))
        return order[order < side], leaves

    def _check_cover(self, number: int, N: int) -> None:
        """Raise `ClaimError` unless the leaves of a tree are disjoint, and cover all sign vectors."""
        start, stop = self.leaves[number], self.leaves[number + 1]
        signs = self.f["signs"][self.signs[start] : self.signs[stop]]
        need(np.all(np.abs(signs) == 1), "signs: they are not -1 and +1")
        bounds = self.signs[start : stop + 1] - self.signs[start]
        prefixes = sorted(
            signs[i:j].astype(np.int8).tobytes()
            for i, j in zip(bounds, bounds[1:])  # noqa: B905, RUF007
        )
        need(all(prefix[:1] in (b"", b"\x01") for prefix in prefixes), "signs: the first sign of a leaf is -1")
        apart = all(not b.startswith(a) for a, b in zip(prefixes, prefixes[1:]))  # noqa: B905, RUF007
        need(apart, "signs: a leaf is contained in another one")
        counts = [(length, len(list(group))) for length, group in groupby(sorted(map(len, prefixes)))]
        covered = sum(count << (N - max(length, 1)) for length, count in counts)
        need(covered == 1 << (N - 1), "signs: the leaves do not cover all sign vectors")

    def _cuts(self, leaf: int, size: int) -> tuple[Array, Array]:
        """Return the vectors and weights of the cuts of a leaf."""
        count, start = int(self.cuts[leaf + 1] - self.cuts[leaf]), int(self.cuts[leaf])
        affordable(count, size)
        vectors = np.zeros((count, size))
        if not count:
            return vectors, np.zeros(0)
        for row in range(count):
            entries = slice(self.entries[start + row], self.entries[start + row + 1])
            nodes = self.f["cut_nodes"][entries]
            distinct = len(np.unique(nodes)) == len(nodes)
            need(distinct and np.all((nodes >= 0) & (nodes < size)), "cut_nodes: a cut has a wrong entry")
            # Sums of such integers are exact.
            values = self.f["cut_values"][entries]
            need(np.all((values >= -(2**20)) & (values <= 2**20)), "cut_values: an entry is too large")
            vectors[row, nodes] = values
        return vectors, self.f["cut_weights"][start : start + count]


# -- the check ------------------------------------------------------------------------------------------------------


def check(f: Fields, progress: TextIO | None = None, end: float = math.inf) -> Verdict:
    """Recompute objective, lower bound, largest pricing value and beta D, or raise `ClaimError`.

    `Undecided` is raised after `end`, on the clock `time.monotonic`. With blocks, D is one, since their matrices are
    divided by it.
    """
    beta, levels, activation = float(f["beta"]), int(f["levels"]), f["activation"]
    need(2 <= levels <= 128, "levels: there must be 2 to 128")
    need(SMALLEST**3 <= beta <= LARGEST**3, f"beta: {beta:g} is not within 1e-300 .. 1e300")
    need(activation.shape in ((0,), (3,)), "activation: it does not have three coefficients")
    check_range("activation", activation)
    a, b, c = activation.tolist() or (1.0, 0.0, 0.0)
    L, one_output = levels - 1, f["alpha"].ndim == 1
    check_range("alpha", f["alpha"], 3)
    need(f["alpha"].size or "weights" in f, "alpha: the network has no neurons, or no outputs")
    need(math.prod(f["alpha"].shape[1:]), "alpha: the network has no outputs")
    if "forms" in f or "gram" in f:
        need(int(f["n_samples"]) > 0, "n_samples: there must be some")
    data: Rows | Sums = Sums(f, end) if "gram" in f else Rows(f, (a, b, c), L, end)
    C = 1 if one_output else f["alpha"].shape[1]
    U, V, alpha = f["U"], f["V"], f["alpha"].reshape(len(f["alpha"]), C)
    need(f["alpha"].shape[1:] == data.shape, "alpha: the network and the data differ in outputs")
    if "sizes" in f and data.blocks is not None:
        need(levels == 2 and not len(activation), "levels: blocks have two levels and no activation")
        block, penalty, side, flat = f["block"], beta, data.blocks.side, data.blocks.linear
        check_signs(U, V, alpha, block, data.blocks)
        weights = weights_of(alpha, block, data.blocks)
        priced_columns = (np.abs(data.blocks.real) * data.blocks.omega[:, None]).ravel()
    else:
        assert isinstance(data, Rows)
        side, flat = data.d + data.lift, [False]
        block, penalty = np.zeros(len(alpha), dtype=np.int64), beta * (data.d * L + data.lift)
        check_levels(U, V, alpha, data.d, data.lift, L)
        weights, priced_columns = np.abs(alpha).sum(axis=0), np.zeros(0)
    need(math.isfinite(penalty), "beta: the numbers are too large")
    priced = penalty * math.fsum([*weights, *priced_columns])
    if isinstance(data, Sums):
        loss, zero, rounding = data.objective(U, V, alpha, block)
    else:
        zero = data.zero()
        # A tenth of the least that is allowed for the claims.
        target = 0.1 * TOLERANCE * max(float(f["objective"]), 1e-6 * zero)
        loss, rounding = data.objective(U, V, alpha, block, target)
    objective = loss + priced
    rounding += (len(alpha) + 16) * EPS * priced
    claimed, tolerance = float(f["objective"]), TOLERANCE * max(objective, 1e-6 * zero) + 1e-300
    need(math.isfinite(objective) and math.isfinite(zero), "objective: the numbers are too large")
    known = f"{objective:.12g}" if rounding <= tolerance else f"{objective:.12g}, known only to +-{rounding:.3g}"
    need(abs(objective - claimed) + rounding <= tolerance, f"objective: it is {known}, not {claimed:.12g} as claimed")

    R, real = len(flat), int("weights" in f)
    trees, values = Trees(f, side, C * R), []
    for number, (M, error) in enumerate(data.matrices()):
        in_time(end)
        k, r = divmod(number, R + real)
        if r == R:
            values.append(float(np.abs(M).max()) + error)
            continue
        order, leaves = trees.tree(k * R + r, len(M))
        if flat[r]:
            # The largest |m'u| over sign vectors, without the tree.
            largest = float(np.abs(M).sum()) * (1 + len(M) * EPS)
        else:
            largest = pricing_bound(M, order, leaves, progress or sys.stderr, end)
        values.append(largest + error)
    # Unlike max, this is NaN if any of them is NaN.
    value = float(np.max([0.0, *values]))
    need(len(values) == C * (R + real) and math.isfinite(value), "nu: the numbers are too large")
    scale = min(1.0, penalty / value) if value > 0 else 1.0
    # Multiples below this prove nothing beyond the tolerance, and could underflow.
    bound = data.dual_value(scale) if scale > 1e-15 else 0.0
    need(math.isfinite(bound), "nu: the numbers are too large")
    bound = max(0.0, bound)
    claimed, tolerance = float(f["lower_bound"]), TOLERANCE * min(objective, zero) + 1e-300
    need(claimed <= bound + tolerance, f"lower_bound: only {bound:.12g} is proven, not {claimed:.12g} as claimed")
    need(0 <= claimed <= objective + tolerance, "lower_bound: it is negative, or above the objective")
    return Verdict(objective, bound, value, penalty)


def check_levels(U: Array, V: Array, alpha: Array, d: int, lift: int, L: int) -> None:
    """Raise `ClaimError` unless all first-layer weights are levels, and the last ones signs."""
    for name, W in (("U", U), ("V", V)):
        need(W.shape == (len(alpha), d + lift), f"{name}: its shape is not {(len(alpha), d + lift)}")
        levels = (W[:, :d] >= -L) & (W[:, :d] <= L) & ((W[:, :d] + L) % 2 == 0)
        need(np.all(levels), f"{name}: a weight is not one of the levels")
        need(np.all((W[:, d:] == 1) | (W[:, d:] == -1)), f"{name}: a last weight is not a sign")


def check_signs(U: Array, V: Array, alpha: Array, block: Array, blocks: Blocks) -> None:
    """Raise `ClaimError` unless the weights of neurons are signs in their blocks, and zeros elsewhere."""
    R, m = len(blocks.sizes), len(alpha)
    need(block.shape == (m,) and np.all((block >= 0) & (block < R)), "block: a neuron is in no block")
    inside = np.arange(blocks.side) < np.array(blocks.sizes)[block, None]
    quadratic = inside & ~np.array(blocks.linear, dtype=bool)[block, None]
    for name, W, signs in (("U", U, inside), ("V", V, quadratic)):
        need(W.shape == (m, blocks.side), f"{name}: its shape is not {(m, blocks.side)}")
        valid = np.where(signs, (W == 1) | (W == -1), W == 0)
        need(np.all(valid), f"{name}: a weight is not a sign, or outside its block")


def weights_of(alpha: Array, block: Array, blocks: Blocks) -> Array:
    """Return the sum of |alpha| omega_r N_r of each output and block."""
    costs = [1 / float(factor) for factor in blocks.factors]
    sums = [np.abs(alpha[members]).sum(axis=0) * cost for members, cost in zip(blocks.members(block), costs)]  # noqa: B905
    return np.asarray(np.stack(sums).T.ravel()) if sums else np.zeros(0)


# -- the answer -----------------------------------------------------------------------------------------------------


def described(f: Fields, source: str, digest: str) -> list[tuple[str, str]]:
    """Describe the problem, where its data came from, and what is stated without being checked."""
    C = f["alpha"].shape[1] if f["alpha"].ndim == 2 else 1
    loss, stated = str(f["loss"]), "stated, not checked"
    loss += f" loss, delta {delta_of(f):.17g}" if loss == "huber" else " loss"
    data, count = "X and y", f"{len(f['X'])} samples" if "X" in f else f"{f['n_samples']} samples ({stated})"
    if "gram" in f:
        size, data = f"sums over {count} of {len(f['products'])} entries", "sums"
    elif "forms" in f:
        size, data = f"statistics of {count} in {len(f['y'])} rows of {f['forms'].shape[1]} entries", "statistics"
    elif "sizes" in f:
        size = f"{count} of {f['X'].shape[1]} packed entries"
    else:
        size = f"{count} of {f['X'].shape[1]} features"
    lines = [("problem", f"{size}, {C} output{'s' * (C > 1)}, {loss}, beta {float(f['beta']):.17g}")]
    if len(f["activation"]):
        kind = "activation {:.17g} t^2 + {:.17g} t + {:.17g}".format(*f["activation"].tolist())
    else:
        kind = "bilinear"
    lines.append(("networks", f"{f['levels']} levels of first-layer weights, {kind}; weights of the file"))
    if "sizes" in f:
        blocks = zip(f["sizes"].tolist(), f["linear"].tolist(), f["omega"].tolist())  # noqa: B905
        for (N, flat, omega), group in groupby(blocks):
            kind = "linear" if flat else "quadratic"
            lines.append(("blocks", f"{len(list(group))} {kind} of side {N}, omega {omega:.17g}"))
        if "weights" in f:
            prices = f["weight_omega"]
            text = f"{prices.min():.17g}" + (f" .. {prices.max():.17g}" if prices.min() < prices.max() else "")
            lines.append(("weights", f"real, of {len(prices)} columns, at prices omega {text}; weights of the file"))
    if "patches" in f:
        names = ("size", "stride", "padding", "regions", "pooling", "centre", "constant", "floats")
        geometry = ", ".join(f"{name} {number:.0f}" for name, number in zip(names, f["patches"].tolist()))  # noqa: B905
        computed = source != "the certificate"
        note = "rows computed from the images" if computed else f"that the rows are of images is {stated}"
        lines.append(("patches", f"{geometry}; {note}"))
    weights = f"sample weights from {source}" if "sample_weight" in f else "all sample weights one"
    if data == "X and y":
        if "sizes" in f:
            weights += ", all columns centred, as for a free intercept" * is_centred(f)
            weights += f"; how they were made of samples is {stated}" * (source == "the certificate")
        lines += [("data", f"X and y from {source}, {weights}"), ("sha256", f"{digest} of these data, computed")]
    else:
        errors = f"up to a rounding of {float(f['rounding']):.2g}"
        lines += [("data", f"{data} from {source}; that they are those of samples, {errors}, is {stated}")]
        lines += [("sha256", f"{digest} of these {data}, computed")]
    return lines


def is_centred(f: Fields) -> bool:
    """Whether the loss is squared and all columns of rows and targets have a weighted mean of zero, up to rounding."""
    if str(f["loss"]) != "squared":
        return False
    w = f.get("sample_weight", np.ones(len(f["X"])))
    w = w / w.max()
    for A in (f["X"], f["y"]):
        # Sums of large numbers would overflow, and a copy of all rows may not fit into memory.
        scale, step = max(A.max(), -A.min()) or 1.0, max(1, 2**20 // A[0].size)
        sums = sizes = np.zeros(A.shape[1:])
        for i in range(0, len(A), step):
            part = A[i : i + step] / scale
            sums = sums + w[i : i + step] @ part
            sizes = sizes + w[i : i + step] @ np.abs(part)
        if not np.all(np.abs(sums) <= TOLERANCE * sizes):
            return False
    return True


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
        help="arrays X (or images and patches), y and, if there are weights, sample_weight, as numpy.savez writes "
        "them: check the certificate on these data, and read none from the certificate",
    )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=float,
        default=math.inf,
        help="stop undecided after this time; no limit by default",
    )
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names that the terminal cannot show are no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = answer(options)
        print(end="", flush=True)
        return code
    except OSError as error:
        # Of standard output, which may be full or closed: nothing that was said can be relied on.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        print(f"error: standard output: {error.strerror}", file=sys.stderr)
        return 2


def answer(options: argparse.Namespace) -> int:
    """Check a file, print the answer, and return the exit code."""
    end = time.monotonic() + options.time_limit
    try:
        f, source, digest = read(options.file, options.data, end)
        bound_type = str(f["bound_type"])
        need(bound_type in ("sdp", "exact"), f"bound_type: {bound_type!r:.40} is unknown")
        with np.errstate(all="ignore"):
            objective, bound, value, penalty = check(f, end=end)
    except OSError as error:
        named = error.filename is not None and error.strerror
        print(f"error: {error.filename!r}: {error.strerror}" if named else f"error: {error}", file=sys.stderr)
        return 2
    except (Undecided, MemoryError) as error:
        reason = str(error) if str(error) not in ("", "time") else f"not decided in {options.time_limit:g} seconds"
        reason = "the check needs more memory than there is" if isinstance(error, MemoryError) else reason
        print(f"error: {reason}", file=sys.stderr)
        return 2
    except ClaimError as error:
        print(f"no: {error}")
        return 1
    except Exception as error:  # whatever a malformed archive leads to
        print(f"no: the file is malformed ({type(error).__name__}: {error!s:.100})")
        return 1
    for name, line in described(f, source, digest):
        print(f"{name:12} {line}")
    shifted, cuts = f["shifted"], len(f.get("cut_weights", ()))
    print(f"network      {len(f['alpha'])} neurons, objective {objective:.12g}")
    print(f"proof        {np.sum(shifted)} leaves by eigenvalues, {np.sum(~shifted)} enumerated, {cuts} cuts: u'M(nu)v")
    print(f"             at most {value:.12g}, beta D = {penalty:.17g}")
    print(f"lower bound  {bound:.12g} (computed; claimed {float(f['lower_bound']):.12g}, type {bound_type})")
    print(f"gap          {objective - bound:.4g}, relative {(objective - bound) / objective if objective else 0.0:.4g}")
    print(
        f"yes: every such network, of any width, has an objective of at least {bound:.12g}, to a relative {TOLERANCE:g}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
