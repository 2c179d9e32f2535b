"""`mavcg estimate`: cycles of the loops of a function on a core, by its model, nothing changed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.core_timing import SET_HELP, core_timing
from mavcg.cli.output import console, note, print_json

if TYPE_CHECKING:
    from mavcg.loop_estimates import BlockEstimate
    from mavcg.timing import Timing


def estimate(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="AArch64 assembly, object, library or program.")],
    core: Annotated[str, typer.Option(metavar="CORE", help="Whose model to ask; `mavcg cores` lists them.")],
    function: Annotated[
        str | None, typer.Option(metavar="F", help="The function; without it: all that have loops.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="A->B=N", help=SET_HELP)] = None,
    blocks: Annotated[bool, typer.Option("--blocks", help="Also the blocks of loops that have several.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Every instruction, and what it waits for.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it, every block and instruction, as JSON.")] = False,
) -> None:
    """Estimate cycles of loops, and what they are lost to.

    The figures are a model's: loads hit the first-level cache, branches are foreseen. Of a library that mavcg built,
    F is the version that this core runs.

    \b
    mavcg estimate kernel.S --core cortex-a55
    mavcg estimate libapp.so --function gemm_8x8 --core cortex-a55 --json
    mavcg estimate kernel.S --function gemm_8x8 --core cortex-a55 --set "ldr_x->ins=3"
    """
    from mavcg.asm_input import read_asm_input
    from mavcg.loop_estimates import estimate_function, function_json, head_json, to_show

    kind, timing = core_timing(core, settings or ())
    code = read_asm_input(source, kind, [function] if function else [])
    found = [(f.name, estimate_function(code, f, timing)) for f in code.functions]
    if function is None:
        found = [(name, loops) for name, loops in found if loops]
    if as_json:
        functions = [function_json(name, loops) for name, loops in found]
        one = {"function": functions[0]["name"], "loops": functions[0]["loops"]} if function else {}
        print_json({**head_json(code.source.file, timing, settings or ()), **one, "functions": functions})
        return
    shown = [(name, to_show(loops, blocks)) for name, loops in found]
    if function is None and not blocks:
        small = [(name, loops) for name, loops in shown if any(loop.kind == "loop" for loop in loops)]
        if small and len(small) < len(shown):
            note(f"{len(shown) - len(small)} functions with no loop of one block are left out; --blocks shows them")
        shown = small or shown
    _show(str(source), shown, timing, settings or (), verbose)


def _show(
    file: str,
    found: "Sequence[tuple[str, list[BlockEstimate]]]",
    timing: "Timing",
    settings: Sequence[str],
    verbose: bool,
) -> None:
    from rich.table import Table

    from mavcg.loop_estimates import model_of

    out = console()
    assumed = f", with {', '.join(settings)}" if settings else ""
    title = f"{file} on {timing.core}, {model_of(timing)} model{assumed} (predicted, not measured)"
    table = Table("function", "loop", title=title)
    rates = [
        heading
        for heading, work in (("FLOP", "flops"), ("int OP", "int_ops"), ("MAC", "macs"))
        if any(getattr(loop.work, work) for _, loops in found for loop in loops)
    ]
    for heading in ("cycles", "instr.", *(f"{rate}/cycle" for rate in rates)):
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    for name, loops in found:
        for loop in loops:
            place = loop.place if loop.kind == "loop" else f"{loop.place}, {loop.kind}"
            cycles = f"{loop.estimate.cycles:.2f}" if loop.estimate else "?"
            counts = {"FLOP": loop.work.flops, "int OP": loop.work.int_ops, "MAC": loop.work.macs}
            bound = f"{loop.estimate.bound_by}: {loop.estimate.because}" if loop.estimate else loop.why
            if loop.calls:
                bound += f"; without the time in {', '.join(loop.calls)}"
            table.add_row(
                name, place, cycles, str(loop.instructions), *(_rate(loop, counts[rate]) for rate in rates), bound
            )
            name = ""
    if table.row_count:
        out.print(table)
    for name, loops in found:
        if not loops:
            out.print(f"{name}: has no loops")
        for loop in loops if verbose else ():
            _show_ops(name, loop)
    if not found:
        out.print(f"{file}: no function has loops")


def _show_ops(name: str, loop: "BlockEstimate") -> None:
    from rich.table import Table

    if loop.estimate is None:
        return
    table = Table(title=f"{name}, {loop.place}")
    for heading in ("cycle", "slot", "stall", "lost slots"):
        table.add_column(heading, justify="right")
    for heading in ("instruction", "class", "waits for, or busy units"):
        table.add_column(heading)
    for op in loop.estimate.ops:
        busy = ", ".join(f"{pool} {share:.2f}" for pool, share in op.pressure.items())
        cells = ["" if value is None else str(value) for value in (op.cycle, op.slot)]
        lost = [f"{value:.2f}" if value else "" for value in (op.stall_cycles, op.lost_slots)]
        table.add_row(*cells, *lost, op.op.text, op.op.op_class, "; ".join(filter(None, (op.why, busy))))
    console().print(table)


def _rate(loop: "BlockEstimate", count: int) -> str:
    rate = loop.per_cycle(count) if count else None
    return "" if rate is None else f"{rate:.2f}"
