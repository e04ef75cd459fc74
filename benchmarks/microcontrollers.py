"""Code for microcontrollers beside m2cgen's and emlearn's: accuracy, flash, RAM, and time of a row.

    python benchmarks/microcontrollers.py [--sets NAME ...] [--json FILE]

Networks by `to_c`; logistic regression and a random forest by m2cgen, a dense network by emlearn, each with its scaling
inside. Firmware for an ATmega1284P (avr-gcc -Os, simavr: cycles) and for a Cortex-M3 without floating-point unit
(arm-none-eabi-gcc -Os, qemu-system-arm: instructions). Flash and RAM are those of the linked firmware less those of one
that predicts nothing, floating-point routines of the library included. Classes on the device are compared with those of
the model. Needs Debian's packages gcc-avr avr-libc simavr gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm,
and m2cgen and emlearn.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import emlearn
import m2cgen
import numpy as np
from _results import kept, options_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp.export import to_c

FIRMWARE = Path(__file__).parent / "firmware"
SETS = ("breast-cancer-wisconsin", "vehicle", "banknote")

#: Rows that a device predicts, and how often an emulated Cortex-M3 does, whose timer ticks every 40 instructions.
ROWS, REPEATS, TICK = 16, 10, 40

_FLAGS = ["-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-std=gnu99", "-I."]
AVR = ["avr-gcc", "-mmcu=atmega1284p", *_FLAGS, "-DQSDP_TABLE=static const __flash"]
ARM = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-nostartfiles", *_FLAGS]


@dataclass(frozen=True)
class Code:
    """A model as C: source, the type of its columns, the expression of a class, and the columns of rows."""

    name: str
    source: str
    files: dict[str, bytes]
    kind: str
    predict: str
    columns: np.ndarray
    expected: np.ndarray
    accuracy: float
    packed_bytes: int | None = None


def main():
    options = options_of(__doc__, sets={"nargs": "+", "default": SETS, "metavar": "NAME"})
    warnings.simplefilter("ignore")
    rows = kept(({"set": name, **measure(code)} for name in options.sets for code in codes(name)), options.json)
    if not all(row["equal"] for row in rows):
        raise SystemExit("a class on a device differs from the model's")


def codes(name):
    X, X_test, y, y_test = qsdp.datasets.load_dataset(name).split(0)
    y, y_test = (np.searchsorted(np.unique(y), part) for part in (y, y_test))
    models = {
        encoding: qsdp.QuantizedNetworkClassifier(encoding=encoding, random_state=0).fit(X, y)
        for encoding in ("auto", "standard", "thresholds")
    }
    variants = [("auto", True, 32), ("auto", True, 16), ("auto", False, 32), ("standard", True, 16)]
    for encoding, packed, column_width in [*variants, ("thresholds", True, 16)]:
        model = models[encoding]
        exported = to_c(model, name="model", width=32, packed=packed, column_width=column_width)
        columns = exported.model.columns(X_test)
        decided = exported.model.description.decide(exported.model.outputs(columns))
        files = exported.files()
        source = files.pop("model.c").decode()
        what = f"qsdp, encoding {encoding}, columns of {column_width} bits{'' if packed else ', not packed'}"
        kind, bits = f"int{column_width}_t", None if not packed else exported.model.layout.table.size
        yield Code(what, source, files, kind, "model_class(row)", columns, decided, np.mean(decided == y_test), bits)
    scaler = StandardScaler().fit(X)
    scaled = scaler.transform(X)
    linear = LogisticRegression(max_iter=2000).fit(scaled, y)
    yield of_m2cgen("logistic regression, m2cgen", unscaled_linear(linear, scaler), X_test, y_test)
    yield of_m2cgen("10 trees of depth 5, m2cgen", RandomForestClassifier(10, max_depth=5, random_state=0).fit(X, y),
                    X_test, y_test)  # fmt: skip
    dense = MLPClassifier((16,), max_iter=2000, random_state=0).fit(scaled, y)
    # The scaling goes into the first layer.
    dense.intercepts_[0] = dense.intercepts_[0] - (scaler.mean_ / scaler.scale_) @ dense.coefs_[0]
    dense.coefs_[0] = dense.coefs_[0] / scaler.scale_[:, None]
    source = emlearn.convert(dense, method="inline").save(name="model")
    yield Code("16 ReLUs, emlearn", source, {}, "float", f"model_predict(row, {X.shape[1]})", X_test,
               dense.predict(X_test), dense.score(X_test, y_test))  # fmt: skip


def unscaled_linear(linear, scaler):
    linear.intercept_ = linear.intercept_ - linear.coef_ @ (scaler.mean_ / scaler.scale_)
    linear.coef_ = linear.coef_ / scaler.scale_
    return linear


def of_m2cgen(name, model, X_test, y_test):
    """Return the code of m2cgen with a function that decides."""
    code = m2cgen.export_to_c(model)
    C = len(model.classes_)
    if "double * output" in code:
        decide = f"double out[{C}]; int k, best = 0; score((double *)row, out); " + (
            f"for (k = 1; k < {C}; k++) {{ if (out[k] > out[best]) best = k; }} return best;"
        )
    else:
        decide = "return score((double *)row) > 0;"
    source = f"{code}\nint decide(const double *row) {{ {decide} }}\n"
    return Code(name, source, {}, "double", "decide(row)", X_test, model.predict(X_test), model.score(X_test, y_test))


def measure(code):
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for name, contents in code.files.items():
            (here / name).write_bytes(contents)
        (here / "model.c").write_text(f"#include <stdint.h>\n{code.source}\nint predicted(const {code.kind} *row)\n"
                                      f"{{ return (int){code.predict}; }}\n")  # fmt: skip
        (here / "none.c").write_text('#include "rows.h"\nint predicted(const ENTRY *row) { return row[0] != 0; }\n')
        (here / "rows.h").write_text(rows_of(code))
        avr, arm = on_avr(here), on_arm(here)
    figures = {"model": code.name, "accuracy": round(100 * float(code.accuracy), 1), "packed_bytes": code.packed_bytes}
    for machine, (flash, ram, time, classes) in (("avr", avr), ("m3", arm)):
        figures |= {f"{machine}_flash": flash, f"{machine}_ram": ram, f"{machine}_time": round(time)}
        figures[f"{machine}_equal"] = classes == code.expected[:ROWS].tolist()
    return figures | {"equal": figures.pop("avr_equal") and figures.pop("m3_equal")}


def rows_of(code):
    entries = ",\n".join("{" + ", ".join(map(repr, row)) + "}" for row in code.columns[:ROWS].tolist())
    return (
        f"#define ROWS {ROWS}\n#define REPEATS {REPEATS}\n#define PREDICT predicted\n"
        f"#include <stdint.h>\ntypedef {code.kind} ENTRY;\nint predicted(const ENTRY *row);\n"
        f"static const ENTRY rows[ROWS][{code.columns.shape[1]}] = {{\n{entries}}};\n"
    )


def on_avr(here):
    """Return flash, RAM, cycles of a row, and classes."""
    include = f"-I{Path(emlearn.includedir)}"
    sizes = [
        built(here, [*AVR, include, str(FIRMWARE / "avr.c"), own, "-lm"], "avr-size") for own in ("none.c", "model.c")
    ]
    done = run(["simavr", "-m", "atmega1284p", "-f", "16000000", "firmware.elf"], here)
    # It shows every line in colour, and the end of one as a point.
    numbers = [int(number) for number in re.findall(r"(?:^|m)(\d+)\.", done, re.MULTILINE)]
    return (*np.subtract(sizes[1], sizes[0]).tolist(), numbers[0] / ROWS, numbers[1 : 1 + ROWS])


def on_arm(here):
    """Return flash, RAM, instructions of a row, and classes."""
    common = [*ARM, f"-I{Path(emlearn.includedir)}", "-T", str(FIRMWARE / "cortex_m.ld"), str(FIRMWARE / "cortex_m.c")]
    sizes = [built(here, [*common, own, "-lm", "-lc", "-lgcc"], "arm-none-eabi-size") for own in ("none.c", "model.c")]
    machine = ["qemu-system-arm", "-machine", "mps2-an385", "-icount", "shift=0", "-semihosting", "-nographic"]
    machine += ["-monitor", "none", "-kernel", "firmware.elf"]
    numbers = [int(line) for line in run(machine, here).split()]
    return (*np.subtract(sizes[1], sizes[0]).tolist(), TICK * numbers[0] / ROWS / REPEATS, numbers[1:])


def built(here, command, size):
    run([*command, "-o", "firmware.elf"], here)
    text, data, bss = map(int, run([size, "firmware.elf"], here).splitlines()[1].split()[:3])
    return text + data, data + bss


def run(command, here):
    """Return what a command prints, or stop with what it complains of."""
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr:.2000}")
    return done.stdout + (done.stderr if command[0] in {"simavr", "qemu-system-arm"} else "")


if __name__ == "__main__":
    main()
