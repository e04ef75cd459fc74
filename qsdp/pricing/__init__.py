r"""Oracles for the pricing problem of column generation.

The neuron that lowers the training objective fastest maximises the pricing value :math:`|u^T M v|` over sign vectors,
for the matrix of a dual vector. `search` finds good neurons in milliseconds; `prove` finds the best one, with an upper
bound that anyone can check.
"""

from qsdp.pricing.bound_trees import BoundTree, Leaf, LeafCuts, OracleResult
from qsdp.pricing.oracle import BilinearOracle, price_stack

__all__ = ["BilinearOracle", "BoundTree", "Leaf", "LeafCuts", "OracleResult", "price_stack"]
