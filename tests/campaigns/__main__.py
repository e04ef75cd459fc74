"""Campaigns against the library: `python tests/campaigns soundness [--quick] [--resume --out FILE]`.

Exit status 1: something was wrong. What makes a violation again is its seed and index: `--only INDEX`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from campaigns._record import Record, pursue, try_again

#: Cases of a quick run, and of a whole one, by campaign.
CASES = {"soundness": (40, 100_000), "blocks": (100, 10_000), "checker": (100, 40_000), "faults": (6, 400)}
SEED = 20261122

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def run(
    campaign: Annotated[str, typer.Argument(help=", ".join(CASES))],
    cases: Annotated[int | None, typer.Option(min=1, help="Cases in all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few cases: seconds.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the file of --out ends.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Try the violations of --out again, after a mend.")] = False,
    seed: Annotated[int, typer.Option(help="Of all cases.")] = SEED,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    only: Annotated[int | None, typer.Option(help="Try the case of this index alone, and say all it counts.")] = None,
    out: Annotated[Path | None, typer.Option(help="File of the record.")] = None,
) -> None:
    """Try random cases, and say what was wrong; `python -m benchmarks page` quotes the records in the documentation."""
    if campaign not in CASES:
        raise typer.BadParameter(f"{campaign!r} is none of {', '.join(CASES)}")
    tested = importlib.import_module(f"campaigns.{campaign}").tested
    if only is not None:
        outcome = tested(seed, only)
        print(*outcome.counts, *outcome.distances, *outcome.violations, sep="\n")
        raise typer.Exit(bool(outcome.violations))
    stored = out is not None and out.is_file()
    if again and not stored:
        raise typer.BadParameter(f"--again needs the file of a record as --out; got {out}")
    record = Record.load(out) if out and stored and (resume or again) else Record(campaign, seed)
    if record.seed != seed or record.campaign != campaign:
        raise typer.BadParameter(f"{out} is a record of {record.campaign} with seed {record.seed}")
    if again:
        try_again(record, tested)
    pursue(record, tested, 0 if again else cases or CASES[campaign][not quick], jobs=jobs, path=out)
    seconds = f"{record.seconds:.0f} s of processor"
    print(f"{campaign}: {record.cases} cases in {seconds}, {record.n_violations} violations")
    for kind, names in [*record.counts.items(), *record.distances.items()]:
        print(f"  {kind:28} " + "; ".join(f"{name}: {count}" for name, count in names.items() if count))
    sys.exit(bool(record.n_violations))


if __name__ == "__main__":
    app()
