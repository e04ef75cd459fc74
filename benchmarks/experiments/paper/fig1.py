"""Figure 1 of the paper: objective against the number of neurons, planted data, the bound beside it.

n = 100 samples of 20 standard Gaussian columns, targets of ten planted neurons with binary weights, beta = 1e-4,
another 100 samples to test on; ten draws of the data. "paper" is the program (25) as printed, one block of twice the
size, solved by SCS, and the covariance (27): one solve, from which every size is sampled. "qsdp" is the tight program
by our own solver, the closed form and the adaptive constant; "polished" and "refitted" start from "qsdp". "exact" is
column generation over all sizes, for at most 20 seconds, with its own bound. "backprop" is stochastic gradient descent
with momentum, second layer fixed at 1/m, then signs with the scale of section 5.1 corrected: the one nearest to the
trained network, <Z_hat, Z> / <Z_hat, Z_hat>. "backprop, printed scale" has the paper's, <Z_hat, Z> / <Z, Z>, which is
not the minimiser that it is said to be. "straight-through" trains the signs themselves; "ReLU" is a real network of
2 m neurons, "ReLU, signs" the same with the first layer rounded, a scale a neuron. Straight-through training begins
with trained real weights. Every network has two learning rates: that of its own least objective, since objectives are
compared, and for the test loss that of its own least squared error on a fourth of the samples held out. Grids begin
with three values and extend themselves until neighbours of the chosen one have been tried (`qsdp.bench._grid`); both
searches are timed. Gradients are 32-bit, 300 epochs, batches of 32. Seconds are those of the processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments import draw
from benchmarks.experiments._common import (
    PAPER,
    Records,
    What,
    approach_claim,
    by,
    decided_inside,
    experiment_in,
    grouped,
    measured,
    per_cent,
    timed,
    unfolded,
    values,
    where,
)
from benchmarks.experiments._data import planted
from benchmarks.experiments._methods import Make, fits, fourth_of, scorers
from qsdp.bench import Claim, Record, paired_claim
from qsdp.bench._grid import BUDGET, chosen_by
from qsdp.model_selection import Choice

KEYS = ("m",)
SIZES = (10, 30, 100, 300, 1000, 3000)
SAMPLED = ("paper", "qsdp", "refitted", "polished")
PRINTED = "backprop, printed scale"
#: Networks of signs by backpropagation, and their scales.
BACKPROP = {"backprop": "shared", PRINTED: "paper"}
TRAINED = ("backprop", "straight-through", "ReLU")
NAMES = (*SAMPLED, "exact", "backprop", "straight-through", "ReLU", "ReLU, signs", PRINTED)
BETA, N, D = 1e-4, 100, 20
RATES, RELU_RATES = [0.1, 0.03, 0.01], [0.5, 0.15, 0.05]
EPOCHS, LIMIT = BUDGET.n_epochs, 20.0

#: Name, number of neurons, network whose objective is told, the one whose test loss is told, figures.
Made = tuple[str, int | None, Any, Any, dict[str, Any]]


def cases(quick: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    sizes = (10, 100) if quick else SIZES
    for seed in range(1 if quick else 10):
        found += [{"method": method, "sizes": list(sizes), "seed": seed} for method in SAMPLED]
        found += [] if quick else [{"method": "exact", "sizes": [], "seed": seed}]
        found += [
            {"method": method, "sizes": [m], "seed": seed, "epochs": 10 if quick else EPOCHS}
            for method in (TRAINED[:1] if quick else TRAINED)
            for m in sizes
        ]
    return found


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = planted(N, D, case["seed"])
    problem = qsdp.TrainingProblem(X, y, beta=BETA)
    measure = trained if case["method"] in TRAINED else exact if case["method"] == "exact" else sampled
    networks = [
        {
            "name": name,
            "m": m,
            # Weights of a ReLU network have another price, of real numbers.
            "objective": None if name.startswith("ReLU") else problem.objective(least),
            "test_loss": float(np.sum((network.predict(X_test) - y_test) ** 2)) / float(y_test @ y_test),
            "bits": getattr(network, "n_bits", None),
            "neurons": network.n_neurons,
            **figures,
        }
        for name, m, least, network, figures in measure(case, problem)
    ]
    return {"networks": networks, "lower_bound": qsdp.solve_relaxation(problem).lower_bound, "zero": float(y @ y)}


def exact(case: dict[str, Any], problem: qsdp.TrainingProblem) -> Iterator[Made]:
    """Yield a network of any size, by column generation."""
    found, seconds = timed(lambda: qsdp.column_generation(problem, time_limit=LIMIT, random_state=case["seed"]))
    figures = {"seconds": seconds, "proven": found.status == "optimal"}
    yield "exact", None, found.network, found.network, {**figures, "proven_bound": found.lower_bound}


def sampled(case: dict[str, Any], problem: qsdp.TrainingProblem) -> Iterator[Made]:
    """Yield networks by way of the relaxation, which is solved once for all numbers of neurons."""
    method, seed = case["method"], case["seed"]
    # CVXPY and its solver are loaded with the first problem.
    relaxed(method, qsdp.TrainingProblem(np.eye(3), [1.0, -1.0, 1.0], beta=0.1))
    (relaxation, covariance), solving = timed(lambda: relaxed(method, problem))

    def network_of(m: int) -> Any:
        network = qsdp.sample_network(covariance, m, random_state=seed)
        if method == "polished":
            return qsdp.polish(network, problem, random_state=seed)
        return qsdp.refit(network, problem) if method == "refitted" else network

    for m in case["sizes"]:
        network, seconds = timed(lambda m=m: network_of(m))
        figures = {"seconds": solving + seconds, "relaxation_gap": relaxation.relative_gap}
        yield method, m, network, network, figures


def relaxed(method: str, problem: qsdp.TrainingProblem) -> tuple[Any, Any]:
    """Return relaxation and covariance."""
    if method == "paper":
        relaxation = qsdp.solve_relaxation(problem, solver="scs", form="full", regularization="paper")
        return relaxation, qsdp.shape_covariance(relaxation, method="sdp")
    relaxation = qsdp.solve_relaxation(problem)
    return relaxation, qsdp.shape_covariance(relaxation, method="adaptive")


def trained(case: dict[str, Any], problem: qsdp.TrainingProblem) -> Iterator[Made]:
    """Yield networks by gradient descent, the learning rates chosen for each."""
    from qsdp.baselines import BackpropRegressor, ReLUNetworkRegressor, StraightThroughRegressor

    X, y, method, (m,) = problem.X, problem.y, case["method"], case["sizes"]
    common = {"beta": BETA, "n_epochs": case["epochs"], "random_state": case["seed"], "dtype": "float32"}
    makes: dict[str, Make]
    if method == "backprop":
        model: Any = BackpropRegressor(m, second_layer="fixed", constant_column=False, **common)
        makes = {name: lambda model, scale=scale: model.quantized(scale=scale) for name, scale in BACKPROP.items()}
    elif method == "ReLU":
        model = ReLUNetworkRegressor(2 * m, **common)
        makes = {"ReLU": lambda model: model.network_, "ReLU, signs": lambda model: model.quantized()}
    else:
        latent = {"start": "float", "start_epochs": min(50, case["epochs"])}
        model = StraightThroughRegressor(m, constant_column=False, **latent, **common)
        makes = {"straight-through": lambda model: model.network_}
    # PyTorch loads parts of itself with the first optimiser.
    type(model)(2, n_epochs=1).fit(X, y)

    grid = {"learning_rate": RELU_RATES if method == "ReLU" else RATES}
    fitted = fits(model, X, y)
    folds = fourth_of(len(y), case["seed"])
    held_out, searching = timed(lambda: chosen_by(scorers(makes, closeness), model, grid, X, y, folds))

    def least_of(make: Make) -> Choice:
        def score(values: dict[str, float]) -> float:
            return -problem.objective(make(fitted(values)[0]))

        return BUDGET.choose(grid, score)

    for name, make in makes.items():
        found = {"test_loss": held_out[name]}
        seconds = searching
        if method != "ReLU":
            found["objective"], more = timed(lambda make=make: least_of(make))
            seconds += more
        source, fitting = fitted(held_out[name].best)
        network, making = timed(lambda make=make, source=source: make(source))
        least = make(fitted(found["objective"].best)[0]) if "objective" in found else network
        figures = {
            "seconds": fitting + making,
            "search_seconds": seconds,
            "learning_rates": {what: choice.best["learning_rate"] for what, choice in found.items()},
            "undecided": {what: choice.undecided for what, choice in found.items()},
            "diverged": source.history_.diverged is not None,
        }
        yield name, m, least, network, figures


def closeness(outputs: np.ndarray, targets: np.ndarray) -> float:
    return -float(np.sum((outputs - targets) ** 2))


# -- report ----------------------------------------------------------------------------------------------


def networks(records: Records) -> list[Record]:
    """Return a record for each network, methods in the order of the legend."""
    found = unfolded(records, "networks", "name", "m", shared=("lower_bound", "zero"))
    return sorted(found, key=lambda record: (NAMES.index(record.case["name"]), record.case["m"] or 0))


def objective(record: Record) -> float | None:
    """Return the objective relative to the zero network's."""
    found = record.measured["objective"]
    return None if found is None else found / record.measured["zero"]


