"""Tables and figures on training by least squares."""
