"""Print the timing tables of a core, as profiles/cores/*.toml have them, from what llvm-mca says of LLVM's model of it.

    python scripts/llvm_rows.py neoverse-n1 --without fmla_q,fmla_lane_q
    python scripts/llvm_rows.py cortex-a510 --in-order

A start, not a fact sheet: put what was measured in place of these rows, and leave those classes out with --without.
Every class is looked up by its example (mavcg/hardware/instr_classes.py).
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mavcg.hardware.instr_classes import CLASSES
from mavcg.hardware.timing import UnitUse
from mavcg.profiles.rates import unit_rate

NAMES_A_LINE = 8
FEATURES = "+i8mm,+bf16,+dotprod,+crc,+aes,+fullfp16"
# Classes whose own result is added to: LLVM's "bypass latency" of these is that from accumulator to accumulator.
# Those beside each other here pass it on to each other, too.
ADDING = (
    ("mul_w",),
    ("mul_x",),
    ("mull",),
    ("fmadd_s",),
    ("fmla_q", "fmla_lane_q"),
    ("fmla_d", "fmla_lane_d"),
    ("adalp_q",),
    ("adalp_d",),
    ("mla_q", "mla_lane_q"),
    ("mla_d", "mla_lane_d"),
    ("mlal_q", "mlal_lane_q"),
    ("dot_q", "dot_lane_q"),
    ("dot_d", "dot_lane_d"),
    ("bfdot_q", "bfdot_lane_q"),
    ("mmla_q",),
    ("bfmmla_q",),
    ("shift_acc_q",),
    ("shift_acc_d",),
)
# Pipes that several of LLVM's units sit on ("Super" in the .td files), which llvm-mca does not show; dividers that
# leave their pipe alone once started are pools of their own. A Cortex-A510 has two vector pipes for all its vector
# units (WikiChip); LLVM's model gives two each to additions and to multiplications.
PIPES = {
    "cortex-a510": {"v": "VALU VMAC"},
    "exynos-m3": {
        "f0": "PipeF0 FMAC0 FADD0 FCVT0 NALU0 NMSC NSHT0 NSHF0",
        "f1": "PipeF1 FMAC1 FADD1 FCVT1 FST0 NALU1 NCRY0 NMUL NSHT1 NSHF1",
        "f2": "PipeF2 FMAC2 FADD2 FST1 NALU2 NCRY1 NSHT2 NSHF2",
    },
    "exynos-m4": {
        "f0": "PipeF0 FMAC0 FADD0 FCVT0 NALU0 NHAD NMSC NMUL0 NSHT0 NSHF0 NCRY0",
        "f1": "PipeF1 FMAC1 FADD1 FST0 NALU1 NSHT1 NSHF1",
        "f2": "PipeF2 FMAC2 FADD2 FCVT1 FST1 NALU2 NMUL1 NSHT2 NCRY1",
        "ls": "PipeLS L1 S1",
    },
    "exynos-m5": {
        "f0": "PipeF0 FMAC0 FADD0 NALU0 NDOT0 NHAD NMSC NMUL0 NSHT0 NSHF0 NCRY0",
        "f1": "PipeF1 FMAC1 FADD1 FCVT0 FST0 NALU1 NDOT1 NSHT1 NSHF1",
        "f2": "PipeF2 FMAC2 FADD2 FCVT1 FST1 NALU2 NDOT2 NMUL1 NSHT2 NCRY1",
        "ls": "PipeLS L1 S1",
    },
}
ROW = re.compile(
    r"\s(?P<uops>\d+)\s+(?P<latency>\d+)\s+(?P<cycles>[\d.]+)\s[\s*U]*\s(?P<bypass>\d+)\s+(?P<units>\S*?)\s+[A-Z]\w*\s+\S"
)
RESOURCE = re.compile(r"\[\d+\]\s+- (?P<name>\w+):(?P<count>\d+)(?:[ \t]+(?P<members>\S.*))?")


@dataclass(frozen=True)
class Unit:
    """One resource of LLVM's model: how many there are, or the other resources that it is a group of."""

    count: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """The timing of one class by llvm-mca; cycles: of one instruction in a long run."""

    uops: int
    latency: int
    cycles: float
    bypass: int
    held: dict[str, int]


