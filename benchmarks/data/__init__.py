"""Data sets of the experiments (UCI sets, and those of papers), numbers printed in papers, and firmware."""

from pathlib import Path

#: Folder of the printed numbers and the firmware.
FOLDER = Path(__file__).resolve().parent
