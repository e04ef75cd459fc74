"""Homomorphic evaluation of networks on inputs encrypted by CKKS: the server sees neither inputs nor outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.summary import Summarized, Summary
from qsdp._utils.validation import FloatArray, ReadOnlyArrays, check_matrix, check_real
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError, MissingPackageError
from qsdp.export._description import refuse_blocks

__all__ = ["EncryptedClient", "EncryptedNetwork", "EncryptionParameters", "encrypted"]

#: Largest total number of bits of the moduli by degree, for 128 bits of security (homomorphicencryption.org, 2018).
_MOST_BITS = {4096: 109, 8192: 218, 16384: 438}

#: Largest number of bits of a modulus, and smallest number of bits of a scale.
_LARGEST_MODULUS, _LEAST_SCALE = 60, 20

#: Standard deviation of the noise.
_SIGMA = 3.2


@dataclass(frozen=True)
class EncryptionParameters(Summarized):
    """Parameters known to both sides, which `encrypted` derives from the depth, the range and the requested error.

    Attributes
    ----------
    n_inputs, n_outputs : int
    bound : float
        Bound on the magnitudes of inputs.
    degree : int
        Degree N of the ring; a ciphertext has N / 2 slots.
    moduli : tuple of int
        Bits of the moduli: one for the result, one for the only multiplication and one for keys.
    scale : int
        Bits of the scale of fixed-point numbers.
    error : float
        Bound on the error of an output, with every noise at six standard deviations.
    """

    n_inputs: int
    n_outputs: int
    bound: float
    degree: int
    moduli: tuple[int, int, int]
    scale: int
    error: float

    @property
    def slots(self) -> int:
        """Number of slots in a ciphertext, each of which holds a number."""
        return self.degree // 2

    def _summary(self) -> Summary:
        rows = [
            ("inputs", f"{self.n_inputs}, up to {self.bound:g}"),
            ("outputs", str(self.n_outputs)),
            ("degree", str(self.degree)),
            ("moduli", f"{', '.join(map(str, self.moduli))} bits"),
            ("scale", f"{self.scale} bits"),
            ("error", f"{self.error:.3g} at most"),
        ]
        return Summary("EncryptionParameters", rows)


@dataclass(frozen=True, eq=False, repr=False)
class EncryptedNetwork(ReadOnlyArrays):
    """Server side, with the network but without the secret key; the result of `encrypted`.

    Attributes
    ----------
    parameters : EncryptionParameters
    weights : ndarray of shape (C, P)
        Weights of the P features in which outputs are linear: products of inputs, the inputs, and a constant.
    """

    parameters: EncryptionParameters
    weights: FloatArray

    def evaluate(self, public: bytes, rows: Sequence[Sequence[bytes]]) -> list[list[bytes]]:
        """Evaluate the network on encrypted rows; return encrypted outputs.

        Parameters
        ----------
        public : bytes
            `EncryptedClient.public`.
        rows : sequence of sequences of bytes
            Rows as returned by `EncryptedClient.encrypt`.

        Raises
        ------
        InvalidInputError
            `public` holds the secret key, which must stay with the client.
        """
        ts = _tenseal()
        context = ts.context_from(public)
        if context.is_private():
            raise InvalidInputError("public must not hold the secret key; send EncryptedClient.public")
        slots = self.parameters.slots
        chunks = [self.weights[:, start : start + slots] for start in range(0, self.weights.shape[1], slots)]
        return [[one.serialize() for one in self._outputs(ts, context, row, chunks)] for row in rows]

    def _outputs(self, ts: Any, context: Any, row: Sequence[bytes], chunks: list[FloatArray]) -> list[Any]:
        if len(row) != len(chunks):
            raise InvalidInputError(f"a row must be {len(chunks)} ciphertexts; got {len(row)}")
        vectors = [ts.ckks_vector_from(context, part) for part in row]
        outputs = []
        for k in range(self.parameters.n_outputs):
            parts = [vector.dot(chunk[k].tolist()) for vector, chunk in zip(vectors, chunks, strict=True)]
            outputs.append(sum(parts[1:], start=parts[0]))
        return outputs


class EncryptedClient:
    """Client side, with the inputs and the secret key; it needs only the parameters.

    Parameters
    ----------
    parameters : EncryptionParameters

    Attributes
    ----------
    public : bytes
        Keys for the evaluating side, sent once: tens of MiB, without the secret key.
    """

    def __init__(self, parameters: EncryptionParameters) -> None:
        ts = _tenseal()
        self.parameters = parameters
        self._context = ts.context(
            ts.SCHEME_TYPE.CKKS,
            poly_modulus_degree=parameters.degree,
            coeff_mod_bit_sizes=list(parameters.moduli),
        )
        self._context.global_scale = 2.0**parameters.scale
        self._context.generate_galois_keys()
        self.public: bytes = self._context.serialize(save_secret_key=False)

    def encrypt(self, X: Any) -> list[list[bytes]]:
        """Encrypt the rows of X, of shape (n, n_inputs), whose entries are within the bound; a list per row."""
        ts, parameters = _tenseal(), self.parameters
        data = check_matrix("X", X, n_columns=parameters.n_inputs)
        if np.abs(data).max(initial=0.0) > parameters.bound:
            largest = np.abs(data).max()
            raise InvalidInputError(f"X must be within {parameters.bound:g}, the bound of parameters; got {largest:g}")
        slots = parameters.slots
        return [
            [
                ts.ckks_vector(self._context, row[start : start + slots].tolist()).serialize()
                for start in range(0, len(row), slots)
            ]
            for row in _lifted(data)
        ]

    def decrypt(self, replies: Sequence[Sequence[bytes]]) -> FloatArray:
        """Decrypt outputs of shape (n, C), which are within `EncryptionParameters.error` of the network's."""
        ts = _tenseal()
        values = [[ts.ckks_vector_from(self._context, part).decrypt()[0] for part in reply] for reply in replies]
        return np.array(values).reshape(len(replies), self.parameters.n_outputs)


