"""Base class of the scikit-learn estimators."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from qsdp._utils.parallel import CACHE_FLOATS, few_threads
from qsdp._utils.progress import progress
from qsdp._utils.summary import Summary, SummaryBelowDiagram
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import FloatArray, RandomState, check_sample_weight, errors_of
from qsdp.activations import get_activation
from qsdp.blocks import Blocks
from qsdp.choosing.options import TrainingOptions
from qsdp.data_map import SAMPLES
from qsdp.encoding import TableEncoder
from qsdp.encoding.reading_rule import as_table
from qsdp.encoding.used_columns import columns_of_training, is_frame
from qsdp.estimators.additive import fit_additive
from qsdp.estimators.centring import InputMoments
from qsdp.estimators.dask_fits import train_on_chunks
from qsdp.estimators.fit_warnings import warn_of_gap, warn_of_scales
from qsdp.estimators.input_encoding import (
    check_kind_of_array,
    check_targets,
    encoded,
    explained_by_columns,
    fit_encoder,
    has_encoder,
    makes_blocks,
    uses_transformer,
)
from qsdp.estimators.parameters import activation_of, encoding_of, is_additive, is_auto, training_options
from qsdp.estimators.saving import save
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError
from qsdp.lifting import append_constant, power_of_two
from qsdp.losses import Loss, get_loss
from qsdp.networks import BilinearNetwork
from qsdp.pipeline import QSDPResult, run_pipeline
from qsdp.problem import TrainingProblem
from qsdp.relaxation.solution import warn_of_choices
from qsdp.statistics.dask_rows import map_rows
from qsdp.statistics.sample import Rows


class _QuantizedNetwork(SummaryBelowDiagram, BaseEstimator):  # type: ignore[misc]
    """Base class of the regressor and the classifier: parameters, data checks and training on coded targets."""

    n_features_in_: int
    constant_: float
    encoder_: Any
    target_scaling_: TargetScaling
    _input_ranges: tuple[FloatArray, FloatArray]
    _trained_beta: float
    _refined: str
    _input_moments: InputMoments | None
    # Whether the rows of the last fit were a Dask collection.
    _in_batches: bool = False

    def _options(self, *, in_batches: bool = False) -> TrainingOptions:
        """Return the parameters of the training after a check of all."""
        self._in_batches = in_batches
        return training_options(self)

    @contextmanager
    def _restored_on_error(self) -> Iterator[None]:
        """Restore the state of an earlier fit after an error or interrupt: parts of two fits would predict nonsense."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _validated(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True) -> Rows:
        """Check and return rows of the user's table with their targets and weights; `reset` learns the columns."""
        data = self._checked(X, reset=reset)
        return Rows(data, check_targets(data, y, **self._targets), check_sample_weight(sample_weight, len(data)))

    @property
    def _loss(self) -> str | Loss:
        """The loss of the training, the squared one for "auto"."""
        loss: str | Loss = self.loss
        return "squared" if is_auto(loss) else loss

    @property
    def _columns_encoder(self) -> Any:
        """Encoder of the columns of a table as numbers, of which an encoder of blocks may make further ones."""
        return getattr(self.encoder_, "inputs_", self.encoder_)

    @property
    def _takes_frames(self) -> bool:
        """Whether data frames may hold text, categories and missing entries, which the encoder handles."""
        return has_encoder(self.encoding)

    def _entries(self, X: Any) -> dict[str, Any]:
        """Return the arguments of `validate_data` for X; entries are not checked if the encoder accepts any type."""
        objects = self._takes_frames and getattr(getattr(X, "dtype", None), "kind", "") == "O"
        if objects or uses_transformer(self.encoding):
            return {"dtype": None, "ensure_all_finite": False}
        return {"dtype": np.float64, "ensure_all_finite": "allow-nan" if self._takes_frames else True}

    @property
    def _targets(self) -> dict[str, Any]:
        """Return the arguments of `validate_data` for the targets."""
        raise NotImplementedError("defined by the classifier and the regressor")

    def _coded(self, samples: Rows) -> tuple[FloatArray, FloatArray | None]:
        """Return the targets of samples as numbers, and the final weights of the samples."""
        raise NotImplementedError("defined by the classifier and the regressor")

    def _fit(self, samples: Rows, options: TrainingOptions, **routed: Any) -> None:
        """Fit to the samples of positive weight."""
        counting = samples.counting
        # A table of an earlier fit says nothing of this one.
        self.__dict__.pop("table_", None)
        target, weights = self._coded(counting)
        self.target_scaling_ = self._scaling(target, weights)
        coded = self.target_scaling_.encode(target)
        # Threads that share small matrices wait for each other for most of the time.
        small = len(counting.y) <= MANY_ROWS and np.size(counting.X) <= CACHE_FLOATS
        with few_threads(small=small), options.limit(), progress(options.verbose) as stages:
            began, additive = time.perf_counter(), is_additive(self)
            if additive and "chunks" in routed:
                raise InvalidInputError(
                    'encoding must not be "additive" for a Dask collection, which memory need not hold; use "standard"'
                )
            if additive:
                with stages.stage("encode"):
                    additive_fit = fit_additive(counting, coded, weights, options, self.max_categories)
                self.encoder_ = additive_fit.encoder
                columns: Any = additive_fit.blocks
                options = replace(options, beta=additive_fit.beta)
                routed["network"] = additive_fit.network
            else:
                fitted = fit_encoder(encoding_of(self), counting.X, counting.y, counting.weights, self.max_categories)
                self.encoder_, columns = fitted
            if self.encoder_ is None:
                warn_of_scales(counting.X)
            inputs = self._learned_inputs(columns, counting.weights)
            if additive:
                columns = self.encoder_.inputs_of(columns)
            tabular = additive or not makes_blocks(self.encoder_)
            self._input_moments = self._moments(columns, weights) if tabular else None
            seconds = time.perf_counter() - began
            result = self._train(samples, inputs, coded, weights, options, **routed)
            self._result = result.timed("encoding", seconds) if additive else result
            warn_of_choices()
            warn_of_gap(self.result_)
        self._expose()

    def _learned_inputs(self, columns: Any, weights: FloatArray | None) -> Any:
        """Learn the constant and the ranges of the encoded columns, and return the inputs of the network."""
        if isinstance(columns, Blocks):
            self.n_features_in_, self.constant_ = self.encoder_.n_features_in_, 1.0
            self._input_ranges = np.zeros(0), np.zeros(0)
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(self.encoder_, "feature_names_in_"):
                self.feature_names_in_ = self.encoder_.feature_names_in_
            return columns
        # Exports clip inputs without limits well beyond these, and must not depend on the rows themselves.
        self._input_ranges = columns.min(axis=0), columns.max(axis=0)
        self.constant_ = _constant(columns, weights)
        return self._with_constant(columns, self.constant_)

    def _train(
        self,
        samples: Rows,
        inputs: FloatArray,
        target: FloatArray,
        weights: FloatArray | None,
        options: Any,
        **routed: Any,
    ) -> QSDPResult:
        """Train on the inputs and targets of the samples of positive weight, or on all chunks if these are a sample."""
        problem = options.problem(inputs, target, weights, samples.repetitions, routed.get("stands_for", 1.0))
        if "chunks" in routed:
            return train_on_chunks(self._predictor(), routed["chunks"], problem, options)
        last = self.result_.relaxation if self.warm_start and hasattr(self, "result_") else None
        return run_pipeline(problem, options, start=last, network=routed.get("network"))

    def _moments(self, columns: FloatArray, weights: FloatArray | None) -> InputMoments | None:
        """Return the moments by which effects are centred, or None if an input depends on several columns."""
        raise NotImplementedError("defined by the classifier and the regressor")

    def _scaling(self, target: FloatArray, weights: FloatArray | None) -> TargetScaling:
        """Return the scaling of the targets for training."""
        return TargetScaling.of_numbers(target, weights, get_loss(self._loss))

    @property
    def result_(self) -> QSDPResult:
        """Problem, relaxation, covariance and timings."""
        if "_result" in self.__dict__:
            result: QSDPResult = self._result
            return result
        if "network_" in self.__dict__:
            raise AttributeError(
                "result_ is missing, because neither files nor pickles hold the training data: fit the estimator again"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute 'result_': it is not fitted")

    def _expose(self) -> None:
        # Those of an earlier fit or file do not belong to this network.
        self.__dict__.pop("_importances", None)
        self.network_, self.certificate_ = self.result_.network, self.result_.certificate
        # Exports compare their error bounds with it, also in a later session, without the training data.
        self._score_range = self._range_of_scores()
        self._trained_beta, self._refined = self.result_.problem.beta, self.result_.refine

    def _range_of_scores(self) -> FloatArray | None:
        """Return the smallest and largest score of each output on the training rows, of shape (2, C).

        None if only statistics of the rows are in memory.
        """
        problem = self.result_.problem
        if SAMPLES not in problem.weight_map.offers:
            return None
        scores = self.target_scaling_.decode(problem.predictions(self.network_))
        return np.stack([scores.min(axis=0), scores.max(axis=0)]).reshape(2, -1)

    def _summary(self) -> Summary | None:
        if not hasattr(self, "network_"):
            return None
        if hasattr(self, "result_"):
            return self.result_._summary()
        return Summary(type(self).__name__, [*self.certificate_._summary().rows, *self.network_._summary().rows])

    # -- copies --------------------------------------------------------------------------------------------

    def __copy__(self) -> Any:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(self)] = copied = type(self).__new__(type(self))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file that `qsdp.load` reads, without the training data.

        The file has the format of skops, no pickle, and holds parameters, encoder, labels, network, and the numbers of
        the certificate, but not `result_`. A loaded estimator predicts the same bit for bit.

        Raises
        ------
        InvalidInputError
            A part of the estimator is not of a type that `qsdp.load` accepts: the loss is not one of
            `qsdp.losses.LOSSES`, labels are neither numbers nor text, or the encoding is neither one of
            `qsdp.encoding` nor one of the common transformers of scikit-learn. ``joblib.dump`` or cloudpickle pickles
            such estimators, and ``model.network_.save`` writes their networks.
        """
        check_is_fitted(self)
        save(self, path)

    @property
    def refined_(self) -> str:
        """How the network was refined after sampling, as `refine`."""
        if "_refined" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'refined_': it is not fitted")
        return self._refined

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: everything but `result_`, which contains the training data."""
        state = dict(super().__getstate__())
        return self._without_data(state) if "_result" in state else state

    def _without_data(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes of the fitted estimator without the training data."""
        del state["_result"]
        state["certificate_"] = replace(self.certificate_, proof=None)
        # A transformer may mix columns, which then have no importances.
        state["_importances"] = getattr(self, "feature_importances_", None)
        return state

    def resample(
        self,
        n_neurons: int,
        random_state: RandomState = None,
        *,
        levels: int | None = None,
        refine: str | None = None,
    ) -> Any:
        """Replace the fitted network by one of another size or number of levels without solving again.

        Parameters
        ----------
        n_neurons : int
            Number of neurons, m >= 1. The parameters of the estimator do not change.
        random_state : int, Generator, RandomState or None
        levels, refine : optional
            See `QSDPResult.resample`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._result = self.result_.resample(
            n_neurons,
            random_state,
            levels=levels,
            allocation=self.allocation,
            refine=refine,
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self._expose()
        return self

    def network_inputs(self, X: Any) -> FloatArray:
        """Return the inputs of `network_` for rows of X, shape (n, width), with the constant column if it has one."""
        check_is_fitted(self)
        inputs: FloatArray = self._inputs(self._checked(X))
        return inputs

    def training_problem(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingProblem:
        """Return the training problem of `network_` on data, for `qsdp.certify` and similar functions.

        Inputs and targets are coded as in training, beta is that of the fit, and levels are those of the network. The
        certificate of a fitted or loaded estimator is about the problem of its own rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; rows of weight zero are left out.
        """
        check_is_fitted(self)
        inputs, target, weights = self._coded_rows(self._validated(X, y, sample_weight, reset=False).counting)
        return TrainingProblem(
            inputs,
            target,
            beta=self._trained_beta,
            loss=self._loss,
            # Networks on blocks are bilinear and binary.
            activation=getattr(self.network_, "activation", None),
            levels=getattr(self.network_, "levels", 2),
            sample_weight=weights,
        )

    def _coded_rows(self, rows: Rows) -> tuple[Any, FloatArray, FloatArray | None]:
        """Return the inputs, targets and weights of checked rows, coded as in training."""
        coded, weights = self._coded(rows)
        return self._inputs(rows.X), self.target_scaling_.encode(coded), weights

    def _output(self, X: Any) -> FloatArray:
        """Return the outputs in the units of the targets, of shape (n, C)."""
        check_is_fitted(self)
        # Relaxations, whose predictions are scored too, need the blocks themselves.
        if makes_blocks(self.encoder_) and isinstance(self.network_, BilinearNetwork):
            samples = self.encoder_.samples(self._checked(X))
            return self.target_scaling_.decode(self.encoder_.outputs(self.network_, samples))
        return self.target_scaling_.decode(self.network_.outputs(self._inputs(self._checked(X)), n_jobs=self.n_jobs))

    def _of_collection(self, method: str, X: Any, dtype: npt.DTypeLike, *row_shape: int) -> Any:
        """Return the results of a method on the rows of a Dask collection, as another Dask collection."""
        check_is_fitted(self)
        if X.shape[1:] != (self.n_features_in_,):
            raise InvalidInputError(f"X must have shape (n, {self.n_features_in_}); got a Dask collection of {X.shape}")
        return map_rows(getattr(self._predictor(), method), X, dtype, *row_shape)

    def _predictor(self) -> Any:
        """Return a copy of this estimator with the same predictions and without the data of this or an earlier fit."""
        predictor = copy.copy(self)
        for name in ("_result", "certificate_"):
            predictor.__dict__.pop(name, None)
        return predictor

    def _checked(self, X: Any, *, reset: bool = False) -> Any:
        """Check and return rows of the user's table; an encoder of blocks checks its samples itself."""
        if makes_blocks(self.encoding):
            if reset:
                clone(self.encoding).samples(X)
            return X if isinstance(X, (list, tuple)) or is_frame(X) else np.asarray(X)
        if reset and not uses_transformer(self.encoding):
            check_kind_of_array(X, frames=self._takes_frames)
        X = as_table(X) if self._takes_frames else X
        if not reset:
            encoder = self._columns_encoder
            X = columns_of_training(X, self, encoder.encoding_.used if isinstance(encoder, TableEncoder) else None)
        # Text, categories and missing entries of data frames are left to the encoder.
        entries = {"skip_check_array": True} if self._takes_frames and is_frame(X) else self._entries(X)
        errors = errors_of("X") if reset else nullcontext()
        with explained_by_columns(X, refused=not self._takes_frames), errors:
            return validate_data(self, X, reset=reset, **entries)

    def _encoded(self, X: Any) -> Any:
        return X if self.encoder_ is None else encoded(self.encoder_, X)

    def _inputs(self, X: Any) -> Any:
        return self._with_constant(self._encoded(X), self.constant_)

    def _with_constant(self, columns: Any, constant: float) -> Any:
        return append_constant(columns, constant) if self._appends_constant else columns

    @property
    def _appends_constant(self) -> bool:
        activation = get_activation(activation_of(self))
        rows = not makes_blocks(self.encoding) and not is_additive(self)
        return rows and self.constant_column and (activation is None or not activation.lifted)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_frames
        return tags


def _constant(X: FloatArray, weights: FloatArray | None) -> float:
    """Return the power of two nearest to the largest root mean square of a column."""
    largest = float(np.abs(X).max()) or 1.0
    squares = np.average((X / largest) ** 2, axis=0, weights=weights)
    return power_of_two(largest * float(np.sqrt(squares.max())))
