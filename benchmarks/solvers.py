"""The solvers of this package beside CVXPY + SCS and others, at equal certified gaps: times, memory, targets.

    python benchmarks/solvers.py [--quick] [--only SECTION ...] [--repeats 5] [--large] [--json FILE]
    python benchmarks/solvers.py --markdown

Sections: uci (four UCI sets), planted (1000 x 60), planted-large (5000 x 100), mnist (30 components, ten classes at
once), betas (50 components, four values of beta), inner (bounds of quadratic forms over signs), scaling (against n and
d, with a plot), networks (sampling, prediction and polishing against n, m and threads), and with --large pixels (all
784 of MNIST, to a network). All solvers are brought to the same relative certified gap, recomputed from the data by the
same code, see `_peers.py`. Peak memory is that of a process for one row alone, but with --quick. The file is written
after every row, so that an interrupted run keeps what it has, and a section that is run again replaces its rows. Exit
status 1: the intervals [lower bound, objective] of two solvers do not meet.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _cases import GRAPHS, UCI
from _networks import cases
from _report import disjoint, markdown, plot, report
from _results import FOLDER, save
from _scaling import SERIES, points

HERE = Path(__file__).resolve().parent
SECTIONS = ("uci", "planted", "planted-large", "mnist", "betas", "inner", "scaling", "networks", "pixels")
LEVEL = 1e-4


def main():
    """Run sections, save, print."""
    if sys.argv[1:2] == ["--worker"]:
        from _worker import work

        work(*sys.argv[2:])
        return
    # Ended by a signal, take the process that runs along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse()
    if options.markdown:
        print(markdown(json.loads(options.json.read_text(encoding="utf-8"))))
        return
    results = load(options.json)
    failed = False
    for section in options.only:
        rows = []
        set_threads(section, options)
        result = {"quick": options.quick, "finished": False, **begun()}
        # Of every section, since other work on the machine slows its matrix products too.
        options.machine = result["machine"] = call({"kind": "machine"}, options)
        result["rows"] = rows
        print(f"section {section}", file=sys.stderr)
        for row in RUNS[section](options):
            rows.append(row)
            print("  " + summary(row), file=sys.stderr, flush=True)
            results[section] = result
            save(results, options.json)
        results[section]["finished"] = True
        save(results, options.json)
        for complaint in disjoint(rows):
            print(f"WRONG: {complaint}", file=sys.stderr)
            failed = True
    if "scaling" in options.only:
        plot(results["scaling"]["rows"], options.json.with_suffix(".png"))
    report({section: results[section] for section in options.only})
    if failed:
        sys.exit("some solver is wrong: intervals [lower bound, objective] of one problem do not meet")


def set_threads(section, options):
    """Set the number of threads: problems of milliseconds only wait for more, networks have threads of their own."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    own = 1 if section in {"uci", "networks"} or options.quick else available
    options.section_threads = options.threads or own


