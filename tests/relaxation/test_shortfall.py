"""Warnings of relaxations: the true cause and the next step, and silence where nothing needs doing."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from brute_force import random_problem

import qsdp
from qsdp.exceptions import QSDPWarning
from qsdp.relaxation.shortfall import ratio_of_scales, warn_of_shortfall

PROBLEM = random_problem(1, 4, 20, beta=0.1)


def relaxation(gap, status="stalled", problem=PROBLEM, solver="interior"):
    """Return a relaxation whose certified gap is as wide as stated."""
    solved = qsdp.solve_relaxation(PROBLEM)
    return replace(
        solved,
        problem=problem,
        lower_bound=solved.objective * (1.0 - gap),
        status="inaccurate",
        solver=solver,
        solver_status=status,
    )


@pytest.mark.parametrize("gap", [1.3e-6, 9e-6])
def test_a_gap_of_a_few_tolerances_is_no_reason_to_warn(gap):
    one = relaxation(gap)
    assert one.relative_gap == pytest.approx(gap, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_shortfall(one, 1e-6, "auto")


def test_who_stopped_the_solve_needs_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_shortfall(relaxation(0.5, "stopped by the callback"), 1e-6, "auto")
        qsdp.solve_relaxation(PROBLEM, callback=lambda progress: True)


WILD = qsdp.TrainingProblem(PROBLEM.X * [1e-3, 1.0, 1.0, 1e3], PROBLEM.y, beta=0.1)
CAUSES = [
    ("time limit", {}, "the time limit ended the solve; allow more time with time_limit$"),
    (
        "iteration limit",
        {},
        "'interior' reached its iteration limit; allow more with max_iter .* or try solver='splitting'$",
    ),
    ("stalled", {}, "'interior' cannot improve it in floating point; try solver='splitting'$"),
    ("stalled", {"solver": "splitting"}, "'splitting' cannot improve it in floating point; try solver='scs'$"),
    ("optimal_inaccurate", {}, "'interior' ended with status 'optimal_inaccurate'; try solver='splitting'$"),
    ("stalled", {"problem": WILD}, r"the columns of X differ in scale by a factor of \d{6}; standardise them$"),
    ("interrupted", {}, "the solve was interrupted$"),
]


@pytest.mark.parametrize(("status", "options", "cause"), CAUSES)
def test_warnings_name_gap_tolerance_cause_and_next_step(status, options, cause):
    one = relaxation(0.25, status, **options)
    with pytest.warns(QSDPWarning, match=rf"relative gap of the relaxation is 0\.25, above tol=1e-06, .*{cause}"):
        warn_of_shortfall(one, 1e-6, "auto")


def test_a_named_solver_may_be_replaced_by_the_choice_of_the_package():
    with pytest.warns(QSDPWarning, match="try solver='auto'$"):
        warn_of_shortfall(relaxation(0.25), 1e-6, "interior")


def test_statistics_have_no_columns_to_blame():
    statistics = qsdp.SufficientStatistics().partial_fit(PROBLEM.X, PROBLEM.y)
    problem = qsdp.TrainingProblem.from_statistics(statistics, beta=0.1)
    with pytest.warns(QSDPWarning, match="cannot improve it in floating point"):
        warn_of_shortfall(relaxation(0.25, problem=problem), 1e-6, "auto")


def test_scales_are_those_of_columns_that_vary():
    X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 20.0, 0.0] + [0.0, 0.0, 7.0]
    assert ratio_of_scales(X) == pytest.approx(X[:, 1].std() / X[:, 0].std())
    assert ratio_of_scales(np.ones((4, 2))) == 1.0
