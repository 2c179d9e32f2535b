"""Real layers of small images for bench.unequal_cores: 1x1 convolutions at 14x14 and 7x7, of MobileNet v2.

Every version is this machine's code; that of the little core calls it `ratio` times. The planner is told a big core and
one of a `ratio`-th of its clock. Each library is made twice: with rows in parts, as planned for the two cores, and with
whole rows (or panels of output channels), as planned for one.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from mavcg.choose.lowering.kernel_code import kernel_code, kernel_tasks
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.choose.lowering.pack_weights import pack_weights
from mavcg.choose.lowering.step_list import make_step_list
from mavcg.choose.tiles.core_shares import kernel_core_shares
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.files.worker_processes import run_tasks
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core import Core
from mavcg.hosts.host import measured_host_board
from mavcg.kernels.builder.emit import kernel_name
from mavcg.objects.library import link_shared
from mavcg.profiles.load import load_cores
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.machines import machines_for, packing_for
from mavcg.runtime.model_build import build_model_objects
from mavcg.toolchain.target import Target, host_target
from mavcg.toolchain.zig import run_zig

# Output channels and stride of 1x1 convolutions, one after the other, from 28x28x64; the first wakes the other thread.
LAYERS = ((64, 2), (384, 1), (64, 1), (160, 2), (960, 1), (160, 1))
SIDE, CHANNELS = 28, 64

REPEATED = """
#include <stdint.h>
void one(void *const *operands, int64_t begin, int64_t end, void *scratch) __asm__("NAME.big");
void times(void *const *operands, int64_t begin, int64_t end, void *scratch) __asm__("NAME.LABEL");
void times(void *const *operands, int64_t begin, int64_t end, void *scratch) {
    for (int time = 0; time < TIMES; time++) one(operands, begin, end, scratch);
}
"""


def layers_graph() -> tuple[Graph, list[str]]:
    """Return the chain of LAYERS, and the name of each layer."""
    rng, b = np.random.default_rng(0), GraphBuilder("layers")
    at, side, channels, names = b.input("x", TensorType("f32", (1, SIDE, SIDE, CHANNELS))), SIDE, CHANNELS, []
    for out, stride in LAYERS:
        weights = b.constant((rng.standard_normal((out, 1, 1, channels)) / channels**0.5).astype(np.float32))
        at = b.add("conv2d", [at, weights], pads=(0, 0, 0, 0), stride=(stride, stride), act="relu")
        side //= stride
        names.append(f"{side}x{side}, {channels} to {out}")
        channels = out
    return b.finish([at]), names


def build_layers(ratio: int, in_parts: bool, waking: str, folder: Path) -> Path:
    """Build a library of the layers for a big core and a core that takes `ratio` times as long.

    waking: name of the first layer.
    """
    target, board = host_target(), measured_host_board()
    machine = machines_for([load_cores()[board.clusters[0].core]], target)[board.clusters[0].core]
    core = cores_of((board.clusters[0].core,), target, board)[board.clusters[0].core]
    slow = replace(core, ghz=core.ghz / ratio)
    cores = {"generic": core, "big": core, "little": slow}
    graph, names = layers_graph()
    lowered = lower_graph(graph, packing_for(target))
    plan = plan_tiles(lowered.specs, cores, {"big": 1, "little": 1} if in_parts else None)
    memory = plan_memory(lowered)
    shares = kernel_core_shares(lowered.specs, cores, plan)
    program = make_step_list(lowered, memory, plan, shares)
    how = "in parts" if in_parts else "no parts"
    called = [waking, *(f"{name}, {how}" for name in names[1:])]
    program = replace(
        program, steps=tuple(replace(s, name=name) for s, name in zip(program.steps, called, strict=True))
    )
    folder.mkdir(parents=True, exist_ok=True)
    tasks = kernel_tasks(lowered.specs, {"big": machine}, (), target, folder, plan=plan)
    code = kernel_code(run_tasks(tasks, 1, lambda what: None), {"big": machine}, plan)
    repeated = [
        _repeated(kernel_name(spec), label, times, target, folder)
        for spec in lowered.specs
        for label, times in (("generic", 1), ("little", ratio))
    ]
    core_set = CoreSet(tuple(Core(name, target.arch, "out", machine.llvm_cpu, "made up") for name in ("big", "little")))
    made = build_model_objects(
        program,
        pack_weights(memory, lowered.graph.constants),
        [*code.objects, *repeated],
        core_set,
        {},
        target,
        folder / "objects",
    )
    link_shared(made, folder / "liblayers.so", target)
    return folder / "liblayers.so"


def _repeated(kernel: str, label: str, times: int, target: Target, folder: Path) -> Path:
    """Return a version that calls the big core's version so many times."""
    source, made = f"{kernel}-{label}.c", f"{kernel}-{label}.o"
    (folder / source).write_text(REPEATED.replace("NAME", kernel).replace("LABEL", label).replace("TIMES", str(times)))
    arguments = ["-target", target.zig_name, "-O2", "-fPIC", "-c", source, "-o", made]
    run_zig("cc", arguments, f"compiling {kernel} for {label}", folder)
    return folder / made
