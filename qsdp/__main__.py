"""`python -m qsdp` is the program `qsdp`, for where scripts are not on the path."""

from qsdp_command import main

main()
