"""What `import qsdp` loads: little more than NumPy and SciPy's linear algebra."""

import json
import pkgutil
import subprocess
import sys

import pytest

import qsdp

COMMANDS = ("demo", "fit", "predict", "certify", "export", "report", "datasets")

HEAVY = {
    "IPython", "clarabel", "cvxpy", "jinja2", "matplotlib", "mosek", "pandas", "rich", "scipy.optimize",
    "scipy.stats", "scs", "sklearn", "torch", "typer",
}  # fmt: skip

SOLVE = """
import numpy as np
X = np.random.default_rng(0).standard_normal((20, 3))
result = qsdp.solve_and_sample(X, X[:, 0] * X[:, 1], 10, 0.1, random_state=0)
result._repr_html_()
"""


ENCODE = """
import numpy as np
from qsdp.encoding import Encoding, Expression, InputColumn
Encoding((InputColumn("a", fill=0.0),), (Expression("a", 0, "above", 1.0),)).encode([np.zeros(3)])
"""


@pytest.mark.parametrize(
    ("then", "needed"),
    [("", set()), (SOLVE, {"scipy.optimize"}), (ENCODE, set())],
    ids=["import", "solve", "encode"],
)
def test_heavy_packages_wait_until_they_are_needed(then, needed):
    code = f"import json, sys, qsdp\n{then}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert loaded & HEAVY <= needed
    assert "qsdp.estimators" not in loaded


def test_the_cases_of_the_suite_and_networks_of_other_systems_wait_for_no_estimator():
    code = (
        "import json, sys, benchmarks.papers.tomic, benchmarks.papers.noel, benchmarks.uci as uci\n"
        "print(json.dumps([len(uci.EXPERIMENT.cases(True)), sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cases, loaded = json.loads(done.stdout)
    assert cases > 0
    assert set(loaded) & HEAVY <= {"rich"}


def test_errors_of_usage_wait_for_no_heavy_package():
    """The options of a command are known without the packages that it works with."""
    code = f"""
import json, sys
from qsdp.cli import main
codes = []
for command in {COMMANDS!r}:
    sys.argv = ["qsdp", command, "--no-such-option"]
    try:
        main()
    except SystemExit as ended:
        codes.append(ended.code)
print(json.dumps([codes, sorted(sys.modules)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    codes, loaded = json.loads(done.stdout)
    assert codes == [2] * len(COMMANDS)
    assert done.stderr.count("No such option") == len(COMMANDS)
    assert set(loaded) & HEAVY <= {"rich", "typer"}


def test_every_public_name_is_there():
    assert set(qsdp.__all__) <= set(dir(qsdp))
    for name in qsdp.__all__:
        assert getattr(qsdp, name) is not None
    with pytest.raises(AttributeError, match="module 'qsdp' has no attribute 'sdp'"):
        qsdp.sdp  # noqa: B018


def test_every_public_module_is_completed_and_there_after_the_import():
    public = {module.name for module in pkgutil.iter_modules(qsdp.__path__) if not module.name.startswith("_")}
    code = "import json, qsdp; print(json.dumps([name for name in dir(qsdp) if getattr(qsdp, name) is not None]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert public <= set(json.loads(done.stdout))
