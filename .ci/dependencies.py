"""The page of dependencies and their licences, made from the metadata of what is installed.

    python .ci/dependencies.py [--check]

Writes `docs/dependencies.md`: what `pip install qsdp` brings, directly and through others, and the packages of each
extra. With --check it fails where a licence is not known, and writes nothing.
"""

from __future__ import annotations

import argparse
import re
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import tomllib

_ROOT = Path(__file__).resolve().parents[1]
TARGET = _ROOT / "docs" / "dependencies.md"

#: Extras of users, in the order of the page.
EXTRAS = ("clarabel", "cvxopt", "mosek", "torch", "onnx", "parquet", "encrypted", "dask", "plot")

#: Licences of packages whose metadata hold their text or a name of their own, read from their files.
KNOWN = {"cvxopt": "GPL-3.0-or-later", "mosek": "proprietary (MOSEK ApS)", "typing_extensions": "PSF-2.0"}

_HEAD = """\
# Dependencies and licences

`python .ci/dependencies.py` generates this page from the metadata of the installed packages. The gate installs the
lowest versions and tests them with the built wheel (`.ci/packages.sh`); `pip check` finds them consistent. Nothing is
downloaded at import or while fitting, which `tests/test_faults.py` checks. `qsdp.datasets` fetches what it is asked
for. The gate does not check for known vulnerabilities, since their database is on the network: run `pip-audit` in an
environment with the package installed.

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
    rows = [(name, least, licence_of(name)) for name, least in map(parsed, sorted(project["dependencies"]))]
    further = sorted(closure([row[0] for row in rows]) - {row[0] for row in rows})
    brought = [(name, licence_of(name)) for name in further]
    extras = [
        (f"`{extra}`", name, least, licence_of(name))
        for extra in EXTRAS
        for name, least in map(parsed, project["optional-dependencies"][extra])
    ]
    lines = ["## Installed always", "", *table(("package", "from version", "licence"), rows)]
    lines += ["", "## Brought by these", "", *table(("package", "licence"), brought)]
    lines += ["", "## Of extras", "", *table(("extra", "package", "from version", "licence"), extras)]
    cells = [*rows, *brought, *(row[1:] for row in extras)]
    return _HEAD + "\n".join(lines) + "\n", sorted({row[0] for row in cells if row[-1] == "not known"})


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
