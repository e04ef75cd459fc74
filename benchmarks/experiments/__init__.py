"""Experiments, one file each, by topic; those of a paper are in its folder of `benchmarks/papers/`."""

#: The topics in the order of the results page, with their headings.
TOPICS = {
    "bartan_pilanci": "Quantized networks by semidefinite programming (Bartan, Pilanci)",
    "comparisons": "Beside networks trained by gradients",
    "noel": "Quadratic neurons (Noel et al.)",
    "fan": "ReLinear (Fan et al.)",
    "tomic": "Back-propagating least squares (Tomic et al.)",
    "zhang": "Recursive least squares (Zhang et al.)",
    "accuracy": "Accuracy against bits",
    "product": "Speed, size and proof",
    "solvers": "Solvers beside others",
}
