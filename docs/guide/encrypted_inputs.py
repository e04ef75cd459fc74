"""A client with a secret and a process that evaluates its encrypted inputs."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np

import qsdp
from qsdp.export import EncryptedClient, encrypted


def evaluate(network: qsdp.BilinearNetwork, connection: Connection) -> None:
    """Send parameters to one client, and encrypted outputs for its inputs."""
    evaluated = encrypted(network, bound=3.0)
    connection.send(evaluated.parameters)
    public, rows = connection.recv()
    connection.send(evaluated.evaluate(public, rows))


def main() -> float:
    """Return the largest error of an output, over what was promised."""
    rng = np.random.default_rng(0)
    U, V = (rng.choice([-1, 1], size=(74, 31)) for _ in range(2))
    network, X = (
        qsdp.BilinearNetwork(U, V, np.full(74, 0.1)),
        rng.uniform(-3.0, 3.0, size=(2, 31)),
    )
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=evaluate, args=(network, there)
    )
    process.start()
    # The secret is made here, and stays: `public` does not hold it.
    client = EncryptedClient(here.recv())
    here.send((client.public, client.encrypt(X)))
    outputs = client.decrypt(here.recv())
    process.join()
    return float(
        np.abs(outputs[:, 0] - network.predict(X)).max()
        / client.parameters.error
    )


if __name__ == "__main__":
    print(f"largest error: {main():.2g} of the bound")
