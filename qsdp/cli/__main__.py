"""`python -m qsdp.cli` is the command `qsdp`."""

from qsdp.cli import main

if __name__ == "__main__":
    main()
