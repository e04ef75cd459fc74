"""No lower bound may exceed the objective of any network: thousands of random small problems.

    python benchmarks/violations.py [--instances 10000] [--jobs 2] [--first 0] [--out benchmarks/results]

All seven losses in turn, beta log-uniform in 1e-4 .. 30, two and three levels, bilinear and lifted, Gaussian and coarse
data (integers: ties, equal rows, zero columns), one output and several. For each instance every bound there is, against
the best network there is. Bounds: column generation's certificate, the same proof with guarded rounding
(`verified_bound`), those of random, perturbed and gradient dual vectors with random weights (`best_dual_bound`), and
for one instance in twenty those of relaxations solved loosely and well, and `certify` exact and guarded. Networks:
column generation's, none at all, random ones (for one in three with the second layer fitted), polished ones, for one in
twenty sampled ones, and for one in four the best polynomial one, whose own bound is tested too. Instance k is
`instance(k)`; it is unproven if column generation leaves a relative gap above 1e-6. Writes violations.json; exits with
1 on a violation.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import joblib
import numpy as np
from _results import add_out, write
from rich.console import Console
from rich.progress import track
from rich.table import Table

import qsdp
from qsdp.losses import Huber
from qsdp.refinement.column_generation import column_generation
from qsdp.refinement.polish import polish
from qsdp.refinement.refit import refit
from qsdp.relaxation.bounds import best_dual_bound
from qsdp.verification import verified_bound

LOSSES = ("squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy")
LABELS = ("logistic", "hinge", "squared_hinge")
ACTIVATIONS = (None, None, "quadratic", "relu", "linear_quadratic", "random")
RELAXED, POLYNOMIAL, REFITTED = 20, 4, 3
TOLERANCE, SECONDS = 1e-6, 20.0


def instance(seed):
    """Return the problem of a seed."""
    rng = np.random.default_rng([seed, 7])
    name = LOSSES[seed % len(LOSSES)]
    levels = int(rng.integers(2, 4))
    d, n = int(rng.integers(1, 8 - levels)), int(rng.integers(3, 13))
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if rng.random() < 0.4 else rng.standard_normal((n, d))
    X *= 10.0 ** rng.integers(-1, 2)
    several = int(rng.integers(2, 4)) if name == "cross_entropy" or rng.random() < 0.25 else 0
    shape = (n, several) if several else (n,)
    if name == "cross_entropy":
        y = rng.permutation(np.arange(n) % several).astype(float)
    elif name in LABELS:
        y = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
        y[0], y[1] = -1.0, 1.0
    else:
        y = rng.integers(-2, 3, size=shape).astype(float) if rng.random() < 0.3 else rng.standard_normal(shape)
        y *= 10.0 ** rng.integers(-1, 2)
    activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    if activation == "random":
        activation = tuple(np.round(rng.standard_normal(3), 2))
    loss = Huber(delta=10.0 ** rng.uniform(-1, 1)) if name == "huber" else name
    beta = float(np.exp(rng.uniform(np.log(1e-4), np.log(30.0))))
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss, activation=activation, levels=levels)


def random_network(problem, m, rng):
    """Return m neurons of any levels, with small weights for one output each."""
    U, V = rng.integers(0, problem.levels, size=(2, m, problem.size)) * 2 - (problem.levels - 1)
    for W in (U, V):
        W[:, problem.n_features :] = rng.choice([-1, 1], size=(m, problem.size - problem.n_features))
    alpha = np.full(m, 0.01)
    if problem.vector:
        alpha = np.zeros((m, problem.n_outputs))
        alpha[np.arange(m), np.arange(m) % problem.n_outputs] = 0.01
    return qsdp.BilinearNetwork(U, V, alpha, problem.levels, problem.activation)


def tested(seed):
    """Return the best objective, every bound, and what column generation left open, for one instance."""
    warnings.simplefilter("ignore", qsdp.QSDPWarning)
    start = time.perf_counter()
    problem, rng = instance(seed), np.random.default_rng([seed, 8])
    bounds, objectives = {}, {}

    result = column_generation(problem, random_state=seed, time_limit=SECONDS)
    proof = result.certificate.proof
    objectives["column generation"] = problem.objective(result.network)
    bounds["column generation"] = result.lower_bound
    bounds["its proof, guarded"] = verified_bound(problem, proof.nu, proof.trees)

    objectives["none"] = problem.loss.value(np.zeros_like(problem.y), problem.y)
    random = random_network(problem, 30, rng)
    if seed // len(LOSSES) % REFITTED == 0:
        random = refit(random, problem)
    objectives["random"] = problem.objective(random)
    few = random_network(problem, 4, rng)
    polished = polish(few, problem, random_state=rng, max_sweeps=5)
    objectives["polished"] = problem.objective(polished)

    noise = rng.standard_normal(problem.y.shape)
    duals = [
        noise * 10.0 ** rng.uniform(-3, 3),
        proof.nu,
        proof.nu * (1.0 + 10.0 ** rng.uniform(-9, 0) * noise),
        -problem.loss.gradient(random.predict(problem.X), problem.y),
        -problem.loss.gradient(polished.predict(problem.X), problem.y) * rng.uniform(0.5, 2.0),
    ]
    shape = (problem.n_outputs, problem.size) if problem.vector else (problem.size,)
    weights = [rng.standard_normal(shape), np.exp(3.0 * rng.standard_normal(shape))]
    bounds["dual vectors at random"] = best_dual_bound(problem, duals, weights).value

    if seed % RELAXED == 0:
        loose = qsdp.solve_relaxation(problem, tol=10.0 ** rng.uniform(-3, -1), max_iter=int(rng.integers(5, 200)))
        relaxation = qsdp.solve_relaxation(problem)
        bounds["relaxation, loose"], bounds["relaxation"] = loose.lower_bound, relaxation.lower_bound
        for label, one in (("krivine", loose), ("adaptive", relaxation)):
            if one.status != "failed":
                sampled = qsdp.sample_network(qsdp.shape_covariance(one, method=label), 100, rng)
                objectives[f"sampled, {label}"] = problem.objective(sampled)
        for kind in ("sdp", "exact"):
            for arithmetic in ("float", "verified"):
                certificate = qsdp.certify(polished, problem, loose, kind=kind, arithmetic=arithmetic)
                bounds[f"certify, {kind}, {arithmetic}"] = certificate.lower_bound
        bounds["certify, own network"] = qsdp.certify(result.network, problem, relaxation, kind="exact").lower_bound

    gaps = {"bilinear": result.relative_gap}
    statuses = {"bilinear": result.status}
    pairs = [(label, value, min(objectives.values())) for label, value in bounds.items()]
    if not problem.vector and seed // len(LOSSES) % POLYNOMIAL == 0:
        other = column_generation(problem, neurons="polynomial", random_state=seed, time_limit=SECONDS)
        value = other.network.objective(problem)
        gaps["polynomial"], statuses["polynomial"] = 1.0 - other.lower_bound / value, other.status
        # A polynomial network is a bilinear one; the lift's last entry makes its neurons dearer.
        same = problem.objective(qsdp.from_polynomial(other.network))
        pairs = [(label, bound, min(best, same)) for label, bound, best in pairs]
        some = random_network(problem, 5, rng)
        some = qsdp.PolynomialNetwork(
            some.U[:, : problem.n_features],
            some.alpha,
            problem.activation or qsdp.PolynomialActivation(1.0, 0.0, 0.0),
        )
        pairs.append(("polynomial", other.lower_bound, min(value, some.objective(problem))))
    return {
        "seed": seed,
        "loss": problem.loss.name,
        "bounds": [{"bound": label, "value": bound, "best": best} for label, bound, best in pairs],
        "gaps": gaps,
        "statuses": statuses,
        "kind": result.certificate.kind,
        "seconds": time.perf_counter() - start,
    }


def excess(pair):
    """Return by what share of the best objective a bound exceeds it; negative where it holds."""
    return (pair["value"] - pair["best"]) / pair["best"] if pair["best"] else pair["value"]


def summary(rows):
    """Return counts, extremes, and every violation and unproven instance."""
    kinds = {}
    for row in rows:
        for pair in row["bounds"]:
            one = kinds.setdefault(pair["bound"], {"tested": 0, "violations": 0, "excess": -np.inf, "closest": None})
            one["tested"] += 1
            one["violations"] += pair["value"] > pair["best"]
            if excess(pair) > one["excess"]:
                one["excess"], one["closest"] = excess(pair), row["seed"]
    losses = {}
    for row in rows:
        one = losses.setdefault(row["loss"], {"instances": 0, "largest_gap": 0.0, "unproven": 0, "seconds": 0.0})
        one["instances"] += 1
        one["largest_gap"] = max(one["largest_gap"], *row["gaps"].values())
        one["unproven"] += max(row["gaps"].values()) > TOLERANCE
        one["seconds"] = max(one["seconds"], row["seconds"])
    return {
        "instances": len(rows),
        "violations": [
            {"seed": row["seed"], "loss": row["loss"], **pair, "excess": excess(pair)}
            for row in rows
            for pair in row["bounds"]
            if pair["value"] > pair["best"]
        ],
        "unproven": [
            {key: row[key] for key in ("seed", "loss", "gaps", "statuses", "kind")}
            for row in rows
            if max(row["gaps"].values()) > TOLERANCE
        ],
        "not_exact": [row["seed"] for row in rows if row["kind"] != "exact"],
        "bounds": kinds,
        "losses": losses,
    }


def report(console, found):
    """Print the tables, and what went wrong."""
    table = Table(title=f"{found['instances']} instances: bounds against the best network known")
    for heading in ("bound", "tested", "violations", "largest relative excess", "seed"):
        table.add_column(heading, justify="left" if heading == "bound" else "right")
    for label, one in found["bounds"].items():
        table.add_row(label, str(one["tested"]), str(one["violations"]), f"{one['excess']:.2e}", str(one["closest"]))
    console.print(table)
    table = Table(title=f"Column generation, relative gap {TOLERANCE:g}")
    for heading in ("loss", "instances", "unproven", "largest gap", "longest, s"):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for label, one in found["losses"].items():
        numbers = (str(one["instances"]), str(one["unproven"]), f"{one['largest_gap']:.1e}", f"{one['seconds']:.2f}")
        table.add_row(label, *numbers)
    console.print(table)
    for what in ("violations", "unproven"):
        console.print(f"{what}: {len(found[what])}", *map(str, found[what][:20]), sep="\n  ", highlight=False)
    console.print(f"certificates of column generation that are not exact: {len(found['not_exact'])}")


def main():
    """Test, print, save; return whether a bound was violated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first instance")
    parser.add_argument("--jobs", type=int, default=2)
    add_out(parser)
    options = parser.parse_args()
    console = Console(width=120)
    start = time.perf_counter()
    seeds = range(options.first, options.first + options.instances)
    work = joblib.Parallel(n_jobs=options.jobs, return_as="generator")(joblib.delayed(tested)(seed) for seed in seeds)
    shown = track(
        work, description="instances", total=len(seeds), console=Console(stderr=True), disable=not sys.stderr.isatty()
    )
    found = summary(list(shown))
    found["first"] = options.first
    found["seconds"] = time.perf_counter() - start
    write(options.out, "violations", found)
    report(console, found)
    console.print(f"{found['seconds']:.0f} s with {options.jobs} processes")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
