"""Models of bits as Verilog: sums of products of two bits, without multipliers and memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.files import write_together
from qsdp._utils.summary import Summarized, Summary
from qsdp._utils.validation import FloatArray, check_flag
from qsdp.exceptions import ExportError, InvalidInputError, MissingPackageError
from qsdp.export._bit_model import BitModel, bit_model
from qsdp.export._c_text import comment
from qsdp.export._model import described

__all__ = ["VerilogSource", "to_verilog"]

_NAME = "qsdp_model"

#: Words of Verilog-2005 and the most common ones of SystemVerilog, which are no names of modules.
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        always and assign automatic begin bit buf bufif0 bufif1 byte case casex casez cell class cmos config const
        deassign default defparam design disable do edge else end endcase endconfig endfunction endgenerate
        endmodule endprimitive endspecify endtable endtask enum event final for force forever fork function generate
        genvar highz0 highz1 if ifnone import incdir include initial inout input instance int integer interface join
        large liblist library local localparam logic macromodule medium module nand negedge new nmos nor
        noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive priority
        program property protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rcmos
        real realtime reg release repeat return rnmos rpmos rtran rtranif0 rtranif1 scalared sequence showcancelled
        signed small specify specparam static string strong0 strong1 struct super supply0 supply1 table task this
        time tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unsigned use uwire var
        vectored virtual void wait wand weak0 weak1 while wire with wor xnor xor
        """,
    )
)

_REGISTERED = Template("""
/* The same with registers for inputs and outputs: two cycles later, one row a cycle. */
module ${name}_registered (
    input wire clock,
    input wire [${last_bit}:0] x,
    output reg [${last_output}:0] scores$choice_port
);
    reg [${last_bit}:0] held;
    wire [${last_output}:0] next_scores;$choice_wire
    $name model (.x(held), .scores(next_scores)$choice_pin);
    always @(posedge clock) begin
        held <= x;
        scores <= next_scores;$choice_step
    end
endmodule
""")

_BENCH = Template("""
module bench;
    reg [${last_bit}:0] rows [0:${last_row}];
    reg [${last_bit}:0] x;
    reg clock;
    wire [${last_output}:0] scores;$choice_wire
    integer i;
    ${name}$variant model ($clock.x(x), .scores(scores)$choice_pin);
    initial begin
        $$readmemb("rows.txt", rows);
        clock = 0;
        for (i = 0; i <= ${last_row}; i = i + 1) begin
            x = rows[i];
            repeat (4) begin #1 clock = !clock; end
            #1 $$display("%b %b", scores, $choice);
        end
        $$finish;
    end
endmodule
""")