def at_edges(group: Records, what: str) -> list[bool]:
    """Return for each run that chose a learning rate by a measure whether it has a neighbour that was not tried."""
    found = (measured(record, f"undecided/{what}") for record in group)
    return [bool(undecided) for undecided in found if undecided is not None]


def bound(record: Record) -> float:
    """Return the lower bound relative to the zero network's objective."""
    return float(record.measured["lower_bound"] / record.measured["zero"])


def by_seed(records: Records, name: str, m: int | None, what: What) -> dict[int, float]:
    """Return one figure of a network by draw of the data."""
    return by(where(networks(records), name=name, m=m), what, "seed")


def claims(records: Records) -> list[Claim]:
    found = []

    def compared(
        source: str, statement: str, pair: tuple[str, str], m: int, what: str, names: tuple[str, str] | None = None
    ) -> Claim:
        shown = {"objective": objective, "test_loss": "test_loss"}[what]
        numbers = (by_seed(records, name, m, shown) for name in pair)
        claim = paired_claim(source, statement, *numbers, names=names or pair, show=per_cent, less=True, log=True)
        group = where(networks(records), name=pair[1], m=m)
        return decided_inside(claim, (names or pair)[1], at_edges(group, what))

    source, own = f"{PAPER}, Figure 1", ("paper", "backprop")
    for what, words in (("objective", "training objective"), ("test_loss", "test loss")):
        for m in SIZES:
            group, case = f"The {words} of the SDP based network is below that of quantized backpropagation", f"m = {m}"
            claim = compared(source, f"{group}, {case}.", own, m, what, ("SDP", "backpropagation"))
            found.append(replace(claim, group=group, case=case))
    statement = "The cost of the sampled network approaches the lower bound rapidly: a tenth is left of its distance."

    def excess(record: Record) -> float:
        return float((record.measured["objective"] - record.measured["lower_bound"]) / record.measured["zero"])

    few, many = (by_seed(records, "paper", m, excess) for m in (SIZES[0], SIZES[-1]))
    distances = {seed: (few[seed], many[seed]) for seed in few if seed in many}
    names = (f"above the bound at m = {SIZES[0]}:", f"at m = {SIZES[-1]}:")
    found.append(approach_claim(source, statement, distances, names=names))
    m = SIZES[-1]
    for pair in (("polished", "straight-through"), ("polished", "ReLU, signs"), ("polished", "paper")):
        statement = f"'{pair[0]}' has a lower test loss than '{pair[1]}', m = {m}."
        found.append(compared(f"Beyond {source}", statement, pair, m, "test_loss"))
    return found


def plot(records: Records) -> Any:
    """Draw medians over the draws; the printed scale, far above all else, is in the table only."""
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for title, what in (("training objective", objective), ("test loss", "test_loss")):
        lines = panels.setdefault(title, {})
        for (name, m), group in grouped(networks(records), "name", "m").items():
            if name != PRINTED and len(found := values(group, what)):
                # Column generation chooses its own number of neurons.
                sizes = SIZES if m is None else (m,)
                lines.setdefault(name, {}).update(dict.fromkeys(sizes, np.median(found)))
    panels["training objective"]["lower bound"] = dict.fromkeys(SIZES, np.median(values(records, bound)))
    return draw.curves(panels, "neurons m", "relative to the zero network, median", "xy")


EXPERIMENT = experiment_in(
    __name__, "Figure 1: planted data, objective against the number of neurons", f"{PAPER}, Figure 1", version=3
)
