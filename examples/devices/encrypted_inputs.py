"""
Predictions for encrypted inputs
================================

A quadratic network is linear in the products of its inputs. A client can
encrypt the products, and a server that has the network, but no key, computes
an encryption of the output: a weighted sum of encrypted integers. Any scheme in
which encrypted numbers can be added does this, for any number of neurons.

The scheme here is Paillier's (1999), in which the product of two encryptions is
an encryption of the sum. It needs only Python's integers, and it is exact.
"""

import secrets

import numpy as np

import qsdp

# %%
# Encryption
# ----------
# The public key is a product of two primes, which are the secret. Messages are
# integers modulo the key, encryptions integers modulo its square. The same
# message never looks the same again, because each encryption draws noise. This
# shows what happens; for secrets that matter, use an audited library and a key
# of at least 3072 bits.


def prime(bits: int = 512) -> int:
    """Draw a number that passes forty of Fermat's tests."""
    while True:
        n = secrets.randbits(bits) | (3 << bits - 2) | 1
        tests = (2 + secrets.randbelow(n - 3) for _ in range(40))
        if all(pow(base, n - 1, n) == 1 for base in tests):
            return n


p, q = prime(), prime()
secret, key = (p - 1) * (q - 1), p * q


def encrypt(message: int) -> int:
    noise = 1 + secrets.randbelow(key - 1)
    return (1 + message * key) * pow(noise, key, key**2) % key**2


def decrypt(cipher: int) -> int:
    lifted = (pow(cipher, secret, key**2) - 1) // key
    message = lifted * pow(secret, -1, key) % key
    return message if message <= key // 2 else message - key


# %%
# The server's network
# --------------------
# Inputs are integers: tenths of centimetres from the middle of each column, and
# a constant. All neurons have the same second-layer weight, so coefficients of
# the quadratic form are integers times this weight.

X, y = qsdp.datasets.load_bundled("iris")
X, y = np.rint(10 * (X[y > 0] - X[y > 0].mean(axis=0))), y[y > 0]
X = np.column_stack([X, np.full(len(X), 10)]).astype(int)
trained = qsdp.solve_and_sample(
    X, 2.0 * y - 3.0, n_neurons=60, beta=50.0
)
(S,) = trained.network.to_quadratic_form().parts[0]
unit, (i, j) = abs(trained.network.alpha[0]), np.triu_indices(len(S))
weights = (
    np.rint(np.where(i < j, 2, 1) * S[i, j] / unit).astype(int).tolist()
)

# %%
# Five flowers
# ------------
# The client sends 15 encryptions for each flower. The server multiplies powers
# of them, which adds up the products times their weights, and returns one.

for row, label in zip(X[::20], y[::20], strict=True):
    sent = [encrypt(product) for product in (row[i] * row[j]).tolist()]
    received = 1
    for cipher, weight in zip(sent, weights, strict=True):
        received = received * pow(cipher, weight, key**2) % key**2
    score = unit * decrypt(received)
    assert np.isclose(score, trained.network.predict(row[None])[0])
    print(
        f"score {score:5.2f}: class {1 + (score > 0)}, in truth {label}"
    )

# %%
# The scores are those of the network: nothing is rounded. All that the server
# sees of a flower are numbers such as

print(f"{sent[0]:x}"[:70])
