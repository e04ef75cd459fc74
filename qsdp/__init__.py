"""Provably near-optimal quantized neural networks by semidefinite programming."""
from qsdp.networks import BilinearNetwork, load_network
from qsdp.problem import TrainingProblem
from qsdp.relaxation import *
