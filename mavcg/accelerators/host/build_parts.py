"""Build the CPU parts of a program as model libraries beside the program's file, with a version for each core."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.accelerators.host.cpu_graph import cpu_graph
from mavcg.accelerators.image.host import CpuPart
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.xgraph import XGraph
from mavcg.files.scratch import scratch_folder
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, identifier, make_model_request

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CpuCores:
    """Cores that CPU parts get versions for, as the options --board and --cores name them."""

    board: str | None = None
    cores: Sequence[str] = ()

    @property
    def are_named(self) -> bool:
        """Return True if a board or cores are named."""
        return self.board is not None or bool(self.cores)


def build_parts(
    program: AccelProgram, graph: XGraph, cores: CpuCores, output: Path, progress: Progress
) -> AccelProgram:
    """Build the libraries of all CPU parts, and return the program with their names.

    graph: quantised graph that the program was made from. output: the program's file; the libraries are lib<its
    stem>_before.so, .._after.so, and .._1.so and so on after the first, second, .. segment, in the same folder.
    Raises: MavcgError.
    """
    stem, plan = f"lib{identifier(output.stem)}", program.host
    names = ["before", *(str(number) for number in range(1, len(plan.cpu) - 1)), "after"]
    parts = [
        _build(program, graph, part, cores, output.parent / f"{stem}_{name}.so", progress)
        for part, name in zip(plan.cpu, names, strict=True)
    ]
    return replace(program, host=replace(plan, cpu=tuple(parts)))


def _build(
    program: AccelProgram, graph: XGraph, part: CpuPart, cores: CpuCores, library: Path, progress: Progress
) -> CpuPart:
    if not part.nodes:
        return part
    made = cpu_graph(graph, part, identifier(library.stem.removeprefix("lib")), program.target.rounding)
    with scratch_folder("mavcg-cpu-part-") as folder:
        text = folder / f"{library.stem}.graph"  # the library's note has this file's name and hash as its model
        text.write_text(str(made), encoding="utf-8")
        request, _ = make_model_request(
            text, str(library), ModelOptions(board=cores.board, cores=cores.cores, max_error=0.0)
        )
        build_model(replace(request, graph=made), progress)
    return replace(part, library=library.name)
