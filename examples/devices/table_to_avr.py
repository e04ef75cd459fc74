"""
From a table to an AVR
======================

:func:`qsdp.export.to_c` writes a model as C99 of integers, from the columns of
the table to the class. The code needs no floats, no memory beyond the stack and
no library, and is compiled here for an ATmega328P.
"""

import shutil
import subprocess
import tempfile

import matplotlib.pyplot as plt
import pandas as pd

import qsdp
from qsdp.export import to_c

data = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
table = pd.DataFrame(data.X, columns=data.feature_names)
model = qsdp.QuantizedNetworkClassifier(
    beta="5%", encoding="standard", random_state=0
)
model.fit(table[:400], data.y[:400])
code = to_c(model, name="cancer", width=32, column_width=16)
first, last = map(code.header.index, ("/* Column 0", "/* Column 2"))
print(code.header[first:last])

# %%
# The header has a macro for every column, which makes a fixed-point number of
# an entry. Compiled for this machine, the code decides as the model does:

rows = table[400:]
compiled = code.compile()
agree = compiled.predict(rows) == model.predict(rows)
print(f"{agree.mean():.0%} of {len(rows)} rows")

scores = model.decision_function(rows)
errors = compiled.outputs(rows)[:, 0] * code.unit - scores
_, ax = plt.subplots(layout="constrained")
ax.plot(scores, errors, ".")
ax.axhline(code.rounding_error[0], color="black")
ax.axhline(-code.rounding_error[0], color="black")
ax.set(
    xlabel="score of the model", ylabel="rounding error of the C code"
)

# %%
# Rounding errors cannot exceed the black lines, which are not fitted to these
# rows but proven from the weights when the code is written. Narrow integers
# make the code small:

compiler, size = ["cc"], "size"
if shutil.which("avr-gcc"):
    compiler, size = ["avr-gcc", "-mmcu=atmega328p"], "avr-size"
    compiler.append("-DQSDP_TABLE=static const __flash")
print(f"width, width of columns, bytes by {compiler[0]}")
for widths in ((64, 32), (32, 32), (32, 16)):
    code = to_c(
        model, name="cancer", width=widths[0], column_width=widths[1]
    )
    with tempfile.TemporaryDirectory() as folder:
        code.write(folder)
        command = [*compiler, "-std=gnu99", "-Os", "-c", "cancer.c"]
        subprocess.run(command, cwd=folder, check=True)
        output = subprocess.check_output([size, "cancer.o"], cwd=folder)
    print(*widths, output.split()[6].decode())
