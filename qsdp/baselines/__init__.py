"""Training systems of the literature, to compare with: each a scikit-learn estimator with a history of its training.

They hang off the networks: nothing of the core imports them. Systems that need automatic gradients need PyTorch,
``pip install 'qsdp[baselines]'``; importing this package does not.
"""

from __future__ import annotations

from qsdp.baselines._history import History
from qsdp.baselines._layers import AffineForm, QuantizedChain, TrainedLayer, quantize_layers

__all__ = ["AffineForm", "History", "QuantizedChain", "TrainedLayer", "quantize_layers"]
