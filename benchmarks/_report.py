"""Tables, targets and the plot of `solvers.py`, all from the file of results."""

from __future__ import annotations

import json
from itertools import groupby

import numpy as np
from rich.console import Console
from rich.table import Table

TITLES = {
    "uci": "Four UCI sets, squared loss, beta = 10",
    "planted": "Planted data, 1000 x 60, squared loss, beta = 1",
    "planted-large": "Planted data, 5000 x 100, squared loss, beta = 1",
    "mnist": "MNIST, 30 principal components and a constant, squared loss, beta = 10",
    "betas": "MNIST, 50 principal components and a constant, ten classes",
    "inner": "Bounds of quadratic forms over sign vectors; objective and bound with the sign of a minimisation",
    "scaling": "Planted data against n and d",
    "networks": "What comes after the relaxation, 50 inputs; polishing: two sweeps, two outputs",
    "pixels": "MNIST, all pixels",
}
OURS = ("auto", "qsdp")

# -- checks and targets ----------------------------------------------------------------------------------


def disjoint(rows):
    """Return a complaint for every problem of which two solvers' intervals [lower bound, objective] do not meet."""
    known = [row for row in rows if row.get("objective") is not None]
    complaints = []
    for _, group in groupby(sorted(known, key=_problem), key=_problem):
        group = list(group)
        low, high = max(group, key=lambda row: row["lower_bound"]), min(group, key=lambda row: row["objective"])
        if low["lower_bound"] > high["objective"] + 1e-9 * abs(high["objective"]):
            complaints.append(
                f"{low['case']}: {low['solver']} proves {low['lower_bound']:.10g}, "
                f"{high['solver']} has {high['objective']:.10g}"
            )
    return complaints


def _problem(row):
    return json.dumps(row.get("problem", row["case"]), sort_keys=True)


def targets(section, rows):
    """Return triples: what is asked for, what was measured, and whether that meets it (None: not decided)."""
    if section == "uci":
        return [*_faster(rows, lambda row: 30.0), *_together(rows, 30.0)]
    if section == "inner":
        return _faster(rows, lambda row: 30.0)
    if section == "planted":
        return _faster(rows, lambda row: 20.0)
    if section == "planted-large":
        return _faster(rows, lambda row: 100.0)
    ours = [row for row in rows if row["solver"] == "auto" and row.get("class_gaps")]
    if section == "mnist":
        return [
            (f"{row['case']}: under 10 s{what}", f"{seconds:.2f} s{_once(row)}", row["reached"] and seconds < 10.0)
            for row in ours
            for what, seconds in (
                ("", row["seconds"]),
                (", reading and PCA included", row["seconds"] + row["reading"]),
            )
        ]
    if section == "betas":
        return [
            (
                f"beta = {row['beta']:g}: every class to {row['level']:g}",
                f"{sum(gap <= row['level'] for gap in row['class_gaps'])} of {len(row['class_gaps'])}, "
                f"{row['seconds']:.1f} s{_once(row)}",
                row["reached"],
            )
            for row in ours
        ]
    if section == "pixels":
        return [verdict for row in rows if row.get("class_gaps") for verdict in _pixels(row)]
    return []


def _together(rows, factor):
    """Compare the sums over all problems, where both solvers did all of them."""
    ours, theirs = ([row for row in rows if row["solver"] == solver] for solver in ("auto", "scs"))
    if not ours or len(ours) != len(theirs) or not all(row["reached"] for row in (*ours, *theirs)):
        return []
    ratio = sum(row["seconds"] for row in theirs) / sum(row["seconds"] for row in ours)
    return [(f"all of them: {factor:g} times faster than SCS", f"{ratio:.1f}", ratio >= factor)]


def _pixels(row):
    return [
        (f"every class to {row['level']:g}", f"{max(row['class_gaps']):.1e} at most", row["reached"]),
        ("under 30 minutes", f"{row['seconds'] / 60.0:.1f} minutes, single run", row["seconds"] < 1800.0),
        ("below 8 GiB", f"{row['peak_mib'] / 1024.0:.2f} GiB", row["peak_mib"] < 8192.0),
    ]


def _once(row, who=""):
    """Return what to add to a time that no other confirms."""
    return f", {who}single run" if len(row.get("runs", ())) == 1 else ""


