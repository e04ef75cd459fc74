"""Pictures of results, as scikit-learn's displays: ``from_...`` computes and draws, on what is then `ax_`.

They need matplotlib, ``pip install 'qsdp[plot]'``; importing this package does not, and nothing of the core imports it.
A display draws on the axes it is given as `ax`, or on those of a new figure.
"""

from qsdp.plotting._bits import BitsDisplay
from qsdp.plotting._covariance import CovarianceDisplay
from qsdp.plotting._gap import GapDisplay
from qsdp.plotting._levels import LevelsDisplay
from qsdp.plotting._objective import ObjectiveDisplay
from qsdp.plotting._regions import DecisionRegionDisplay
from qsdp.plotting._spectrum import SpectrumDisplay

__all__ = [
    "BitsDisplay",
    "CovarianceDisplay",
    "DecisionRegionDisplay",
    "GapDisplay",
    "LevelsDisplay",
    "ObjectiveDisplay",
    "SpectrumDisplay",
]
