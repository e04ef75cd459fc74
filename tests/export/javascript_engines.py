"""Engines that run exported JavaScript, for its tests."""

import html
import json
import re
import shutil
import subprocess

import pytest

#: What installs an engine where it is missing.
INSTALL = {"node": "apt-get install -y nodejs", "chromium": "apt-get install -y chromium"}

#: Calls a function with each list of arguments; an error counts as its message.
_CALLS = """
const answer = (name, given) => {
  try {
    const value = functions[name](...given);
    return value === undefined ? null : { value };
  } catch (error) {
    return { error: error.message };
  }
};
const answers = CALLS.map(([name, ...given]) => answer(name, given));
"""


def needs(engine):
    return pytest.mark.skipif(shutil.which(engine) is None, reason=f"{engine} is missing: {INSTALL[engine]}")


#: Parameters of a test that runs in every engine.
ENGINES = [pytest.param(one, marks=needs(one)) for one in INSTALL]


def call(module, calls, folder, engine="node"):
    """Return what functions of a module return, or raise as a text, for calls (name, *arguments).

    Numbers travel as JSON, which keeps every bit of a double.
    """
    names = ", ".join(one for one in module.exports if one not in {"classes", "columns"})
    if engine == "node":
        (folder / "package.json").write_text('{"type": "module"}')
        (folder / "calls.json").write_text(json.dumps(calls))
        (folder / "model.js").write_text(module.source)
        (folder / "main.js").write_text(
            'import { readFileSync, writeFileSync } from "node:fs";\nimport * as functions from "./model.js";\n'
            f'const CALLS = JSON.parse(readFileSync("calls.json"));\n{_CALLS}'
            'writeFileSync("answers.json", JSON.stringify(answers));\n'
        )
        subprocess.run(["node", "main.js"], cwd=folder, check=True, capture_output=True, text=True)
        answers = json.loads((folder / "answers.json").read_text())
    else:
        given = f"const functions = {{ {names} }};\nconst CALLS = {json.dumps(calls)};\n".replace("<", "\\u003c")
        script = f"{module.source}\n{given}{_CALLS}"
        # A page holds the module as it is; text that ends a script would break it.
        (folder / "page.html").write_text(
            f'<!doctype html><pre id="answers"></pre>\n<script type="module">\n{script}\n'
            'document.getElementById("answers").textContent = JSON.stringify(answers);\n</script>\n'
        )
        shown = _dump((folder / "page.html").as_uri(), str(folder))
        found = re.search(r'<pre id="answers">(.*?)</pre>', shown, re.DOTALL)
        assert found, shown[:2000]
        assert found[1], "the script did not end"
        answers = json.loads(html.unescape(found[1]))
    assert len(answers) == len(calls)
    return [one.get("value", one.get("error")) for one in answers]


def _dump(address, profile):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}/profile"]
    command += ["--virtual-time-budget=60000", "--dump-dom", address]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
