"""Tables and figures of the papers on networks of quadratic neurons."""
