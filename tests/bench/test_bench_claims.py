"""Claims of all experiments: each has a row on the page before anything is measured."""

from __future__ import annotations

import pytest

main = pytest.importorskip("benchmarks.__main__", reason="not in the installed package")


@pytest.mark.parametrize("name", main.topics())
def test_every_experiment_names_its_claims_before_anything_is_measured(name: str) -> None:
    claims = main.module_of(name).EXPERIMENT.claims([])
    assert claims, "no claim at all"
    for claim in claims:
        assert claim.statement
        assert claim.source
    assert any(claim.verdict == "not measured" for claim in claims)
    assert not [claim for claim in claims if claim.verdict in {"supported", "contradicted", "inconclusive"}]
