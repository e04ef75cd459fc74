#!/usr/bin/env bash
# Wheel and sdist, built and tested from themselves in the current environment: packages.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
work=$1
unset PYTHONPATH

# The campaigns, which run here later, watch processes.
pip install "hatchling>=1.21" pytest hypothesis psutil
python -m hatchling build -d "$work/dist"
python .ci/packages.py check "$work/dist"
pip install --no-deps --force-reinstall "$work"/dist/*.whl
pip check

# The source package alone makes the same wheel, and its tests run against the one that is installed.
tar -xzf "$work"/dist/*.tar.gz -C "$work"
cd "$work"/qsdp-*/
python -m hatchling build -t wheel -d "$work/again"
python - "$work"/dist/*.whl "$work"/again/*.whl <<'PYTHON'
import sys, zipfile
first, second = ({name: one.read(name) for name in one.namelist()} for one in map(zipfile.ZipFile, sys.argv[1:]))
assert first == second, "the wheel of the source package differs"
PYTHON
rm -r qsdp qsdp_check.py qsdp_command.py
qsdp demo --refine none > /dev/null
python -m pytest -q -p no:cacheprovider tests/test_import.py tests/test_problem.py tests/cli/test_cli_predict.py \
    tests/report/test_report.py \
    tests/test_pipeline.py::test_resample_with_other_levels_needs_no_solve
