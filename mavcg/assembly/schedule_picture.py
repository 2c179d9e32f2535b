"""Draws a pipeline model's schedule of a loop as text for terminals (schedule_svg.py: as SVG).

In-order cores: a row per cycle, a column per issue slot, and the reason for empty slots. Out-of-order cores: the busy
cycles of each unit relative to the cycles of the loop, and each op's part of them.
"""

from mavcg.assembly.schedule_grid import Cell, headline, schedule_rows, verdict
from mavcg.assembly.schedule_svg import as_svg as as_svg
from mavcg.passes.asm.models.estimate import IN_ORDER, LoopEstimate
from mavcg.text.safe_text import printable

_BAR = 32
_ANSI = {"integer": "36", "branch": "35", "load": "33", "store": "31", "fp": "34", "vector": "32"}
_ANSI_STALL, _ANSI_EMPTY = "97;41", "2"


def as_text(estimate: LoopEstimate, colour: bool = False) -> str:
    """Return the picture as monospaced, printable text.

    colour: True for ANSI codes, a colour per family of instructions; the caller decides by the terminal and NO_COLOR.
    """
    body = _schedule(estimate, colour) if estimate.model == IN_ORDER else _pressure(estimate, colour)
    head = [printable(headline(estimate)), printable(verdict(estimate)), ""]
    return "\n".join(line.rstrip() for line in [*head, *body]) + "\n"


def _schedule(estimate: LoopEstimate, colour: bool) -> list[str]:
    rows = schedule_rows(estimate)
    column = max([len("slot 0"), *(len(_cell_text(cell)) for row in rows for cell in row.cells)])
    digits = max(len("cycle"), len(str(len(rows))))
    titles = [f"{f'slot {slot}':{column}}" for slot in range(estimate.width)]
    lines = [f"{'cycle':>{digits}}  {'  '.join(titles)}  empty because"]
    shown = 0
    for row in rows:
        started = max((cell.iteration for cell in row.cells if cell.op is not None and not cell.from_before), default=0)
        if started > shown:
            shown = started
            lines.append(f"{'':{digits}}  -- iteration {shown + 1} --")
        cells = [_paint(cell, f"{_cell_text(cell):{column}}", colour) for cell in row.cells]
        lines.append(f"{row.cycle:>{digits}}  {'  '.join(cells)}  {printable(row.reason)}")
    return lines + _worst(estimate)


def _cell_text(cell: Cell) -> str:
    if cell.op is not None:
        return printable(f"^ {cell.op.text}" if cell.from_before else cell.op.text)
    return "** stall **" if cell.stalled else "--"


def _paint(cell: Cell, text: str, colour: bool) -> str:
    if not colour:
        return text
    code = _ANSI[cell.family] if cell.op is not None else _ANSI_STALL if cell.stalled else _ANSI_EMPTY
    return f"\x1b[{code}m{text}\x1b[0m"


def _worst(estimate: LoopEstimate) -> list[str]:
    """Return lines with the ops that leave the most slots empty, and the meaning of the mark ^."""
    losing = [detail for detail in estimate.ops if detail.lost_slots > 0]
    losing.sort(key=lambda detail: -detail.lost_slots)
    lines = [
        f"  {detail.lost_slots:6.2f} slots, {detail.stall_cycles:6.2f} stall cycles  "
        + printable(f"{detail.op.text}: {detail.why}")
        for detail in losing[:5]
    ]
    if lines:
        lines = ["", f"most lost before (of {estimate.cycles * estimate.width:.2f} slots)", *lines]
    if any(cell.from_before for row in schedule_rows(estimate) for cell in row.cells):
        lines += ["", "^ the end of the iteration before"]
    return lines


def _pressure(estimate: LoopEstimate, colour: bool) -> list[str]:
    cycles = estimate.cycles
    names = [*estimate.bounds, *estimate.pools]
    column = max(len(name) for name in names)
    lines = ["bounds, cycles per iteration" if estimate.is_loop else "bounds, cycles"]
    lines += [_bar(name, value, cycles, column, colour) for name, value in estimate.bounds.items()]
    lines += ["", "busy cycles of each unit"]
    lines += [_bar(name, value, cycles, column, colour) for name, value in estimate.pools.items()]
    if estimate.ops:
        width = max(len(printable(detail.op.text)) for detail in estimate.ops)
        lines += ["", "each instruction's part"]
        for detail in estimate.ops:
            shares = "  ".join(f"{pool} {share:.2f}" for pool, share in detail.pressure.items()) or "no unit"
            mark = "*" if detail.why else " "
            lines.append(f"{mark} {printable(detail.op.text):{width}}  {shares}")
        if any(detail.why for detail in estimate.ops):
            lines += ["", f"* makes the bound: {estimate.bound_by}"]
    return lines


def _bar(name: str, value: float, cycles: float, column: int, colour: bool) -> str:
    share = value / cycles if cycles else 0.0
    filled = min(_BAR, round(share * _BAR))
    bar = "#" * filled
    if colour and share >= 0.999:
        bar = f"\x1b[31m{bar}\x1b[0m"
    return f"{name:{column}}  {bar}{'.' * (_BAR - filled)}  {value:7.2f}  {share:4.0%}"
