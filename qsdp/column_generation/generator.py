"""Column generation of bilinear neurons for one output or several coupled ones, and its bounds from relaxations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.parallel import LARGE_FLOATS, few_threads
from qsdp._utils.tuning import FIRST_TRY, GAIN, INNER, PATIENCE
from qsdp._utils.validation import FloatArray
from qsdp.certificates import Certificate
from qsdp.certificates.proof import Proof
from qsdp.column_generation._packed_program import PackedProgram, suits_packed
from qsdp.column_generation._row_program import SharedSums
from qsdp.column_generation.loop import ATOMS, Outcome, PricingResult, Round, generate
from qsdp.column_generation.master import Master
from qsdp.networks import BilinearNetwork
from qsdp.pricing import BilinearOracle, OracleResult, price_stack
from qsdp.pricing.atoms import Atoms
from qsdp.pricing.bound_trees import scaled_tree
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation
from qsdp.relaxation.bounds import DualBound, ProvenBound, instance_bound
from qsdp.relaxation.cuts import CuttingPlanes
from qsdp.relaxation.instance import Instance
from qsdp.sampling import sample_network
from qsdp.shaping import BlockCovariances, shape_covariance

__all__ = [
    "Part",
    "RelaxationBound",
    "WarmStart",
    "bilinear_part",
    "is_cheap",
    "network_of",
    "part_of_certificate",
    "precompute_sums",
]

#: Number of inputs, and logarithm of the number of sign vectors of all matrices, up to which every round is priced
#: exactly; from 22 to 28 inputs it does not matter, with 30 a proof takes twice as long.
_CHEAP = 28

#: Size up to which exact pricing takes seconds, so that proofs close the gap and cutting planes would only delay them.
_ENUMERATED = 35

#: Number of neurons sampled from a relaxation as initial columns.
_SAMPLED = 500

#: Maximum number of starts near the current neurons, and random ones of the last search before a proof; if that finds
#: an atom, the proof is not needed.
_MANY_STARTS = 10_000


def is_cheap(problem: TrainingProblem) -> bool:
    """Whether the problem is so small that every round is priced exactly, by enumeration."""
    return _hardest(problem) <= _CHEAP


def _hardest(problem: TrainingProblem) -> int:
    """Return the largest side of a block that is not linear, which determines the cost of pricing."""
    layout = problem.blocks
    if layout is None:
        return problem.size
    return max((size for size, flat in zip(layout.sizes, layout.linear, strict=True) if not flat), default=0)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What is known of all outputs before the first round: a relaxation, a network, and a certificate."""

    relaxation: Relaxation | None = None
    network: BilinearNetwork | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """Result for one output or for all coupled ones: atoms in units of the levels, and the bound with its proof."""

    atoms: Atoms
    weights: FloatArray
    bound: ProvenBound
    status: str


