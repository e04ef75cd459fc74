"""Code for microcontrollers beside that of m2cgen and emlearn: accuracy, flash, RAM, and time per row.

`to_c` exports networks, m2cgen exports logistic regression and a random forest, and emlearn a dense network; each model
includes its scaling. The targets are an ATmega1284P (avr-gcc -Os, simavr: cycles) and a Cortex-M3 without
floating-point unit (arm-none-eabi-gcc -Os, qemu-system-arm: instructions). Flash and RAM are those of the linked
firmware, with floating-point routines, minus those of firmware that predicts nothing. Classes on the device are
compared with the model's. Requires m2cgen, emlearn and Debian's gcc-avr avr-libc simavr gcc-arm-none-eabi
libnewlib-arm-none-eabi qemu-system-arm.

The largest network of the documentation's playground runs on the Cortex-M3 alone. Its accuracy is that of all test
images of MNIST, and its stack the sum of all functions' frames, which is at least what is in use at once. BitNetMCU
prints 98.92 % in 3.2 kB of weights with 686,490 cycles, 99.06 % in 5.4 kB with 785,123, and 94.22 % in 1.1 kB with
99,783, on a CH32V002 (mcu/readme.md of its repository), for networks trained on shifted and rotated images, too.

The series are named after the model, the exporter and the width of the integer columns. Each set has one split. No
constant column is appended to the inputs of our classifiers, whose default activation has a constant part; betas are
"auto". Instead of seconds, the tables show cycles and instructions per row.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from benchmarks.data import FOLDER
from benchmarks.data.sets import Split
from benchmarks.machinery import draw
from benchmarks.machinery.common import TARGET, Records, by, experiment_in, grid, table_row, where
from benchmarks.machinery.process import installed
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.uci.data import load
from benchmarks.versions import ESTIMATORS

PROGRAMS = ("avr-gcc", "avr-size", "simavr", "arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
FIRMWARE = FOLDER / "firmware"
SETS = ("breast-cancer-wisconsin", "vehicle", "banknote")
#: Set and model of images, and the smallest percentage of test images and the largest flash and RAM with the stack.
MNIST, IMAGES = "mnist", "qsdp, images of bytes"
ACCURATE, FLASH, RAM = 98.0, 6000, 4000
PLAYGROUND = Path(__file__).parents[3] / "docs" / "playground"

#: Rows that a device predicts, repetitions on the emulated Cortex-M3, and instructions per tick of its timer.
ROWS, REPEATS, TICK = 16, 10, 40

_FLAGS = ["-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-std=gnu99", "-I."]
AVR = ["avr-gcc", "-mmcu=atmega1284p", *_FLAGS, "-DQSDP_TABLE=static const __flash"]
ARM = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-nostartfiles", *_FLAGS]


@dataclass(frozen=True)
class Code:
    """A model as C: its source, column type, class expression, rows of columns, and expected classes."""

    source: str
    kind: str
    predict: str
    columns: np.ndarray
    expected: np.ndarray
    test: float
    files: dict[str, bytes] = field(default_factory=dict)
    packed_bytes: int | None = None


def network(encoding: str, column_width: int, split: Split, *, packed: bool = True) -> Code:
    X, X_test, y, y_test = split
    model = qsdp.QuantizedNetworkClassifier(encoding=encoding, random_state=0).fit(X, y)
    exported = qsdp.export.to_c(model, name="model", width=32, packed=packed, column_width=column_width)
    columns = exported.model.columns(X_test)
    decided = exported.model.description.decide(exported.model.outputs(columns))
    files = exported.files()
    source = files.pop("model.c").decode()
    size = exported.model.layout.table.size if packed else None
    test = float(np.mean(decided == y_test))
    return Code(source, f"int{column_width}_t", "model_class(row)", columns, decided, test, files, size)


def scaled(model: Any, split: Split) -> tuple[Any, Any]:
    """Return the model fitted to standardised columns, and the scaler."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(split[0])
    return model.fit(scaler.transform(split[0]), split[2]), scaler


def linear(split: Split) -> Code:
    """Return logistic regression with the scaling folded into its coefficients."""
    from sklearn.linear_model import LogisticRegression

    model, scaler = scaled(LogisticRegression(max_iter=2000), split)
    model.intercept_ = model.intercept_ - model.coef_ @ (scaler.mean_ / scaler.scale_)
    model.coef_ = model.coef_ / scaler.scale_
    return of_m2cgen(model, split)


