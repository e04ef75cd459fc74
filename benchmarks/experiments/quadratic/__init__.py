"""Tables and figures on networks of quadratic neurons."""
