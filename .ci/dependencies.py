"""The page of dependencies: what each is for, what it costs on disk, and its licence.

    python .ci/dependencies.py [--check]

Writes `docs/dependencies.md` from pyproject.toml, the purposes below and the metadata of what is installed: what
`pip install qsdp` brings, directly and through others, and the packages of each extra. With --check it writes nothing
and fails where a purpose is missing or superfluous, a licence is not known, or the page lacks a package.
"""

from __future__ import annotations

import argparse
import platform
import re
from importlib.metadata import PackageNotFoundError, files, metadata, requires
from pathlib import Path

import tomllib

_ROOT = Path(__file__).resolve().parents[1]
TARGET = _ROOT / "docs" / "dependencies.md"

#: What each package that is always installed is for.
PURPOSES = {
    "cvxpy": "the relaxation as a program that can be changed and given to conic solvers; custom losses",
    "jinja2": "templates of reports and of exported code",
    "joblib": "parallel folds, betas and seeds",
    "numpy": "arrays",
    "pandas": "tables with text, dates and missing entries; reading files",
    "pooch": "downloads of data sets with checksums, on request only",
    "rich": "tables and progress bars in the terminal",
    "safetensors": "files of models, networks and statistics, without pickle",
    "scikit-learn": "interfaces and checks of estimators, the bundled data sets, baselines",
    "scipy": "linear algebra, sparse matrices, optimisation of smooth functions",
    "scs": "the conic solver of the paper's programs where no solver of this package applies",
    "threadpoolctl": "one thread for small matrices",
    "typer": "the command `qsdp`",
}

#: Extras of users in the order of the page, and what each is for.
EXTRAS = {
    "plot": "pictures (`qsdp.plotting`)",
    "onnx": "`to_onnx`",
    "parquet": "Parquet and Arrow files",
    "dask": "Dask collections, clusters",
    "torch": "`device=`: matrix products on a GPU",
    "baselines": "systems to compare with (`qsdp.baselines`)",
    "solvers": "further conic solvers, all three",
    "clarabel": "a conic solver",
    "cvxopt": "a conic solver",
    "mosek": "a conic solver; needs a licence of its own",
}

#: Extras of those who work on the package.
_DEVELOPERS = {"test", "notebooks", "docs", "dev"}

#: Licences of packages whose metadata hold their text or a name of their own, read from their files.
KNOWN = {"cvxopt": "GPL-3.0-or-later", "mosek": "proprietary (MOSEK ApS)", "typing-extensions": "PSF-2.0"}

_HEAD = """\
# Dependencies and licences

`python .ci/dependencies.py` generates this page. Sizes are those of the installed files on {system}, in MB. The gate
installs the lowest versions and tests them with the built wheel (`.ci/packages.sh`); `pip check` finds them consistent.

`import qsdp` loads little more than NumPy and SciPy's linear algebra; what needs another package imports it, which
`tests/test_import.py` checks. Nothing is downloaded at import or while fitting, which `tests/test_faults.py` checks.
`qsdp.datasets` fetches what it is asked for. The gate does not check for known vulnerabilities, since their database is
on the network: run `pip-audit` in an environment with the package installed.

"""


def main():
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something is missing")
    options = parser.parse_args()
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = page(project)
    if not options.check:
        TARGET.write_text(text, encoding="utf-8")
        return
    if problems := list(missing(project, text)):
        raise SystemExit("\n".join(problems))


def missing(project, text):
    """Yield what the page or this file lacks."""
    if odd := set(PURPOSES) ^ {parsed(one)[0] for one in project["dependencies"]}:
        yield f"PURPOSES and pyproject.toml differ: {sorted(odd)}"
    if odd := set(EXTRAS) ^ (set(project["optional-dependencies"]) - _DEVELOPERS):
        yield f"EXTRAS and pyproject.toml differ: {sorted(odd)}"
    for line in text.splitlines():
        if "not known" in line:
            yield f"no licence: {line}"
    first_cells = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)
    direct = set(PURPOSES) | {f"`{extra}`" for extra in EXTRAS}
    if odd := direct - set(first_cells.findall(TARGET.read_text(encoding="utf-8"))):
        yield f"docs/dependencies.md lacks {sorted(odd)}: run python .ci/dependencies.py"


def page(project):
    """Return the text of the page."""
    direct = dict(sorted(map(parsed, project["dependencies"])))
    parents = brought_by(direct)
    always = [(name, PURPOSES.get(name, ""), least, size_of(name), licence_of(name)) for name, least in direct.items()]
    further = [(name, parents[name], size_of(name), licence_of(name)) for name in sorted(set(parents) - set(direct))]
    total = round(sum(map(megabytes, parents)))
    extras = []
    for extra, purpose in EXTRAS.items():
        for requirement in project["optional-dependencies"].get(extra, ()):
            name, least = parsed(requirement)
            if name == "qsdp":
                others = re.search(r"\[(.*)\]", requirement)[1].replace(",", ", ")
                extras.append((f"`{extra}`", purpose, f"those of {others}", "", "", ""))
            else:
                extras.append((f"`{extra}`", purpose, name, least, size_of(name), licence_of(name)))
    lines = [f"## Installed always: {len(always)} packages and {len(further)} that they bring, {total} MB", ""]
    lines += table(("package", "for", "from version", "MB", "licence"), always)
    lines += ["", "## Brought by these", "", *table(("package", "by", "MB", "licence"), further)]
    lines += ["", "## Extras", "", '`pip install "qsdp[plot,onnx]"` installs two of them.', ""]
    lines += table(("extra", "for", "package", "from version", "MB", "licence"), extras)
    return _HEAD.format(system=f"{platform.system()} {platform.machine()}") + "\n".join(lines) + "\n"


def normalized(name):
    """Return the name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parsed(requirement):
    """Return name and lowest version of a requirement."""
    least = re.search(r">=([\w.]+)", requirement)
    return normalized(re.match(r"[\w.-]+", requirement)[0]), least[1] if least else ""


def brought_by(names):
    """Return what packages bring, with themselves: the name of each and of the first package that needs it.

    Extras and what is not installed, because this platform does not need it, are left out.
    """
    parents = dict.fromkeys(names, "")
    pending = list(names)
    for parent in pending:
        for requirement in requires(parent) or []:
            name = parsed(requirement)[0]
            if "extra ==" not in requirement and name not in parents and installed(name):
                parents[name] = parent
                pending.append(name)
    return parents


def installed(name):
    """Return the metadata of a package, or None."""
    try:
        return metadata(name)
    except PackageNotFoundError:
        return None


def megabytes(name):
    """Return the size of the files of an installed package."""
    return sum(one.size or 0 for one in files(name) or ()) / 1e6


def size_of(name):
    """Return the cell of a package's size, at least 1."""
    return f"{max(1.0, megabytes(name)):.0f}" if installed(name) else "not installed"


def licence_of(name):
    """Return the licence that the metadata of a package name."""
    if name in KNOWN:
        return KNOWN[name]
    fields = installed(name)
    if not fields:
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