@dataclass(frozen=True, eq=False, repr=False)
class VerilogSource(Summarized):
    """A model as Verilog, made by `to_verilog`.

    Attributes
    ----------
    name : str
        Of the file and of the combinational module; ``NAME_registered`` is the one with registers.
    source : str
        Contents of ``NAME.v``, Verilog-2001.
    model : BitModel
        What the module computes, exactly: `BitModel.bits` and `BitModel.outputs`.
    """

    name: str
    source: str
    model: BitModel

    @property
    def width(self) -> int:
        """Bits of an output, a signed integer: enough for any inputs."""
        low, high = self.model.bounds
        return max(max(-low - 1, high).bit_length() + 1, 2)

    @property
    def unit(self) -> float:
        """Scores of the model are this times the integer outputs."""
        return self.model.unit

    @property
    def error(self) -> FloatArray:
        """Bounds of shape (C,) on the distance of these scores from the model's."""
        return self.model.error

    def files(self) -> dict[str, bytes]:
        """Return name and contents of the file."""
        return {f"{self.name}.v": self.source.encode("ascii")}

    def write(self, directory: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the file to a directory that exists, and return its path.

        Raises
        ------
        InvalidInputError
            It exists, unless `force` allows to overwrite it.
        """
        path = Path(directory) / f"{self.name}.v"
        if path.exists() and not force:
            raise InvalidInputError(f"{str(path)!r} exists; overwrite it with force=True")
        write_together({path: self.source.encode("ascii")})
        return path

    def simulate(
        self, bits: npt.NDArray[Any], *, registered: bool = False
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp] | None]:
        """Return outputs of shape (n, C), and what `BitModel.description` decides, as Icarus Verilog simulates them.

        Parameters
        ----------
        bits : array of shape (n, d)
            As `BitModel.bits` returns them.
        registered : bool, default=False
            Whether to simulate the module with registers.

        Raises
        ------
        MissingPackageError
            There is no ``iverilog``.
        """
        if shutil.which("iverilog") is None:
            raise MissingPackageError("simulate needs Icarus Verilog: install iverilog")
        bench = _bench(self, len(bits), registered=check_flag("registered", registered))
        rows = "\n".join("".join(map(str, row[::-1])) for row in np.asarray(bits, dtype=np.uint8).tolist())
        with tempfile.TemporaryDirectory() as folder:
            for own, text in {"model.v": self.source, "bench.v": bench, "rows.txt": rows}.items():
                (Path(folder) / own).write_text(text, encoding="ascii")
            for command in (
                ["iverilog", "-g2001", "-Wall", "-o", "bench", "model.v", "bench.v"],
                ["vvp", "-n", "bench"],
            ):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise ExportError(f"{command[0]} refused the module: {done.stderr.strip():.400}")
        lines = [line.split() for line in done.stdout.splitlines()]
        scores = [[_signed(text, self.width, k) for k in range(self.model.n_outputs)] for text, _ in lines]
        return np.array(scores, dtype=np.int64), self._chosen([choice for _, choice in lines])

    def _chosen(self, choices: list[str]) -> npt.NDArray[np.intp] | None:
        decision = self.model.description.decision
        if decision == "none":
            return None
        if decision == "labels":
            return np.array([[int(bit) for bit in reversed(choice)] for choice in choices], dtype=np.intp)
        return np.array([int(choice, 2) for choice in choices], dtype=np.intp)

    def facts(self) -> list[tuple[str, str]]:
        """Return labels and texts on inputs, outputs and bounds, for people."""
        products = int((np.count_nonzero(self.model.pairs, axis=(1, 2))).sum())
        return [
            ("inputs", f"{self.model.n_bits} bits"),
            ("outputs", f"{self.model.n_outputs} of {self.width} bits"),
            ("products", f"{products} of two bits"),
            ("error", f"{float(self.error.max()):.3g} in a score"),
        ]

    def _summary(self) -> Summary:
        return Summary(f"VerilogSource {self.name!r}", self.facts())

    def __repr__(self) -> str:
        return f"VerilogSource(name={self.name!r}, n_bits={self.model.n_bits}, width={self.width})"


def to_verilog(
    model: Any, *, name: str = _NAME, digits: int = 8, values: tuple[float, float] = (0.0, 1.0)
) -> VerilogSource:
    """Return a model whose inputs are bits as Verilog-2001: a combinational module, and one with registers.

    Parameters
    ----------
    model : network, estimator, pipeline or model of `qsdp fit`
        All inputs of the network are bits: of thresholds, categories and missing entries, as ``encoding="thresholds"``
        makes them. The module takes these bits; which is which is said in its head. Bits of one column must come from
        one entry, so no entry is above a threshold but below a smaller one.
    name : str, default="qsdp_model"
        Of the module and the file; an identifier that begins with a letter.
    digits : int, default=8
        Bits of the magnitude of coefficients, 1 to 30: fewer make a smaller circuit and a larger `error`.
    values : (float, float), default=(0, 1)
        Inputs of a network alone that stand for the bits 0 and 1, such as -1 and 1.

    Returns
    -------
    VerilogSource

    Raises
    ------
    ExportError
        An input of the network is no bit.

    Notes
    -----
    A quadratic function of bits is a sum of bits and of products of two bits, with integer coefficients. The bits of
    these are counted by their weight, and counts are added: there is neither a multiplication nor a memory. The number
    of products does not depend on the number of neurons.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.export import to_verilog
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> verilog = to_verilog(network, name="two_neurons", values=(-1, 1))
    >>> bits = verilog.model.bits([[1, 1], [1, -1]])
    >>> verilog.model.scores(verilog.model.outputs(bits)), network.predict([[1, 1], [1, -1]])
    (array([[0.],
           [2.]]), array([0., 2.]))
    """
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or name in _KEYWORDS:
        raise InvalidInputError(
            f"name, also of the file, must be an identifier of Verilog that begins with a letter; got {name!r:.60}"
        )
    found = bit_model(model, digits=digits, values=values)
    empty = VerilogSource(name, "", found)
    return VerilogSource(name, _source(empty), found)


def _source(verilog: VerilogSource) -> str:
    model, width = verilog.model, verilog.width
    scores = ", ".join(f"score_{k}" for k in reversed(range(model.n_outputs)))
    size = _choice_size(model)
    port = f",\n    output wire [{size - 1}:0] choice" if size else ""
    body = [
        *(_output(model, k, width) for k in range(model.n_outputs)),
        *(f"    wire signed [{width - 1}:0] score_{k} = output_{k}(x);" for k in range(model.n_outputs)),
        f"    assign scores = {{{scores}}};",
        *_decision(model, width),
    ]
    ports = (
        f"    input wire [{model.n_bits - 1}:0] x,\n    output wire [{model.n_outputs * width - 1}:0] scores{port}\n"
    )
    module = f"module {verilog.name} (\n{ports});\n" + "\n".join(body) + "\nendmodule\n"
    return f"{comment(_facts(verilog))}\n{module}{_filled(_REGISTERED, verilog)}"


def _output(model: BitModel, k: int, width: int) -> str:
    """Return a function that counts the bits of an output by weight, and adds the counts.

    A function is evaluated once for new inputs, where wires would be for each that changes.
    """
    constant, planes = _planes(model, k)
    declared, steps = [], []
    for power, bits in sorted(planes.items()):
        declared.append(f"        reg [{len(bits) - 1}:0] bits_{power};")
        steps.append(f"            bits_{power} = {{{', '.join(reversed(bits))}}};")
        counted = f"output_{k} = output_{k} + (bits_{power}[i] << {power});"
        steps.append(f"            for (i = 0; i < {len(bits)}; i = i + 1) {counted}")
    return "\n".join(
        [
            f"    function signed [{width - 1}:0] output_{k};",
            f"        input [{model.n_bits - 1}:0] x;",
            *declared,
            "        integer i;",
            "        begin",
            f"            output_{k} = {_literal(constant, width)};",
            *steps,
            "        end",
            "    endfunction",
        ]
    )


def _literal(value: int, width: int) -> str:
    return f"{'-' if value < 0 else ''}{width}'sd{abs(value)}"


def _planes(model: BitModel, k: int) -> tuple[int, dict[int, list[str]]]:
    """Return the constant and, by power of two, the bits whose counts make up an output.

    Coefficients are sums and differences of powers of two, as few as possible; what is taken from is given the opposite
    bit, and a constant.
    """
    constant, planes = int(model.constant[k]), defaultdict[int, list[str]](list)
    for coefficient, bit in _terms(model, k):
        power, rest = 0, coefficient
        while rest:
            digit = 2 - rest % 4 if rest % 2 else 0
            if digit:
                planes[power].append(bit if digit > 0 else f"!({bit})")
                constant -= (digit < 0) << power
            power, rest = power + 1, (rest - digit) // 2
    return constant, planes


def _terms(model: BitModel, k: int) -> Iterator[tuple[int, str]]:
    """Yield coefficients that are not zero, and their bits."""
    for i in np.flatnonzero(model.linear[k]).tolist():
        yield int(model.linear[k, i]), f"x[{i}]"
    for i, j in np.argwhere(model.pairs[k]).tolist():
        yield int(model.pairs[k, i, j]), f"x[{i}] & x[{j}]"


def _choice_size(model: BitModel) -> int:
    """Return the bits of the decision, 0 for none."""
    C, decision = model.n_outputs, model.description.decision
    return {"none": 0, "sign": 1, "labels": C, "argmax": max((C - 1).bit_length(), 1)}[decision]


def _decision(model: BitModel, width: int) -> list[str]:
    """Return the lines that decide."""
    C, size, decision = model.n_outputs, _choice_size(model), model.description.decision
    if decision == "none":
        return []
    if decision != "argmax":
        positive = ", ".join(f"score_{k} > 0" for k in reversed(range(C)))
        return [f"    assign choice = {{{positive}}};"]
    # The first of equal ones stays.
    lines = []
    best, chosen = "score_0", f"{size}'d0"
    for k in range(1, C):
        lines.append(f"    wire higher_{k} = score_{k} > {best};")
        lines.append(f"    wire [{size - 1}:0] choice_{k} = higher_{k} ? {size}'d{k} : {chosen};")
        if k < C - 1:
            lines.append(f"    wire signed [{width - 1}:0] best_{k} = higher_{k} ? score_{k} : {best};")
        best, chosen = f"best_{k}", f"choice_{k}"
    return [*lines, f"    assign choice = {chosen};"]


def _facts(verilog: VerilogSource) -> list[str]:
    """Return the lines that say what the module computes and how well."""
    model, width, description = verilog.model, verilog.width, verilog.model.description
    facts = [
        f"{verilog.name}: {described(description.network)}, made by qsdp,",
        f"as the polynomial of degree two in {model.n_bits} bits that it is.",
        "",
        f"Output k is the signed integer scores[{width} * k +: {width}]; scores of the model are {model.unit!r} times",
        f"outputs, up to {float(model.error.max()):.3g}.",
    ]
    facts += {
        "none": [],
        "sign": ["choice is 1 where the output is > 0, else 0."],
        "argmax": ["choice is the number of the largest output, the first of equal ones."],
        "labels": ["choice has a one for each output > 0, else zeros."],
    }[description.decision]
    facts += [f"class {code}: {label}" for code, label in enumerate(description.classes)]
    return [*facts, "", *(f"x[{place}]: {name}" for place, name in enumerate(model.names))]


def _filled(template: Template, verilog: VerilogSource, **more: Any) -> str:
    size = _choice_size(verilog.model)
    last = f"[{size - 1}:0]"
    return template.substitute(
        name=verilog.name,
        last_bit=verilog.model.n_bits - 1,
        last_output=verilog.model.n_outputs * verilog.width - 1,
        choice_port=f",\n    output reg {last} choice" if size else "",
        choice_wire=f"\n    wire {last} next_choice;" if size else "",
        choice_pin=", .choice(next_choice)" if size else "",
        choice_step="\n        choice <= next_choice;" if size else "",
        choice="next_choice" if size else "1'b0",
        **more,
    )


def _bench(verilog: VerilogSource, n_rows: int, *, registered: bool) -> str:
    return _filled(
        _BENCH,
        verilog,
        last_row=n_rows - 1,
        variant="_registered" if registered else "",
        clock=".clock(clock), " if registered else "",
    )


def _signed(text: str, width: int, k: int) -> int:
    """Return output k of the bits of all, the most significant first."""
    end = len(text) - k * width
    value = int(text[end - width : end], 2)
    return value - (1 << width) if value >> (width - 1) else value
