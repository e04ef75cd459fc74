"""Numbers chosen by measurement, one for each role, shared by all packages.

Bounds and certificates hold for any values; how tight they are may depend on them. Each was chosen by measurement or by
convention; a factor of two or three either way changes times by a few percent, so a method has a number of its own only
where its problem differs.
"""

from __future__ import annotations

__all__ = [
    "EIGEN",
    "FAR",
    "FEW_SIGNS",
    "FIRST_TRY",
    "GAIN",
    "HALVINGS",
    "INNER",
    "MANY_ROWS",
    "MANY_STEPS",
    "MAX_SIDE",
    "MAX_STEPS",
    "MODERATE",
    "NEGLIGIBLE",
    "PATIENCE",
    "PROGRESS",
    "QUICK_SIDE",
    "ROUGH",
    "SECOND",
    "SMALL",
    "TILE",
    "TYPICAL_STEPS",
]

# -- loops ------------------------------------------------------------------------------------------------

#: Maximum number of steps of a Newton-like method; ten to thirty are usual.
MAX_STEPS = 100

#: Typical number of steps of a Newton-like method.
TYPICAL_STEPS = 12

#: Maximum number of iterations of a first-order method; hundreds are usual.
MANY_STEPS = 20_000

#: Maximum number of halvings of a step; what is left after them is rounding.
HALVINGS = 40

#: Number of steps without progress after which to stop or to try something else.
PATIENCE = 15

#: A gain below this fraction of the value, or of the predicted gain, does not count.
GAIN = 1e-4

# -- accuracies -------------------------------------------------------------------------------------------

#: Accuracy of an inner problem relative to that of the problem around it; in general, what is small beside another.
INNER = 0.1

#: A measure of progress that stays above this fraction of its best value has not improved.
PROGRESS = 1.0 - INNER

#: Relative accuracy of rough answers, which only guide a method.
ROUGH = 1e-2

#: Fraction of the whole that hardly matters. A solve to a gap of this or more is coarse: its iteration count is easier
#: to predict, and single precision suffices.
SMALL = 1e-3

#: Relative size that counts as zero, although it exceeds rounding errors.
NEGLIGIBLE = 1e-12

# -- sizes ------------------------------------------------------------------------------------------------

#: Ratio from which two sizes differ by far.
FAR = 100.0

#: Sizes between this and its inverse need no rescaling.
MODERATE = 2.0**10

#: Side of a dense matrix that is factored in about a second.
MAX_SIDE = 4000

#: Side of a tile, or columns of a strip, of a matrix: products of fewer columns are slow.
TILE = 64

#: Rows of a sample or chunk whose products are as fast as those of more rows.
MANY_ROWS = 2048

#: Number of signs (12) up to which all vectors are listed at once: 2048 of them, the rows of a chunk, up to a common
#: sign.
FEW_SIGNS = MANY_ROWS.bit_length()

#: Side of a symmetric matrix whose eigenvectors take less than a tenth of a second.
QUICK_SIDE = 500

#: Floating-point operations of about a second.
SECOND = 1e11

#: Operations of an eigendecomposition of a matrix of side N, in units of N^3.
EIGEN = 15.0

#: Fraction of the remaining time for a first attempt, if another follows.
FIRST_TRY = 0.25
