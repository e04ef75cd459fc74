"""
ONNX with the names of columns
==============================

A model of a table with text and missing entries becomes one ONNX graph with an
input for every column. Any runtime predicts with it, without Python or this
package.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pandas as pd

import qsdp
from qsdp.export import onnx_inputs, to_onnx

rng = np.random.default_rng(0)
ages, visits = rng.uniform(18, 80, 900), rng.poisson(3.0, 900)
towns = rng.choice(["Oslo", "Rome", "Bern"], 900)
table = pd.DataFrame({"age": ages, "town": towns, "visits": visits})
table.loc[::17, "age"] = np.nan
risk = 0.05 * ages + 1.5 * (towns == "Rome") - 0.4 * visits
leaves = np.where(
    risk + rng.standard_normal(900) > 2, "leaves", "stays"
)

model = qsdp.QuantizedNetworkClassifier(random_state=0)
model.fit(table[:600], leaves[:600])
graph = to_onnx(model)
session = onnxruntime.InferenceSession(graph.SerializeToString())
for one in [*session.get_inputs(), *session.get_outputs()]:
    print(f"{one.name:14} {one.type:15} {one.shape}")

# %%
# The graph holds the encoding of columns and the labels, and its answers are
# those of the model, for towns and missing ages as well:

labels = session.run(["label"], onnx_inputs(model, table[600:]))[0]
print(
    f"{np.mean(labels == model.predict(table[600:])):.0%} of labels "
    "agree"
)

# %%
# Any program that can fill three arrays can use it. Here NumPy does, for a
# visitor of each age in two of the towns. At every age, visitors from Rome are
# more likely to leave, as in the data.

_, ax = plt.subplots(layout="constrained")
for town, style in (("Rome", "-"), ("Oslo", "--")):
    feed = {
        "age": np.arange(18.0, 80.0)[:, None],
        "town": np.full((62, 1), town),
        "visits": np.full((62, 1), 3.0),
    }
    (probabilities,) = session.run(["probabilities"], feed)
    ax.plot(feed["age"], probabilities[:, 0], style, label=town)
ax.set(xlabel="age", ylabel=f"probability of {model.classes_[0]!s}")
ax.legend()
