"""Processor seconds and bytes of one encrypted input, and the error seen beside its bound.

Random binary networks; medians over inputs, one at a time and on one thread; bounds are of the worst case. Needs
TenSEAL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import TARGET, Records, experiment_in, timed
from qsdp.bench import Claim, exact
from qsdp.export import EncryptedClient, encrypted

#: Inputs, neurons and outputs.
SIZES = ((31, 74, 1), (31, 74, 3), (31, 1000, 1), (64, 320, 10), (100, 20, 1))
BOUND, ROWS = 3.0, 20


def cases(quick: bool) -> list[dict[str, Any]]:
    sizes, rows = (SIZES[:1], 2) if quick else (SIZES, ROWS)
    return [{"inputs": d, "neurons": m, "outputs": outputs, "rows": rows} for d, m, outputs in sizes]


def run(case: dict[str, Any]) -> dict[str, Any]:
    with threadpool_limits(limits=1):
        return measured(case["inputs"], case["neurons"], case["outputs"], case["rows"])


def measured(d: int, m: int, n_outputs: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    U, V = (rng.choice([-1, 1], size=(m, d)) for _ in range(2))
    alpha = np.full(m, 0.1) if n_outputs == 1 else np.eye(n_outputs)[np.arange(m) % n_outputs] * 0.1
    network = qsdp.BilinearNetwork(U, V, alpha)
    X = rng.uniform(-BOUND, BOUND, size=(n, d))
    evaluated = encrypted(network, bound=BOUND)
    client, keys_seconds = timed(lambda: EncryptedClient(evaluated.parameters))
    seconds, errors = [], []
    for row in X:
        cipher, encrypting = timed(lambda: client.encrypt(row[None]))  # noqa: B023
        answer, evaluating = timed(lambda: evaluated.evaluate(client.public, cipher))  # noqa: B023
        outputs, decrypting = timed(lambda: client.decrypt(answer))  # noqa: B023
        seconds.append((encrypting, evaluating, decrypting))
        errors.append(np.abs(outputs - network.predict(row[None]).reshape(1, -1)).max())
    steps = ("encrypt_seconds", "evaluate_seconds", "decrypt_seconds")
    return {
        "keys_seconds": keys_seconds,
        **dict(zip(steps, np.median(seconds, axis=0).tolist(), strict=True)),
        "public_bytes": len(client.public),
        "sent_bytes": sum(map(len, cipher[0])),
        "received_bytes": sum(map(len, answer[0])),
        "degree": evaluated.parameters.degree,
        "bound": evaluated.parameters.error,
        "error": max(errors),
    }


def claims(records: Records) -> list[Claim]:
    holds = [record.measured["error"] <= record.measured["bound"] for record in records]
    return [exact(TARGET, "No output of an encrypted input is further off than its bound.", holds)]


EXPERIMENT = experiment_in(__name__, "Encrypted inputs", "Targets of the package: exported models")
