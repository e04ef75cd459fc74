"""Training options: default, check and description of each, shared by pipeline, estimators, distillation and CLI."""
# ruff: noqa: RUF009 -- `option` returns a field, of which every class has its own

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.arrays import check_device
from qsdp._utils.option_fields import Options, choice, option
from qsdp._utils.tuning import FIRST_TRY
from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    check_beta,
    check_choice,
    check_integer,
    check_jobs,
    check_random_state,
    check_real,
    check_verbose,
)
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.choosing.beta import BetaChoice, choose_beta
from qsdp.choosing.neurons import MAX_NEURONS, MIN_NEURONS
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, Loss, get_loss
from qsdp.problem import TrainingProblem
from qsdp.relaxation.backends import BACKENDS, check_solver
from qsdp.relaxation.largest_beta import useful_beta_max
from qsdp.sampling import ALLOCATIONS, check_neurons
from qsdp.shaping import SHAPINGS
from qsdp.training_data import check_levels

__all__ = ["AUTO", "LIMITED", "REFINEMENTS", "REFINEMENT_TIME", "TrainingOptions"]

#: Value of beta for the choice on held-out rows.
AUTO = "auto"

#: Limit in seconds of a refinement by "polish" or "exact" without a time limit; half costs accuracy in large problems.
REFINEMENT_TIME = 120.0

#: Refinements that continue until nothing improves or the time is over.
LIMITED = frozenset({"polish", "exact"})

REFINEMENTS = ("none", "refit", "polish", "exact")