def begun():
    """Return the time, and the load of the machine in the minute before."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {"began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "load": load}


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, once, in seconds")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--large", action="store_true", help="also the section pixels")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="results, updated; default benchmarks/results/solvers.json")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the file as markdown, run nothing")
    parser.add_argument("--scs-time-limit", type=float, default=1800.0, help="seconds of a peer's ladder of tolerances")
    parser.add_argument("--memory-limit", type=float, help="GiB of a process; default nine tenths of what is available")
    parser.add_argument("--threads", type=int, help="of BLAS; default all, for uci, networks and --quick one")
    parser.add_argument("--cutnorm-python", default=sys.executable, help="interpreter that has the package cutnorm")
    parser.add_argument("--neurons", type=int, default=1000, help="sampled in the section pixels")
    parser.add_argument("--polish-seconds", type=float, default=300.0, help="in the section pixels")
    parser.add_argument("--device", help="of torch, such as cuda, for the section pixels; default NumPy")
    options = parser.parse_args()
    if options.json is None:
        if options.quick and not options.markdown:
            options.json = Path(tempfile.mkdtemp()) / "solvers.json"
        else:
            options.json = FOLDER / "solvers.json"
    if options.only is None:
        options.only = [section for section in SECTIONS if section != "pixels" or options.large]
    if options.quick:
        options.repeats = 1
    if options.memory_limit is None:
        options.memory_limit = 0.9 * available_gib()
    return options


# -- sections: each yields rows --------------------------------------------------------------------------


def run_uci(options):
    """Ours and SCS, alternately in one process; the others in one each."""
    limit = min(options.scs_time_limit, 30.0 if options.quick else 300.0)
    others = ("clarabel",) if options.quick else ("clarabel", "cvxopt", "sdpa")
    for name in UCI[:1] if options.quick else UCI:
        case = {"data": "uci", "name": name, "beta": 10.0}
        together = relaxations(case, ("auto", "interior", "splitting", "scs"), options, limit=limit)
        for row in together:
            if "runs" in row and not options.quick:
                # Memory is measured one by one.
                (alone,) = relaxations(case, (row["solver"],), options, limit=limit, repeats=1)
                row["peak_mib"] = alone["peak_mib"]
            yield row
        yield from each_alone(case, others, options, limit)


def each_alone(case, solvers, options, limit):
    """Yield the row of each solver, in a process of its own, within a limit."""
    for solver in solvers:
        # SDPA takes no limit and is stopped.
        yield from relaxations(case, (solver,), options, limit=min(limit, 60.0) if solver == "sdpa" else limit)


def run_planted(options):
    """Every solver to the level."""
    case = {"data": "planted", "n": 60 if options.quick else 1000, "d": 6 if options.quick else 60, "beta": 1.0}
    solvers = ("auto", "interior", "splitting", "scs")
    for group in (solvers,) if options.quick else ((solver,) for solver in solvers):
        yield from relaxations(case, group, options)
    if not options.quick:
        yield from each_alone(case, ("clarabel", "cvxopt", "sdpa"), options, min(options.scs_time_limit, 300.0))


def run_planted_large(options):
    """SCS once at its default accuracy, ours at what SCS reached and at the level."""
    case = {"data": "planted", "n": 80 if options.quick else 5000, "d": 8 if options.quick else 100, "beta": 1.0}
    (theirs,) = relaxations(case, ("scs",), options, ladder=[None], repeats=1)
    yield theirs
    reached = theirs.get("relative_gap")
    if reached is not None and LEVEL < reached < 1.0:
        yield from relaxations(case, ("auto",), options, level=reached)
    for solver in ("auto",) if options.quick else ("auto", "interior", "splitting"):
        yield from relaxations(case, (solver,), options)


def run_mnist(options):
    """Ten classes at once by this package; one class by SCS."""
    case = {"data": "mnist", "n": 2000 if options.quick else 60_000, "components": 8 if options.quick else 30}
    case["beta"] = 10.0
    for solver in ("auto",) if options.quick else ("auto", "interior", "splitting"):
        yield from relaxations(case, (solver,), options)
    if not options.quick:
        one = {**case, "digit": 3}
        yield from relaxations(one, ("auto",), options)
        yield from relaxations(one, ("scs",), options, ladder=[1e-3, 1e-4, 1e-5], repeats=1)


def run_betas(options):
    """Every class to the level, at weak and strong regularisation."""
    for beta in (100.0,) if options.quick else (1.0, 10.0, 100.0, 1000.0):
        case = {"data": "mnist", "n": 2000 if options.quick else 60_000, "components": 10 if options.quick else 50}
        yield from relaxations({**case, "beta": beta}, ("auto",), options, repeats=min(3, options.repeats))


def run_inner(options):
    """Bounds of quadratic forms over sign vectors."""
    for name in GRAPHS[:1] if options.quick else GRAPHS:
        for solver in ("qsdp", "scs", "csdp") if options.quick else ("qsdp", "scs", "csdp", "cutnorm"):
            job = {"kind": "inner", "name": name, "solver": solver, "level": LEVEL, "repeats": options.repeats}
            job |= {"limit": options.scs_time_limit, "stop": 1.5 * options.scs_time_limit + 600.0}
            job |= {"cutnorm_python": options.cutnorm_python}
            yield from checked(job, {"case": name, "solver": solver, "level": LEVEL}, options)


def run_scaling(options):
    """Measure times against n and d; a solver's sizes end where one takes all the time it is given."""
    peak = options.machine["matrix_product_gflops"] if isinstance(options.machine, dict) else None
    for solver, limit in (("interior", 45.0), ("splitting", 45.0), ("low-rank", 45.0), ("scs", 15.0)):
        for series in SERIES:
            for point in points(solver, series, options.quick):
                job = {"kind": "scaling", "series": series, **point, "solver": solver, "level": LEVEL, "limit": limit}
                job |= {"stop": limit + 30.0, "repeats": min(3, options.repeats), "peak": peak}
                known = {"case": f"planted {point['n']} x {point['d']}", "series": series, "solver": solver, **point}
                (row,) = checked(job, {**known, "reached": False}, options)
                yield row
                if row["seconds"] is None or row["spent"] >= limit:
                    break