def bilinear_part(
    problem: TrainingProblem,
    k: int | None,
    known: WarmStart,
    tol: float,
    rng: np.random.Generator,
    report: Callable[[Round], None],
    shared: SharedSums,
) -> Part:
    """Train output `k` of a bilinear problem, or all outputs together if `k` is None.

    `shared` holds sums of all outputs.
    """
    problem = problem if k is None else problem.output(k)
    instance = Instance.from_problem(problem)
    master = Master(instance, shared, k or 0)
    outputs = slice(None) if k is None else slice(k, k + 1)
    dual, relaxation = None, known.relaxation
    if relaxation is not None:
        z = relaxation.bound.z[instance.matrices_of(outputs)]
        dual = instance_bound(instance, [relaxation.bound.nu[:, outputs]], [z])
    stored = None if known.certificate is None else part_of_certificate(known.certificate, instance, outputs)
    relaxation_bound = RelaxationBound(instance, dual, rng, stored)
    relaxation_bound.exhausted |= _hardest(problem) <= _ENUMERATED
    pricing = _BilinearPricing(problem, rng, tol, None if dual is None else dual.z, relaxation_bound)
    seeds: list[Any] = [known.network] if known.network is not None else []
    if relaxation is not None and relaxation.status != "failed" and not deadline.over():
        seeds.append(_sampled(relaxation, k, rng))
    if seeds and problem.blocks is not None:
        for seed in seeds:
            master.add(Atoms.of_network(_of_output(seed, k)))
    elif seeds:
        best = max(
            (bound for bound in (dual, stored) if bound is not None), key=lambda bound: bound.value, default=None
        )
        master.add(pricing.seeds(_slope(problem, k, seeds[0]) if best is None else best.nu, seeds))
    # The bound of packed entries is proven for other floats in the end, and may then be a little lower.
    aim = (1.0 - 2.0 * INNER) * tol if isinstance(master.program, PackedProgram) else tol
    loop = partial(
        generate, tol=aim, other_bound=lambda: relaxation_bound.value, improve=relaxation_bound.improve, report=report
    )
    with few_threads(small=master.small):
        outcome = loop(master, pricing)
        program = master.program
        if isinstance(program, PackedProgram) and instance.map.n_rows * ATOMS <= LARGE_FLOATS:
            # Sums over the samples cancel where the loss is small; on the samples, the digits are there.
            agrees = program.agrees()
            if outcome.status == "stalled" or not agrees:
                on_rows = Master(instance, shared, k or 0, packed=False)
                on_rows.add(master.atoms)
                again = loop(on_rows, pricing)
                if again.gap < outcome.gap or not agrees:
                    master, outcome = on_rows, again
        atoms, weights = master.support(outcome.accuracy)
    return _part(problem, atoms, weights, outcome, relaxation_bound, pricing, master)


def precompute_sums(problem: TrainingProblem, shared: SharedSums) -> None:
    """Compute the sums that all outputs need, unless a time limit passes, before the time is divided among them."""
    instance = Instance.from_problem(problem.output(0))
    if suits_packed(instance) and instance.fit.quadratic:
        with suppress(TimeOver):
            shared.gram(instance.normalised()[0])


def _part(
    problem: TrainingProblem,
    atoms: Atoms,
    weights: FloatArray,
    outcome: Outcome,
    relaxation_bound: RelaxationBound,
    pricing: _BilinearPricing,
    master: Master,
) -> Part:
    """Build the result: atoms in units of the levels, with the better proof, of the rounds or of the relaxation."""
    M = np.int8(problem.levels - 1)
    U, V = atoms.U.copy(), atoms.V.copy()
    U[:, : problem.n_features] *= M
    V[:, : problem.n_features] *= M
    atoms = replace(atoms, U=U, V=V)
    dual, priced = outcome.dual, outcome.priced
    if dual is None or priced is None or dual.value < relaxation_bound.value:
        return Part(atoms, weights, relaxation_bound.proof(), outcome.status)
    nu = master.program.lifted(dual.nu)
    if isinstance(master.program, PackedProgram):
        # The rounds priced sums over the samples that are not quite those of the dual vector in floats.
        with deadline.unlimited() if is_cheap(problem) else nullcontext():
            priced = pricing.prove(master, *master.instance.map.pull(nu))
        scale, excess = 1.0, 0.0
    else:
        scale, excess = dual.scale, dual.excess
    trees = tuple(scaled_tree(tree, scale) for result in priced.results for tree in result.trees)
    uppers = tuple(scale * result.upper + excess for result in priced.results)
    return Part(atoms, weights, ProvenBound(dual.value, nu, trees, uppers, priced.exact), outcome.status)


def _slope(problem: TrainingProblem, k: int | None, network: BilinearNetwork) -> FloatArray:
    """Compute minus the gradient of the loss at a network, which is an optimal dual vector for an optimal network."""
    return -problem.data_fit.gradient(problem.outputs(_of_output(network, k)))


def _of_output(network: Any, k: int | None) -> Any:
    """Extract the network of output `k`, or return that of all outputs if `k` is None."""
    if k is None:
        return network
    return replace(network, alpha=network.output_weights[:, k], weights=network.column_weights[:, k])


