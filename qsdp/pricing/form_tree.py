"""The trees of a proof of the price of polynomial networks, one for each sign of the form."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import maxcut_bound
from qsdp.pricing.branching import Node, TreeSearch
from qsdp.pricing.form_enumeration import enumerate_forms
from qsdp.pricing.pool import FormPool
from qsdp.pricing.result import Leaf, PriceTree, SignArray
from qsdp.pricing.scaling import Scaled, form_rounding
from qsdp.pricing.shifts import bordered, root_shift, shift_bound, tighten

__all__ = ["FormTree"]

#: Vectors up to which enumeration is faster than any bound.
_SMALL = 2.0**20

#: Seconds of one value.
_VALUE = 3e-9


class FormTree(TreeSearch):
    r"""Bounds :math:`\pm q^T K q` over vectors q with given first levels.

    Parameters
    ----------
    scaled : Scaled
    pool : FormPool
    levels : int
    lifted : bool
        Whether the last of the nonzero rows belongs to the coordinate fixed at +1.
    limit : float
        Number of vectors up to which they may be enumerated.
    deadline : Deadline
        Polled often.

    Notes
    -----
    A node fixes :math:`q_F = s`; its bound is that of the form in (1, q_R / M), whose squares are at most one,
    M being the largest level: shifts are nonnegative unless M = 1. A form -K is bounded as the form K' = -K.
    """

    def __init__(
        self, scaled: Scaled, pool: FormPool, levels: int, lifted: bool, limit: float, deadline: Deadline
    ) -> None:
        N = len(scaled.M)
        super().__init__(pool, deadline, N, branches=levels, node_seconds=1e-3 * max(1.0, N / 33.0) ** 2.5)
        self.scaled, self.levels, self.limit = scaled, levels, limit
        rows = np.argsort(-np.abs(scaled.M).sum(axis=1), kind="stable")
        # The coordinate that is fixed comes first.
        self.fixed = np.ones(int(lifted))
        self.order = np.concatenate([rows[rows == N - 1], rows[rows != N - 1]]) if lifted else rows
        self.K = scaled.M[np.ix_(self.order, self.order)]

    def prove(self, seed: FloatArray | None) -> tuple[float, bool]:
        """Return an upper bound on the maximum, and whether it is exact; `seed` is a shift of the root."""
        margin = form_rounding(self.K, self.levels)
        if self.size <= len(self.fixed):
            # Nothing is free.
            self.pool.add(np.ones((self.size, self.size)))
            self.enumerated += [(self._root_signs(), sign) for sign in (1, -1)]
            return self.upper(margin), True
        completions = self._completions(len(self.fixed))
        if completions <= min(_SMALL, self.limit) and self._both():
            self.enumerated += [(self._root_signs(), sign) for sign in (1, -1)]
            return self.upper(margin), True
        exact = self.run([self._root(seed, sign) for sign in (1, -1)])
        return self.upper(margin), exact

    def trees(self) -> tuple[PriceTree, PriceTree]:
        """Return the trees of +K and -K."""
        order = self.scaled.order(self.order)
        trees = []
        for sign in (1, -1):
            leaves = [Leaf(signs, None) for signs, s in self.enumerated if s == sign]
            leaves += [self._leaf(node) for node in self.bounded() if node.sign == sign]
            trees.append(PriceTree(order, tuple(leaves)))
        return trees[0], trees[1]

    def enumeration_seconds(self, node: Node) -> float:
        """Return the time that the values of all completions take."""
        k = len(node.signs)
        if k == self.size:
            return 0.0
        completions = self._completions(k)
        return _VALUE * completions + 2e-4 if completions <= self.limit else np.inf

    def enumerate(self, node: Node) -> bool:
        """Show the completions to the pool."""
        return self._shown(node.signs.astype(np.float64), (node.sign,))

    def children(self, node: Node) -> list[Node]:
        """Return the nodes of all levels of the next coordinate."""
        k = len(node.signs)
        inner = self._inner(k + 1, node.sign)
        start = node.shift[2:]
        children = []
        top = self.levels - 1
        for level in range(-top, top + 1, 2):
            signs = np.append(node.signs, np.int8(level)).astype(np.int8)
            children.append(self._node(signs, node.sign, inner, start, node))
        return children

    def _node(self, signs: SignArray, sign: int, inner: FloatArray, start: FloatArray, parent: Node) -> Node:
        border, constant = self._outer(signs, sign)
        B = bordered(border, inner)
        margin = form_rounding(self.K, self.levels)
        shift = np.zeros(1)
        if len(inner):
            shift = tighten(inner, border, start, self.pool.target - constant, positive=self.levels > 2)
        bound = constant + shift_bound(B, shift) + margin
        if bound > parent.bound:
            kept = np.concatenate([[self._first_entry(signs, sign, parent)], start])
            other = constant + shift_bound(B, kept) + margin
            if other < bound:
                bound, shift = other, kept
        return Node(signs, shift, bound, sign)

    def _first_entry(self, signs: SignArray, sign: int, parent: Node) -> float:
        """Return the first entry of the parent's shift as one of its child: what was fixed is moved into it."""
        k, top = len(signs), self.levels - 1.0
        before = self._outer(signs[: k - 1], sign)[1] if k > 1 else 0.0
        after = self._outer(signs, sign)[1]
        return float(parent.shift[0] + parent.shift[1] * (signs[-1] / top) ** 2 - (after - before))

    def _root(self, seed: FloatArray | None, sign: int) -> Node:
        signs, top = self._root_signs(), self.levels - 1.0
        k = len(signs)
        inner = self._inner(k, sign)
        border, constant = self._outer(signs, sign)
        B = bordered(border, inner)
        shifts = [np.abs(B).sum(axis=1)]
        if seed is not None:
            z = seed[self.order] * top**2
            z = np.maximum(z, 0.0) if self.levels > 2 else z
            # The fixed coordinate is the first entry; its diagonal is in the constant.
            shifts.append(np.concatenate([[z[0] / top**2 - constant if k else 0.0], z[k:]]))
        if not self.deadline.over:
            z = root_shift(maxcut_bound, B)
            # Squares of more than two levels may be less than one, where no entry may be negative.
            shifts.append(np.concatenate([z[:1], np.maximum(z[1:], 0.0)]) if self.levels > 2 else z)
        bounds = [shift_bound(B, shift) for shift in shifts]
        best = int(np.argmin(bounds))
        bound = constant + bounds[best] + form_rounding(self.K, self.levels)
        return Node(signs, shifts[best], bound, sign)

    def _inner(self, k: int, sign: int) -> FloatArray:
        """Return the form of the coordinates from k on, in units of the largest level."""
        inner: FloatArray = sign * (self.levels - 1.0) ** 2 * self.K[k:, k:]
        return inner

    def _outer(self, signs: SignArray, sign: int) -> tuple[FloatArray, float]:
        """Return the linear part, twice K_RF s in those units, and the constant."""
        k, s = len(signs), signs.astype(np.float64)
        linear: FloatArray = 2.0 * sign * (self.levels - 1.0) * (self.K[k:, :k] @ s)
        return linear, sign * float(s @ self.K[:k, :k] @ s)

    def _completions(self, k: int) -> float:
        return float(self.levels) ** min(self.size - k, math.floor(1000 / math.log2(self.levels)))

    def _both(self) -> bool:
        return self._shown(self.fixed, (1, -1))

    def _shown(self, fixed: FloatArray, signs: tuple[int, ...]) -> bool:
        inverse = np.argsort(self.order)
        return enumerate_forms(
            self.K, fixed, self.levels, signs, self.pool, lambda Q: Q[:, inverse], lambda: self.deadline.over
        )

    def _root_signs(self) -> SignArray:
        return self.fixed.astype(np.int8)

    def _leaf(self, node: Node) -> Leaf:
        """Return the node as a leaf in all coordinates and the given matrix's units."""
        k = len(node.signs)
        shift = np.zeros(1 + self.scaled.size - k)
        shift[: len(node.shift)] = node.shift
        return Leaf(node.signs, np.ldexp(shift, self.scaled.exponent))
