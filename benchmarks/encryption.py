"""Processor seconds and bytes of one encrypted input, and the error seen beside its bound.

    python benchmarks/encryption.py [--rows N] [--json FILE]

Random binary networks; medians over rows. Needs TenSEAL.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from _results import save
from threadpoolctl import threadpool_limits

import qsdp
from qsdp.export import EncryptedClient, encrypted

#: Inputs, neurons and outputs.
SIZES = ((31, 74, 1), (31, 74, 3), (31, 1000, 1), (64, 320, 10), (100, 20, 1))
BOUND = 3.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for size in SIZES:
        rows.append(measured(*size, options.rows))
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        if options.json:
            save({"rows": rows}, options.json)


def measured(d, m, n_outputs, n):
    rng = np.random.default_rng(0)
    U, V = (rng.choice([-1, 1], size=(m, d)) for _ in range(2))
    alpha = np.full(m, 0.1) if n_outputs == 1 else np.eye(n_outputs)[np.arange(m) % n_outputs] * 0.1
    network = qsdp.BilinearNetwork(U, V, alpha)
    X = rng.uniform(-BOUND, BOUND, size=(n, d))
    evaluated = encrypted(network, bound=BOUND)
    start = time.process_time()
    client = EncryptedClient(evaluated.parameters)
    figures = {"inputs": d, "neurons": m, "outputs": n_outputs, "keys_seconds": round(time.process_time() - start, 3)}
    seconds, errors, sent, received = [], [], 0, 0
    for row in X:
        times = [time.process_time()]
        cipher = client.encrypt(row[None])
        times.append(time.process_time())
        answer = evaluated.evaluate(client.public, cipher)
        times.append(time.process_time())
        outputs = client.decrypt(answer)
        times.append(time.process_time())
        seconds.append(np.diff(times))
        errors.append(np.abs(outputs - network.predict(row[None]).reshape(1, -1)).max())
        sent, received = (sum(map(len, parts)) for parts in (cipher[0], answer[0]))
    if max(errors) > evaluated.parameters.error:
        raise SystemExit("an output is beyond its bound")
    for name, median in zip(("encrypt", "evaluate", "decrypt"), np.median(seconds, axis=0), strict=True):
        figures[f"{name}_seconds"] = round(float(median), 4)
    return figures | {
        "public_bytes": len(client.public),
        "sent_bytes": sent,
        "received_bytes": received,
        "degree": evaluated.parameters.degree,
        "bound": float(f"{evaluated.parameters.error:.3g}"),
        "error": float(f"{max(errors):.3g}"),
    }


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
