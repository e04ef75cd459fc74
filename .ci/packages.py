"""Checks of the built packages: `packages.py check DIST` looks into them, `packages.py lowest` prints constraints."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
#: Records of experiments, pages made of them, and tests of what only the repository has.
RESULTS = re.compile(r"benchmarks/(RESULTS\.md|(papers/\w+/)?results/)|tests/(benchmarks|docs)/")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest() -> list[str]:
    """Return the dependencies, extras of solvers and tables among them, at their lowest versions."""
    extras = [PROJECT["optional-dependencies"][name] for name in ("clarabel", "parquet", "plot", "test")]
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    found = (re.fullmatch(r"([\w-]+)(?:\[[\w,]*\])?>=([\w.]+)", one) for one in wanted)
    return [f"{match[1]}=={match[2]}" for match in found if match]


def check(folder: Path) -> None:
    """Raise AssertionError unless both packages hold what they should and say what they are."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata = archive.read(f"{info}/METADATA").decode("utf-8")
        scripts = archive.read(f"{info}/entry_points.txt").decode("utf-8")
    _check_metadata(message_from_string(metadata))
    missing = {f"{name} = {target}" for name, target in PROJECT["scripts"].items()} - set(scripts.splitlines())
    assert not missing, f"{wheel.name} lacks the commands {missing}"
    assert f"{info}/licenses/LICENSE" in names, f"{wheel.name} lacks the licence"
    code = tracked("qsdp", "qsdp_check.py", "qsdp_command.py")
    held = {name for name in names if not name.startswith(info)}
    assert held == code, f"{wheel.name} differs from the tree: {sorted(held ^ code)[:9]}"
    with tarfile.open(sdist) as source:
        members = {member.name.partition("/")[2] for member in source.getmembers() if member.isfile()}
    texts = ("README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "conftest.py")
    wanted = code | tracked("tests", "benchmarks", *texts) | {"pyproject.toml", "PKG-INFO"}
    results = {name for name in wanted if RESULTS.match(name)}
    assert results, "no records of experiments to leave out"
    wanted -= results
    assert not results & members, f"{sdist.name} holds results of experiments: {sorted(results & members)[:9]}"
    assert wanted <= members, f"{sdist.name} lacks {sorted(wanted - members)[:9]}"
    print(f"{wheel.name}: {len(held)} files, {sdist.name}: {len(members)} files")


def _check_metadata(metadata: Message) -> None:
    for key, value in {
        "Name": PROJECT["name"],
        "Version": PROJECT["version"],
        "Requires-Python": PROJECT["requires-python"],
        "License-Expression": PROJECT["license"],
        "Summary": PROJECT["description"],
        "Description-Content-Type": "text/markdown",
    }.items():
        assert metadata[key] == value, f"{key} of the metadata is {metadata[key]!r}, not {value!r}"
    assert str(metadata.get_payload()).strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    assert len([one for one in metadata.get_all("Requires-Dist", []) if "extra" not in one]) == len(
        PROJECT["dependencies"]
    )


def tracked(*places: str) -> set[str]:
    """Return the files of the repository in some places."""
    listed = subprocess.run(["git", "ls-files", *places], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


if __name__ == "__main__":
    if sys.argv[1] == "lowest":
        print("\n".join(lowest()))
    else:
        check(Path(sys.argv[2]))
