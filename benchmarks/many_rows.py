"""More rows than memory: a squared loss of 5e7 rows from statistics, other losses fitted on 1e5 and certified on 1e7.

    python benchmarks/many_rows.py [--part 100] [--only statistics logistic hinge] [--json FILE]

Rows are generated as they are read, of a planted quadratic function with noise, and never kept; generating them is
timed apart and left out. Seconds are the processor's, on one thread: other work on the machine lengthens only what
the clock shows. The peak of matrix products is that of two square matrices, measured right before. A row of a
statistics pass counts as q^2 operations, q being the side of the triangle: the products that are computed, no more.

Losses: the network and the relaxation of the first rows, certified on all rows by one and by three passes; `gap` is
that of the network on all rows, `relaxed gap` what is left without its distance from the relaxation of the first rows.
Exit status 1: a bound is above its objective, or the resident memory of the statistics exceeds 2 GiB.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _memory import peak_mib
from _results import FOLDER, save
from threadpoolctl import threadpool_limits

import qsdp

STATISTICS_ROWS, STATISTICS_COLUMNS = 5 * 10**7, 30
ROWS, FEW, COLUMNS, NEURONS = 10**7, 10**5, 20, 300
#: The part of the few rows on which the second layer is chosen: with kinks that takes minutes on all.
REFITTED = 10
BATCH = 10**5
#: Share of beta_max; of regularisation by which networks of both losses have some neurons' worth of structure left.
SHARE = 0.1


def main():
    """Run the parts, save and print them."""
    options = parse()
    parts = {"statistics": statistics, "logistic": certificates, "hinge": certificates}
    report, failed = {}, False
    with threadpool_limits(1):
        for name in options.only or parts:
            report[name] = found = parts[name](name, options.part)
            save(report, options.json)
            failed |= found.pop("failed")
    sys.exit("a bound is above its objective, or memory was exceeded" if failed else 0)


def parse():
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, default=1, metavar="K", help="the K-th part of the rows")
    parser.add_argument("--only", nargs="+", metavar="PART")
    parser.add_argument("--json", type=Path, default=FOLDER / "many_rows.json")
    return parser.parse_args()


class Planted:
    """Batches of a planted quadratic function; the same ones whenever they are read."""

    def __init__(self, n_rows, d, loss):
        rng = np.random.default_rng(0)
        U, V = rng.choice([-1.0, 1.0], (2, 6, d))
        S = (U.T * rng.standard_normal(6)) @ V
        self.S, self.n_rows, self.loss, self.seconds = 0.5 * (S + S.T) / np.linalg.norm(S), n_rows, loss, 0.0

    def batch(self, number, n):
        """Return n rows that the number determines."""
        start = time.process_time()
        rng = np.random.Generator(np.random.SFC64([1, number]))
        X = rng.standard_normal((n, len(self.S)), dtype=np.float32).astype(np.float64)
        f = np.einsum("ij,ij->i", X @ self.S, X)
        noise = rng.standard_normal(n)
        y = f + noise if self.loss == "squared" else np.where(f + 0.5 * noise > 0.0, 1.0, -1.0)
        self.seconds += time.process_time() - start
        return X, y

    def __iter__(self):
        """Yield all rows."""
        for number in range(self.n_rows // BATCH):
            yield self.batch(number, BATCH)


def timed(function, *planted):
    """Return a result and its processor seconds, less those of generating rows."""
    before, start = sum(one.seconds for one in planted), time.process_time()
    result = function()
    return result, time.process_time() - start - sum(one.seconds for one in planted) + before


def product_peak():
    """Return the operations a second of products of matrices of side 2000, the best of three."""
    A = np.random.default_rng(0).standard_normal((2000, 2000))
    return max(2 * 2000.0**3 / timed(lambda: A @ A)[1] for _ in range(3))


def statistics(name, part):
    """Return what statistics of many rows take, and the network that is solved and certified from them."""
    planted = Planted(STATISTICS_ROWS // part, STATISTICS_COLUMNS, "squared")
    peak = product_peak()
    began = time.monotonic()
    found, seconds = timed(lambda: qsdp.SufficientStatistics.from_batches(planted, keep=2000), planted)
    clock, resident = time.monotonic() - began, peak_mib()
    q = (STATISTICS_COLUMNS + 1) * (STATISTICS_COLUMNS + 2) // 2 + 1
    problem = qsdp.TrainingProblem.from_statistics(found, beta=1.0)
    problem = problem.with_beta(SHARE * qsdp.beta_max(problem))
    relaxation, solve = timed(lambda: qsdp.solve_relaxation(problem))
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 500, random_state=0)
    network, refit = timed(lambda: qsdp.refit(network, problem))
    small = qsdp.sample_network(qsdp.shape_covariance(relaxation), 50, random_state=0)
    polished, polish = timed(lambda: qsdp.polish(small, found.kept_problem(beta=problem.beta), random_state=0))
    certificate = qsdp.certify(network, problem, relaxation)
    row = {
        "rows": planted.n_rows,
        "columns": STATISTICS_COLUMNS,
        "seconds": seconds,
        "clock_seconds_with_generation": clock,
        "rows_a_second": planted.n_rows / seconds,
        "share_of_peak": planted.n_rows * float(q) ** 2 / seconds / peak,
        "peak_gigaflops": peak / 1e9,
        "resident_mib": resident,
        "solve_seconds": solve,
        "refit_seconds": refit,
        "polish_seconds": polish,
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "relative_gap": certificate.relative_gap,
        "objective_of_50_sampled": problem.objective(small),
        "objective_of_50_polished_on_rows_kept": problem.objective(polished),
    }
    for key, value in row.items():
        print(f"{name:12} {key:40} {value:.6g}", flush=True)
    return {**row, "failed": resident > 2048 or certificate.lower_bound > certificate.objective}


def certificates(loss, part):
    """Return the bounds on all rows that a fit of the first ones has after each number of passes."""
    planted = Planted(ROWS // part, COLUMNS, loss)
    few = qsdp.TrainingProblem(*planted.batch(10**9, FEW // part), beta=1.0, loss=loss)
    few = few.with_beta(SHARE * qsdp.beta_max(few))
    relaxation, solve = timed(lambda: qsdp.solve_relaxation(few, tol=1e-3), planted)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), NEURONS, random_state=0)
    least = few.take(np.arange(few.n_samples // REFITTED)).with_beta(few.beta / REFITTED)
    network, refit = timed(lambda: qsdp.refit(network, least))
    fitted = few.objective(network)
    report = {"rows": planted.n_rows, "fitted_rows": few.n_samples, "columns": COLUMNS, "beta_share": SHARE}
    report |= {"solve_seconds": solve, "refit_seconds": refit, "solved_gap": relaxation.relative_gap}
    solved = f"solved to {relaxation.relative_gap:.1e} in {solve:.0f} s, refitted in {refit:.0f} s"
    print(f"{loss:9} {few.n_samples} rows: {solved}", flush=True)
    report |= {"gap_on_fitted_rows": 1.0 - relaxation.lower_bound / fitted, "certificates": []}
    excess = fitted / relaxation.objective
    failed = False
    for passes, arithmetic in ((1, "float"), (3, "float"), (1, "verified")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", qsdp.QSDPWarning)
            certificate, seconds = timed(
                lambda: qsdp.certify(network, planted, relaxation, passes=passes, arithmetic=arithmetic),  # noqa: B023
                planted,
            )
        row = {
            "passes": passes,
            "arithmetic": arithmetic,
            "seconds": seconds,
            "rows_a_second": passes * planted.n_rows / seconds,
            "objective": certificate.objective,
            "lower_bound": certificate.lower_bound,
            "relative_gap": certificate.relative_gap,
            "relaxed_gap": 1.0 - certificate.lower_bound * excess / certificate.objective,
        }
        failed |= certificate.lower_bound > certificate.objective
        report["certificates"].append(row)
        print(
            f"{loss:9} {passes} passes, {arithmetic:8}: gap {row['relative_gap']:.4f}, "
            f"relaxed {row['relaxed_gap']:.4f}, {row['rows_a_second']:.3g} rows/s",
            flush=True,
        )
    return {**report, "resident_mib": peak_mib(), "failed": failed}


if __name__ == "__main__":
    main()