def trees(split: Split) -> Code:
    from sklearn.ensemble import RandomForestClassifier

    return of_m2cgen(RandomForestClassifier(10, max_depth=5, random_state=0).fit(split[0], split[2]), split)


def of_m2cgen(model: Any, split: Split) -> Code:
    """Return the code that m2cgen generates, with a function that decides the class."""
    import m2cgen

    _, X_test, _, y_test = split
    code = m2cgen.export_to_c(model)
    C = len(model.classes_)
    if "double * output" in code:
        decide = f"double out[{C}]; int k, best = 0; score((double *)row, out); " + (
            f"for (k = 1; k < {C}; k++) {{ if (out[k] > out[best]) best = k; }} return best;"
        )
    else:
        decide = "return score((double *)row) > 0;"
    source = f"{code}\nint decide(const double *row) {{ {decide} }}\n"
    return Code(source, "double", "decide(row)", X_test, model.predict(X_test), model.score(X_test, y_test))


def dense(split: Split) -> Code:
    """Return the code of emlearn for a network of 16 ReLUs with the scaling folded into the first layer."""
    import emlearn
    from sklearn.neural_network import MLPClassifier

    _, X_test, _, y_test = split
    model, scaler = scaled(MLPClassifier((16,), max_iter=2000, random_state=0), split)
    model.intercepts_[0] = model.intercepts_[0] - (scaler.mean_ / scaler.scale_) @ model.coefs_[0]
    model.coefs_[0] = model.coefs_[0] / scaler.scale_[:, None]
    source = emlearn.convert(model, method="inline").save(name="model")
    predict = f"model_predict(row, {X_test.shape[1]})"
    return Code(source, "float", predict, X_test, model.predict(X_test), model.score(X_test, y_test))


MODELS = {
    "qsdp, encoding auto, columns of 32 bits": partial(network, "auto", 32),
    "qsdp, encoding auto, columns of 16 bits": partial(network, "auto", 16),
    "qsdp, encoding auto, columns of 32 bits, not packed": partial(network, "auto", 32, packed=False),
    "qsdp, encoding standard, columns of 16 bits": partial(network, "standard", 16),
    "qsdp, encoding thresholds, columns of 16 bits": partial(network, "thresholds", 16),
    "logistic regression, m2cgen": linear,
    "10 trees of depth 5, m2cgen": trees,
    "16 ReLUs, emlearn": dense,
}


def cases(quick: bool) -> list[dict[str, Any]]:
    small = grid(set=SETS[:1], model=tuple(MODELS)[1:2]) if installed(*PROGRAMS) else []
    return small if quick else [*grid(set=SETS, model=tuple(MODELS)), {"set": MNIST, "model": IMAGES}]


def of_images() -> Code:
    """Return the code of the playground's largest network, whose encoder is that of its facts."""
    facts = json.loads((PLAYGROUND / "data" / "mnist.json").read_text())
    network = qsdp.load_network(PLAYGROUND / "data" / facts["networks"][-1]["file"])
    X, y = qsdp.datasets.load_mnist("test")
    encoder = qsdp.encoding.Patches(**facts["encoder"]).fit(np.full((1, *X.shape[1:]), 255, dtype=np.uint8))
    exported = qsdp.export.to_c(network, name="model", encoder=encoder)
    columns = exported.model.columns(X)
    decided = exported.model.description.decide(exported.model.outputs(columns))
    files = exported.files()
    source, size = files.pop("model.c").decode(), exported.model.layout.table.size
    test = float(np.mean(decided == y))
    return Code(source, "uint8_t", "model_class(row)", columns[:ROWS], decided, test, files, size)


