r"""Cutting planes: solve the relaxation, add the inequalities that its solution violates, and solve again.

With a weight :math:`\gamma_k \ge 0` for every cut, the dual problem is

.. math::

    \max_{\nu, z, \gamma}\; -\ell^*(-\nu) \quad\text{s.t.}\quad
    \mathrm{Diag}(z) - M_\nu - \sum_k \gamma_k a_k a_k^T \succeq 0,\;
    \mathrm{Diag}(z) + M_\nu - \sum_k \gamma_k c_k c_k^T \succeq 0,\; 1^T z - 1^T \gamma \le \beta D ,

and every feasible point proves its value: for sign vectors u and v with w = u + v and t = u - v,

.. math::

    4 u^T M v = w^T M w - t^T M t \le \sum_j z_j (w_j^2 + t_j^2) - \sum_k \gamma_k ((a_k^T w)^2 + (c_k^T t)^2)
    \le 4 \sum_j z_j - 4 \sum_k \gamma_k ,

since :math:`w_j^2 + t_j^2 = 4`, and :math:`(a^T w)^2 + (c^T t)^2 = 2 ((p^T u + q^T v)^2 + (p^T v + q^T u)^2) \ge 4`.
"""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.tuning import GAIN, HALVINGS, INNER, MAX_SIDE, MAX_STEPS, NEGLIGIBLE, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.pricing.bound_trees import root_tree
from qsdp.relaxation.bounds import ProvenBound, best_scale, entry_rounding
from qsdp.relaxation.cuts.odd import OddCuts, longer_cuts, triangle_cuts
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solvers.interior import unfit
from qsdp.relaxation.solvers.interior.cone import LinAlgError
from qsdp.relaxation.solvers.interior.coordinates import Coordinates
from qsdp.relaxation.solvers.interior.fits import JoinedFit, SlackFit, fit_of
from qsdp.relaxation.solvers.interior.interior_point import FactorCache, cold_start
from qsdp.relaxation.solvers.interior.newton_system import Newton, Sides, Steps, factored_with_shifts, solved
from qsdp.relaxation.solvers.interior.predictor_corrector import State, advance
from qsdp.roundoff import gamma, semidefinite_shift

__all__ = ["CutNewton", "CuttingPlanes"]

# Half or twice each of the following numbers changes bounds after two seconds by less than 1 %.
#: Maximum number of cuts per round; there are three starting vectors of the search for each.
_NEW = 600

#: Number of steps of the search for longer inequalities.
_STEPS = 6