def main() -> None:
    """Ask llvm-mca and print TOML."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cpu", help="LLVM's name of the core")
    parser.add_argument("--mca", default="llvm-mca-22", help="the llvm-mca to run")
    parser.add_argument("--in-order", action="store_true", help="one pool for each use: groups become pools themselves")
    parser.add_argument("--width", type=int, help="instructions or micro-operations a cycle, where LLVM's is wrong")
    parser.add_argument("--without", default="", help="classes to leave out, separated by commas")
    options = parser.parse_args()
    left_out = set(filter(None, options.without.split(",")))
    if left_out - set(CLASSES):
        sys.exit(f"--without: no such class: {', '.join(sorted(left_out - set(CLASSES)))}")
    text = "".join(about.example + "\n" for about in CLASSES.values())
    tables = _mca(options, ["-instruction-tables=full"], text)
    width = re.search(r"Dispatch Width:\s+(\d+)", _mca(options, ["-iterations=1"], "nop\n"))
    if width is None:
        sys.exit(f"{options.mca}: no dispatch width in its summary; is it LLVM 22 or later?")
    pipes = {unit: pipe for pipe, names in PIPES.get(options.cpu, {}).items() for unit in names.split()}
    units = _resources(tables, pipes)
    rows = [_row(match, pipes) for match in ROW.finditer(tables)]
    if len(rows) != len(CLASSES):
        sys.exit(f"{options.mca}: {len(rows)} rows for {len(CLASSES)} classes; is it LLVM 22 or later?")
    named = {name: row for name, row in zip(CLASSES, rows, strict=True) if name not in left_out}
    print("\n".join(_toml(named, units, options.width or int(width[1]), options.in_order)))


def _mca(options: argparse.Namespace, arguments: Sequence[str], text: str) -> str:
    command = [options.mca, "-mtriple=aarch64", f"-mcpu={options.cpu}", f"-mattr={FEATURES}", *arguments]
    try:
        run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"{options.mca}: {error.strerror}; install LLVM 22, or name its llvm-mca by --mca")
    if run.returncode:
        sys.exit(f"{options.mca}: {run.stderr.strip()}")
    return run.stdout


def _resources(tables: str, pipes: dict[str, str]) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for match in RESOURCE.finditer(tables):
        members = match["members"].split(", ") if match["members"] else []
        named = tuple(dict.fromkeys(_short_name(member, pipes) for member in members))
        name = _short_name(match["name"], pipes)
        count = max(int(match["count"]), units[name].count) if name in units and not members else int(match["count"])
        units[name] = Unit(1 if name in pipes.values() and name != "v" else count, named)
    return units


def _short_name(resource: str, pipes: dict[str, str]) -> str:
    """A resource in lower case, without what a model's names begin with (CortexA510UnitLd is ld), or its pipe."""
    name = re.sub(r"^(?:\w*Unit|\w\d(?=Pipe))", "", resource)
    return pipes.get(name, name.lower())


def _row(match: re.Match[str], pipes: dict[str, str]) -> Row:
    cycles_of: dict[str, int] = {}
    for use in filter(None, re.split(r",(?![\d])", match["units"])):
        resource, _, cycles = use.partition("[")
        name = _short_name(resource, pipes)
        cycles_of[name] = max(cycles_of.get(name, 0), int(cycles.rstrip("]").split(",")[-1] or 1) if cycles else 1)
    return Row(int(match["uops"]), int(match["latency"]), float(match["cycles"]), int(match["bypass"]), cycles_of)


def _leaves(name: str, units: dict[str, Unit]) -> frozenset[str]:
    members = units[name].members
    return frozenset({name}) if not members else frozenset().union(*(_leaves(member, units) for member in members))


