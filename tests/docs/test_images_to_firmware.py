"""The page on firmware for images shows what the playground and the experiment on microcontrollers stored."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_real_run_is_the_stored_one():
    page = (ROOT / "docs" / "howto" / "images_to_firmware.md").read_text("utf-8")
    facts = json.loads((ROOT / "docs" / "playground" / "data" / "mnist.json").read_text("utf-8"))
    records = json.loads((ROOT / "benchmarks" / "results" / "microcontrollers.json").read_text("utf-8"))["records"]
    (found,) = (one["measured"] for one in records if one["case"]["set"] == "mnist")
    network = facts["networks"][-1]
    assert found["test"] == network["accuracy"]
    expected = {
        "seconds of one core for the proof": f"{facts['seconds']:,}",
        "certified gap of the rounded network": f"{100 * network['gap']:.2f} %",
        "test images right": f"{100 * network['accuracy']:.2f} %",
        "bytes of the network's file": f"{(ROOT / 'docs/playground/data' / network['file']).stat().st_size:,}",
        "bytes of flash, code included": f"{found['m3_flash']:,}",
        "bytes of RAM, stack included": f"{found['m3_ram'] + found['m3_stack']:,}",
        "instructions per image": f"{found['m3_time']:,}",
        "classes on the device as in Python": {True: "yes", False: "no"}[found["equal"]],
    }
    shown = dict(re.findall(r"^\| ([a-z].*?) \| (.+?) \|$", page, re.MULTILINE))
    assert shown == expected