class CuttingPlanes:
    """Cutting-plane method for a one-output instance; its bound is valid after every round.

    Parameters
    ----------
    instance : Instance
        Instance that `supports` accepts.
    rng : numpy.random.Generator
        Generator for the starting vectors of the search for inequalities.

    Attributes
    ----------
    best : ProvenBound or None
    exhausted : bool
        Whether no further round will improve the bound.
    """

    def __init__(self, instance: Instance, rng: np.random.Generator) -> None:
        self._instance, self._rng = instance, rng
        self._normal, self._units = instance.normalised()
        self.best: ProvenBound | None = None
        self.exhausted = False
        self._setup = FactorCache(self._normal, None).setup(0, self._normal)
        self._coordinates = self._setup.newton.coordinates
        self._cuts = OddCuts.none(instance.size)
        self._max_cuts = MAX_SIDE - self._coordinates.length - instance.size
        self._state: State | None = None
        self._pairs = _pairs_of(np.zeros(0), np.zeros(0))
        self._tol = SMALL

    @staticmethod
    def supports(instance: Instance) -> bool:
        """Whether cutting planes can be used: one output, no real weights, a suitable loss and moderate size."""
        N, n = instance.size, instance.map.n_rows
        length = min(n, N * (N + 1) // 2) if instance.fit.quadratic else n
        small = length + _NEW + N <= MAX_SIDE
        alone = instance.n_matrices == 1 and not instance.map.layout.weights
        return small and alone and unfit(instance.loss) is None

    def improve(self) -> None:
        """Run one round: add inequalities that the last solution violates, solve again, and keep the better bound."""
        try:
            fresh = self._state is None
            if self._state is None:
                self._state = self._start()
            if self._state is None or not (fresh or self._cut()):
                self.exhausted = True
                return
            newton = CutNewton(self._coordinates, self._cuts)
            if not fresh:
                self._restart(newton)
            before = self.best.value if self.best else 0.0
            deadline.check()
            try:
                self._follow(newton, self._state)
            finally:
                self._offer()
            if self.best is not None and self.best.value <= (1.0 + self._tol) * before:
                self._tol = max(INNER * self._tol, GAIN)
        except TimeOver:
            pass
        except LinAlgError:
            self.exhausted = True

    def _start(self) -> State | None:
        """Return the starting point without cuts; None if the zero network is optimal or the data are zero."""
        newton, fit, radius = self._setup.newton, self._setup.fit, self._normal.dual_radius
        nu = fit.zero_dual.T
        M = newton.adjoint(nu)
        largest = float(self._setup.dominating(nu, M, np.ones(M.shape[:2]))[0])
        if not (np.isfinite(largest) and self._normal.size * largest > radius):
            return None
        z = np.full(M.shape[:2], largest)
        start = cold_start(fit, newton, nu, M, largest, z, radius, self._normal.fit.value_at_zero)
        self._fit = fit_of(fit, start.nu)
        return State(start.Y, start.r, start.z)

    def _follow(self, newton: CutNewton, state: State) -> None:
        """Follow the central path until the gap is at most the tolerance relative to the dual value."""
        fit = JoinedFit(self._fit, self._pairs)
        state.dual = newton.dual_matrices(fit.nu, state.z)
        for _ in range(MAX_STEPS):
            deadline.check()
            _, gap = advance(newton, fit, state, self._normal.dual_radius)
            if gap <= self._tol * self._value():
                return

    def _value(self) -> float:
        """Return the approximate dual value of the current iterate."""
        state, fit = self._state, self._setup.fit
        assert state is not None
        tau = float(state.z.sum() - self._pairs.nu.sum())
        nu = self._fit.nu.T * min(1.0, self._normal.dual_radius / tau)
        return max(0.0, fit.dual_value(fit.project(nu)))

    def _cut(self) -> int:
        """Drop inequalities with slack and add violated ones; return the number added."""
        state = self._state
        assert state is not None
        r, (A, B), slacks = float(state.r[0]), state.Y[0], self._pairs.x[0, 0]
        tight = np.flatnonzero(slacks < INNER * r)
        tight = np.sort(tight[np.argsort(slacks[tight], kind="stable")[: self._max_cuts - _NEW]])
        self._cuts, self._pairs = self._cuts[tight], _pairs_of(slacks[tight], self._pairs.nu[0, tight])
        V, Z = (A + B) / r, (A - B) / r
        violated = triangle_cuts(V, Z, _NEW, ROUGH)
        if len(violated) < _NEW // 3:
            violated = violated + longer_cuts(
                np.block([[V, Z], [Z, V]]), self._starts(), _NEW, ROUGH, _STEPS, self._rng
            )
        violated = violated.unlike(self._cuts)
        self._cuts = self._cuts + violated
        return len(violated)

    def _starts(self) -> FloatArray:
        """Return starting vectors of the search: unit vectors, and vectors of the current inequalities."""
        units = np.eye(2 * self._instance.size)
        few = units[self._rng.permutation(len(units))[:_NEW]]
        vectors = self._cuts.vectors
        return np.vstack([few, vectors[self._rng.permutation(len(vectors))[: 3 * _NEW - len(few)]]])

    def _restart(self, newton: CutNewton) -> None:
        """Move the iterate into the interior of the cone, and initialise slacks and weights of new cuts."""
        state = self._state
        assert state is not None
        N, old, r = self._instance.size, self._pairs.nu.shape[1], float(state.r[0])
        # A quarter of the identity is mixed in.
        state.Y = state.Y + 0.25 * (0.5 * r * np.eye(N) - state.Y)
        weights = np.concatenate([self._pairs.nu[0], np.zeros(len(self._cuts) - old)])
        slacks = np.maximum(self._cuts.values(state.Y[0]) - r, ROUGH * r)

        def dual() -> FloatArray:
            return newton.dual_matrices(np.hstack([self._fit.nu, weights[None]]), state.z)

        mu = float(np.vdot(state.Y, dual())) / (2 * N)
        weights[old:] = mu / slacks[old:]
        # Any factor works that keeps the dual matrices positive definite, as they are without new cuts.
        for _ in range(HALVINGS):
            if np.linalg.eigvalsh(dual()).min() > 0.0:
                break
            weights[old:] *= 0.5
        else:
            raise LinAlgError("the last point lies on the boundary")
        self._pairs = _pairs_of(slacks, np.maximum(weights, NEGLIGIBLE * float(weights.max())))
        self._fit.centre(newton.forward(state.Y[:, 0] - state.Y[:, 1]), mu)

    def _offer(self) -> None:
        """Compute the bound of the current iterate from the data, and store it if it is better."""
        state, instance = self._state, self._instance
        assert state is not None
        nu = self._setup.evaluation.nu(self._setup.candidate(self._fit.nu)) * (
            self._units.value / self._units.prediction
        )
        nu = instance.fit.project(nu)
        unit = self._units.value / self._units.weight
        z, weights = unit * state.z[0], unit * self._pairs.nu[0]
        used = weights > ROUNDING * float(np.abs(z).sum())
        cuts, weights = self._cuts[used], weights[used]
        bound = cut_bound(instance, nu, z, cuts, weights)
        if bound is not None and (self.best is None or bound.value > self.best.value):
            self.best = bound


def _pairs_of(slacks: FloatArray, weights: FloatArray) -> SlackFit:
    r"""Return the complementary pairs of cuts: their values less r equal slacks, and weights are multipliers."""
    zero = np.zeros((1, len(weights)))
    pairs = SlackFit(zero, zero, [(zero - 1.0, zero)], weights[None])
    pairs.x = slacks[None, None]
    return pairs


def cut_bound(
    instance: Instance, nu: FloatArray, z: FloatArray, cuts: OddCuts, weights: FloatArray
) -> ProvenBound | None:
    """Compute the bound that a dual vector, z (raised to feasibility) and cut weights prove; None if not finite."""
    M = instance.map.adjoint(nu[:, 0])
    dual = np.stack([-M, M]) - cuts.matrices(weights)
    diagonal = np.arange(len(z))
    dual[:, diagonal, diagonal] += z
    if not np.all(np.isfinite(dual)):
        return None
    # The weighted sums of cuts are rounded, too, and may cancel; row sums of all of their terms bound the effect.
    sizes = np.abs(M).sum(axis=1) + cuts.row_sums(weights).max(axis=0) + np.abs(z).max()
    rounding = gamma(len(weights) + 8) * sizes
    z = z + np.maximum(*(semidefinite_shift(half) for half in dual)) + rounding
    tau = float(z.sum() - weights.sum()) + float(entry_rounding(instance.map, nu)[0])
    scale = best_scale(instance.fit, nu, instance.dual_radius / tau if tau > 0.0 else np.inf)
    value = instance.safe_dual_value(scale * nu)
    tree = root_tree(scale * z, cuts.vectors.astype(np.int8), scale * weights)
    return ProvenBound(value, scale * nu, (tree,), (None,))


class CutNewton(Newton):
    r"""Newton system of one output for a fixed set of cuts, factored once for each scaling.

    Notes
    -----
    In the notation of `newton_system`, with weights :math:`\gamma \ge 0` of the cuts
    :math:`a_k^T A a_k + c_k^T B c_k - s_k = r`, :math:`s \ge 0`, and :math:`\gamma_k s_k = \mu` on the path, the dual
    matrices are

    .. math::

        \mathrm{Diag}(z) - F^T \nu - \sum_k \gamma_k a_k a_k^T \quad\text{and}\quad
        \mathrm{Diag}(z) + F^T \nu - \sum_k \gamma_k c_k c_k^T, \qquad 1^T z - 1^T \gamma = \beta D,

    and eliminating the steps of A, B, s and of the predictions leaves a positive definite system in
    :math:`(dq, d\gamma, dz)`. Its blocks are those without cuts and

    .. math::

        K_{kl} = (a_k^T W_A a_l)^2 + (c_k^T W_B c_l)^2 + [k = l]\, s_k / \gamma_k, \qquad
        K_{ki} = F_i(W_A a_k a_k^T W_A - W_B c_k c_k^T W_B), \qquad
        -(W_A a_k)_j^2 - (W_B c_k)_j^2 .
    """

    def __init__(self, coordinates: Coordinates, cuts: OddCuts) -> None:
        n, m, N = coordinates.length, len(cuts), coordinates.size
        super().__init__(coordinates, (n + m) ** 3 / 3.0)
        self.cuts = cuts
        self._q, self._g, self._z = slice(0, n), slice(n, n + m), slice(n + m, n + m + N)
        self._matrix = np.zeros((n + m + N,) * 2)
        self._ends = np.concatenate([np.zeros(n), np.full(m, -1.0), np.ones(N)])

    def values(self, Y: FloatArray, r: FloatArray) -> FloatArray:
        """Compute the predictions, followed by the values of the cuts less r."""
        return np.hstack([super().values(Y, r), (self.cuts.values(Y[0]) - r)[None]])

    def dual_matrices(self, nu: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the dual matrices for a multiplier whose last entries are the weights of the cuts."""
        return super().dual_matrices(nu[:, self._q], z) - self.cuts.matrices(nu[0, self._g])

    def totals(self, nu: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the sum of z less the weights of the cuts."""
        return super().totals(nu, z) - float(nu[0, self._g].sum())

    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Factor for scaling factors G of shape (1, 2, N, N), and compliances of the loss and of the cuts."""
        K, q, g, z, cuts, G = self._matrix, self._q, self._g, self._z, self.cuts, G[0]
        W = G @ G.swapaxes(-1, -2)
        self.coordinates.kernel(G[None], W[None], K[q, q])
        scaled = cuts.a @ G[0], cuts.c @ G[1]
        K[g, g] = np.square(scaled[0] @ scaled[0].T) + np.square(scaled[1] @ scaled[1].T)
        left, right = cuts.a @ W[0], cuts.c @ W[1]
        K[q, g] = (self.coordinates.squares(left) - self.coordinates.squares(right)).T
        K[q, z] = -self.coordinates.border(W[None])
        K[g, z] = -(left * left + right * right)
        K[z, z] = W[0] * W[0] + W[1] * W[1]
        diagonal = np.arange(len(K))
        K[diagonal[: z.start], diagonal[: z.start]] += compliance[0]

        def shifted(shift: float) -> FloatArray:
            system = K.copy()
            system[diagonal, diagonal] *= 1.0 + shift
            return system

        self._factor = factored_with_shifts(shifted)
        self._answer = solved(self._factor, self._ends)
        self._weight = float(self._ends @ self._answer)
        if not 0.0 < self._weight < np.inf:
            raise LinAlgError("the border of the Newton system underflowed")

    def solve(self, sides: Sides) -> Steps:
        """Return the steps; those of the weights of the cuts are the last of the multiplier's."""
        R, rhs = sides.R[0], np.empty(len(self._ends))
        rhs[self._q] = self.coordinates.forward((R[1] - R[0])[None])
        rhs[self._g] = -self.cuts.values(R)
        rhs[: self._z.start] -= sides.error[0]
        rhs[self._z] = (R[0] + R[1]).diagonal() + sides.off[0]
        solution = solved(self._factor, rhs)
        dr = (self._ends @ solution + sides.excess) / self._weight
        solution -= dr * self._answer
        return solution[None, : self._z.start], solution[None, self._z], dr