def run(case: dict[str, Any]) -> dict[str, Any]:
    if case["set"] == MNIST:
        code = of_images()
        with tempfile.TemporaryDirectory() as folder:
            here = write(Path(folder), code)
            flash, ram, time, classes = on_arm(here)
            called([*ARM, "-fstack-usage", "-c", "model.c"], here)
            stack = sum(int(line.split()[1]) for line in (here / "model.su").read_text().splitlines())
        found = {"test": code.test, "packed_bytes": code.packed_bytes, "m3_flash": flash, "m3_ram": ram}
        return {**found, "m3_stack": stack, "m3_time": round(time), "equal": classes == code.expected[:ROWS].tolist()}
    X, X_test, y, y_test = load(case["set"]).split(0)
    y, y_test = (np.searchsorted(np.unique(y), part) for part in (y, y_test))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = MODELS[case["model"]]((X, X_test, y, y_test))
    with tempfile.TemporaryDirectory() as folder:
        here = write(Path(folder), code)
        machines = {"avr": on_avr(here), "m3": on_arm(here)}
    found: dict[str, Any] = {"test": code.test, "packed_bytes": code.packed_bytes}
    for machine, (flash, ram, time, _) in machines.items():
        found |= {f"{machine}_flash": flash, f"{machine}_ram": ram, f"{machine}_time": round(time)}
    return found | {"equal": all(one[3] == code.expected[:ROWS].tolist() for one in machines.values())}


def write(here: Path, code: Code) -> Path:
    """Write the files of a model, and those of firmware that predicts nothing, into a folder; return it."""
    for name, contents in code.files.items():
        (here / name).write_bytes(contents)
    predicted = f"int predicted(const {code.kind} *row)\n{{ return (int){code.predict}; }}\n"
    (here / "model.c").write_text(f"#include <stdint.h>\n{code.source}\n{predicted}")
    (here / "none.c").write_text('#include "rows.h"\nint predicted(const ENTRY *row) { return row[0] != 0; }\n')
    (here / "rows.h").write_text(rows_of(code))
    return here


def rows_of(code: Code) -> str:
    entries = ",\n".join("{" + ", ".join(map(repr, row)) + "}" for row in code.columns[:ROWS].tolist())
    return (
        f"#define ROWS {ROWS}\n#define REPEATS {REPEATS}\n#define PREDICT predicted\n"
        f"#include <stdint.h>\ntypedef {code.kind} ENTRY;\nint predicted(const ENTRY *row);\n"
        f"static const ENTRY rows[ROWS][{code.columns.shape[1]}] = {{\n{entries}}};\n"
    )


def on_avr(here: Path) -> tuple[int, int, float, list[int]]:
    """Return flash, RAM, cycles per row, and classes."""
    common = [*AVR, *included(), str(FIRMWARE / "avr.c")]
    flash, ram = beyond_nothing(here, common, ["-lm"], "avr-size")
    done = called(["simavr", "-m", "atmega1284p", "-f", "16000000", "firmware.elf"], here)
    # simavr prints every line in colour, and the end of a line as a point.
    numbers = [int(number) for number in re.findall(r"(?:^|m)(\d+)\.", done, re.MULTILINE)]
    return flash, ram, numbers[0] / ROWS, numbers[1 : 1 + ROWS]


def on_arm(here: Path) -> tuple[int, int, float, list[int]]:
    """Return flash, RAM, instructions per row, and classes."""
    common = [*ARM, *included(), "-T", str(FIRMWARE / "cortex_m.ld"), str(FIRMWARE / "cortex_m.c")]
    flash, ram = beyond_nothing(here, common, ["-lm", "-lc", "-lgcc"], "arm-none-eabi-size")
    machine = ["qemu-system-arm", "-machine", "mps2-an385", "-icount", "shift=0", "-semihosting", "-nographic"]
    machine += ["-monitor", "none", "-kernel", "firmware.elf"]
    numbers = [int(line) for line in called(machine, here).split()]
    return flash, ram, TICK * numbers[0] / ROWS / REPEATS, numbers[1:]


def included() -> list[str]:
    """Return the include option for emlearn's headers, or nothing if emlearn is not installed."""
    try:
        import emlearn
    except ImportError:
        return []
    return [f"-I{Path(emlearn.includedir)}"]


def beyond_nothing(here: Path, command: list[str], libraries: list[str], size: str) -> tuple[int, int]:
    """Return flash and RAM of the firmware, built last, minus those of firmware that predicts nothing."""
    sizes = []
    for own in ("none.c", "model.c"):
        called([*command, own, *libraries, "-o", "firmware.elf"], here)
        text, data, bss = map(int, called([size, "firmware.elf"], here).splitlines()[1].split()[:3])
        sizes.append((text + data, data + bss))
    return sizes[1][0] - sizes[0][0], sizes[1][1] - sizes[0][1]


def called(command: list[str], here: Path) -> str:
    """Return the output of a command; raise an error with its messages if it fails."""
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr:.2000}")
    return done.stdout + (done.stderr if command[0] in {"simavr", "qemu-system-arm"} else "")


