"""`qsdp certify`: write a certificate file of a model that others can check."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from qsdp._utils import deadline
from qsdp._utils.atomic_files import write_whole
from qsdp._utils.validation import check_choice, check_real, warn
from qsdp.certificates import BOUND_TYPES, Certificate
from qsdp.certificates import certify as certify_network
from qsdp.certificates.files import problem_data
from qsdp.choosing.options import REFINEMENT_TIME
from qsdp.cli._flags import Force, ModelFile, load_model
from qsdp.cli._reports import print_facts, print_figures
from qsdp.cli._streams import destination, interrupts, stage
from qsdp.column_generation import column_generation
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.relaxation import solve_relaxation
from qsdp.report.figures import certificate_figures, network_fact
from qsdp.tables import read_table
from qsdp.tables.training_tables import problem_on

#: Relative gap below which no better dual vector is searched for and no warning is given.
_CLOSED = 1e-6

_BOUND_TYPE_NOTES = {
    "sdp": "pricing values bounded by the semidefinite relaxation",
    "exact": "pricing values computed exactly",
}


def certify(
    model_file: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="TRAIN.csv", help="The file given to `qsdp fit`.")],
    output: Annotated[
        Path | None,
        typer.Option(metavar="CERT", help="Certificate file; MODEL.cert in the current folder by default."),
    ] = None,
    bound_type: Annotated[str, typer.Option(help=f"Type of the bound: {' | '.join(BOUND_TYPES)}.")] = "sdp",
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time limit of --bound-type exact.")
    ] = REFINEMENT_TIME,
    no_data: Annotated[
        bool,
        typer.Option("--no-data", help="Write the encoded rows to CERT.npz instead of the certificate."),
    ] = False,
    force: Force = False,
) -> None:
    """Write a certificate of a model, which `qsdp-check` verifies with NumPy alone.

    Objective and lower bound are recomputed from the data; those stored in the model are not used. --bound-type sdp
    solves the relaxation; --bound-type exact also solves the pricing problems exactly and searches for the best bound
    within the time limit, which proves a model of `qsdp fit --refine exact` optimal.
    """
    check_choice("--bound-type", bound_type, BOUND_TYPES)
    check_real("--time-limit", time_limit, strict=True)
    inputs = [model_file, file]
    path = destination(output or Path(f"{model_file.stem}.cert"), force=force, inputs=inputs)
    rows = destination(path.with_name(f"{path.name}.npz"), force=force, inputs=inputs) if no_data else None
    with stage(f"Reading {file}"):
        model = load_model(model_file)
        problem = problem_on(model, read_table(file, **model.table_.reading))
    with stage(f"Proving a bound with {problem.n_features} inputs"):
        with interrupts() as received:
            certificate = _certificate(model.network_, problem, bound_type, time_limit)
        if received:
            raise KeyboardInterrupt
        stored = model.certificate_.lower_bound
        if certificate.lower_bound < (1.0 - _CLOSED) * stored:
            advice = "--bound-type exact" if bound_type == "sdp" else "a larger --time-limit"
            warn(f"the bound is below the one stored in the model, {stored:.6g}; {advice} may raise it")
        elif certificate.bound_type != bound_type:
            warn("exact pricing proved no bound in time; a larger --time-limit may help")
        if rows is not None:
            _save_rows(problem, rows)
        certificate.save(path, include_data=not no_data)
    check = shlex.join(["qsdp-check", str(path), *(["--data", str(rows)] if rows else [])])
    print_facts(
        [
            ("data", f"{file}: {problem.n_samples} training rows, the same as those of {model_file}"),
            network_fact(model),
            ("saved", f"{path}, {rows}" if rows else str(path)),
            ("check", check),
        ]
    )
    print_figures(
        [
            *certificate_figures(certificate, standardised=model.table_.kind is not None),
            ("bound type", certificate.bound_type, _BOUND_TYPE_NOTES[certificate.bound_type]),
        ]
    )


def _certificate(network: BilinearNetwork, problem: TrainingProblem, bound_type: str, time_limit: float) -> Certificate:
    relaxation = solve_relaxation(problem, verbose=True)
    if bound_type == "sdp":
        return certify_network(network, problem, relaxation)
    with deadline.after(time_limit):
        certificate = certify_network(network, problem, relaxation, bound_type="exact", verbose=True)
        closed = certificate.bound_type == "exact" and certificate.relative_gap <= _CLOSED
        if deadline.over() or closed:
            return certificate
        # The gradient at the network is not a useful dual vector if the network is not optimal.
        generated = column_generation(
            problem, relaxation=relaxation, start=network, random_state=0, verbose=True
        ).certificate
    if generated.proof is None or generated.lower_bound <= certificate.lower_bound:
        return certificate
    bound = min(generated.lower_bound, certificate.objective)
    return Certificate(bound, certificate.objective, generated.bound_type, replace(generated.proof, network=network))


def _save_rows(problem: TrainingProblem, path: Path) -> None:
    stream = io.BytesIO()
    np.savez(stream, **problem_data(problem))
    write_whole(path, stream.getvalue())
