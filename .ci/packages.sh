#!/usr/bin/env bash
# Wheel and sdist, built and tested from themselves, with the lowest versions of the dependencies: packages.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
work=$1
python3 -m venv "$work/lowest"
# shellcheck disable=SC1091
source "$work/lowest/bin/activate"
unset PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_COMPILE=0

pip install "hatchling>=1.21"
python -m hatchling build -d "$work/dist"
python .ci/packages.py check "$work/dist"
python .ci/packages.py lowest > "$work/lowest.txt"
pip install --only-binary=:all: -c "$work/lowest.txt" "$work"/dist/*.whl pytest hypothesis pandas
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
export OPENBLAS_NUM_THREADS=1
python -m pytest -q -p no:cacheprovider tests/test_import.py tests/test_problem.py tests/cli/test_cli_predict.py \
    tests/report/test_report.py \
    tests/test_pipeline.py::test_resample_with_other_levels_needs_no_solve
