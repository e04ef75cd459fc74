"""`qsdp fit` on files that are too large for memory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qsdp.cli._flags import check_neurons
from qsdp.cli._scores import fit_figures
from qsdp.cli._streams import interrupts, stage
from qsdp.estimators import warn_of_gap
from qsdp.estimators.collections import SAMPLE
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult, run_on_batches, run_on_statistics
from qsdp.report.figures import Figure
from qsdp.tabular import (
    STREAMED,
    Holdout,
    SampledRows,
    Sampling,
    TabularModel,
    Training,
    checkpoint_name,
    encoded_batches,
    prepare,
    sample_file,
    statistics_of,
)


def fit_streamed(
    file: Path,
    sampling: Sampling,
    columns: Mapping[str, Any],
    options: TrainingOptions,
    path: Path,
) -> tuple[Training, SampledRows, TabularModel, QSDPResult, list[Figure]]:
    """Train on all rows of a file, save the model, and return what the report needs.

    With a squared loss, the network is trained on the statistics of all rows. With other losses, it is trained on a
    sample of the rows and certified by passes over all rows.
    """
    if columns["class_weight"] is not None:
        raise InvalidInputError(
            f"{str(file)!r} is larger than --memory allows and is streamed, which does not support --class-weight: "
            "give a larger --memory if it fits"
        )
    loss, activation = get_loss(columns["loss"]), columns["activation"]
    began = time.perf_counter()
    with stage(f"Reading {file}: a sample") as bar:
        sample = sample_file(file, sampling, SAMPLE, bar)
        training = prepare(sample.train, sampling.target, **columns, test_size=0.0, seed=sampling.seed)
        check_neurons(options.n_neurons, math.prod(training.target.output_shape(loss)))
    checkpoint = checkpoint_name(path, file, sampling, training, activation)
    options = replace(options, verbose=True)
    few = training.problem(options, sample.stands_for)
    if loss.quadratic:
        with stage(f"Reading {file}: statistics of {training.X.shape[1]} inputs") as bar:
            statistics = statistics_of(
                file,
                sampling,
                training,
                activation=activation,
                checkpoint=checkpoint,
                bar=bar,
                device=options.device,
            )
    seconds = time.perf_counter() - began
    with stage(f"Training with {training.X.shape[1]} inputs"), interrupts() as received:
        if loss.quadratic:
            result = run_on_statistics(statistics, few, options)
        else:
            batches = encoded_batches(file, sampling, training, loss, activation)
            result = run_on_batches(few, batches, options)
        result = result.timed("read", seconds)
        warn_of_gap(result)
    if received:
        # The checkpoint keeps the statistics of the rows that were read for the next run.
        raise KeyboardInterrupt
    with stage("Scoring and saving"):
        holdout = Holdout(sampling.seed, sampling.test_size)
        model = replace(training.model(result, options), digest=STREAMED, holdout=holdout)
        figures = fit_figures(model, training, sample.test, "sampled ")
        model.save(path)
        checkpoint.unlink(missing_ok=True)
    return training, sample, model, result, figures
