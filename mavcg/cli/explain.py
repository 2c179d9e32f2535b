"""The verb `mavcg explain`: draw how a core issues a function's loops, cycle by cycle."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import note, print_json
from mavcg.console.shared_options import Latencies
from mavcg.errors import MavcgError
from mavcg.profiles.core_timing import core_timing
from mavcg.text.safe_text import printable
from mavcg.text.terminal import show_line

if TYPE_CHECKING:
    from mavcg.assembly.asm_input import AsmInput
    from mavcg.assembly.loop_estimates import BlockEstimate
    from mavcg.hardware.timing import Timing


@dataclass(frozen=True)
class ExplainOptions:
    """The command line of `mavcg explain`."""

    source: Annotated[
        Path, typer.Argument(metavar="LIB.so", help="A library, object, program, or AArch64 assembly file.")
    ]
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="The function's name, without a core's name at its end.")
    ]
    core: Annotated[str, typer.Option(metavar="CORE", help="The core to model; `mavcg cores` lists them.")]
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="OUT.svg",
            help="Write the picture to this .svg or .png file; several pictures to OUT.1.svg, OUT.2.svg, ...",
        ),
    ] = None
    loops: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of loops to show, the hottest first; default 1.")
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="Show all loops, the hottest first.")] = False
    loop: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Show only the loop at this label, line or address.")
    ] = None
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Profile of this file, from `mavcg profile -o` or as perf.data, whose samples decide which loop is "
            "the hottest.",
        ),
    ] = None
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Show all loops, and the basic blocks of loops that have several.")
    ] = False
    settings: Latencies = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON, with the pictures as text.")] = False


def run_explain(options: ExplainOptions) -> None:
    """Draw how a core issues the instructions of a function's hottest loop, and what empty issue slots wait for.

    The picture is a model's, not a measurement. The hottest loop is the one with most samples in --profile; without it,
    it is estimated from the nesting of the loops, the trip counts in the code and the arithmetic. For a library that
    mavcg built, the version that the core runs is shown; for a function without loops, its straight-line code.

    \b
    mavcg explain libapp.so gemm_8x8 --core cortex-a55
    mavcg explain kernel.S gemm_8x8 --core cortex-a55 --svg gemm.png
    mavcg explain libapp.so gemm_8x8 --core cortex-a55 --loops 3 --profile app.json
    mavcg explain libapp.so gemm_8x8 --core cortex-a55 --all --json
    """
    _check_options(options)
    from mavcg.assembly.asm_input import read_asm_input
    from mavcg.assembly.loop_estimates import HOTTEST_BY, HOTTEST_BY_SAMPLES, function_json, head_json
    from mavcg.assembly.schedule_picture import as_text

    kind, timing = core_timing(options.core, options.settings or ())
    code = read_asm_input(options.source, kind, [options.function])
    function = code.functions[0].name
    estimates = _estimate(code, timing, options)
    hottest_by = HOTTEST_BY if options.profile is None else HOTTEST_BY_SAMPLES
    has_loops = any(block.kind != "block" for block in estimates)
    show_all = options.everything or options.blocks or options.loop is not None or not has_loops
    shown = estimates if show_all else estimates[: options.loops or 1]
    if options.svg is not None:
        _draw(options.svg, function, shown)
    if options.as_json:
        document = {"hottest_by": hottest_by} | function_json(function, estimates)
        for entry, block in zip(document["loops"], estimates, strict=True):
            entry["picture"] = as_text(block.estimate) if block.estimate else None
        print_json({**head_json(code.source.file, timing, options.settings or ()), "function": function, **document})
        return
    _show_text(function, shown)
    if len(shown) < len(estimates):
        note(
            f"{len(estimates) - len(shown)} more loops of {function} are not shown; the loop above is the hottest "
            f"by {hottest_by}; --loops N or --all shows more"
        )


explain = command_of("explain", ExplainOptions, run_explain)


def _check_options(options: ExplainOptions) -> None:
    """Raise MavcgError for options that exclude each other, and for a picture that cannot be written."""
    if options.loops is not None and (options.everything or options.loop is not None or options.blocks):
        conflicting = "--all" if options.everything else "--blocks" if options.blocks else "--loop"
        raise MavcgError(f"--loops {options.loops}: has no effect with {conflicting}; leave one of them out")
    if options.svg is not None:
        from mavcg.drawing.svg_plots import check_plot

        check_plot(options.svg, "--svg")


def _estimate(code: "AsmInput", timing: "Timing", options: ExplainOptions) -> "list[BlockEstimate]":
    """Return the estimates of loops, the hottest first, or of those at --loop; without loops, of straight-line code."""
    from mavcg.assembly.loop_estimates import estimate_function, hottest_first, with_samples

    function = code.functions[0]
    estimates = estimate_function(code, function, timing) or estimate_function(code, function, timing, straight=True)
    if options.profile is not None:
        samples = _offsets(options.profile, function.name, bool(code.addresses))
        estimates = with_samples(estimates, code, function, samples)
    if options.loop is not None:
        return _estimates_at(options.loop, estimates, options.function)
    return hottest_first(estimates, options.blocks)


def _show_text(function: str, blocks: "Sequence[BlockEstimate]") -> None:
    """Print the pictures as text, in colours if stdout is a terminal."""
    from mavcg.assembly.schedule_picture import as_text

    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for block in blocks:
        text = as_text(block.estimate, colour) if block.estimate else printable(f"no estimate: {block.why}\n")
        show_line(f"{function}, {block.kind} at {block.location}")
        sys.stdout.write(f"{text}\n")  # not by show(), which removes colours; as_text makes names printable


def _offsets(profile: Path, symbol: str, has_addresses: bool) -> "Mapping[int, float]":
    """Return the offsets of a profile's samples in a function. Raises: MavcgError if the profile has none."""
    from mavcg.program.profiling.load import load_profile

    if not has_addresses:
        raise MavcgError(
            f"--profile {profile}: its samples have addresses, but assembly has none; name the library itself"
        )
    samples_by_offset: dict[int, float] = {}
    for (name, _object), samples_at in load_profile(profile).offsets.items():
        if name == symbol:
            for offset, samples in samples_at.items():
                samples_by_offset[offset] = samples_by_offset.get(offset, 0.0) + samples
    if not samples_by_offset:
        raise MavcgError(
            f"--profile {profile}: has no samples in {symbol} with their offsets; give a profile of this very file "
            "that mavcg profile recorded, or leave --profile out"
        )
    return samples_by_offset


