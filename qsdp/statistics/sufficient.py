"""Sufficient statistics of rows that arrive in batches, on one machine or several."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import check_device
from qsdp._utils.parallel import chunks, format_bytes
from qsdp._utils.progress import progress
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import (
    FloatArray,
    check_integer,
    check_magnitude,
    check_matrix,
    check_sample_weight,
    check_targets,
    check_verbose,
    read_only,
)
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout
from qsdp.blocks import Blocks
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem
from qsdp.statistics.batches import add_batches, is_empty, streams
from qsdp.statistics.dask_rows import dask_rows
from qsdp.statistics.moments import Basis, PackedSums, monomials, n_monomials, reduced_blocks, reduced_rows
from qsdp.statistics.sample import Rows, RowSample, check_finite
from qsdp.statistics.statistics_files import read_statistics, write_statistics
from qsdp.training_data import QuadraticModel

__all__ = ["SufficientStatistics"]


class SufficientStatistics:
    r"""Accumulate the second-order statistics of data, batch by batch.

    .. math:: \sum_i w_i\, m_i m_i^T, \qquad m_i = (\text{all products of two of } x_{i1}, \dots, x_{id}, 1;\; y_i)

    The squared loss of a quadratic network depends on nothing else, for every beta, activation and number of levels.
    Statistics of parts of the data add up. See `TrainingProblem.from_statistics`. For `Blocks`, :math:`m_i` are the
    packed entries and targets of a sample.

    Parameters
    ----------
    max_memory : int, default=2**31
        Largest memory in bytes. The statistics take 12 q (q + 1) for q = (d + 1)(d + 2)/2 + C, 319 MB for 100 columns;
        for blocks, q = P + C.
        If that is too much, they are refused before any work.
    keep : int, default=0
        Number of rows of a uniform sample that is stored, see `sample_problem`.
    random_state : int, default=0
        Seed of the sample.
    device : str, optional
        Torch device for the products of rows, such as "cuda", in double precision; None means NumPy on the CPU.
        The sums stay on the CPU, in memory and in files. The full matrix from a device takes the space
        of two more triangles there.

    Attributes
    ----------
    n_samples_seen_ : int
        Number of rows so far, including those of weight zero.
    total_weight_ : float
        Sum of the weights of all rows.
    n_features_in_ : int
        Number of columns d, or P of packed entries. This and the attributes below exist once there are rows.
    n_outputs_ : int or None
        C for targets of shape (n, C), None for targets of shape (n,).
    feature_names_in_ : tuple of str or None
        Columns of the first batch if that is a data frame; later frames must have the same columns.
    blocks_ : Layout or None
        Sides, kinds and weights of the blocks of a sample; None for data with one row a sample.

    Notes
    -----
    Columns are centred at round numbers near their means, if these are far from zero, and divided by powers of two.
    Products of two thousand rows at a time enter a compensated sum. The sums therefore have an error of a few
    roundoffs of the sizes of the (centred) products, for any number, division and order of rows. Lower bounds allow for
    the worst case, so that they hold for the rows. The sums are stored as one packed triangle and computed with level-3
    BLAS.

    Packed entries of blocks are neither centred nor scaled, and converted to double precision in chunks of rows. Their
    sums are exact if entries and targets are integers, of any data type, of magnitudes up to 2^24, without weights.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X, y = qsdp.datasets.make_planted(n=300, d=4, n_neurons=3, random_state=0)
    >>> first = qsdp.SufficientStatistics().partial_fit(X[:100], y[:100])
    >>> second = qsdp.SufficientStatistics().partial_fit(X[100:], y[100:], np.full(200, 2.0))
    >>> first.merge(second)
    SufficientStatistics(300 rows, 4 columns)
    >>> first.total_weight_
    500.0
    """

    def __init__(
        self,
        *,
        max_memory: int = 2**31,
        keep: int = 0,
        random_state: int = 0,
        device: str | None = None,
    ) -> None:
        self.max_memory = check_integer("max_memory", max_memory, minimum=1)
        self.keep = check_integer("keep", keep, minimum=0)
        self.random_state = check_integer("random_state", random_state, minimum=0)
        self.device = check_device(device)
        self._sample = RowSample(self.keep, self.random_state)
        self._interrupted = False
        self.n_samples_seen_ = 0
        self.total_weight_ = 0.0

    def __repr__(self) -> str:
        if not self.n_samples_seen_:
            return "SufficientStatistics(no rows)"
        outputs = "" if self.n_outputs_ is None else f", {self.n_outputs_} outputs"
        d, layout = self.n_features_in_, self.blocks_
        data = f"{d} columns" if layout is None else f"{len(layout.kinds)} blocks of {d} entries"
        return f"SufficientStatistics({self.n_samples_seen_:,} rows, {data}{outputs})"

    @staticmethod
    def memory(n_features: int, n_outputs: int = 1, device: str | None = None) -> int:
        """Return how many bytes of main memory statistics take for a number of columns and outputs."""
        return PackedSums.memory(n_monomials(n_features) + n_outputs, device)

    # -- rows -----------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SufficientStatistics:
        """Add a batch of rows; if it is invalid, the statistics stay unchanged.

        Parameters
        ----------
        X : array-like of shape (n, d), or Blocks
            A batch without rows adds nothing.
        y : array-like of shape (n,) or (n, C)
        sample_weight : array-like of shape (n,), optional
            As in `TrainingProblem`, but all weights of a batch may be zero.

        Returns
        -------
        SufficientStatistics
            This object.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            An argument is not finite or has another shape or other blocks than earlier rows, or the statistics would
            take more than `max_memory`.
        """
        self._check_whole()
        if is_empty(X, y):
            return self
        columns = getattr(X, "columns", None)
        names = None if columns is None else tuple(map(str, columns))
        layout = X.layout if isinstance(X, Blocks) else None
        if layout is None:
            check_finite("X", X)
        check_finite("y", y)
        data = check_matrix("X", X) if layout is None else X.rows
        target = check_targets("y", y, length=len(data))
        weights = check_sample_weight(sample_weight, len(data), positive=False)
        check_magnitude("X", data, "rescale its columns")
        check_magnitude("y", target, "rescale it")
        seen, n_outputs = len(data), next(iter(target.shape[1:]), None)
        if self.n_samples_seen_:
            self._check_alike("X", data.shape[1], n_outputs, names, layout)
        else:
            self._begin(data.shape[1], n_outputs, names, layout)
        target = target.reshape(seen, -1)
        # Until the whole batch has been added, it is unknown which rows the sums contain.
        self._interrupted = True
        if layout is None:
            table, weights = _counting(np.hstack([data, target]), weights)
            if len(table):
                self._add(table, weights)
            self._keep(table, weights)
        else:
            self._add_blocks(data, target, weights)
        self._interrupted = False
        self.n_samples_seen_ += seen
        self.total_weight_ += float(seen if weights is None else weights.sum())
        return self

    def _begin(self, d: int, n_outputs: int | None, names: tuple[str, ...] | None, layout: Layout | None) -> None:
        side = (n_monomials(d) if layout is None else d) + (n_outputs or 1)
        if (needed := PackedSums.memory(side, self.device)) > self.max_memory:
            number = "three" if self.device is None else "with a device five"
            data = "columns" if layout is None else "packed entries"
            raise InvalidInputError(
                f"max_memory must be at least {needed} for {d} {data} ({format_bytes(needed)}: {number} triangles of "
                f"side {side}); got {self.max_memory}"
            )
        self.n_features_in_, self.n_outputs_, self.feature_names_in_, self.blocks_ = d, n_outputs, names, layout
        self._basis, self._sums = Basis.plain(d + (n_outputs or 1)), PackedSums(side, device=self.device)

    def _add_blocks(self, rows: npt.NDArray[Any], target: FloatArray, weights: FloatArray | None) -> None:
        """Add packed rows and targets to the sums, in chunks of rows."""
        for some in chunks(len(rows), rows.shape[1], minimum=MANY_ROWS):
            table = np.hstack([rows[some], target[some]], dtype=np.float64)
            table, part_weights = _counting(table, None if weights is None else weights[some])
            self._keep(table, part_weights)
            self._sums.add_rows(table, part_weights)

    def _add(self, table: FloatArray, weights: FloatArray | None) -> None:
        """Add columns of data and targets to the sums, in chunks of rows."""
        seen = self.n_samples_seen_
        if not self.total_weight_:
            self._basis = Basis.from_rows(table)
        elif (seen + len(table)).bit_length() > seen.bit_length():
            # Recentre whenever the number of rows has doubled: the first rows may have been few or different.
            self._move(self._recentred(table, weights))
        self._move(self._basis.reaching(table))
        library = self._sums.library
        for rows in library.chunks(len(table), self._sums.side, MANY_ROWS):
            part_weights = None if weights is None else weights[rows]
            self._sums.add(monomials(self._basis.apply(table[rows]), self.n_features_in_, part_weights, library))

    def _recentred(self, table: FloatArray, weights: FloatArray | None) -> Basis:
        """Return the basis whose centres suit all rows so far and these rows."""
        total, first, second = self._sums.means(self.n_features_in_)
        coordinates = self._basis.apply(table)
        w = np.ones(len(table)) if weights is None else weights
        total += float(w.sum())
        mean = (first + w @ coordinates) / total
        return self._basis.recentred(mean, np.sqrt(np.maximum((second + w @ coordinates**2) / total - mean**2, 0.0)))

    def _keep(self, table: FloatArray, weights: FloatArray | None) -> None:
        if self.keep:
            # The keys depend on the rows, so that parts of a stream with the same seed do not repeat the same keys.
            digest = hashlib.sha256(np.ascontiguousarray(table).data).digest()
            X, y = np.split(table, [self.n_features_in_], axis=1)
            rows = Rows(X, y, np.ones(len(table)) if weights is None else weights)
            self._sample.add(rows, np.frombuffer(digest, dtype=np.uint32).tolist())

    def _move(self, basis: Basis) -> None:
        if basis != self._basis:
            self._sums = self._sums.changed(self.n_features_in_, *self._basis.change(basis))
            self._basis = basis

    def merge(self, other: SufficientStatistics) -> SufficientStatistics:
        """Add the statistics of other rows, which stay unchanged, to this object and return it.

        Raises
        ------
        InvalidInputError
            The columns, blocks, outputs or sizes of the samples of rows differ.
        """
        if not isinstance(other, SufficientStatistics):
            raise InvalidTypeError(f"other must be SufficientStatistics; got {type(other).__name__}")
        for statistics in (self, other):
            statistics._check_whole()
        if other.keep != self.keep:
            raise InvalidInputError(f"other must keep {self.keep} rows, as these statistics do; got {other.keep}")
        if not other.n_samples_seen_:
            return self
        if self.n_samples_seen_:
            self._check_alike("other", other.n_features_in_, other.n_outputs_, other.feature_names_in_, other.blocks_)
        if not self.total_weight_:
            self.n_features_in_, self.n_outputs_ = other.n_features_in_, other.n_outputs_
            self.feature_names_in_, self.blocks_ = other.feature_names_in_, other.blocks_
            self._basis, self._sums = other._basis, PackedSums(other._sums.side, device=self.device)
        elif other.total_weight_:
            # Centres computed from more rows are better. No product exceeds the larger of the two scales.
            ahead, behind = (self, other) if self.n_samples_seen_ >= other.n_samples_seen_ else (other, self)
            self._move(ahead._basis.at_scale_of(behind._basis))
        if other.total_weight_:
            theirs = other._sums
            if other._basis != self._basis:
                theirs = theirs.changed(self.n_features_in_, *other._basis.change(self._basis))
            self._sums.merge(theirs)
        self._sample.merge(other._sample)
        self.n_samples_seen_ += other.n_samples_seen_
        self.total_weight_ += other.total_weight_
        return self

    @classmethod
    def from_batches(
        cls,
        batches: Any,
        *,
        max_memory: int = 2**31,
        keep: int = 0,
        random_state: int = 0,
        device: str | None = None,
        verbose: bool | int = False,
    ) -> SufficientStatistics:
        """Return the statistics of all rows of a source of batches.

        To keep the sums of a pass that may be interrupted, call `partial_fit` for each batch, and `save` now and then.

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, sample_weight), function that returns one, or tuple of Dask collections
            Arguments of `partial_fit`. For arrays, which may be memory-mapped, see `row_batches`. A tuple (X, y) or
            (X, y, sample_weight) of Dask arrays or data frames is summed where its chunks are stored, by Dask's
            current scheduler, which repeats the tasks of a lost worker. One packed triangle per chunk is sent over
            the network, and no row. Chunk lengths need not be known.
        max_memory, keep, random_state
            As in the class.
        device : str, optional
            As in the class; for Dask collections, a device of the workers.
        verbose : bool or int, default=False
            Show the number of rows so far, on standard error or in the notebook.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            There is no row, or a batch is refused; the message gives its number and first row, or the number of the
            chunk. Dask collections do not fit together.
        SolverError
            The scheduler or all workers of Dask were lost.

        Examples
        --------
        >>> import dask.array as da  # doctest: +SKIP
        >>> X = da.random.random((10**9, 20), chunks=(10**6, 20))  # doctest: +SKIP
        >>> SufficientStatistics.from_batches((X, X[:, 0] * X[:, 1]))  # doctest: +SKIP
        SufficientStatistics(1,000,000,000 rows, 20 columns)
        """
        options: dict[str, Any] = {"max_memory": max_memory, "keep": keep, "random_state": random_state}
        rows = dask_rows(batches)
        statistics = cls(**options, device=device if rows is None else None)
        with progress(check_verbose(verbose)) as stages, stages.stage("statistics") as bar:
            if rows is None:
                (stream,) = streams(batches)
                add_batches(stream, statistics.partial_fit, bar)
                return statistics
            rows.check_device(device)
            total: SufficientStatistics = rows.reduced(partial(_summed, options, device), partial(_merged, options))
        if not total.n_samples_seen_:
            raise InvalidInputError("X must have at least one row; got only empty chunks")
        return total

    # -- use ------------------------------------------------------------------------------------------------------

    def reduced(self, activation: PolynomialActivation | None = None) -> QuadraticModel:
        r"""Return a few rows and targets on which every network has the same squared loss as on all samples.

        The rows are a pivoted Cholesky factor of the statistics, scaled to unit diagonal; their number is its rank.
        The columns of the factor are transformed back to products of the original columns; blocks have no activation.
        """
        self._check_rows("have a problem")
        d, C, n = self.n_features_in_, self.n_outputs_, self.n_samples_seen_
        if self.blocks_ is not None:
            model = reduced_blocks(self.blocks_, self._sums, n)
        else:
            model = reduced_rows(self._basis, self._sums, d, activation, n)
        targets = model.targets[:, -1] if C is None else model.targets
        return replace(model, targets=read_only(np.ascontiguousarray(targets)))

    def sample_problem(
        self,
        *,
        beta: float,
        loss: str | Loss = "squared",
        activation: str | Sequence[float] | PolynomialActivation | None = None,
        levels: int = 2,
    ) -> TrainingProblem:
        """Return the problem of the sampled rows, weighted to represent all rows, for bounds that need individual rows.

        Parameters
        ----------
        beta, loss, activation, levels
            As in `TrainingProblem`; beta refers to all rows.

        Raises
        ------
        InvalidInputError
            There are no rows, `keep` is zero, or an argument is not allowed.
        """
        self._check_rows("have a problem of sampled rows")
        if not self.keep:
            raise InvalidInputError("keep must be positive for a problem of sampled rows; got 0")
        sample = self._sample.rows
        assert sample is not None
        target = sample.y if self.n_outputs_ is not None else sample.y[:, 0]
        weights = sample.repetitions * (self.total_weight_ / float(sample.repetitions.sum()))
        options: dict[str, Any] = {"loss": loss, "activation": activation, "levels": levels}
        X = sample.X if self.blocks_ is None else Blocks.from_layout(sample.X, self.blocks_)
        return TrainingProblem(X, target, beta=beta, sample_weight=weights, **options)

    # -- files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a file, atomically and without pickle.

        Raises
        ------
        InvalidInputError
            There are no rows.
        """
        self._check_rows("be saved")
        fields = {
            "n_features": self.n_features_in_,
            "n_outputs": self.n_outputs_,
            "n_samples": self.n_samples_seen_,
            "total_weight": self.total_weight_,
            "feature_names": self.feature_names_in_,
            "keep": self.keep,
            "random_state": self.random_state,
            "blocks": self.blocks_,
            "roundings": self._sums.roundings,
        }
        write_statistics(path, fields, self._basis, self._sums, self._sample)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, max_memory: int = 2**31, device: str | None = None
    ) -> SufficientStatistics:
        """Return the statistics saved to `path`, to continue with or without a device.

        Raises
        ------
        StorageError
            The file is truncated, altered or foreign.
        """
        fields, basis, sums, sample = read_statistics(path)
        stored = {name: fields[name] for name in ("keep", "random_state")}
        statistics = cls(max_memory=max_memory, device=device, **stored)
        statistics.n_samples_seen_, statistics.total_weight_ = fields["n_samples"], fields["total_weight"]
        statistics.n_features_in_, statistics.n_outputs_ = fields["n_features"], fields["n_outputs"]
        statistics.blocks_ = fields["blocks"]
        statistics.feature_names_in_ = None if fields["feature_names"] is None else tuple(fields["feature_names"])
        sums.device = statistics.device
        statistics._basis, statistics._sums, statistics._sample = basis, sums, sample
        return statistics

    def _check_whole(self) -> None:
        if self._interrupted:
            raise InvalidInputError(
                "statistics must not have been interrupted in the middle of a batch: start again, or from a saved file"
            )

    def _check_rows(self, purpose: str) -> None:
        self._check_whole()
        if not self.total_weight_:
            reason = "all have weight zero" if self.n_samples_seen_ else "got none"
            raise InvalidInputError(f"statistics must have at least one row to {purpose}; {reason}")

    def _check_alike(
        self, name: str, n_features: int, n_outputs: int | None, names: tuple[str, ...] | None, layout: Layout | None
    ) -> None:
        if layout != self.blocks_:
            pairs = ((self.blocks_, layout), (layout, self.blocks_))
            had, has = ("columns" if layout is None else layout.described(than=other) for layout, other in pairs)
            raise InvalidInputError(f"{name} must have {had}, as before; got {has}")
        if n_features != self.n_features_in_:
            raise InvalidInputError(f"{name} must have {self.n_features_in_} columns, as before; got {n_features}")
        if n_outputs != self.n_outputs_:
            had, has = ("(n,)" if C is None else f"(n, {C})" for C in (self.n_outputs_, n_outputs))
            raise InvalidInputError(f"{name} must come with targets of shape {had}, as before; got {has}")
        if names is not None and self.feature_names_in_ is not None and names != self.feature_names_in_:
            before, now = next(pair for pair in zip(self.feature_names_in_, names, strict=True) if pair[0] != pair[1])
            raise InvalidInputError(f"{name} must have the same columns as before; got {now!r} instead of {before!r}")


def _counting(table: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
    """Return the rows and weights of the samples of positive weight."""
    if weights is None or np.all(positive := weights > 0.0):
        return table, weights
    return table[positive], weights[positive]


def _summed(options: dict[str, Any], device: str | None, number: int, *chunk: Any) -> SufficientStatistics:
    """Compute the statistics of one chunk on a Dask worker, and return them in main memory."""
    del number
    statistics = SufficientStatistics(**options, device=device).partial_fit(*chunk)
    # Statistics that wait to be merged must not occupy the device, and the merging worker may have none.
    return statistics if device is None else SufficientStatistics(**options).merge(statistics)


def _merged(options: dict[str, Any], parts: Sequence[SufficientStatistics]) -> SufficientStatistics:
    total = SufficientStatistics(**options)
    for part in parts:
        total.merge(part)
    return total