def _faster(rows, factor):
    verdicts = []
    for theirs in (row for row in rows if row["solver"] == "scs"):
        for ours in (row for row in rows if row["solver"] in OURS and _problem(row) == _problem(theirs)):
            # SCS only approached the level: what it did reach is a level of its own.
            level = f"gap {ours['level']:.2g}"
            what = f"{ours['case']}, {level}: {factor(ours):g} times faster than SCS"
            if ours["seconds"] is None or theirs["seconds"] is None:
                verdicts.append((what, theirs["status"] if ours["seconds"] else ours["status"], None))
                continue
            ratio = theirs["seconds"] / ours["seconds"]
            gap = theirs.get("relative_gap")
            once = _once(ours, "qsdp ") + _once(theirs, "SCS ")
            if not ours["reached"]:
                verdicts.append((what, f"qsdp reached {ours['relative_gap']:.1e}", False))
            elif gap is not None and gap <= 1.000001 * ours["level"]:
                verdicts.append((what, f"{ratio:.1f}{once}", ratio >= factor(ours)))
            else:
                # A bound from below: SCS would need longer.
                known = f"more than {ratio:.1f}: SCS left {'no point' if gap is None else f'a gap of {gap:.1e}'}"
                verdicts.append((what, known + once, True if ratio >= factor(ours) else None))
    return verdicts


# -- tables ----------------------------------------------------------------------------------------------


def columns(section):
    """Return pairs of heading and function of a row."""
    common = [
        ("problem", lambda row: row["case"]),
        ("solver", lambda row: row["solver"]),
        ("level", lambda row: number(row.get("level"), ".0e")),
        ("tolerance", lambda row: number(row.get("tolerance"), ".0e")),
        ("seconds", lambda row: number(row.get("seconds"), ".4g")),
        ("runs", lambda row: str(len(row["runs"])) if "runs" in row else ""),
        ("gap", lambda row: number(row.get("relative_gap"), ".1e")),
        ("objective", lambda row: number(row.get("objective"), ".7g")),
        ("lower bound", lambda row: number(row.get("lower_bound"), ".7g")),
        ("MiB", lambda row: number(row.get("peak_mib"), ".0f")),
        ("status", lambda row: row["status"]),
    ]
    compiling = ("compiling", lambda row: number(row.get("compiling"), ".3g"))
    if section in {"uci", "planted", "planted-large"}:
        return [*common[:6], compiling, *common[6:]]
    worst = ("worst class", lambda row: number(max(row["class_gaps"]), ".1e") if row.get("class_gaps") else "")
    if section in {"mnist", "betas"}:
        reading = ("reading, PCA", lambda row: number(row.get("reading"), ".3g"))
        beta = ("beta", lambda row: number(row.get("beta"), "g"))
        return [common[0], beta, *common[1:7], worst, *common[7:10], reading, common[10]]
    if section == "scaling":
        speed = ("GFlop/s", lambda row: number(row.get("gflops"), ".3g"))
        share = ("of peak", lambda row: number(row.get("share_of_peak"), ".0%"))
        steps = ("iterations", lambda row: number(row.get("iterations"), "d"))
        loop = ("in them", lambda row: number(row.get("loop_seconds"), ".4g"))
        beta = ("beta", lambda row: number(row.get("beta"), ".3g"))
        return [common[1], common[0], beta, *common[3:7], steps, loop, speed, share, common[9], common[10]]
    if section == "networks":
        sizes = [(name, lambda row, name=name: number(row.get(name), "d")) for name in ("n", "m")]
        threads = ("threads", lambda row: number(row.get("jobs"), "d"))
        call = ("MiB of the call", lambda row: number(row.get("call_mib"), ".0f"))
        return [("stage", common[0][1]), *sizes, threads, *common[4:6], common[9], call, common[10]]
    if section == "pixels":
        stage = [
            (name, lambda row, name=name: number(row.get("stages", {}).get(name), ".4g"))
            for name in ("reading", "relaxing", "sampling", "refitting", "polishing")
        ]
        accuracy = [
            (f"{name}, test", lambda row, name=name: number(row.get("accuracy", {}).get(name), ".2%"))
            for name in ("relaxation", "sampled", "polished")
        ]
        neurons = ("neurons", lambda row: number(row.get("neurons"), "d"))
        device = ("device", lambda row: row.get("device") or "NumPy")
        return [*common[:3], device, worst, common[6], *stage, common[9], neurons, *accuracy, common[10]]
    return common


