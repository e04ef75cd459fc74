"""The scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from qsdp._utils.outputs import squeezed
from qsdp._utils.validation import FloatArray, RandomState, check_targets
from qsdp.activations import PolynomialActivation
from qsdp.estimators.dask_fits import rows_here
from qsdp.estimators.explanation import Explained
from qsdp.estimators.parameters import CONSTRAINTS
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.statistics.dask_rows import is_collection
from qsdp.statistics.sample import Rows

__all__ = ["QuantizedNetworkRegressor"]


class QuantizedNetworkRegressor(RegressorMixin, Explained):  # type: ignore[misc]
    r"""Regression by a network with quantized first-layer weights and a certified gap to the global optimum.

    Fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)` with :math:`u_j, v_j \in \{\pm1\}^D` to
    standardised targets, where :math:`\tilde x` is the activation's lift of the encoded and scaled x. By default,
    :math:`\tilde x` are the inputs, and f also has real weights on them and on thresholds of the columns.

    Parameters
    ----------
    n_neurons : int or None, default=None
        Number of neurons m; of an additive model, those that round to zero in eight bits are left out, so that fewer
        may remain. None: for additive models, those that lower the objective by more than a hundredth; otherwise for
        each output, the smallest power of two from 8 to 128 for which the refined network matches the relaxation: the
        loss of the difference of their outputs is below 4 % of the expected loss (less with many rows). `resample`
        changes m later; sampling noise falls as :math:`1/\sqrt m`.
    beta : float or str, default="auto"
        Weight of the regulariser :math:`\beta D \sum_j \|\alpha_j\|_1`, which is added to a loss summed over samples:
        a number > 0; a fraction, such as "5%", of `qsdp.beta_max`, above which the zero network is optimal; or
        "auto": for additive models, the fraction with the smallest loss on held-out rows; otherwise the one for which
        the relaxation should leave a gradient of the loss as large as the best quadratic ridge regression leaves.
    loss : str or Loss, default="auto"
        "squared" as in the paper, "absolute", "huber", or a loss object of `qsdp.losses`. "auto" is "squared".
    activation : None, str, (a, b, c) or PolynomialActivation, default="auto"
        None or "bilinear": the network :math:`\sum_j \alpha_j (x^T u_j)(x^T v_j)`. A polynomial: a network that
        ``network_.to_polynomial()`` converts exactly to a standard one with that activation. "auto": None for
        additive models and for networks on blocks, otherwise "relu_like".
    levels : int, default=2
        Number M + 1 of values -M, -M + 2, ..., M of a first-layer weight, 2 (binary) to 128. Levels are useful for
        activations with a linear or constant part, and for a fixed number of neurons.
    encoding : {"auto", "additive", "standard", "thresholds", "both", "none"}, None or transformer, default="auto"
        How the columns of X become inputs of the network. "additive": real weights on inputs and thresholds, and
        neurons on the same inputs (`qsdp.encoding.AdditiveBlocks`), with 0 or 19 thresholds per column and beta
        chosen by the loss on held-out rows. "standard", "thresholds" and "both" have neurons only, on the inputs of
        `qsdp.encoding.TableEncoder`: "standard" standardises numbers and clips them at three standard deviations,
        "thresholds" turns each number into at most three bits, "both" uses both, and inputs are scaled to rows of norm
        about 1.5. "auto" is "additive", or "standard" where a network cannot be additive: with an activation, more than
        two levels or a loss without second derivatives, and for Dask collections. Categories of data frames and missing
        entries become bits. "none" or None uses X unchanged.
        A transformer of scikit-learn is cloned and fitted to X and y as in a pipeline. X has two dimensions and may
        then hold text and missing entries; the output must be numeric and is converted to a dense array. With
        `qsdp.encoding.Patches` or `Windows`, X are images or series, and the network is one on blocks: bilinear, so
        that `activation` must be None or "auto", without a constant column of its own. ``refine="exact"`` then
        proves the optimum without a relaxation if its neurons can be enumerated.
    max_categories : int, default=50
        Largest number of categories of a text column that get a bit each, >= 2; the most frequent ones do. The other
        categories set none of these bits. Only used with an `encoding` given by name.
    constant_column : bool, default=True
        Append a constant column, whose value `constant_` is 1 for standardised data and otherwise the scale of the
        data. Without it, a bilinear network is even, :math:`f(-x) = f(x)`. Activations with a linear or constant part
        need none and get none.
    solver : str, default="auto"
        See `qsdp.solve_relaxation`.
    refine : {"none", "refit", "polish", "exact"}, default="polish"
        What happens to the sampled network. "refit" optimises the second layer again, which leaves at most n neurons
        per output (`qsdp.refit`). "polish" improves single bits at equal storage (`qsdp.polish`). "exact" continues
        until a network of any width is proven globally optimal, if the time limit allows (`qsdp.column_generation`).
        Additive models are not sampled unless `n_neurons` is set: all but "none" round their weights to eight bits.
    tol : float, default=1e-3
        Relative gap at which the solver of the relaxation stops; see `qsdp.solve_relaxation`. The default is far
        below the gap of a network of the default size.
    allocation : {"equal", "proportional"}, default="proportional"
        How neurons are divided among several outputs; see `qsdp.sample_network`. Functions default to "equal", as the
        paper's algorithm; in proportion, the outputs of unequal classes are sampled with less noise.
    time_limit : float or None, default=None
        Seconds, > 0, for the whole fit, at least half of them for a refinement by "polish" or "exact". None: no limit
        for the relaxation, 120 seconds for such a refinement. Infinity: no limit at all. The limit is checked between
        iterations; the current step is finished, and its best result so far is used. Then the certificate is
        computed, which is still valid.
    n_jobs : int or None, default=None
        Processes for the relaxations of several outputs, threads for sampling, polish and predictions; see
        `qsdp.solve_relaxation`, `qsdp.sample_network` and `qsdp.polish`. The results do not depend on it, unless a
        time limit ends the polish.
    device : str or None, default=None
        Torch device, such as "cuda", for the Gram matrix of the data, if the solver computes one, and for statistics of
        Dask collections. None: NumPy on the CPU.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sampling and the polish; None draws a new one. The rest is deterministic.
    warm_start : bool, default=False
        Start the solver of the relaxation from the solution of the last `fit`, if inputs and targets have the same
        shape. After a small change of the data or of beta, it needs fewer iterations; the result is the same within
        `tol`.
    verbose : bool, int or None, default=None
        Show a progress bar for every stage, on standard error or in a notebook. None: in notebooks only, once a fit
        has taken two seconds. Functions default to False because loops call them.

    Attributes
    ----------
    network_ : BilinearNetwork
        Fitted network on the encoded inputs; the constant column, if appended, is one more input.
    encoder_ : transformer or None
        Fitted transformer of columns to inputs; see `encoding`.
    target_scaling_ : TargetScaling
        Offset and scale of the targets in training.
    constant_ : float
        Entry of the constant column, if there is one: the power of two nearest to the largest root mean square of an
        input.
    certificate_ : Certificate
        Objective of the network and lower bound for every network on the same inputs and scaled targets.
    result_ : QSDPResult
        Problem, relaxation, covariance and timings.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    See Also
    --------
    qsdp.solve_and_sample : The same for unchanged data and targets, with the defaults of the paper.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4, model.certificate_.relative_gap < 0.1
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS

    def __init__(
        self,
        n_neurons: int | None = None,
        *,
        beta: float | str = "auto",
        loss: str | Loss = "auto",
        activation: str | Sequence[float] | PolynomialActivation | None = "auto",
        levels: int = 2,
        encoding: Any = "auto",
        max_categories: int = 50,
        constant_column: bool = True,
        solver: str = "auto",
        refine: str = "polish",
        tol: float = 1e-3,
        allocation: str = "proportional",
        time_limit: float | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: bool | int | None = None,
    ) -> None:
        self.n_neurons = n_neurons
        self.beta = beta
        self.loss = loss
        self.activation = activation
        self.levels = levels
        self.encoding = encoding
        self.max_categories = max_categories
        self.constant_column = constant_column
        self.solver = solver
        self.refine = refine
        self.tol = tol
        self.allocation = allocation
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantizedNetworkRegressor:
        """Fit the network to data (n, d), or images or series, and targets (n,) or (n, C), with weights if given.

        All may be Dask collections.
        """
        with self._restored_on_error():
            return self._fit_to(X, y, sample_weight)

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkRegressor:
        options = self._options(in_batches=is_collection(X))
        loss = get_loss(self._loss)
        if loss.for_classes:
            raise InvalidInputError(f"loss must be a loss of real targets for a regressor; got {self.loss!r}")
        X, y, sample_weight, of_collections = rows_here(X, y, sample_weight, missing=self._takes_frames)
        self._fit(self._validated(X, y, sample_weight), options, **of_collections, **routed)
        return self

    @property
    def _targets(self) -> dict[str, Any]:
        return {"y_numeric": True, "multi_output": True}

    def _coded(self, samples: Rows) -> tuple[FloatArray, FloatArray | None]:
        return check_targets("y", samples.y, length=len(samples.y)), samples.weights

    def predict(self, X: Any) -> Any:
        """Return predictions of shape (n,) or (n, C).

        A Dask array gives an array, a Dask data frame a series or data frame with its index.
        """
        if is_collection(X):
            return self._of_collection("predict", X, np.float64, *self.network_.output_shape)
        return squeezed(self._output(X), self.network_.output_shape, axis=1)
