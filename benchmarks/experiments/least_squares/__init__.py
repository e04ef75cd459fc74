"""Tables and figures of the papers on training by least squares."""
