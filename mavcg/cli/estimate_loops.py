"""Estimate the cycles of loops on a core, for `mavcg estimate FILE --core CORE`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mavcg.cli.estimate_options import EstimateOptions
from mavcg.console.output import console, note, print_json
from mavcg.profiles.core_timing import core_timing

if TYPE_CHECKING:
    from mavcg.assembly.loop_estimates import BlockEstimate
    from mavcg.hardware.timing import Timing


def estimate_loops(options: EstimateOptions, core_name: str) -> None:
    """Print the predicted cycles of a function's loops, or of all functions that have loops. Raises: MavcgError."""
    from mavcg.assembly.asm_input import read_asm_input
    from mavcg.assembly.loop_estimates import estimate_function, function_json, head_json, to_show

    function, settings, blocks = options.function, options.settings or (), options.blocks
    core, timing = core_timing(core_name, settings)
    code = read_asm_input(options.source, core, [function] if function else [])
    estimates = [(f.name, estimate_function(code, f, timing)) for f in code.functions]
    if function is None:
        estimates = [(name, loops) for name, loops in estimates if loops]
    if options.as_json:
        functions = [function_json(name, loops) for name, loops in estimates]
        requested = {"function": functions[0]["name"], "loops": functions[0]["loops"]} if function else {}
        print_json({**head_json(code.source.file, timing, settings), **requested, "functions": functions})
        return
    shown = [(name, to_show(loops, blocks)) for name, loops in estimates]
    if function is None and not blocks:
        with_small_loops = [(name, loops) for name, loops in shown if any(loop.kind == "loop" for loop in loops)]
        if with_small_loops and len(with_small_loops) < len(shown):
            left_out = len(shown) - len(with_small_loops)
            note(f"{left_out} functions without a loop of a single basic block are left out; --blocks shows them")
        shown = with_small_loops or shown
    _show(str(options.source), shown, timing, settings, options.verbose)


def _show(
    file: str,
    estimates: "Sequence[tuple[str, list[BlockEstimate]]]",
    timing: "Timing",
    settings: Sequence[str],
    verbose: bool,
) -> None:
    from rich.table import Table

    from mavcg.assembly.loop_estimates import model_of

    out = console()
    assumed = f", with {', '.join(settings)}" if settings else ""
    title = f"{file} on {timing.core}, {model_of(timing)} model{assumed} (predicted, not measured)"
    table = Table("function", "loop", title=title)
    rates = [
        heading
        for heading, work in (("FLOP", "flops"), ("int OP", "int_ops"), ("MAC", "macs"))
        if any(getattr(loop.work, work) for _, loops in estimates for loop in loops)
    ]
    for heading in ("cycles", "instr.", *(f"{rate}/cycle" for rate in rates)):
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    for name, loops in estimates:
        for loop in loops:
            loop_location = loop.location if loop.kind == "loop" else f"{loop.location}, {loop.kind}"
            cycles = f"{loop.estimate.cycles:.2f}" if loop.estimate else "?"
            counts = {"FLOP": loop.work.flops, "int OP": loop.work.int_ops, "MAC": loop.work.macs}
            bound = f"{loop.estimate.bound_by}: {loop.estimate.because}" if loop.estimate else loop.why
            if loop.calls:
                bound += f"; the time in {', '.join(loop.calls)} is not counted"
            table.add_row(
                name,
                loop_location,
                cycles,
                str(loop.instructions),
                *(_rate(loop, counts[rate]) for rate in rates),
                bound,
            )
            name = ""
    if table.row_count:
        out.print(table)
    for name, loops in estimates:
        if not loops:
            out.print(f"{name}: has no loops")
        for loop in loops if verbose else ():
            _show_ops(name, loop)
    if not estimates:
        out.print(f"{file}: no function has loops")


def _show_ops(name: str, loop: "BlockEstimate") -> None:
    from rich.table import Table

    if loop.estimate is None:
        return
    table = Table(title=f"{name}, {loop.location}")
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
