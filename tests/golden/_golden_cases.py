"""Cases of `golden.py`: small problems for all that the package computes, and how far the answers are determined.

A case returns entries by name, each a value with a relative tolerance and the reason for it. Data are rounded to a few
decimals, so that they are the same on every processor, and networks to refine are drawn, not sampled from a solution:
an entry should differ only if what it is named after does.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import qsdp
import qsdp_check

#: Relative gap to which relaxations are solved; own solvers reach it, and rounding allows little less.
TIGHT = 1e-9


class Entry(NamedTuple):
    """A value, by how much of its largest magnitude it may differ, and why."""

    value: object
    tolerance: float = 0.0
    why: str = "a choice: equal or not"


def computed(value):
    """Return the entry of a number that rounding alone can change."""
    return Entry(value, 1e-9, "deterministic")


def to_gap(value, gap):
    """Return the entry of a bound or an objective of a method that stops at a relative gap."""
    return Entry(value, max(gap, 1e-9), f"known to the gap of {gap:.0e} at which the method stops")


def weights(network):
    """Return the entry of first-layer weights: of every neuron u, then v, a digit above the lowest level a weight."""
    both = np.hstack([network.U, network.V]).astype(int) + network.levels - 1
    return Entry(" ".join("".join(np.base_repr(entry, 36) for entry in row) for row in both))


def of_relaxation(relaxation, gap=TIGHT):
    return {
        "lower bound": to_gap(relaxation.lower_bound, gap),
        "objective": to_gap(relaxation.objective, gap),
        "status": Entry(relaxation.status),
    }


def of_network(network, problem):
    """Return the entries of a network whose weights were chosen by a deterministic method."""
    return {"weights": weights(network), "objective": computed(problem.objective(network))}


def of_certificate(certificate, gap=TIGHT):
    """Return the entries of a certificate: its bound is known to a gap, and so is the objective of an optimum."""
    bounds = {"lower bound": to_gap(certificate.lower_bound, gap), "objective": to_gap(certificate.objective, gap)}
    return {**bounds, "bound type": Entry(certificate.bound_type)}


def of_sample(certificate, network):
    """Return the entries of a network that was sampled from a relaxed point."""
    point = {"objective": of_point(certificate.objective), "weights": weights(network)}
    return {**of_certificate(certificate), **point}


def of_point(value):
    """Return the entry of what a relaxed point gives: at gaps up to g, predictions differ by as much as sqrt(g)."""
    return Entry(value, 1e-4, "of a point that is known to a gap of 1e-9 in its objective")


def joined(parts):
    """Return the entries of parts, whose names are before theirs."""
    return {f"{part}, {name}": entry for part, entries in parts.items() for name, entry in entries.items()}


# -- data --------------------------------------------------------------------------------------------------------------

SCALAR_LOSSES = ("squared", "absolute", "huber", "logistic", "hinge", "squared_hinge")
LABELS = ("logistic", "hinge", "squared_hinge")
#: Problems by name: loss and whether there are several outputs.
PROBLEMS = {f"{loss}, {kind}": (loss, kind == "vector") for loss in SCALAR_LOSSES for kind in ("scalar", "vector")}
PROBLEMS["cross_entropy"] = ("cross_entropy", True)


def inputs(n=40, d=6, seed=17):
    """Return standard Gaussian data, the last column ones."""
    X = np.round(np.random.default_rng(seed).standard_normal((n, d)), 2)
    X[:, -1] = 1.0
    return X


def targets(X, seed=18):
    """Return two noisy products of columns, shape (n, 2)."""
    noise = 0.3 * np.random.default_rng(seed).standard_normal((len(X), 2))
    products = np.column_stack([X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3], X[:, 1] * X[:, 3] + X[:, 0]])
    return np.round(products + noise, 3)


def problem_of(loss="squared", vector=False, *, n=40, d=6, beta=4.0, **settings):
    """Return a training problem with the targets that suit the loss."""
    X = inputs(n, d)
    y = targets(X)
    if loss == "cross_entropy":
        y = np.digitize(y[:, 0], [-0.7, 0.7])
    else:
        y = np.where(y >= 0.0, 1.0, -1.0) if loss in LABELS else y
        y = y if vector else y[:, 0]
    # Of the default width few residuals are beyond the kink.
    loss = qsdp.losses.Huber(delta=0.3) if loss == "huber" else loss
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss, **settings)


def drawn(problem, m, seed=19, *, shared=True):
    """Return a network of random neurons, with one magnitude an output or a free second layer."""
    rng = np.random.default_rng(seed)
    M, D, C = problem.levels - 1, problem.size, problem.n_outputs
    U, V = M - 2 * rng.integers(0, M + 1, (2, m, D))
    if problem.lifted:
        U[:, -1], V[:, -1] = 1 - 2 * rng.integers(0, 2, (2, m))
    alpha = np.eye(C)[np.arange(m) % C] / m if shared else np.round(rng.standard_normal((m, C)), 2) / m
    alpha = alpha[:, 0] if problem.scalar else alpha
    return qsdp.BilinearNetwork(U, V, alpha, levels=problem.levels, activation=problem.activation)


def gaussian(N=6, *, weight=2.0, levels=2):
    """Return a covariance of signs that no relaxation has led to, of full rank."""
    Z = np.round(np.random.default_rng(20).uniform(-1.0, 1.0, (N, N)), 2) / (2.0 * N)
    replicas, within = np.full(2 * N, levels - 1), np.full(2 * N, 1.0 if levels == 2 else 0.5)
    Q = np.block([[np.eye(N), Z + Z.T], [Z + Z.T, np.eye(N)]])
    return qsdp.SignCovariance(Q, 1.0, weight, "krivine", 0.0, 0.0, 0.0, replicas, within, levels)


# -- cases -------------------------------------------------------------------------------------------------------------


def relaxed(problem, solver, tol=TIGHT, **settings):
    return of_relaxation(qsdp.solve_relaxation(problem, solver, tol, **settings), tol)


def relaxation(loss, vector, solver):
    """Solve for one loss by one solver of the package."""
    # The low-rank method has fewer digits, of coupled outputs one less again.
    tol = (1e-6 if loss == "cross_entropy" else 1e-7) if solver == "low-rank" else TIGHT
    return relaxed(problem_of(loss, vector), solver, tol)


def relaxation_settings():
    """Solve what losses do not cover: reduced rows, regularisation, betas, starts, other levels."""
    many, problem = problem_of(n=400), problem_of()
    solved = qsdp.solve_relaxation(problem, tol=TIGHT)
    parts = {
        "more samples than weights": relaxed(many, "interior"),
        "more samples than weights, splitting": relaxed(many, "splitting"),
        "beta beyond the largest": relaxed(problem.with_beta(200.0), "auto"),
        "warm start": relaxed(problem.with_beta(3.0), "interior", start=solved),
        "default accuracy": relaxed(problem, "auto", 1e-6),
    }
    return {**joined(parts), "carried to 3 levels, lower bound": of_point(solved.with_levels(3).lower_bound)}


def relaxation_of_activation(activation, levels):
    """Solve and predict for one activation and number of levels."""
    problem = problem_of(activation=activation, levels=levels)
    relaxation = qsdp.solve_relaxation(problem, tol=TIGHT)
    return {**of_relaxation(relaxation), "predictions": of_point(relaxation.predict(inputs(5)))}


def conic_solvers():
    """Solve through CVXPY."""
    problem = problem_of(n=20, d=4)
    return joined(
        {
            solver: of_relaxation(qsdp.solve_relaxation(problem, solver, 1e-8), gap)
            for solver, gap in (("scs", 1e-5), ("clarabel", 1e-6))
        }
    )


def largest_betas():
    """Return for every loss the beta from which on zero is optimal."""
    return {name: computed(qsdp.beta_max(problem_of(*which))) for name, which in PROBLEMS.items()}


def sign_forms():
    """Bound quadratic and bilinear forms over signs."""
    rng = np.random.default_rng(21)
    square, oblong = np.round(rng.standard_normal((12, 12)), 2), np.round(rng.standard_normal((7, 10)), 2)
    forms = {
        "maxcut": partial(qsdp.maxcut_bound, square),
        "grothendieck, symmetric": partial(qsdp.grothendieck_bound, square + square.T),
        "grothendieck, oblong": partial(qsdp.grothendieck_bound, oblong),
    }
    parts = {}
    for name, bound in forms.items():
        found = bound(tol=TIGHT)
        parts[name] = {"upper bound": to_gap(found.upper_bound, TIGHT), "value": to_gap(found.value, TIGHT)}
    return joined(parts)


def shaping(method):
    """Shape covariances of two and three levels."""
    parts = {}
    for levels in (2, 3):
        relaxation = qsdp.solve_relaxation(problem_of(levels=levels, activation="relu_like"), tol=TIGHT)
        covariance = qsdp.shape_covariance(relaxation, method)
        values = {"constant": covariance.constant, "weight": covariance.total_weight, "Q": np.linalg.norm(covariance.Q)}
        parts[f"{levels} levels"] = {name: of_point(value) for name, value in values.items()}
    return joined(parts)


def sampling():
    one, other = gaussian(), gaussian(weight=6.0)
    three = gaussian(levels=3)
    networks = {
        "binary": qsdp.sample_network(one, 30, 0),
        "another seed": qsdp.sample_network(one, 30, 1),
        "two threads": qsdp.sample_network(one, 30, 0, n_jobs=2),
        "3 levels": qsdp.sample_network(three, 30, 0),
        "equal shares": qsdp.sample_network([one, other], 30, 0, allocation="equal"),
        "proportional shares": qsdp.sample_network([one, other], 30, 0, allocation="proportional"),
    }
    return {
        **{f"{name}, weights": weights(network) for name, network in networks.items()},
        **{f"{name}, second layer": computed(network.alpha.sum(axis=0)) for name, network in networks.items()},
    }


def networks():
    problem = problem_of(vector=True, activation="relu_like", levels=3)
    network = drawn(problem, 8, shared=False)
    polynomial, form = network.to_polynomial(), network.to_quadratic_form()
    X = inputs(3, seed=22)
    return {
        "objective": computed(problem.objective(network)),
        "predictions": computed(network.predict(X)),
        "predictions of the polynomial network": computed(polynomial.predict(X)),
        "weights of the polynomial network": Entry(polynomial.Q.ravel().tolist()),
        "predictions of the way back": computed(qsdp.from_polynomial(polynomial).predict(X)),
        "quadratic form": computed(form.S),
        "bits": Entry([network.n_bits, polynomial.n_bits, drawn(problem_of(), 8).n_bits]),
        "planted targets": computed(qsdp.datasets.make_planted(5, 3, 2, random_state=0).y),
    }


def refit(loss, vector):
    """Choose the second layer of drawn neurons anew, free and shared."""
    problem = problem_of(loss, vector)
    network = drawn(problem, 30)
    layers = ("free", "shared")
    found = joined({layer: of_network(qsdp.refit(network, problem, second_layer=layer), problem) for layer in layers})
    if loss == "absolute":
        # Which neurons of no weight stay is rounding's choice.
        del found["free, weights"]
    return found


def polished(problem, m, *, shared=True, **settings):
    network = drawn(problem, m, shared=shared)
    return of_network(qsdp.polish(network, problem, random_state=0, **settings), problem)


def polish(loss, vector):
    """Polish drawn networks, with a shared and a free second layer."""
    problem = problem_of(loss, vector)
    return joined({"shared": polished(problem, 12), "free": polished(problem, 12, shared=False)})


def polish_settings():
    """Polish with restarts, and networks of other activations and levels."""
    other = polished(problem_of(activation="relu_like", levels=3), 12)
    return joined({"restarts": polished(problem_of(), 6, restarts=3), "relu_like, 3 levels": other})


def exact(loss, vector):
    """Prove a global optimum, save its certificate, have it checked."""
    problem = problem_of(loss, vector, beta=6.0)
    result = qsdp.column_generation(problem, tol=1e-8)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "optimum.cert")
        result.certificate.save(file)
        with contextlib.redirect_stdout(io.StringIO()):
            verdict = qsdp_check.main([file])
    return {**of_certificate(result.certificate, 1e-8), "status": Entry(result.status), "verdict": Entry(verdict)}


def exact_settings():
    """Prove optima of lifted neurons, and one beyond enumeration."""
    relu, wide = problem_of(activation="relu_like", levels=3, beta=5.0), problem_of(n=60, d=34, beta=20.0)
    return joined(
        {
            "relu_like, 3 levels": of_certificate(qsdp.column_generation(relu, tol=1e-8).certificate, 1e-8),
            "branch and bound": of_certificate(qsdp.column_generation(wide).certificate, 1e-6),
        }
    )


def certificates(loss, vector):
    """Certify a drawn network by either bound."""
    problem = problem_of(loss, vector)
    network, relaxation = drawn(problem, 12), qsdp.solve_relaxation(problem, tol=TIGHT)
    parts = {}
    for bound in ("sdp", "exact"):
        found = qsdp.certify(network, problem, relaxation, bound_type=bound)
        # The relaxation's own bound is stationary in the dual vector, the one of exact prices is not.
        parts[bound] = of_certificate(found, TIGHT if bound == "sdp" else 1e-6)
    return joined(parts)


def distillation():
    """Match a quadratic form, a layer and a trained classifier."""
    X = inputs()
    S = np.round(np.random.default_rng(23).standard_normal((6, 6)), 2)
    layer = lambda X: np.tanh(X @ S[:2].T + [0.5, -0.5])  # noqa: E731
    match = partial(qsdp.distill, X=X, n_neurons=20, beta=0.5, tol=TIGHT)
    matches = {
        "form": match(qsdp.QuadraticForm(S)),
        "form, default beta": match(qsdp.QuadraticForm(S), beta="0.1%"),
        "layer": match(layer),
        "layer, 3 levels": match(layer, levels=3),
        "model with predictions": match(qsdp.QuadraticForm(S, s0=1.0)),
    }
    return joined({name: of_sample(match.certificate, match.network) for name, match in matches.items()})


def pipeline():
    """Solve, sample, refine and sample again."""
    X = inputs()
    y = targets(X)
    solve = partial(qsdp.solve_and_sample, tol=TIGHT, time_limit=None, random_state=0)
    result = solve(X, y, 24, beta=4.0)
    results = {
        "vector": result,
        "resampled": result.resample(40, random_state=1, allocation="proportional"),
        "resampled, 3 levels": result.resample(24, levels=3, random_state=1),
        "resampled, polished": result.resample(12, random_state=1, refine="polish", time_limit=None),
        "relu_like, 3 levels": solve(X, y[:, 0], 24, beta=4.0, activation="relu_like", levels=3),
        "krivine": solve(X, y[:, 0], 24, beta=4.0, shaping="krivine"),
        "refit": solve(X, y[:, 0], 16, beta=4.0, refine="refit"),
    }
    parts = {name: of_sample(one.certificate, one.network) for name, one in results.items()}
    optimum = solve(X, y[:, 0], 24, beta=6.0, refine="exact")
    return joined({**parts, "exact": of_certificate(optimum.certificate, 1e-6)})


def estimators():
    X, y = inputs(80, 5)[:, :-1], targets(inputs(80, 5))
    three = np.digitize(y[:, 0], [-0.7, 0.7])
    plain = {"activation": None, "encoding": "none", "refine": "none", "allocation": "equal"}
    shared = {"tol": TIGHT, "random_state": 0, "time_limit": None, **plain}
    kinds = (qsdp.QuantizedNetworkRegressor, qsdp.QuantizedNetworkClassifier)
    regressor, classifier = (partial(kind, **shared) for kind in kinds)
    models = {
        "regressor": (regressor(30, beta=4.0), y),
        "regressor, huber, polished": (regressor(12, beta=4.0, loss="huber", refine="polish"), y[:, 0]),
        "classifier, two classes": (classifier(30, beta=4.0, loss="logistic"), three > 0),
        "classifier, three classes": (classifier(30, beta=4.0), three),
        "classifier, cross_entropy": (classifier(30, beta=0.3, loss="cross_entropy", activation="relu_like"), three),
    }
    parts = {}
    for name, (model, target) in models.items():
        model.fit(X, target)
        parts[name] = {**of_sample(model.certificate_, model.network_), "score": of_point(model.score(X, target))}
    return joined(parts)


def named(name, case, losses=PROBLEMS, **settings):
    return {f"{name}, {which}": partial(case, *PROBLEMS[which], **settings) for which in losses}


SMOOTH = [name for name, (loss, _) in PROBLEMS.items() if loss not in {"absolute", "hinge"}]
ACTIVATIONS = {name: name for name in ("quadratic", "relu_like", "linear_quadratic")} | {"own": (0.5, -1.0, 0.3)}
CASES = {
    **named("relaxation, interior", relaxation, solver="interior"),
    **named("relaxation, splitting", relaxation, solver="splitting"),
    **named("relaxation, low-rank", relaxation, SMOOTH, solver="low-rank"),
    **{
        f"relaxation, {name}, {levels} levels": partial(relaxation_of_activation, activation, levels)
        for name, activation in {"bilinear": None, **ACTIVATIONS}.items()
        for levels in (2, 3)
    },
    "relaxation": relaxation_settings,
    "conic solvers": conic_solvers,
    "largest beta": largest_betas,
    "forms over signs": sign_forms,
    **{f"shaping, {method}": partial(shaping, method) for method in ("krivine", "adaptive")},
    "sampling": sampling,
    "networks": networks,
    **named("refit", refit),
    **named("polish", polish),
    "polish": polish_settings,
    **named("exact", exact),
    "exact": exact_settings,
    **named("certificate", certificates),
    "distillation": distillation,
    "pipeline": pipeline,
    "estimators": estimators,
}