def run_networks(options):
    """Sample, predict and polish, which comes after the relaxation."""
    for stage, sizes in cases(options.quick):
        job = {"kind": "networks", "stage": stage, "sizes": sizes, "repeats": min(3, options.repeats)}
        yield from checked(job, {"case": stage, "solver": "qsdp", **sizes}, options)


def run_pixels(options):
    """All pixels of MNIST: ten relaxations, a network, its test accuracy."""
    beta = 100.0 if options.quick else 3000.0
    job = {"kind": "pixels", "quick": options.quick, "level": 1e-2, "beta": beta, "neurons": options.neurons}
    job["device"] = options.device
    job["polish"] = 5.0 if options.quick else options.polish_seconds
    yield from checked(job, {"case": "MNIST, pixels", "solver": "low-rank"}, options)


RUNS = {section: globals()["run_" + section.replace("-", "_")] for section in SECTIONS}


def relaxations(case, solvers, options, *, level=LEVEL, ladder=None, limit=None, repeats=None):
    """Return a row for each solver."""
    job = {"kind": "relaxation", "case": case, "solvers": solvers, "level": level, "ladder": ladder}
    job |= {"limit": limit or options.scs_time_limit, "repeats": repeats or options.repeats}
    # Solvers keep to the limit by themselves where they take one; others, and compilation, get more.
    job["stop"] = 1.5 * job["limit"] + (60.0 if limit else 600.0)
    known = {"problem": case, "case": case.get("name", case["data"]), "solver": ", ".join(solvers), "level": level}
    return checked(job, known, options)


# -- processes -------------------------------------------------------------------------------------------


def checked(job, known, options):
    """Return the rows of a job, or one that says why there are none."""
    answer = call(job, options)
    if isinstance(answer, str):
        return [{**known, "status": answer, "seconds": None, "peak_mib": None}]
    return answer


def call(job, options):
    """Run a job in a process of its own; return what it wrote, or why it wrote nothing."""
    threads = str(options.section_threads)
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(pools, threads)}
    job, stop = dict(job), job.get("stop")
    job.pop("stop", None)
    with tempfile.TemporaryDirectory() as home:
        answer = Path(home, "answer.json")
        command = [sys.executable, str(HERE / "solvers.py"), "--worker", json.dumps(job), str(answer)]
        start = time.perf_counter()
        try:
            ran = subprocess.run(
                [*command, str(options.memory_limit)], env=environment, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, timeout=stop, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"failed: stopped after {time.perf_counter() - start:.0f} s"
        if answer.is_file():
            return json.loads(answer.read_text(encoding="utf-8"))
    said = ran.stderr.strip().splitlines()[-1:] or [f"exit status {ran.returncode}"]
    return f"failed after {time.perf_counter() - start:.0f} s ({options.memory_limit:.0f} GiB allowed): {said[0][:120]}"


def available_gib():
    """Return the memory that is free to be used."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) / 2**20
    except OSError:
        pass
    return 1024.0


# -- file ------------------------------------------------------------------------------------------------


def load(path):
    """Return what earlier runs left."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def summary(row):
    """Return a line for whoever waits."""
    seconds = "" if row.get("seconds") is None else f"{row['seconds']:.3g} s"
    gap = "" if row.get("relative_gap") is None else f"gap {row['relative_gap']:.1e}"
    return f"{row['case']:28} {row['solver']:12} {seconds:>10} {gap:12} {row['status']}"


if __name__ == "__main__":
    main()
