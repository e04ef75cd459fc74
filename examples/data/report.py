"""
A report for whoever has to judge a model
=========================================

``qsdp fit`` trains on a table, and ``qsdp report`` writes one page that loads
nothing from elsewhere. Here both are called from Python.
"""

import html
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import qsdp
from qsdp.report import make_report

data = qsdp.datasets.load_bundled("wine")
table = pd.DataFrame(data.X, columns=data.feature_names)
table["cultivar"] = [f"cultivar {code}" for code in data.y]
folder = Path(tempfile.mkdtemp())
table.to_csv(folder / "wine.csv", index=False)
command = (
    "qsdp fit wine.csv --target cultivar --encoding standard --beta 2%"
)
subprocess.run(
    command.split(), cwd=folder, capture_output=True, check=True
)
report = make_report(folder / "wine.qsdp", folder / "wine.csv")

# %%
# Its score, those of other models, their sizes, and the differences in points:

for line in report.facts["judged"]["rivals"]:
    print("{:30} {:>7} {:>7} bytes  {}".format(*line))

# %%
# And this is the page, in a frame, with a form that predicts, scores,
# certificate, effects, size and provenance. ``report.save("wine.html")``
# writes it to a file.


class Framed:
    """A page that this page shows in a frame."""

    def _repr_html_(self):
        page = html.escape(report.to_html())
        size = 'width="100%" height="600"'
        return f'<iframe srcdoc="{page}" {size}></iframe>'


Framed()

# %%
# Everything on it is also available in Python, such as column importances:

model = qsdp.load(folder / "wine.qsdp")
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
order = np.argsort(model.feature_importances_)
ax.barh(table.columns[:-1][order], model.feature_importances_[order])
ax.set_xlabel("importance")