def _check_loss(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_choice(name, value, LOSSES)
    else:
        get_loss(value)


def _check_activation(name: str, value: Any) -> None:
    del name
    get_activation(value)


def _check_neurons(name: str, value: Any) -> int | None:
    return None if value is None else check_neurons(name, value)


def _check_beta(name: str, value: Any) -> None:
    if not isinstance(value, str):
        check_beta(name, value)
    elif value != AUTO:
        fraction_of_beta_max(name, value)


def fraction_of_beta_max(name: str, value: str) -> float:
    """Parse a share of `beta_max` such as "5%" to a fraction."""
    try:
        fraction = float(value.removesuffix("%")) / 100.0 if value.endswith("%") else 0.0
    except ValueError:
        fraction = 0.0
    if not 0.0 < fraction <= 1.0:
        allowed = f'a finite number > 0, "{AUTO}", or a share of beta_max above 0% and up to 100%, such as "5%"'
        raise InvalidInputError(f"{name} must be {allowed}; got {value!r}")
    return fraction


def _check_time_limit(name: str, value: Any) -> None:
    if value is not None and value != np.inf:
        check_real(name, value, strict=True)


def _check_random_state(name: str, value: Any) -> None:
    if isinstance(value, Integral):
        check_integer(name, value, minimum=0)
    elif not isinstance(value, np.random.RandomState):  # making a Generator draws from it, so do that only once
        check_random_state(value)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """Options of a training run, from the problem to the refined network.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An option is not allowed; the message names it, its value and what is allowed.
    SolverError
        The solver is not installed, or does not support the loss or a device.
    """

    n_neurons: int | None = option(
        250,
        "int or None",
        rf"""
        m, the number of sampled neurons. None: for each output, the smallest power of two from {MIN_NEURONS} to
        {MAX_NEURONS} for which the refined network matches the relaxation: the loss of the difference of their
        outputs is below 4 % of the expected loss (less with many rows). The relaxation does not depend on m, so
        `QSDPResult.resample` can change m later; sampling noise falls as :math:`1/\sqrt m`.
        """,
        _check_neurons,
        "Number of neurons; by default as many as are needed.",
    )
    beta: float | str = option(
        0.1,
        "float or str",
        r"""
        Weight of the regulariser :math:`\beta D \sum_j \|\alpha_j\|_1`, which is added to a loss summed over samples:
        a number > 0; a fraction, such as "5%", of `qsdp.beta_max`, above which the zero network is optimal; or
        "auto", the fraction for which the relaxation should leave a gradient of the loss as large as the best
        quadratic ridge regression leaves.
        """,
        _check_beta,
        "Regularisation: a number > 0, a fraction of the largest useful beta such as 5%, or auto; larger is simpler.",
    )
    loss: str | Loss = option(
        "squared",
        "str or Loss",
        ", ".join(f'"{name}"' for name in LOSSES) + ", or a loss object.",
        _check_loss,
        f"{' | '.join(LOSSES)}.",
    )
    activation: str | Sequence[float] | PolynomialActivation | None = option(
        None,
        "None, str, (a, b, c) or PolynomialActivation",
        r"""
        None or "bilinear": the network :math:`\sum_j \alpha_j (x^T u_j)(x^T v_j)`. A polynomial: a network that
        ``network.to_polynomial()`` converts exactly to a standard one with that activation.
        """,
        _check_activation,
    )
    levels: int = option(
        2,
        "int",
        """Number M + 1 of values -M, -M + 2, ..., M of a first-layer weight, 2 (binary) to 128. Bilinear networks of
        any width gain nothing: M + 1 levels at beta are binary ones at beta / M. Levels are useful for activations
        with a linear or constant part, and for a fixed number of neurons.
        """,
        lambda name, value: check_levels(value, name),
        "Number of values of a first-layer weight, 2 (binary) to 128.",
    )
    solver: str = option(
        "auto",
        "str",
        "See `qsdp.solve_relaxation`.",
        lambda name, value: check_choice(name, value, ["auto", *BACKENDS]),
        f"{' | '.join(['auto', *BACKENDS])}.",
    )
    shaping: str = choice(SHAPINGS[0], SHAPINGS, "See `qsdp.shape_covariance`.")
    refine: str = choice(
        "none",
        REFINEMENTS,
        """
        "refit" optimises the second layer again, which leaves at most n neurons per output (`qsdp.refit`). "polish"
        improves single bits at equal storage (`qsdp.polish`). "exact" continues until a network of any width is proven
        globally optimal, if the time limit allows (`qsdp.column_generation`).
        """,
        "Refinement of the sampled network: ",
    )
    tol: float = option(
        1e-6,
        "float",
        "Relative gap at which the solver of the relaxation stops; see `qsdp.solve_relaxation`.",
        lambda name, value: check_real(name, value, strict=True),
        "Relative gap of the relaxation at which its solver stops.",
    )
    allocation: str = choice(
        "equal",
        ALLOCATIONS,
        """
        How neurons are divided among several outputs; see `qsdp.sample_network`. Equally, as in the paper's algorithm;
        estimators default to "proportional", which samples the outputs of unequal classes with less noise.
        """,
        "How neurons are divided among outputs: ",
    )
    time_limit: float | None = option(
        None,
        "float or None",
        f"""
        Seconds, > 0, for the whole call, at least half of them for a refinement by "polish" or "exact". None: no limit
        for the relaxation, {REFINEMENT_TIME:.0f} seconds for such a refinement. Infinity: no limit at all. The limit is
        checked between iterations; the current step is finished, and its best result so far is used. Then the
        certificate is computed, which is still valid.
        """,
        _check_time_limit,
        f"Time limit of the whole fit; by default {REFINEMENT_TIME:.0f} for --refine polish and exact.",
    )
    n_jobs: int | None = option(
        None,
        "int or None",
        """
        Processes for the relaxations of several outputs, threads for sampling, polish and an estimator's predictions;
        see `qsdp.solve_relaxation`, `qsdp.sample_network` and `qsdp.polish`. The results do not depend on it, unless a
        time limit ends the polish.
        """,
        lambda name, value: check_jobs(value, name),
        "Number of parallel processes for several outputs.",
    )
    device: str | None = option(
        None,
        "str or None",
        """
        Torch device, such as "cuda", for the Gram matrix of the data, if the solver computes one, and for statistics of
        Dask collections. None: NumPy on the CPU.
        """,
        lambda name, value: check_device(value),
        "Torch device (for example cuda) for the Gram matrix of the data; default: the CPU.",
    )
    random_state: RandomState = option(
        0,
        "int, Generator, RandomState or None",
        "Seed of the sampling and the polish; None draws a new one. The rest is deterministic.",
        _check_random_state,
        "Random seed of the train/test split and of the sampling.",
    )
    # Estimators add None, which functions take without saying so.
    verbose: Any = option(
        False,
        "bool or int",
        """
        Show a progress bar for every stage, on standard error or in a notebook. Estimators default to bars in notebooks
        only, for long fits; functions are silent because loops call them.
        """,
        lambda name, value: check_verbose(value),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_solver(self.solver, get_loss(self.loss))

    def limit(self) -> AbstractContextManager[object]:
        """Open the time-limit scope of a call."""
        return deadline.after(None if self.time_limit == np.inf else self.time_limit)

    @contextmanager
    def choosing(self, what: str) -> Iterator[None]:
        """Open the time-limit scope of a choice: a fraction of the time left, or half the time of a refinement."""
        with deadline.within(0.5 * REFINEMENT_TIME) if self.time_limit is None else deadline.fraction(FIRST_TRY):
            yield
            if self.time_limit is not None and deadline.over():
                deadline.note_end(f"the choice of {what}")

    def solving(self) -> AbstractContextManager[object]:
        """Open the time-limit scope of the stages before a refinement; refinements in `LIMITED` reserve half of it."""
        half = 0.5 * deadline.limit()
        if self.refine not in LIMITED or half == np.inf:
            return nullcontext()
        return deadline.within(max(0.0, deadline.left() - half))

    @contextmanager
    def refining(self) -> Iterator[None]:
        """Open the time-limit scope of a refinement: the rest of the call's, or a default without a time limit.

        A refinement among `LIMITED` gets at least half of the limit, even if a long step before it took more than that.
        The limit is that of the innermost scope, which in a cross-validation is a part of the whole call's.
        """
        if self.refine not in LIMITED:
            yield
            return
        left = REFINEMENT_TIME if self.time_limit is None else max(0.5 * deadline.limit(), deadline.left())
        with deadline.unlimited(), deadline.within(left):
            yield

    def problem(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        repetitions: FloatArray | None = None,
        stands_for: float = 1.0,
    ) -> TrainingProblem:
        """Create the training problem of weighted samples; check that it does not have more outputs than neurons.

        Its beta is 1 if it is to be chosen later, see `beta_choice`. `repetitions`, the weights without class weights,
        are the numbers of rows that the samples represent; each of those represents `stands_for` rows of all the data.
        """
        if stands_for != 1.0:
            sample_weight = stands_for * (np.ones(len(y)) if sample_weight is None else sample_weight)
        problem = TrainingProblem(
            X,
            y,
            beta=1.0 if isinstance(self.beta, str) else self.beta,
            loss=self.loss,
            activation=self.activation,
            levels=self.levels,
            sample_weight=sample_weight,
        ).with_repetitions(repetitions)
        if self.neurons(problem.n_outputs) < problem.n_outputs:
            raise InvalidInputError(
                f"n_neurons must be at least {problem.n_outputs}, the number of outputs; got {self.n_neurons}"
            )
        return problem

    def neurons(self, n_outputs: int) -> int:
        """Return the initial number of neurons for this number of outputs."""
        return MIN_NEURONS * n_outputs if self.n_neurons is None else self.n_neurons

    def beta_choice(self, problem: TrainingProblem) -> BetaChoice:
        """Resolve the option `beta` for a problem; a share of `beta_max` and "auto" are computed from the problem."""
        if not isinstance(self.beta, str):
            return BetaChoice(self.beta)
        with self.choosing("beta"):
            if self.beta == AUTO:
                return choose_beta(problem)
            # If zero is optimal for every beta, any value works.
            largest = useful_beta_max(problem) or 1.0
        return BetaChoice(fraction_of_beta_max("beta", self.beta) * largest)
