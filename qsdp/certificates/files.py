r"""Certificate files, simple enough to be checked by an independent program.

Line 1 is ``qsdp certificate 2``. Line 2 is the SHA-256 of everything after it in hexadecimal digits. An uncompressed
``.npz`` archive without pickles follows, so that NumPy alone can read it. Equal certificates have equal bytes. The
fields, and what the checker does with each, are on one page of the documentation: ``docs/api/certificate_format.md``.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from qsdp._utils.atomic_files import another_kind, check_path, write_whole
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.tuning import FAR
from qsdp._utils.validation import FloatArray, check_choice, check_numbers, read_only, read_only_copy
from qsdp.activations import get_activation
from qsdp.block_layout import KINDS, WEIGHTS, Layout, PatchGeometry, check_layout
from qsdp.blocks import Blocks
from qsdp.certificates.proof import Proof, check_proof
from qsdp.certificates.row_sums import RowsProof, Scores
from qsdp.certificates.sums import Sums, converted, read_rounding, rounding_arrays
from qsdp.data_map import SAMPLES
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.forms import FormMap
from qsdp.losses import LOSSES, DataFit, Loss
from qsdp.networks import BilinearNetwork
from qsdp.pricing.bound_trees import check_tree, read_trees, tree_arrays
from qsdp.problem import TrainingProblem, quadratic_problem
from qsdp.training_data import QuadraticModel

__all__ = ["data_digest", "read_proof", "write_proof", "write_rows_proof"]

MAGIC = b"qsdp certificate 2\n"
#: Fraction of the objective of the zero network below which objectives are compared as if they were as large; of the
#: stand-alone checker, too.
_OBJECTIVE_FLOOR = 1e-6
#: Errors of predictions that the stand-alone checker allows for underflow.
_SMALLEST = 1e-250
#: Maximum bytes of packed rows stored in a file; a file of three times as many is still manageable.
_MAX_BYTES = 2**26

#: Fields of columns with real weights; a file has all of them or none.
_REAL = {"weight_blocks", "weight_omega", "weights"}

#: Smallest beta of a file, and the inverse of the largest; others would underflow or overflow in the checker.
_SMALLEST_BETA = 1e-300

#: Message for objectives that depend on the order of summation.
_UNCERTAIN = (
    "this certificate cannot be saved: the objective of its network, {:.12g}, is ill-conditioned (large weights that "
    "cancel; known only to +-{:.3g}), so a checker would not reproduce it; rescale the columns, or the rows, of X to "
    "similar sizes"
)

Claims = dict[str, Any]


def data_digest(X: npt.NDArray[Any], y: FloatArray, sample_weight: FloatArray | None = None) -> str:
    """Compute the SHA-256 of data, targets and weights.

    For each array, the digest covers its shape as text, such as ``(3, 2)``, and its little-endian float64 bytes. Minus
    zero counts as zero, as it does for the problem. Weights of one are None.
    """
    digest = hashlib.sha256()
    for array in (X, y) if sample_weight is None else (X, y, sample_weight):
        digest.update(str(array.shape).encode())
        for some in chunks(len(array), array[:1].size):
            digest.update(np.ascontiguousarray(array[some] + 0.0, dtype="<f8").data)
    return digest.hexdigest()


def _objective_arrays(loss: Loss, beta: float) -> dict[str, Any]:
    """Encode beta and a loss as arrays of a file; raise `InvalidInputError` if the stand-alone checker refuses them."""
    if not _SMALLEST_BETA <= beta <= 1.0 / _SMALLEST_BETA:
        raise InvalidInputError(
            f"a certificate of beta = {beta:g} cannot be saved, because qsdp-check only takes {_SMALLEST_BETA:g} to "
            f"{1.0 / _SMALLEST_BETA:g}; rescale X and y, and beta with them"
        )
    if type(loss) is not LOSSES.get(loss.name):
        raise InvalidInputError(
            f"a certificate of the user-defined loss {loss!r:.60} cannot be saved, because qsdp-check only knows the "
            f"losses {', '.join(LOSSES)}; the certificate in memory is valid: to have it again later, save the network "
            "and call qsdp.certify with the same data and loss"
        )
    return {"beta": beta, "loss": loss.name, "parameters": np.array(list(loss.parameters().values()), dtype="<f8")}


def _read_loss(arrays: dict[str, npt.NDArray[Any]]) -> Loss:
    """Decode the loss from the arrays of a file."""
    return LOSSES[check_choice("loss", str(arrays["loss"]), LOSSES)](*arrays["parameters"].tolist())


def _tolerance(objective: float, fit: DataFit) -> float:
    """Return the tolerance of the stand-alone checker for an objective."""
    return ROUNDING * max(objective, _OBJECTIVE_FLOOR * fit.value_at_zero)


def _check_objective(proof: Proof, fit: DataFit) -> None:
    """Raise `InvalidInputError` if the objective is ill-conditioned, so that a checker would not reproduce it."""
    problem, network = proof.problem, proof.network
    objective = problem.objective(network)
    tolerance = _tolerance(objective, fit)
    # Predictions and their differences from targets are rounded to doubles, however exactly they are computed.
    outputs = problem.outputs(network)
    rounding = fit.rounding(outputs, _SMALLEST + 4.0 * EPS * (np.abs(outputs) + np.abs(fit.target)).max(axis=1))
    if not rounding <= tolerance:
        raise InvalidInputError(_UNCERTAIN.format(objective, rounding))
    if problem.objective_rounding(network) <= tolerance < np.inf:
        return
    # Worst cases rarely occur, so objectives summed in other orders decide.
    order = slice(None, None, -1)
    backwards = network.with_neurons(network.U[order], network.V[order], network.alpha[order], order)
    if network.blocks is not None:
        # Entries are sums over neurons, which have the same rounding in any order if they are few.
        data, layout = cast(FormMap, problem.weight_map), network.layout
        neurons = layout.products(network.U.astype(np.float64), network.V.astype(np.float64), network.block)
        entries = neurons.T.astype(np.longdouble) @ network.output_weights
        entries[layout.weight_entries] += network.column_weights
        # The problem's map has its blocks in units of their prices.
        scales = cast(Layout, problem.blocks).entry_prices * data.scales
        alone = (data.rows @ (scales[:, None] * entries)).astype(np.float64)
    else:
        U, V = network.U.astype(np.float64), network.V.astype(np.float64)
        alone = problem.weight_map.products(U, V) @ network.output_weights
    others = (fit.value(alone) + problem.penalty(network), problem.objective(backwards))
    differences = [abs(other - objective) for other in others]
    # A third order of summation stays within the tolerance.
    if not max(differences) <= 0.25 * tolerance:
        raise InvalidInputError(_UNCERTAIN.format(objective, max(differences)))


def problem_data(problem: TrainingProblem) -> dict[str, Any]:
    """Return the arrays of a file that contain the data, in the order of their digest."""
    if SAMPLES not in problem.weight_map.offers:
        return {"forms": cast(FormMap, problem.weight_map).forms, "y": problem.y}
    weights = {} if problem.sample_weight is None else {"sample_weight": problem.sample_weight}
    return {"X": problem.X if problem.blocks is None else problem.X.rows, "y": problem.y, **weights}


def write_proof(path: str | os.PathLike[str], proof: Proof, claims: Claims, *, include_data: bool | str) -> None:
    """Write a proof and the claims bound_type, lower_bound and objective to a file, atomically."""
    problem, network = proof.problem, proof.network
    objective = _objective_arrays(problem.loss, problem.beta)
    _check_objective(proof, problem.data_fit)
    data = problem_data(problem)
    if include_data is True and problem.blocks is not None and next(iter(data.values())).nbytes > _MAX_BYTES:
        include_data = "sums" if problem.loss.quadratic else False
    dual = {"nu": problem.squeezed(proof.nu)}
    if "forms" in data:
        dual |= rounding_arrays(problem)
    if include_data == "sums":
        data, dual, claims = _sums_arrays(proof, claims)
    counted = {} if "X" in data else {"n_samples": np.int64(problem.n_samples)}
    if not include_data:
        data, counted = {"data_sha256": data_digest(*data.values())}, counted if "forms" in data else {}
    arrays = {
        **data,
        **counted,
        **objective,
        **_block_arrays(problem),
        **_network_arrays(network),
        **dual,
        **tree_arrays(proof.trees),
        **claims,
    }
    _write(path, arrays)


def _sums_arrays(proof: Proof, claims: Claims) -> tuple[dict[str, Any], dict[str, Any], Claims]:
    """Convert data and dual vector to sums; return their arrays and the claims that they prove."""
    sums, vectors, objective, lower_bound = converted(proof)
    tolerance = _tolerance(claims["objective"], proof.problem.data_fit)
    if not abs(objective - claims["objective"]) <= 0.5 * tolerance:
        raise InvalidInputError(_UNCERTAIN.format(claims["objective"], abs(objective - claims["objective"])))
    data = {
        "gram": sums.gram[np.triu_indices(len(sums.gram))],
        "products": sums.products,
        "squares": sums.squares,
        "rounding": sums.rounding,
    }
    bound = max(0.0, min(claims["lower_bound"], lower_bound))
    return data, {"scores": vectors.T}, {**claims, "lower_bound": bound}


def write_rows_proof(path: str | os.PathLike[str], proof: RowsProof, claims: Claims) -> None:
    """Write the proof of a certificate from batches, without the rows, to a file, atomically.

    Raises
    ------
    InvalidInputError
        The loss is user-defined, or rounding leaves the objective uncertain.
    """
    objective = _objective_arrays(proof.loss, proof.beta)
    # The rounding is a worst case, which exceeds the actual one by far.
    if not proof.objective_rounding <= FAR * ROUNDING * claims["objective"]:
        raise InvalidInputError(_UNCERTAIN.format(claims["objective"], proof.objective_rounding))
    arrays = {
        "n_samples": np.int64(proof.n_samples),
        "rows_sha256": proof.digest,
        **objective,
        **_network_arrays(proof.network),
        "scores": np.stack([scores.forms for scores in proof.scores]),
        "steps": np.array([scores.step for scores in proof.scores]),
        "mixture": proof.mixture,
        **tree_arrays(proof.trees),
        **claims,
    }
    _write(path, arrays)


def _block_arrays(problem: TrainingProblem) -> dict[str, Any]:
    layout = problem.blocks
    if layout is None:
        return {}
    arrays = {
        "sizes": np.array(layout.sizes, dtype="<i8"),
        "linear": np.array(layout.linear, dtype=bool),
        "omega": np.array(layout.omega, dtype="<f8"),
    }
    if layout.weights:
        blocks = [(columns.position, len(columns.omega)) for columns in layout.weights]
        arrays |= {"weight_blocks": np.array(blocks, dtype="<i8"), "weight_omega": layout.weight_omega}
    return arrays if layout.patches is None else {**arrays, "patches": np.array(layout.patches, dtype="<i8")}


def _network_arrays(network: BilinearNetwork) -> dict[str, Any]:
    return {
        "activation": np.array(network.activation.coefficients if network.activation else (), dtype="<f8"),
        "levels": np.int64(network.levels),
        "U": network.U,
        "V": network.V,
        "alpha": network.alpha,
        **({} if network.blocks is None else {"block": network.block}),
        **({} if network.blocks is None or not network.blocks.weights else {"weights": network.weights}),
    }


def _write(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    body = _archive(arrays)
    write_whole(path, MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def _archive(arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, value in arrays.items():
            array = np.asarray(value)
            # The default date, and one system: equal contents have equal bytes.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.create_system = 3
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C"), (1, 0), allow_pickle=False
            )
            archive.writestr(entry, member.getvalue())
    return stream.getvalue()


def read_proof(
    path: str | os.PathLike[str], problem: TrainingProblem | None = None
) -> tuple[Proof | RowsProof | None, dict[str, Any]]:
    """Read proof and claims from a file; the proof is None if the file lacks the data and `problem` is None.

    Raises
    ------
    StorageError
        The file is truncated, altered or not a certificate, or belongs to another problem than `problem`.
    FileNotFoundError, IsADirectoryError, PermissionError
        As from `open`.
    """
    path = check_path(path)
    contents = Path(path).read_bytes()
    try:
        arrays = _arrays_of(contents)
        return _read(arrays, problem)
    except Exception as error:  # whatever a foreign archive makes NumPy or zipfile raise
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        raise StorageError(f"{os.fspath(path)!r} is not a valid certificate: {reason}") from None


def _arrays_of(contents: bytes) -> dict[str, npt.NDArray[Any]]:
    if not contents.startswith(MAGIC):
        other = another_kind(contents, "certificate")
        raise StorageError("it has no certificate header" + (f", because it is {other}" if other else ""))
    digest, _, body = contents[len(MAGIC) :].partition(b"\n")
    if digest != hashlib.sha256(body).hexdigest().encode():
        raise StorageError("it is damaged: its contents do not match their digest")
    with zipfile.ZipFile(io.BytesIO(body)) as members:
        if any(member.compress_type != zipfile.ZIP_STORED for member in members.infolist()):
            raise StorageError("its archive is compressed")
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        return dict(archive)


def _read(
    arrays: dict[str, npt.NDArray[Any]], problem: TrainingProblem | None
) -> tuple[Proof | RowsProof | None, dict[str, Any]]:
    if str(arrays["loss"]) == "piecewise quadratic" or {"interval", "inverse_curvature", "label"} & set(arrays):
        raise StorageError(f"it has a stored user-defined loss; files hold only the losses {', '.join(LOSSES)}")
    real = _REAL & set(arrays)
    if real and not (real == _REAL and "sizes" in arrays and len(arrays["weight_blocks"])):
        raise StorageError(f"it has {', '.join(sorted(real))}, but not all that real weights of columns need")
    bound_type = str(arrays["bound_type"])
    if bound_type not in {"sdp", "exact"}:
        raise StorageError(f"it claims an unknown bound type, {bound_type!r}")
    claims: Claims = {"bound_type": bound_type}
    claims |= {name: float(arrays[name]) for name in ("lower_bound", "objective")}
    if not np.all(np.isfinite([claims["lower_bound"], claims["objective"]])):
        raise StorageError("its objective or bound is not finite")
    if "scores" in arrays and "gram" not in arrays:
        if problem is not None:
            raise StorageError("it was made from batches of rows, not from a TrainingProblem")
        return _rows_proof(arrays), claims
    stored = _of_sums(arrays, problem) if "gram" in arrays else _problem(arrays, problem)
    if stored is None:
        return None, claims
    network = _network(arrays, stored)
    if "gram" in arrays:
        prices = stored.map.layout.entry_prices
        nu = -stored.data_fit.gradient(stored.weight_map.values_of(arrays["scores"] * prices))
    else:
        nu = read_only_copy(stored.columns(arrays["nu"]))
    trees = read_trees(arrays, stored.size)
    check_proof(stored, nu, trees)
    for tree in trees:
        check_tree(tree, stored.size)
    return Proof(stored, network, nu, trees), claims


def _network(arrays: dict[str, npt.NDArray[Any]], problem: TrainingProblem) -> BilinearNetwork:
    layout = problem.blocks
    options: dict[str, Any] = {"levels": problem.levels, "activation": problem.activation}
    if layout is not None:
        options |= {"block": arrays["block"], "sizes": layout.all_sizes, "kinds": layout.kinds}
        options |= {"weights": arrays["weights"]} if layout.weights else {}
    network = BilinearNetwork(arrays["U"], arrays["V"], arrays["alpha"], **options)
    if network.output_shape != problem.output_shape:
        raise StorageError("its network does not have the outputs of its problem")
    return network


def _layout(arrays: dict[str, npt.NDArray[Any]]) -> Layout:
    linear = arrays["linear"]
    if linear.dtype != bool:
        raise StorageError("its kinds of blocks are not marked as true or false")
    sizes, kinds, omega = arrays["sizes"].tolist(), [KINDS[int(flat)] for flat in linear], arrays["omega"].tolist()
    if "weight_blocks" in arrays:
        blocks, prices = arrays["weight_blocks"], arrays["weight_omega"]
        if blocks.dtype != np.int64 or blocks.shape[1:] != (2,) or prices.shape != (blocks[:, 1].sum(),):
            raise StorageError("its real weights do not fit their prices")
        start, before = 0, -1
        for position, count in blocks.tolist():
            if not before < position <= len(sizes) or count < 1:
                raise StorageError("its real weights are not in blocks at ascending positions")
            before = position
            sizes.insert(position, count)
            kinds.insert(position, WEIGHTS)
            omega.insert(position, prices[start : start + count].tolist())
            start += count
    layout = check_layout(sizes, kinds, omega)
    if "patches" not in arrays:
        return layout
    if arrays["patches"].dtype != np.int64 or arrays["patches"].shape != (len(PatchGeometry._fields),):
        raise StorageError("its patches are not described by eight integers")
    return replace(layout, patches=PatchGeometry(*arrays["patches"].tolist()))


def _of_sums(arrays: dict[str, npt.NDArray[Any]], expected: TrainingProblem | None) -> TrainingProblem | None:
    """Check that a file of sums belongs to the problem `expected`, and return the problem."""
    if expected is None:
        return None
    layout = _layout(arrays)
    if (expected.blocks, expected.beta, expected.loss.name) != (layout, float(arrays["beta"]), str(arrays["loss"])):
        raise StorageError("it belongs to a different problem")
    upper = np.triu_indices(layout.n_entries)
    if arrays["gram"].shape != upper[0].shape or arrays["scores"].shape != (expected.n_outputs, layout.n_entries):
        raise StorageError("its sums do not fit together")
    gram = np.zeros((layout.n_entries,) * 2)
    gram[upper] = gram.T[upper] = arrays["gram"]
    stored = Sums(layout, gram, arrays["products"], arrays["squares"], float(arrays["rounding"]))
    if int(arrays["n_samples"]) != expected.n_samples or not Sums.from_problem(expected).agrees(stored):
        raise StorageError("it belongs to different data")
    return expected


def _rows_proof(arrays: dict[str, npt.NDArray[Any]]) -> RowsProof:
    levels, activation = int(arrays["levels"]), get_activation(arrays["activation"].tolist() or None)
    network = BilinearNetwork(arrays["U"], arrays["V"], arrays["alpha"], levels=levels, activation=activation)
    size, forms, mixture = network.U.shape[1], read_only_copy(arrays["scores"]), read_only_copy(arrays["mixture"])
    trees = read_trees(arrays, size)
    for tree in trees:
        check_tree(tree, size)
    fits = forms.shape == (len(mixture), network.n_outputs, size, size) and len(trees) == network.n_outputs
    if not fits or mixture.shape[1:] not in {(1,), (len(trees),)} or arrays["steps"].shape != (len(mixture),):
        raise StorageError("its scores do not fit together")
    return RowsProof(
        network,
        _read_loss(arrays),
        float(arrays["beta"]),
        int(arrays["n_samples"]),
        str(arrays["rows_sha256"]),
        tuple(Scores(S, float(step)) for S, step in zip(forms, arrays["steps"], strict=True)),
        mixture,
        trees,
    )


def _problem(arrays: dict[str, npt.NDArray[Any]], expected: TrainingProblem | None) -> TrainingProblem | None:
    if "data_sha256" in arrays:
        if expected is None:
            return None
        data = problem_data(expected)
        if data_digest(*data.values()) != str(arrays["data_sha256"]):
            raise StorageError("it belongs to different data")
        arrays = {**arrays, **data}
    y = arrays["y"]
    options: dict[str, Any] = {
        "beta": float(arrays["beta"]),
        "loss": _read_loss(arrays),
        "activation": arrays["activation"].tolist() or None,
        "levels": int(arrays["levels"]),
    }
    if "forms" in arrays:
        activation = get_activation(options["activation"])
        lifted = activation is not None and activation.lifted
        stored = quadratic_problem(_stored_model(arrays, lifted=lifted), **options)
    elif "sizes" in arrays:
        layout = _layout(arrays)
        rows = Blocks(read_only(arrays["X"]), layout.all_sizes, layout.kinds, layout.all_omega).rows
        blocks = Blocks.from_layout(rows, layout)
        stored = TrainingProblem(blocks, y, sample_weight=arrays.get("sample_weight"), **options)
    else:
        stored = TrainingProblem(arrays["X"], y, sample_weight=arrays.get("sample_weight"), **options)
    if expected is not None and expected != stored:
        raise StorageError("it belongs to a different problem")
    return stored


def _stored_model(arrays: dict[str, npt.NDArray[Any]], *, lifted: bool) -> QuadraticModel:
    """Read the rows and targets that stand for all samples of statistics."""
    forms, y = (check_numbers(name, arrays[name], "of a file") for name in ("forms", "y"))
    n, rounding = int(arrays["n_samples"]), read_rounding(arrays, *forms.shape)
    if "sizes" in arrays:
        layout = _layout(arrays)
        data = FormMap.in_blocks(layout, forms, n, rounding)
    else:
        data = FormMap.from_forms(forms, lifted, n, rounding)
    if data.layout.n_entries != forms.shape[1] or len(y) != len(forms):
        raise StorageError("its forms and targets do not fit together")
    return QuadraticModel(data, read_only(y.copy()))
