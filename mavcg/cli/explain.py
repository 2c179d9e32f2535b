"""The verb `mavcg explain`: a function's loops as a core issues them, cycle by cycle, as a picture."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.core_timing import SET_HELP, core_timing
from mavcg.cli.output import note, print_json
from mavcg.errors import MavcgError
from mavcg.text.safe_text import printable
from mavcg.text.terminal import show

if TYPE_CHECKING:
    from mavcg.assembly.loop_estimates import BlockEstimate


def explain(
    source: Annotated[Path, typer.Argument(metavar="LIB.so", help="Library, object, program, or AArch64 assembly.")],
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="The function's name, without that of a core.")],
    core: Annotated[str, typer.Option(metavar="CORE", help="The core to model; `mavcg cores` lists them.")],
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="OUT.svg", help="Write the picture there, .svg or .png; of several OUT.1.svg, ..."
        ),
    ] = None,
    loops: Annotated[int | None, typer.Option(metavar="N", min=1, help="The N hottest loops; 1.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All loops, the hottest first.")] = False,
    loop: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Only the loop at this label, line or address.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Profile of this very file, by mavcg profile -o or perf.data: its samples say which loop is hot.",
        ),
    ] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="All loops, and the blocks of those that have several.")
    ] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="A->B=N", help=SET_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON, with the pictures as text.")] = False,
) -> None:
    """Picture how a core issues a function's hottest loop, or several.

    Which loop is hottest a --profile says; without it it is estimated, from how the loops nest, the trip counts in the
    code and the arithmetic in them.
    What issues when, and what empty slots wait for: a model's picture, not a measurement. Of a library that mavcg
    built, the version that the core runs is shown; of a function without loops, its straight-line code.

    \b
    mavcg explain libapp.so gemm_8x8 --core cortex-a55
    mavcg explain kernel.S gemm_8x8 --core cortex-a55 --svg gemm.png
    mavcg explain libapp.so gemm_8x8 --core cortex-a55 --loops 3 --profile app.json
    mavcg explain libapp.so gemm_8x8 --core cortex-a55 --all --json
    """
    if loops is not None and (everything or loop is not None or blocks):
        other = "--all" if everything else "--blocks" if blocks else "--loop"
        raise MavcgError(f"--loops {loops}: has no effect with {other}; leave one of them out")
    if svg is not None:
        from mavcg.drawing.svg_plots import check_plot

        check_plot(svg, "--svg")
    from mavcg.assembly.asm_input import read_asm_input
    from mavcg.assembly.loop_estimates import (
        HOTTEST_BY,
        HOTTEST_BY_SAMPLES,
        estimate_function,
        function_json,
        head_json,
        hottest_first,
        with_samples,
    )
    from mavcg.assembly.schedule_picture import as_text

    kind, timing = core_timing(core, settings or ())
    code = read_asm_input(source, kind, [function])
    chosen = code.functions[0]
    found = estimate_function(code, chosen, timing) or estimate_function(code, chosen, timing, straight=True)
    hottest_by = HOTTEST_BY
    if profile is not None:
        found = with_samples(found, code, chosen, _offsets(profile, chosen.name, bool(code.addresses)))
        hottest_by = HOTTEST_BY_SAMPLES
    found = _blocks_by_name(loop, found, function) if loop is not None else hottest_first(found, blocks)
    several = everything or blocks or loop is not None or not any(one.kind != "block" for one in found)
    shown = found if several else found[: loops or 1]
    if svg is not None:
        _draw(svg, chosen.name, shown)
    if as_json:
        document = {"hottest_by": hottest_by} | function_json(chosen.name, found)
        for entry, one in zip(document["loops"], found, strict=True):
            entry["picture"] = as_text(one.estimate) if one.estimate else None
        print_json({**head_json(code.source.file, timing, settings or ()), "function": chosen.name, **document})
        return
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for one in shown:
        text = as_text(one.estimate, colour) if one.estimate else printable(f"no estimate: {one.why}\n")
        show(f"{chosen.name}, {one.kind} at {one.location}")
        sys.stdout.write(f"{text}\n")  # with its colours: what it takes from files is printable in it
    if len(shown) < len(found):
        note(
            f"{len(found) - len(shown)} more loops of {chosen.name} are not shown; the loop above is the hottest by "
            f"{hottest_by}; --loops N or --all shows more"
        )


def _offsets(profile: Path, symbol: str, has_addresses: bool) -> "Mapping[int, float]":
    """Return the offsets of a profile's samples in a function. Raises: MavcgError if the profile has none."""
    from mavcg.profiling.load import load_profile

    if not has_addresses:
        raise MavcgError(f"--profile {profile}: samples have addresses, and assembly has none; name the library itself")
    found: dict[int, float] = {}
    for (name, _object), samples_at in load_profile(profile).offsets.items():
        if name == symbol:
            for offset, samples in samples_at.items():
                found[offset] = found.get(offset, 0.0) + samples
    if not found:
        raise MavcgError(
            f"--profile {profile}: has no samples in {symbol} with their offsets; give one that was recorded with "
            "this "
            "very file by mavcg profile, or leave --profile out"
        )
    return found


def _blocks_by_name(loop: str, loops: "Sequence[BlockEstimate]", function: str) -> "list[BlockEstimate]":
    """Return the loop at this label, line or address. Raises: MavcgError if there is none."""
    chosen = [
        one for one in loops if loop == one.label or _number(loop) == (one.line if one.address is None else one.address)
    ]
    if not chosen:
        raise MavcgError(f"--loop {loop}: {function} has none there; there are: {', '.join(o.location for o in loops)}")
    return chosen


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _draw(svg: Path, function: str, found: "Sequence[BlockEstimate]") -> None:
    from mavcg.assembly.schedule_picture import as_svg
    from mavcg.drawing.svg_plots import save_drawing

    drawn = [one for one in found if one.estimate is not None]
    if not drawn:
        reasons = "; ".join(one.why for one in found) or "it holds no instructions"
        raise MavcgError(f"--svg {svg}: nothing of {function} can be drawn: {reasons}; leave --svg out")
    for number, one in enumerate(drawn, 1):
        path = svg if len(drawn) == 1 else svg.with_suffix(f".{number}{svg.suffix}")
        assert one.estimate is not None
        save_drawing(as_svg(one.estimate, f"{function}, {one.kind} at {one.location}"), path, "--svg")
        note(f"{path}: {one.kind} at {one.location}")