def plot(records: Records) -> Any:
    """Draw accuracy against flash on the Cortex-M3, a panel for each set."""
    panels: dict[str, dict[str, dict[float, float]]] = {}
    for record in where(records, set=SETS):
        point = {record.measured["m3_flash"]: 100.0 * record.measured["test"]}
        panels.setdefault(record.case["set"], {})[record.case["model"]] = point
    return draw.curves(panels, "bytes of flash, Cortex-M3", "test accuracy, %") if panels else None


def claims(records: Records) -> list[Claim]:
    own = [r.measured for r in where(records, set=MNIST)]
    holds = [
        100.0 * m["test"] >= ACCURATE and m["m3_flash"] <= FLASH and m["m3_ram"] + m["m3_stack"] <= RAM for m in own
    ]
    figures = "; ".join(
        f"{m['test']:.2%}, {m['m3_flash']:,} bytes of flash, {m['m3_ram'] + m['m3_stack']:,} of RAM, "
        f"{m['m3_time']:,} instructions an image"
        for m in own
    )
    statement = f"MNIST, Cortex-M3: {ACCURATE:g} % of the test images in {FLASH:,} bytes of flash and {RAM:,} of RAM."
    return [
        exact(
            TARGET, "Classes on the devices are those of the models in Python.", by(records, "equal", "set", "model")
        ),
        exact(TARGET, statement, holds, figures),
    ]


#: Models in the guide's table: their words there.
QUOTED = {
    "qsdp, encoding standard, columns of 16 bits": '`encoding="standard"`, columns of 16 bits',
    "qsdp, encoding auto, columns of 16 bits": "the defaults, columns of 16 bits",
    "qsdp, encoding auto, columns of 32 bits": "the same, columns of 32 bits",
    "logistic regression, m2cgen": "logistic regression by m2cgen",
    "10 trees of depth 5, m2cgen": "10 trees of depth 5 by m2cgen",
    "16 ReLUs, emlearn": "16 ReLUs by emlearn",
}


def quotes(records: Records) -> dict[str, str]:
    quoted = {}
    for record in where(records, set=MNIST):
        quoted["images"] = image_rows(record.measured)
    measured = {r.case["model"]: r.measured for r in where(records, set=SETS[0])}
    if not measured.keys() >= QUOTED.keys():
        return quoted

    def on(machine: str, m: dict[str, Any]) -> str:
        return ", ".join(f"{m[f'{machine}_{what}']:,}" for what in ("flash", "ram", "time"))

    rows = [(words, measured[model]) for model, words in QUOTED.items()]
    lines = [table_row(words, f"{100 * m['test']:.1f} %", on("avr", m), on("m3", m)) for words, m in rows]
    return quoted | {"guide": "\n".join(lines)}


def image_rows(measured: dict[str, Any]) -> str:
    """Return rows on the network for images: what the playground stores of it, and what was measured."""
    data = PLAYGROUND / "data"
    facts = json.loads((data / "mnist.json").read_text())
    network = facts["networks"][-1]
    rows = {
        "seconds of one core for the proof": f"{facts['seconds']:,}",
        "certified gap of the rounded network": f"{100 * network['gap']:.2f} %",
        "test images classified correctly": f"{100 * measured['test']:.2f} %",
        "bytes of the network's file": f"{(data / network['file']).stat().st_size:,}",
        "bytes of flash, code included": f"{measured['m3_flash']:,}",
        "bytes of RAM, stack included": f"{measured['m3_ram'] + measured['m3_stack']:,}",
        "instructions per image": f"{measured['m3_time']:,}",
        "classes on the device as in Python": "yes" if measured["equal"] else "no",
    }
    return "\n".join(table_row(words, figure) for words, figure in rows.items())


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    return MEASURED if case["model"].startswith("qsdp") else ()


#: The answer on top of the page.
ANSWER = """\
Exported networks [decide on the devices as in Python]{microcontrollers: Classes on the devices = 1 supported}. One for
MNIST classifies
[98 % of the test images in 6,000 bytes of flash]{microcontrollers: 98 % of the test images = 1 supported} on a
Cortex-M3. On tables, packed networks take less flash than forests and dense networks; most take more time than forests
and linear models.
"""

#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "export")
EXPERIMENT = experiment_in(__name__, "Code for microcontrollers", "Targets of the package: exported models")