def _estimates_at(location: str, loops: "Sequence[BlockEstimate]", function: str) -> "list[BlockEstimate]":
    """Return the loops at a label, line or address. Raises: MavcgError if there are none."""
    number = _number(location)
    chosen = [
        loop
        for loop in loops
        if location == loop.label or number == (loop.line if loop.address is None else loop.address)
    ]
    if not chosen:
        locations = ", ".join(loop.location for loop in loops)
        raise MavcgError(f"--loop {location}: {function} has no loop there; its loops are at {locations}")
    return chosen


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _draw(svg: Path, function: str, blocks: "Sequence[BlockEstimate]") -> None:
    """Write a picture of each block that has an estimate. Raises: MavcgError if none has."""
    from mavcg.assembly.schedule_picture import as_svg
    from mavcg.drawing.svg_plots import save_drawing

    drawable = [block for block in blocks if block.estimate is not None]
    if not drawable:
        reasons = "; ".join(block.why for block in blocks) or "it holds no instructions"
        raise MavcgError(f"--svg {svg}: nothing of {function} can be drawn: {reasons}; leave --svg out")
    for number, block in enumerate(drawable, 1):
        path = svg if len(drawable) == 1 else svg.with_suffix(f".{number}{svg.suffix}")
        assert block.estimate is not None
        save_drawing(as_svg(block.estimate, f"{function}, {block.kind} at {block.location}"), path, "--svg")
        note(f"{path}: {block.kind} at {block.location}")
