"""Methods that experiments measure beside this package, and what several of them share."""
