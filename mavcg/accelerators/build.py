"""Build a program from a model's file: import, quantise, fuse, generate code, simulate."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.codegen.vta_nodes import with_vta_nodes
from mavcg.accelerators.costs.providers import CostRequest, group_costs
from mavcg.accelerators.fusion.plan import SEARCHES
from mavcg.accelerators.group_search import TileComparison, choose_groups
from mavcg.accelerators.groups import FusedGroup
from mavcg.accelerators.hand_over import assign_operations, hand_over
from mavcg.accelerators.host.build_parts import CpuCores, build_parts
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.images import read_images, seeded_images
from mavcg.accelerators.load import load_xgraph
from mavcg.accelerators.quantise import quantise
from mavcg.accelerators.simulator.cycles import SimulatedTime, simulate
from mavcg.accelerators.simulator.report import energy_mj
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.accelerators.xgraph import XGraph, accelerator_share
from mavcg.errors import MavcgError

Progress = Callable[[str], None]
SIMULATED = CostRequest("simulated")
FILE_SCALES = "file"  # in place of a granularity


@dataclass(frozen=True)
class BuiltProgram:
    """A program with facts about its build.

    graph: the quantised graph. embeddings: number of candidate groups, which are embeddings of the templates. tiles:
    simulated cycles of groups with the paper's tile and with the searched tile. calibration: source of the calibration
    inputs. seconds: time of each stage.
    """

    program: AccelProgram
    graph: XGraph
    groups: tuple[FusedGroup, ...]
    embeddings: int
    tiles: tuple[TileComparison, ...]
    time: SimulatedTime
    calibration: str
    seconds: Mapping[str, float]


@dataclass
class _Stages:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begin, 3)


@dataclass(frozen=True)
class ProgramRequest:
    """A model to compile, and how.

    model: an .onnx, .tflite or .prototxt file, or the name of a built-in network. search: one of group_search.SEARCHES.
    calibrate: file of calibration inputs; None for seeded random inputs. shapes: shapes of inputs whose dimensions are
    free, by name. granularity: one of layer_search.GRANULARITIES, for the radix positions of weights, or FILE_SCALES to
    keep the scales of an 8-bit file. weights: weights
    of a .prototxt; None for the .caffemodel beside it. costs: provider of the groups' costs.
    """

    model: str
    target: IsaTarget
    search: str
    calibrate: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    granularity: str = "depthwise"
    weights: Path | None = None
    costs: CostRequest = SIMULATED


def build_program(request: ProgramRequest, progress: Progress) -> BuiltProgram:
    """Compile a model for a target. Raises: MavcgError."""
    model, target, search = request.model, request.target, request.search
    if search not in SEARCHES:
        raise MavcgError(f"--search {search}: no such search; known: {', '.join(SEARCHES)}")
    stages = _Stages()
    with stages.stage("import"):
        progress(f"import {model}")
        real = load_xgraph(model, target, request.shapes, request.weights, request.granularity == FILE_SCALES)
    with stages.stage("quantise"):
        graph, calibration = _quantised_graph(request, real, progress)
    if not divide(graph).accelerator:
        raise MavcgError(
            f"{model}: the accelerator cannot compute any of its nodes; build it for the CPU by `mavcg build`"
        )
    with stages.stage("fuse"), group_costs(request.costs, target) as provider:
        chosen = choose_groups(graph, target, search, progress, provider, request.costs.objective)
    with stages.stage("generate"):
        program, groups = generate(graph, chosen.groups, target, progress)
    with stages.stage("simulate"):
        progress("simulation")
        simulated = simulate(program)
        timed = zip(program.segments, simulated.segments, strict=True)
        program = replace(program, segments=tuple(replace(segment, cycles=cycles) for segment, cycles in timed))
    return BuiltProgram(program, graph, groups, chosen.embeddings, chosen.tiles, simulated, calibration, stages.seconds)


def _quantised_graph(request: ProgramRequest, real: XGraph, progress: Progress) -> tuple[XGraph, str]:
    """Return the quantised network, and where its scales are from; of a file's own scales it is the network itself.

    Raises: MavcgError for calibration inputs of a network that needs none.
    """
    target, calibrate = request.target, request.calibrate
    if request.granularity == FILE_SCALES:
        if calibrate is not None:
            raise MavcgError(f"--calibrate {calibrate}: the scales are the file's (--file-scales); leave it out")
        return real, "the scales of its file"
    images = seeded_images(real) if calibrate is None else read_images(real, calibrate)
    graph = quantise(real, images, target.rounding, request.granularity, progress).graph
    if target.isa == VTA:
        graph = with_vta_nodes(graph, target)
    source = "seeded images" if calibrate is None else f"images of {calibrate}"
    return assign_operations(graph, target), f"{len(images)} {source}"


def with_cpu_parts(built: BuiltProgram, cores: CpuCores, output: Path, progress: Progress) -> BuiltProgram:
    """Build model libraries for the nodes that the program leaves to the CPU.

    output: the program's file; the libraries are written to the same folder. Raises: MavcgError.
    """
    stages = _Stages(dict(built.seconds))
    with stages.stage("cpu"):
        program = build_parts(built.program, built.graph, cores, output, progress)
    return replace(built, program=program, seconds=stages.seconds)


def build_json(built: BuiltProgram) -> dict[str, Any]:
    """Return the report of a build as the document of `mavcg accel build --json`."""
    program = built.program
    return {
        "network": program.network,
        "target": program.target.name,
        "calibration": built.calibration,
        "nodes": sum(node.kind != "input" for node in built.graph.nodes),
        "embeddings": built.embeddings,
        "groups": [list(group.nodes) for group in built.groups],
        "tiles": [
            {"nodes": list(comparison.nodes), "paper_cycles": comparison.paper, "searched_cycles": comparison.searched}
            for comparison in built.tiles
        ],
        "segments": [{"nodes": list(s.nodes), "operations": s.operations} for s in program.segments],
        "accelerator_share": accelerator_share(built.graph),
        "images": program.images,
        "hand_over": asdict(hand_over(built.graph, divide(built.graph))),
        "instructions": len(program.instructions),
        "bytes": {
            "code": 4 * sum(instruction.form.words for instruction in program.instructions),
            "parameters": len(program.parameters),
            "features": program.feature_bytes,
        },
        "predicted_cycles": built.time.cycles,
        "predicted_ddr_bytes": built.time.ddr_bytes,
        "predicted_millijoules": energy_mj(program, built.time),
        "cpu_nodes": list(program.cpu_nodes),
        "cpu_libraries": list(program.libraries),
        "seconds": dict(built.seconds),
    }
