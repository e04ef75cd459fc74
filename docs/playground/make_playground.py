"""Make the networks of the playground: ``python docs/playground/make_playground.py``.

It needs the images of MNIST in the folder named by QSDP_DATA. The results are small files in ``data/``, from which the
documentation is built.

    mnist_*.net, mnist.json     networks of several sizes on MNIST, from one solve, and what is known of them
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from qsdp.encoding import Patches

HERE = Path(__file__).parent / "data"

#: Beta as a fraction of its largest useful value.
FRACTION = 0.0001
#: Maximum numbers of neurons that are kept of the solve on MNIST, and bits of their second layer.
SIZES = ((50, 5), (100, 5), (200, 5), (400, 5), (2000, 5))
#: Shape of an image of MNIST and its encoder, which needs no data.
ENCODER = {"size": 3, "regions": 4, "downsample": 2, "constant": 255, "image_shape": (28, 28)}


def mnist_encoder() -> Patches:
    """Return the encoder of the networks on MNIST."""
    return Patches(**ENCODER).fit(np.full((1, 28, 28), 255, dtype=np.uint8))


def main() -> None:
    """Solve once, keep the largest neurons, and write networks with what they are from the bound of the solve."""
    X, y = qsdp.datasets.load_mnist("train")
    problem = qsdp.TrainingProblem(mnist_encoder().fit_transform(X), y, beta=1.0, loss="cross_entropy")
    problem = problem.with_beta(FRACTION * qsdp.beta_max(problem))
    start = time.process_time()
    result = qsdp.column_generation(problem, tol=2e-3, time_limit=3000)
    print(result.certificate)
    write_networks(problem, result.network, result.certificate.lower_bound, time.process_time() - start)


def write_networks(problem: qsdp.TrainingProblem, solved: qsdp.BilinearNetwork, bound: float, seconds: float) -> None:
    """Write networks of the neurons of a solve, with their objectives beside its bound."""
    encoder, (X_test, y_test), networks = mnist_encoder(), qsdp.datasets.load_mnist("test"), []
    for number, bits in SIZES:
        network = qsdp.refit(largest(solved, number), problem, tol=1e-2, time_limit=60, alpha_bits=bits)
        path = HERE / f"mnist_{number}_{bits}.net"
        network.save(path)
        network = qsdp.load_network(path)
        objective = problem.objective(network)
        entry = {
            "file": path.name,
            "neurons": network.n_neurons,
            "objective": objective,
            "gap": 1.0 - bound / objective,
            "accuracy": float(np.mean(encoder.predict(network, X_test).argmax(axis=1) == y_test)),
        }
        print(path.stat().st_size, "bytes", entry)
        networks.append(entry)
    facts: dict[str, Any] = {
        "encoder": ENCODER,
        "samples": problem.n_samples,
        "bound": bound,
        "beta": problem.beta,
        "gap": 1.0 - bound / problem.objective(solved),
        "seconds": round(seconds),
        "networks": networks,
    }
    (HERE / "mnist.json").write_text(json.dumps(facts, indent=1) + "\n")


def largest(network: qsdp.BilinearNetwork, number: int) -> qsdp.BilinearNetwork:
    """Return the neurons of the largest second-layer weights."""
    sizes = np.abs(network.output_weights).max(axis=1)
    rows = np.sort(np.argsort(-sizes, kind="stable")[:number])
    return network.with_neurons(network.U[rows], network.V[rows], network.alpha[rows], rows)


if __name__ == "__main__":
    main()
