"""`qsdp fit` on files that are too large to be held."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qsdp._utils.validation import check_random_state
from qsdp.certificates import certify
from qsdp.cli._options import check_neurons
from qsdp.cli._streams import interrupts, stage
from qsdp.estimators import warn_of_gap
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult, sample_from
from qsdp.problem import TrainingProblem
from qsdp.refinement import polish
from qsdp.relaxation import solve_relaxation
from qsdp.statistics import SufficientStatistics
from qsdp.tabular import (
    STREAMED,
    Holdout,
    SampledRows,
    Sampling,
    TabularModel,
    Training,
    checkpoint_name,
    prepare,
    sample_file,
    statistics_of,
)

#: Rows that tell the encoding, scores, and beta, and on which networks are polished.
_SAMPLE = 20_000

#: Memory of a machine that does not tell its own.
_MEMORY = 2**33


def memory_bytes() -> int:
    """Return the memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _MEMORY


def fit_streamed(
    file: Path,
    sampling: Sampling,
    columns: Mapping[str, Any],
    options: TrainingOptions,
    path: Path,
) -> tuple[Training, SampledRows, TabularModel, QSDPResult, list[tuple[str, float]]]:
    """Train on the statistics of all rows of a file, save the model, and return what there is to report."""
    if not get_loss(columns["loss"]).quadratic or columns["class_weight"] is not None:
        raise InvalidInputError(
            f"{str(file)!r} is larger than --memory allows and is streamed, which takes --loss squared and no "
            f"--class-weight; got --loss {columns['loss']}: give a larger --memory if it fits"
        )
    began = time.perf_counter()
    with stage(f"Reading {file}: a sample") as bar:
        sample = sample_file(file, sampling, _SAMPLE, bar)
        training = prepare(sample.train, sampling.target, **columns, test_size=0.0, seed=sampling.seed)
        check_neurons(options.n_neurons, training.target.n_outputs(get_loss(columns["loss"])))
    activation = columns["activation"]
    checkpoint = checkpoint_name(path, file, sampling, training, activation)
    with stage(f"Reading {file}: statistics of {training.X.shape[1]} inputs") as bar:
        statistics = statistics_of(
            file, sampling, training, activation=activation, keep=_SAMPLE, checkpoint=checkpoint, bar=bar
        )
    seconds = time.perf_counter() - began
    with stage(f"Training with {training.X.shape[1]} inputs") as bar, interrupts() as received:
        result = _trained(statistics, replace(options, verbose=True), bar).timed("read", seconds)
        warn_of_gap(result)
    if received:
        # The checkpoint has the rows that were read, for the next time.
        raise KeyboardInterrupt
    with stage("Scoring and saving"):
        holdout = Holdout(sampling.seed, sampling.test_size)
        model = replace(training.model(result, options), digest=STREAMED, holdout=holdout)
        scores = [
            (name, _score(model, table))
            for name, table in (("sampled training rows", sample.train), ("sampled test rows", sample.test))
            if len(table)
        ]
        model.save(path)
        checkpoint.unlink(missing_ok=True)
    return training, sample, model, result, scores


def _trained(statistics: SufficientStatistics, options: TrainingOptions, bar: Any) -> QSDPResult:
    """Return what `run_pipeline` does for the problem of statistics; beta and polish are those of the rows kept."""
    deadline, rng = options.deadline(), check_random_state(options.random_state)
    kind: dict[str, Any] = {"activation": options.activation, "levels": options.levels}
    began = time.perf_counter()
    few = options.regularized(statistics.kept_problem(beta=1.0, **kind), deadline, bar)
    seconds = time.perf_counter() - began
    problem = TrainingProblem.from_statistics(statistics, beta=few.beta, **kind)
    relaxation = solve_relaxation(
        problem, solver=options.solver, tol=options.tol, time_limit=deadline.time_limit, n_jobs=options.n_jobs
    )
    polished = options.refine == "polish"
    result = sample_from(relaxation, replace(options, refine="none") if polished else options, rng, deadline)
    if polished:
        network = polish(
            result.network,
            few,
            time_limit=options.refinement_limit(deadline),
            random_state=rng,
            n_jobs=options.n_jobs,
            verbose=options.verbose,
        )
        certificate = certify(network, problem, relaxation)
        if certificate.objective < result.certificate.objective:
            result = replace(result, network=network, certificate=certificate, refine="polish")
    return result.timed("beta", seconds) if isinstance(options.beta, str) else result


def _score(model: TabularModel, table: Any) -> float:
    return model.target.score(model.outputs(table), model.target.truth(table), model.weighting.read(table))
