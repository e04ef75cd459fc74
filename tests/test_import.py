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

#: What one process does after the other, and heavy packages that it may then have loaded. Experiments print by rich.
STEPS = {
    "import": ("import qsdp", set()),
    "encode": (
        """
import numpy as np
from qsdp.encoding import Encoding, Expression, InputColumn
Encoding((InputColumn("a", fill=0.0),), (Expression("a", 0, "above", 1.0),)).encode([np.zeros(3)])
""",
        set(),
    ),
    "solve": (
        """
X = np.random.default_rng(0).standard_normal((20, 3))
qsdp.solve_and_sample(X, X[:, 0] * X[:, 1], 10, 0.1, random_state=0)._repr_html_()
""",
        {"scipy.optimize"},
    ),
    "cases of the suite, networks of other systems": (
        "import benchmarks.papers.tomic, benchmarks.papers.noel, benchmarks.uci as u; assert u.EXPERIMENT.cases(True)",
        {"rich", "scipy.optimize"},
    ),
}


def test_packages_wait_until_they_are_needed():
    code = ["import json, sys", "loaded = []"]
    for step, _ in STEPS.values():
        code += [step, "loaded.append(sorted(sys.modules))"]
    code += [
        "qsdp.QuantizedNetworkRegressor",
        "files = sorted({'skops', 'prettytable'} & {*sys.modules})",
        "public = [name for name in dir(qsdp) if getattr(qsdp, name) is not None]",
        "print(json.dumps([loaded, files, public]))",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)
    loaded, files, public = json.loads(done.stdout)
    for modules, (name, (_, needed)) in zip(loaded, STEPS.items(), strict=True):
        assert set(modules) & HEAVY <= needed, name
        assert "qsdp.estimators" not in modules or "rich" in needed, name
    # Only files of models need skops.
    assert files == []
    assert {module.name for module in pkgutil.iter_modules(qsdp.__path__) if module.name[0] != "_"} <= set(public)


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
