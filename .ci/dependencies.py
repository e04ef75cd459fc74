"""The page of dependencies: what each is for, its size and its licence, from the metadata of what is installed.

    python .ci/dependencies.py [--check]

Writes `docs/dependencies.md`: what `pip install qsdp` brings, directly and through others, and the packages of each
extra. With --check it fails where a licence is not known, and writes nothing.
"""

from __future__ import annotations

import argparse
import re
from importlib.metadata import PackageNotFoundError, distribution, metadata, requires
from pathlib import Path

import tomllib

_ROOT = Path(__file__).resolve().parents[1]
TARGET = _ROOT / "docs" / "dependencies.md"

#: Extras of users, in the order of the page.
EXTRAS = ("clarabel", "cvxopt", "mosek", "torch", "onnx", "parquet", "encrypted", "dask", "plot")

#: Licences of packages whose metadata hold their text or a name of their own, read from their files.
KNOWN = {"cvxopt": "GPL-3.0-or-later", "mosek": "proprietary (MOSEK ApS)", "typing_extensions": "PSF-2.0"}

#: What the package uses each of its dependencies for.
USES = {
    "cvxpy": "the programs of the paper as printed, to read, change and solve; custom losses in conic solvers",
    "jinja2": "pages of `qsdp report`",
    "joblib": "parallel outputs, folds and restarts (`n_jobs`)",
    "numpy": "arrays",
    "pandas": "tables: reading of files, data frames in the estimators",
    "pooch": "downloads of data sets, with checksums",
    "rich": "progress bars, and tables of the command line",
    "safetensors": "files of networks and estimators, without pickle",
    "scikit-learn": "the interface of the estimators, their validation, and bundled data sets",
    "scipy": "linear algebra, optimisation, statistics",
    "scs": "the conic solver of the paper's programs that is always available",
    "threadpoolctl": "limits of the threads of linear algebra in parallel work",
    "typer": "the command line",
    "clarabel": "interior-point solver through CVXPY, to compare with",
    "cvxopt": "interior-point solver through CVXPY, to compare with",
    "mosek": "interior-point solver through CVXPY; needs a licence",
    "torch": "`device=`: large products on a GPU; baselines trained by gradients",
    "onnx": "`to_onnx`, `to_qonnx`",
    "skl2onnx": "`to_onnx` of pipelines with transformers of scikit-learn",
    "pyarrow": "Parquet, Arrow and Feather files",
    "tenseal": "predictions for encrypted inputs",
    "dask": "statistics and fits of Dask arrays and data frames",
    "distributed": "the same on several machines",
    "matplotlib": "`qsdp.plotting`",
}

_HEAD = """\
# Dependencies and licences

`python .ci/dependencies.py` generates this page from the metadata of the installed packages. The gate installs the
lowest versions and tests them with the built wheel (`.ci/packages.sh`); `pip check` finds them consistent. Nothing is
downloaded at import or while fitting, which `tests/test_faults.py` checks. `qsdp.datasets` fetches what it is asked
for. The gate does not check for known vulnerabilities, since their database is on the network: run `pip-audit` in an
environment with the package installed.

`pip install .` brings the packages of the first two tables, {count} in all, {size} of files on this machine. Nothing
else is required. cvxpy and scs are the method's own: with them, a reader of the paper can solve its programs as they
are printed. Extras are for what only some users need: `pip install ".[NAME]"`, with the names of the last table;
`solvers` is the first three of them, and `baselines` is `torch`.

"""


def main():
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a licence is not known; write nothing")
    options = parser.parse_args()
    text, unknown = page()
    if options.check and unknown:
        raise SystemExit(f"the licences of {', '.join(unknown)} are not known")
    if not options.check:
        TARGET.write_text(text, encoding="utf-8")


def page():
    """Return the page, and the packages without a known licence."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [described(one) for one in sorted(project["dependencies"])]
    further = sorted(closure([row[0] for row in rows]) - {row[0] for row in rows})
    brought = [(name, size_of(name), licence_of(name)) for name in further]
    extras = [(f"`{extra}`", *described(one)) for extra in EXTRAS for one in project["optional-dependencies"][extra]]
    heading = ("package", "from version", "used for", "MB", "licence")
    lines = ["## Installed always", "", *table(heading, rows)]
    lines += ["", "## Brought by these", "", *table(("package", "MB", "licence"), brought)]
    lines += ["", "## Of extras", "", *table(("extra", *heading), extras)]
    size = sum(filter(None, map(megabytes, [*(row[0] for row in rows), *further])))
    head = _HEAD.format(count=len(rows) + len(further), size=f"{round(size, -1):.0f} MB")
    cells = [*rows, *brought, *(row[1:] for row in extras)]
    return head + "\n".join(lines) + "\n", sorted({row[0] for row in cells if row[-1] == "not known"})


def described(requirement):
    """Return name, lowest version, use, size and licence of a requirement; each needs its use in `USES`."""
    name, least = parsed(requirement)
    return name, least, USES[name], size_of(name), licence_of(name)


def megabytes(name):
    """Return the size of the files of a package, or None if it is not installed."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return None
    paths = [Path(file.locate()) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def size_of(name):
    """Return the size of a package as text."""
    size = megabytes(name)
    return "" if size is None else f"{size:.1f}"


def parsed(requirement):
    """Return name and lowest version of a requirement."""
    least = re.search(r">=([\w.]+)", requirement)
    return re.match(r"[\w.-]+", requirement)[0], least[1] if least else ""


def closure(names):
    """Return what packages bring, with themselves, without extras and what this platform does not need."""
    found, pending = set(), list(names)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        found.add(name)
        pending += [parsed(one)[0] for one in needed if "extra ==" not in one]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


def licence_of(name):
    """Return the licence that the metadata of a package name."""
    if name in KNOWN:
        return KNOWN[name]
    try:
        fields = metadata(name)
    except PackageNotFoundError:
        return "not installed"
    named = fields.get("License-Expression")
    classified = [one.split(" :: ")[-1] for one in fields.get_all("Classifier", []) if one.startswith("License ::")]
    classified = [one for one in classified if one != "OSI Approved"]
    plain = (fields.get("License") or "").strip()
    short = plain if plain and len(plain) <= 40 and "\n" not in plain else ""
    return named or ", ".join(classified) or short or "not known"


def table(header, rows):
    """Yield the lines of a table of Markdown."""
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    main()