def _uses(row: Row, units: dict[str, Unit], in_order: bool) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The row's micro-operations: for each the units that will do, and for how long it needs one.

    LLVM counts a use of a unit for all groups that hold it too; what a group has beyond that is its own. A resource
    that another one contains (llvm-mca shows no members for it) and that is held as long is the same use.
    """
    if in_order:
        return tuple(((name,), cycles) for name, cycles in row.held.items())
    own: dict[frozenset[str], int] = {}
    for name in sorted(row.held, key=lambda name: len(_leaves(name, units))):
        leaves = _leaves(name, units)
        own[leaves] = row.held[name] - sum(cycles for smaller, cycles in own.items() if smaller < leaves)
    own = {leaves: cycles for leaves, cycles in own.items() if cycles > 0}
    pieces = {leaves: 1 for leaves in own}
    while sum(pieces.values()) < row.uops and any(own[leaves] > pieces[leaves] for leaves in own):
        longest = max(own, key=lambda leaves: Fraction(own[leaves], pieces[leaves]))
        pieces[longest] += 1
    return tuple(
        (tuple(sorted(leaves)), cycles // pieces[leaves] + (piece < cycles % pieces[leaves]))
        for leaves, cycles in own.items()
        for piece in range(pieces[leaves])
    )


def _toml(rows: dict[str, Row], units: dict[str, Unit], width: int, in_order: bool) -> list[str]:
    uses = {name: _uses(row, units, in_order) for name, row in rows.items()}
    needed = {unit for micro_ops in uses.values() for any_of, _ in micro_ops for unit in any_of}
    pools = {name: unit.count for name, unit in units.items() if name in needed}
    lines = [
        f'width = {{ value = {width}, unit = "instr/cycle", source = "LL: IssueWidth" }}',
        f'pools = {{ value = {{ {", ".join(f"{name} = {count}" for name, count in pools.items())} }}, source = "LL" }}',
        "",
        "[instr]",
    ]
    texts: dict[str, list[str]] = {}
    for name, row in rows.items():
        micro_ops = tuple(UnitUse(any_of, cycles) for any_of, cycles in uses[name])
        per_cycle = float(unit_rate(micro_ops, pools, width))
        if abs(per_cycle * row.cycles - 1) > 0.06:
            print(f"# {name}: {1 / row.cycles:.4g} a cycle says llvm-mca, {per_cycle:.4g} the units", file=sys.stderr)
        shown = ", ".join(f'"{"|".join(use.any_of)}{_busy(use)}"' for use in micro_ops)
        text = f'latency = {row.latency}, per_cycle = {_format_rate(per_cycle)}, units = [{shown}], source = "LL"'
        texts.setdefault(f"{CLASSES[name].family}: {text}", []).append(name)
    for text, names in texts.items():
        bare = [name for name in names if not _equals_inherited(name, names)]
        for some in (bare[i : i + NAMES_A_LINE] for i in range(0, len(bare), NAMES_A_LINE)):
            key = some[0] if len(some) == 1 else f'"{" ".join(some)}"'
            lines.append(f"{key} = {{ {text.partition(': ')[2]} }}")
    lines += ["", "[forward]"]
    faster: dict[tuple[str, int], None] = {}
    for kin in ADDING:
        there = [name for name in kin if name in rows and rows[name].bypass < rows[name].latency]
        for cycles in sorted({rows[name].bypass for name in there}):
            passing = " ".join(name for name in there if rows[name].bypass == cycles)
            if (re.sub(r"_d\b", "_q", passing), cycles) not in faster:  # a d form inherits that of its q form
                faster[passing, cycles] = None
    lines += [f'"{passing}->{passing}.acc" = {{ cycles = {cycles}, source = "LL" }}' for passing, cycles in faster]
    return lines


def _equals_inherited(name: str, alike: Sequence[str]) -> bool:
    """True if a row equals that of the class it inherits from."""
    return CLASSES[name].parent in alike


def _busy(use: UnitUse) -> str:
    return f":{use.cycles}" if use.cycles > 1 else ""


def _format_rate(rate: float) -> str:
    return f"{rate:.4f}".rstrip("0") + ("0" if float(rate).is_integer() else "")


if __name__ == "__main__":
    main()