def _sampled(relaxation: Relaxation, k: int | None, rng: np.random.Generator) -> Any:
    """Sample a network from a relaxation, for output `k` or for all outputs."""
    with deadline.fraction(0.5):
        covariance = shape_covariance(relaxation)
    if isinstance(covariance, BlockCovariances):
        return sample_network(covariance, _SAMPLED * len(covariance.layout.kinds), rng)
    if k is not None:
        covariance = covariance[k]
    return sample_network(covariance, max(_SAMPLED, len(covariance) if isinstance(covariance, list) else 1), rng)


class _BilinearPricing:
    """Pricing of the master problem's dual vector: heuristic search, and proof where it is worthwhile."""

    def __init__(
        self,
        problem: TrainingProblem,
        rng: np.random.Generator,
        tol: float,
        shifts: FloatArray | None,
        relaxation_bound: RelaxationBound,
    ) -> None:
        self.problem, self.rng, self.tol, self.shifts = problem, rng, tol, shifts
        self.relaxation_bound, self.layout = relaxation_bound, problem.blocks
        self.oracle = BilinearOracle(max(1, problem.size))
        #: Whether no proof has been abandoned, and the number of rounds since the last one.
        self._open, self._waited = True, 0

    def seeds(self, nu: FloatArray, networks: Sequence[BilinearNetwork]) -> Atoms:
        """Find initial atoms: those of largest pricing values near the neurons of networks."""
        starts = np.vstack([np.where(side < 0, -1.0, 1.0) for net in networks for side in (net.U, net.V)])
        results = [
            self.oracle.search(
                self.problem.map.adjoint(column),
                starts=starts,
                n_starts=0,
                max_atoms=2 * _SAMPLED,
                rng=self.rng,
            )
            for column in nu.T
        ]
        return PricingResult.combine(results).atoms

    def __call__(self, master: Master, gap: float) -> PricingResult:
        matrices, real = master.pull()
        if is_cheap(self.problem) and len(matrices) <= 2.0 ** (_CHEAP - _hardest(self.problem)):
            return self.prove(master, matrices, real)
        self._waited += 1
        results = self._search(master, matrices, ATOMS)
        if self._is_worth_proving(_promised(master, results, real), gap):
            results = self._search(master, matrices, _MANY_STARTS)
        promised = _promised(master, results, real)
        if self._is_worth_proving(promised, gap):
            last = promised <= self.tol and self.relaxation_bound.exhausted
            whole = last or self.problem.size <= _ENUMERATED
            return self.prove(master, matrices, real, results, whole=whole)
        # Cutting planes are worth a round if columns alone promise to leave at most half of the gap.
        if promised <= 0.5 * gap:
            self.relaxation_bound.improve()
        return self._combined(master, results, real)

    def _combined(self, master: Master, results: list[OracleResult], real: FloatArray) -> PricingResult:
        """Combine results for matrices with the columns of real weights whose sums (C, p) violate their bounds."""
        if self.layout is None or not real.size:
            return PricingResult.combine(results, self.layout)
        return PricingResult.combine(results, self.layout, *priced_weights(master, real))

    def _is_worth_proving(self, promised: float, gap: float) -> bool:
        """Decide whether to prove that no pricing value exceeds those found, which would leave the gap `promised`.

        After an abandoned proof, another is tried only if it would leave at most `tol` and cutting planes no longer
        raise the bound of the relaxation.
        """
        if deadline.over():
            return False
        if promised <= self.tol:
            return self._open or self.relaxation_bound.exhausted
        return self._open and self._waited >= PATIENCE and promised <= INNER * gap

    def _search(self, master: Master, matrices: FloatArray, n_starts: int) -> list[OracleResult]:
        direct = self._direct(master, matrices)
        return [
            direct[k]
            if k in direct
            else self.oracle.search(
                M,
                threshold=master.instance.dual_radius,
                starts=self._neighbours(master, k),
                n_starts=n_starts,
                max_atoms=max(2, ATOMS // len(matrices)),
                rng=self.rng,
            )
            for k, M in enumerate(matrices)
        ]

    def _direct(self, master: Master, matrices: FloatArray) -> dict[int, OracleResult]:
        """Price exactly the small and the diagonal matrices of blocks, which need no search."""
        if self.layout is None or not len(matrices):
            return {}
        count = max(2, ATOMS // max(1, 4 * len(matrices)))
        return price_stack(matrices, self.layout, master.instance.dual_radius, count)

    def _neighbours(self, master: Master, k: int) -> FloatArray | None:
        """Return starts of a search: the sides of an output's most used neurons, and their one-sign neighbours."""
        of_output, N = master.atoms.numbers(self.problem.map.n_blocks) == k, self.problem.size
        atoms = master.atoms[of_output]
        if not len(atoms):
            return None
        used = np.argsort(-master.weights[of_output])[: max(1, min(ATOMS, _MANY_STARTS // (2 * N)))]
        sides = np.vstack([atoms.U[used], atoms.V[used]]).astype(np.float64)
        flipped = np.repeat(sides, N, axis=0)
        flipped[np.arange(len(flipped)), np.tile(np.arange(N), len(sides))] *= -1.0
        return np.vstack([sides, flipped])

    def prove(
        self,
        master: Master,
        matrices: FloatArray,
        real: FloatArray,
        searched: list[OracleResult] | None = None,
        *,
        whole: bool = True,
    ) -> PricingResult:
        """Prove the largest pricing values, within the remaining time or, unless `whole`, a fraction of it.

        A proof of a part of the time that fails is tried again once neither columns nor cutting planes help.
        """
        direct = self._direct(master, matrices)
        results = []
        with deadline.fraction(1.0 if whole else FIRST_TRY):
            for k, M in enumerate(matrices):
                if k in direct:
                    results.append(direct[k])
                    continue
                with deadline.fraction(1.0 / (len(matrices) - k)):
                    result = self.oracle.prove(
                        M,
                        threshold=master.instance.dual_radius,
                        max_atoms=max(2, ATOMS // len(matrices)),
                        incumbent=searched[k].value if searched else 0.0,
                        slack=INNER * self.tol if not is_cheap(self.problem) else 0.0,
                        shift=None if self.shifts is None else self.shifts[k],
                    )
                results.append(result)
        proven = self._combined(master, results, real)
        self._open, self._waited = proven.exact or whole, 0
        return proven


def _promised(master: Master, results: Sequence[OracleResult], real: FloatArray) -> float:
    """Compute the relative gap that a proof would leave if no pricing value exceeds those of a search."""
    return master.gap(max([float(np.abs(real).max(initial=0.0)), *(result.value for result in results)]))


def priced_weights(master: Master, real: FloatArray) -> tuple[Atoms, float]:
    """Return atoms of the columns whose sums (C, p) violate their bounds, at most a number, and the largest sum."""
    sizes = np.abs(real)
    count = min(ATOMS, sizes.size)
    lowest = max(master.instance.dual_radius, float(np.partition(sizes, -count, axis=None)[-count]))
    violating = np.where((sizes > master.instance.dual_radius) & (sizes >= lowest), real, 0.0)
    return Atoms.of_weights(violating, master.instance.map.layout), float(sizes.max())


def network_of(problem: TrainingProblem, atoms: Atoms, weights: FloatArray) -> BilinearNetwork:
    """Build a network from atoms in units of the levels, with equal neurons of several outputs merged."""
    U, V, block = atoms.U, atoms.V, atoms.block
    layout, real = problem.blocks, None
    if layout is not None and layout.weights:
        real = problem.squeezed(atoms.real_weights(weights, layout, problem.n_outputs).T / layout.weight_omega[:, None])
        neurons = block < layout.n_blocks
        atoms, weights = atoms[neurons], weights[neurons]
        U, V, block = atoms.U, atoms.V, atoms.block
    alpha, outputs = atoms.signs * weights, atoms.outputs
    if not len(atoms) and real is None:
        U = V = np.full((1, problem.size), problem.levels - 1, dtype=np.int8)
        U[:, problem.n_features :] = 1
        outputs, alpha, block = np.zeros(1, dtype=np.intp), np.zeros(1), np.zeros(1, dtype=np.intp)
    if layout is not None:
        alpha = alpha / layout.prices[block]
    if not problem.scalar:
        pairs, inverse = np.unique(np.hstack([U, V, block[:, None]]), axis=0, return_inverse=True)
        full = np.zeros((len(pairs), problem.n_outputs))
        np.add.at(full, (inverse.ravel(), outputs), alpha)
        N = problem.size
        U, V, block, alpha = pairs[:, :N], pairs[:, N : 2 * N], pairs[:, 2 * N], full
    if layout is not None:
        return BilinearNetwork.on_blocks(layout, U, V, alpha, block, real)
    return BilinearNetwork(
        U.astype(np.int8), V.astype(np.int8), alpha, levels=problem.levels, activation=problem.activation
    )


def part_of_certificate(certificate: Certificate, instance: Instance, outputs: slice) -> ProvenBound:
    """Return the bound that a certificate proves for some outputs, whose instance this is."""
    proof = certificate.proof
    assert isinstance(proof, Proof)
    nu, trees = proof.nu[:, outputs], proof.trees[instance.matrices_of(outputs)]
    value = max(0.0, instance.safe_dual_value(np.ascontiguousarray(nu)))
    return ProvenBound(value, nu, trees, (instance.dual_radius,) * len(trees), certificate.bound_type == "exact")


class RelaxationBound:
    """Best lower bound of an instance so far that does not come from the rounds.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all coupled ones.
    dual : DualBound or None
        Dual bound of the relaxation.
    rng : numpy.random.Generator
    stored : ProvenBound, optional
        Bound of an earlier run.
    """

    def __init__(
        self, instance: Instance, dual: DualBound | None, rng: np.random.Generator, stored: ProvenBound | None = None
    ) -> None:
        self._instance, self._rng, self._stored = instance, rng, stored
        self._dual = None if dual is None else _proven(dual)
        self._planes: CuttingPlanes | None = None
        self._still = 0
        self.exhausted = dual is None or not CuttingPlanes.supports(instance)

    @property
    def _semidefinite(self) -> ProvenBound | None:
        """Best bound from semidefinite programs."""
        bounds = [None if self._planes is None else self._planes.best, self._dual]
        return max((bound for bound in bounds if bound is not None), key=lambda bound: bound.value, default=None)

    @property
    def value(self) -> float:
        """Value of the bound, at least 0."""
        return max((bound.value for bound in (self._semidefinite, self._stored) if bound is not None), default=0.0)

    def improve(self) -> bool:
        """Run a round of cutting planes; return whether another one may help."""
        if self.exhausted:
            return False
        try:
            if self._planes is None:
                self._planes = CuttingPlanes(self._instance, self._rng)
            before = self._semidefinite
            self._planes.improve()
            best = self._semidefinite
            gained = best is not None and (before is None or best.value > (1.0 + GAIN) * before.value)
            self._still = 0 if gained else self._still + 1
            self.exhausted = self._planes.exhausted or self._still == PATIENCE
        except TimeOver:
            self.exhausted = True
        return not self.exhausted

    def proof(self) -> ProvenBound:
        """Return the best bound with its proof, which is that of the zero dual vector if there is no other."""
        bounds = [bound for bound in (self._stored, self._semidefinite) if bound is not None]
        if bounds:
            return max(bounds, key=lambda bound: bound.value)
        instance = self._instance
        nothing = np.zeros((instance.n_matrices, instance.size))
        return _proven(DualBound(0.0, np.zeros_like(instance.target), nothing))


def _proven(dual: DualBound) -> ProvenBound:
    return ProvenBound(dual.value, dual.nu, dual.trees, (None,) * len(dual.z))
