"""Methods of this package for the relaxation, a package each: they start from an instance and stop at a gap."""
