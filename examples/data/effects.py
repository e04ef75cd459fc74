"""
What a model has learned
========================

Every network here is a polynomial of degree two, and so exactly a sum of one
function of each column and one of each pair of columns. Their sizes say what
the model computes, with nothing left over.
"""

import numpy as np

import qsdp
from qsdp.plotting import InteractionDisplay

data = qsdp.datasets.load_bundled("diabetes")
model = qsdp.QuantizedNetworkRegressor(random_state=0)
model.fit(data.X, data.y)
effects = model.effects(names=data.feature_names)
InteractionDisplay.from_effects(effects, n_columns=8)

# %%
# The bars are standard deviations of main effects over the rows, in the units
# of the target; the squares are those of interactions. Blood pressure, body
# mass and one blood value (s5) do most of the work here, and no pair of columns
# does much.

for effect in effects.table()[:3]:
    print(
        f"{effect.name:3} {effect.size:5.1f} ({effect.fraction:.0%} of "
        "all)"
    )

# %%
# The effects of a single row add up to its prediction:

row = data.X[:1]
parts = model.contributions(row)[0]
for k in np.argsort(-np.abs(parts))[:3]:
    print(f"{parts[k]:+6.1f}  {effects.terms[k]}")
print(
    f"{effects.constant + parts.sum():.6f} = "
    f"{model.predict(row)[0]:.6f}"
)