def number(value, form):
    """Return a formatted number, or nothing for None."""
    return "" if value is None else format(value, form)


def footing(result):
    """Return what the times depend on, in one line."""
    machine = result.get("machine")
    if not isinstance(machine, dict):
        return f"machine unknown: {machine}"
    load = "" if result.get("load") is None else f", load average {result['load']:.2f} before"
    state = "".join(
        word for word, said in (("; quick", result["quick"]), ("; unfinished", not result["finished"])) if said
    )
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['processor']}, {machine['threads']} threads, matrix product {machine['matrix_product_gflops']:.0f} "
        f"GFlop/s; Python {machine['python']}, {versions}; {result.get('began', machine['date'])}{load}{state}"
    )


VERDICTS = {True: "supported", False: "contradicted", None: "not measured"}


def report(results):
    """Print tables and targets."""
    console = Console(width=190)
    for section, result in results.items():
        table = Table(title=TITLES[section], caption=footing(result))
        headings = columns(section)
        for heading, _ in headings:
            left = heading in {"problem", "solver", "status", "stage"}
            table.add_column(heading, justify="left" if left else "right", no_wrap=not left)
        for row in result["rows"]:
            table.add_row(*(value(row) for _, value in headings))
        console.print(table)
        for what, measured, met in targets(section, result["rows"]):
            console.print(f"  {VERDICTS[met]:12} {what}: {measured}", highlight=False)


def markdown(results):
    """Return the same as markdown."""
    lines = []
    for section, result in ((name, results[name]) for name in TITLES if name in results):
        headings = columns(section)
        lines += [f"**{TITLES[section]}** ({footing(result)})", ""]
        lines += ["| " + " | ".join(heading for heading, _ in headings) + " |", "|---" * len(headings) + "|"]
        lines += ["| " + " | ".join(value(row) for _, value in headings) + " |" for row in result["rows"]]
        verdicts = targets(section, result["rows"])
        if verdicts:
            lines += ["", "| target | measured | |", "|---|---|---|"]
            lines += [f"| {what} | {measured} | {VERDICTS[met]} |" for what, measured, met in verdicts]
        lines.append("")
    return "\n".join(lines)


# -- plot ------------------------------------------------------------------------------------------------


def plot(rows, path):
    """Draw seconds, peak memory and the inner loop's share of the peak, against n and against d."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    titles = {"n": "d = 30, beta = 1", "d": "n = 2000, beta = 1", "d, strong": "n = 2000, beta = 1 % of the largest"}
    figure, axes = plt.subplots(3, 3, figsize=(11, 8.6), sharex="col", sharey="row", layout="constrained")
    colours = {"interior": "tab:blue", "splitting": "tab:green", "low-rank": "tab:orange", "scs": "tab:red"}
    for place, (series, title) in enumerate(titles.items()):
        seconds, memory, shares = axes[:, place]
        for solver, colour in colours.items():
            own = [row for row in rows if row["solver"] == solver and row.get("series") == series and row["reached"]]
            if not own:
                continue
            sizes, name = [row[series[0]] for row in own], "CVXPY + SCS" if solver == "scs" else solver
            style = {"marker": "o", "ms": 4, "color": colour, "label": name}
            seconds.loglog(sizes, [row["seconds"] for row in own], **style)
            memory.semilogx(sizes, [row["peak_mib"] for row in own], **style)
            known = [row.get("share_of_peak") or np.nan for row in own]
            if not np.all(np.isnan(known)):
                shares.semilogx(sizes, known, **style)
        seconds.set(title=title)
        shares.set_xlabel(series[0])
        for axis in axes[:, place]:
            axis.grid(alpha=0.3, which="both")
    # Panels of a row share their scale: only now is it known.
    for axis in axes[1:, 0]:
        axis.set_ylim(bottom=0.0)
    for axis in axes[2, 1:]:
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))
    axes[0, 0].set_ylabel("seconds to a gap of 1e-4")
    axes[1, 0].set_ylabel("peak memory, MiB")
    axes[2, 0].set_ylabel("inner loop: share of a\nmatrix product's speed")
    handles = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    axes[0, 0].legend(handles.values(), handles.keys(), fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
