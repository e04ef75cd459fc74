"""Built-in solvers of the relaxation, one subpackage each; all stop at a certified relative gap."""
