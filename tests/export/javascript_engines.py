"""Engines that run exported JavaScript, for its tests."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

#: Bytes of code that a module may have, besides its weights.
MAX_CODE = 10_900

#: What installs an engine where it is missing.
INSTALL = {"node": "apt-get install -y nodejs", "chromium": "apt-get install -y chromium"}

#: Calls a function with arguments; an error counts as its message.
_ANSWER = """
const answer = (functions, name, given) => {
  try {
    const value = functions[name](...given);
    return value === undefined ? null : { value };
  } catch (error) {
    return { error: error.message };
  }
};
"""


def needs(engine):
    return pytest.mark.skipif(shutil.which(engine) is None, reason=f"{engine} is missing: {INSTALL[engine]}")


def close(found, expected):
    """Compare what calls of a function returned with numbers, to 1e-12 of the largest."""
    found = np.array(found)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


#: Parameters of a test that runs in every engine.
ENGINES = [pytest.param(one, marks=needs(one)) for one in INSTALL]


def call(module, calls, folder, engine="node"):
    """Return what functions of a module return, or raise as a text, for calls (name, *arguments).

    Numbers travel as JSON, which keeps every bit of a double.
    """
    if engine == "node":
        (answers,) = call_each([(module, calls)], folder)
        return answers
    return _results(_in_page(module, calls, folder), calls)


def call_each(jobs, folder):
    """Return what `call` returns for each (module, calls), of one process of Node."""
    for number, (module, _) in enumerate(jobs):
        (folder / f"model_{number}.js").write_text(module.source)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "calls.json").write_text(json.dumps([calls for _, calls in jobs]))
    (folder / "main.js").write_text(
        f'import {{ readFileSync, writeFileSync }} from "node:fs";\n{_ANSWER}'
        "const answers = [];\n"
        'for (const calls of JSON.parse(readFileSync("calls.json"))) {\n'
        "  const functions = await import(`./model_${answers.length}.js`);\n"
        "  answers.push(calls.map(([name, ...given]) => answer(functions, name, given)));\n"
        "}\n"
        'writeFileSync("answers.json", JSON.stringify(answers));\n'
    )
    subprocess.run(["node", "main.js"], cwd=folder, check=True, capture_output=True, text=True)
    answers = json.loads((folder / "answers.json").read_text())
    return [_results(own, calls) for own, (_, calls) in zip(answers, jobs, strict=True)]


def _results(answers, calls):
    assert len(answers) == len(calls)
    return [one.get("value", one.get("error")) for one in answers]


def _in_page(module, calls, folder):
    names = ", ".join(one for one in module.exports if one not in {"classes", "columns"})
    given = f"const functions = {{ {names} }};\nconst CALLS = {json.dumps(calls)};\n".replace("<", "\\u003c")
    # A page holds the module as it is; text that ends a script would break it.
    (folder / "page.html").write_text(
        '<!doctype html><pre id="answers"></pre>\n'
        f'<script type="module">\n{module.source}\n{given}{_ANSWER}'
        "const answers = CALLS.map(([name, ...given]) => answer(functions, name, given));\n"
        'document.getElementById("answers").textContent = JSON.stringify(answers);\n</script>\n'
    )
    shown = _dump((folder / "page.html").as_uri(), str(folder))
    found = re.search(r'<pre id="answers">(.*?)</pre>', shown, re.DOTALL)
    assert found, shown[:2000]
    assert found[1], "the script did not end"
    return json.loads(html.unescape(found[1]))


def _dump(address, profile):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}/profile"]
    command += ["--virtual-time-budget=60000", "--dump-dom", address]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
