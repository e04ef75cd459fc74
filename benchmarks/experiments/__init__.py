"""The experiments, one file each, by topic."""

#: The topics in the order of the results page, with their headings.
TOPICS = {
    "paper": "Quantized networks by semidefinite programming (Bartan, Pilanci)",
    "comparisons": "Beside networks trained by gradients",
    "quadratic": "Quadratic neurons (Noel et al.) and ReLinear (Fan et al.)",
    "least_squares": "Training by least squares (Tomic et al.; Zhang et al.)",
    "accuracy": "Accuracy against bits",
    "product": "Speed, size and proof",
    "solvers": "Solvers beside others",
}
