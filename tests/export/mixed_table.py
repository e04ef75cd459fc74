"""A table as people have them, for the tests of exports."""

import numpy as np
import pandas as pd


def mixed_table():
    """Return a frame of numbers, categories and holes, and labels."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(50.0, 10.0, 90).round(1),
            "town": rng.choice(["Oslo", "Rome", "Paris"], 90),
            "constant": np.ones(90),
            "old": rng.random(90) < 0.4,
            "rate": rng.normal(size=90),
        }
    )
    frame.loc[::7, "size"] = np.nan
    frame.loc[::11, "town"] = None
    return frame, np.where(frame["size"].fillna(50.0) + 8 * frame["rate"] > 50.0, "yes", "no")
