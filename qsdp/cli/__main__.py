"""Entry point of `python -m qsdp.cli`, which is the program `qsdp`."""

from qsdp.cli import main

if __name__ == "__main__":
    main()