def encrypted(network: Any, *, bound: float = 1.0, error: float = 1e-4) -> EncryptedNetwork:
    r"""Prepare a network for encrypted inputs, with parameters for 128 bits of security.

    Parameters
    ----------
    network : BilinearNetwork, PolynomialNetwork, QuadraticForm or IntegerForm
        Network, or any object with `to_quadratic_form`.
    bound : float, default=1
        Largest magnitude of an input.
    error : float, default=1e-4
        Largest acceptable error of an output, relative to the largest output that inputs within `bound` can have.

    Returns
    -------
    EncryptedNetwork
        Server side. Its `parameters` are all that an `EncryptedClient` needs.

    Raises
    ------
    ExportError
        No parameters with this security reach the error.

    Notes
    -----
    A quadratic function is linear in the products of inputs, as in the convex formulation of training. The client
    encrypts these products, d (d + 1) / 2 for d inputs, at next to no cost. The evaluation is one multiplication by
    plaintext numbers and a sum over slots, so its depth is one for any number of neurons.

    The error bound covers encryption, encoding, rescaling and key switching. It takes each at six standard deviations
    in the canonical embedding (Cheon, Kim, Kim and Song, 2017, Lemmas 1 to 4) and assumes that all are at their worst
    together. Measured errors are thirty times smaller.

    Outputs decrypted by CKKS reveal its noise. Passing them on to the evaluating side weakens the secret key
    (Li and Micciancio, 2021).

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.export import encrypted
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> parameters = encrypted(network).parameters
    >>> parameters.degree, parameters.error < 1e-4 * 2.0
    (4096, True)
    """
    if not hasattr(network, "to_quadratic_form"):
        hint = "; take its network_, which reads encoded inputs" if hasattr(network, "network_") else ""
        raise InvalidTypeError(f"network must have to_quadratic_form; got {type(network).__name__}{hint}")
    refuse_blocks(network)
    check_real("bound", bound, strict=True)
    check_real("error", error, strict=True)
    form = network.to_quadratic_form()
    d, (S, s, s0) = form.n_inputs, form.parts
    products = np.where(np.eye(d, dtype=bool), S, 2.0 * S)[(slice(None), *np.triu_indices(d))]
    weights = np.hstack([products, s, s0[:, None]])
    return EncryptedNetwork(_parameters(weights, d, float(bound), float(error)), weights)


def _lifted(X: FloatArray) -> FloatArray:
    """Compute the features in which outputs are linear: products of inputs, the inputs, and a one."""
    first, second = np.triu_indices(X.shape[1])
    return np.hstack([X[:, first] * X[:, second], X, np.ones((len(X), 1))])


def _parameters(weights: FloatArray, d: int, bound: float, error: float) -> EncryptionParameters:
    """Choose the parameters of the smallest degree and scale that attain a relative error."""
    C, size = weights.shape
    largest = _lifted(np.full((1, d), bound))[0]
    reach = float((np.abs(weights) @ largest).max()) or 1.0
    # A bit for the sign, and one in reserve.
    more = max(math.ceil(math.log2(max(reach, float(largest.max())))), 0) + 2
    for degree, most in _MOST_BITS.items():
        for scale in range(_LEAST_SCALE, _LARGEST_MODULUS + 1 - more):
            moduli = (scale + more, scale, scale + more)
            found = _error(weights, largest, size, degree, scale)
            if sum(moduli) <= most and found <= error * reach:
                return EncryptionParameters(d, C, bound, degree, moduli, scale, found)
    raise ExportError(
        f"no parameters of 128 bits of security keep the error of {size} products within {error:g} of the largest "
        f"output, {reach:.3g}: take a larger error or a smaller bound"
    )


def _error(weights: FloatArray, largest: FloatArray, size: int, degree: int, scale: int) -> float:
    """Bound the error of an output."""
    secret = 2.0 * degree / 3.0
    fresh = _SIGMA * (8.0 * math.sqrt(2.0) * degree + 6.0 * math.sqrt(degree) + 16.0 * math.sqrt(secret * degree))
    encoding = 6.0 * math.sqrt(degree / 12.0)
    rescaling = math.sqrt(degree / 3.0) * (3.0 + 8.0 * math.sqrt(secret))
    # The key modulus is as large as that of the result. It divides the key noise, which arises for each of two moduli.
    switching = rescaling + 2.0 * 8.0 * _SIGMA * degree / math.sqrt(3.0)
    unit = 2.0**-scale
    noisy = np.abs(weights).sum(axis=1).max() * (fresh + encoding) * unit + largest.sum() * encoding * unit
    noisy += size * fresh * encoding * unit**2
    summed = 2 ** math.ceil(math.log2(min(size, degree // 2))) * math.ceil(2 * size / degree)
    return float(noisy + summed * (rescaling + switching) * unit)


def _tenseal() -> Any:
    try:
        import tenseal
    except ImportError:
        raise MissingPackageError("encrypted inputs need tenseal: pip install tenseal") from None
    return tenseal
