"""Graphs with loops, lowered and run on this machine."""

from typing import Any

import numpy as np

from bench.jit import host_machine
from bench.program_runner import KernelStore, ProgramRunner
from mavcg.choose.lowering.lower import lower_graph
from mavcg.graph import Graph
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.machines import packing_for
from mavcg.toolchain.target import host_target

PACKING = packing_for(host_target())
STORE = KernelStore(host_machine())


def computed(graph: Graph, arrays: Any) -> tuple[np.ndarray, ...]:
    """Return what the kernels of a graph compute, in an arena between guards."""
    lowered = lower_graph(optimise(graph), PACKING)
    STORE.add(lowered.specs)
    return ProgramRunner(lowered, STORE.machine, 2, STORE).run(*(arrays[name] for name in graph.inputs))
