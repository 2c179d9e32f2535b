"""Runs kernels of an Arm core in an emulator: C that reads the operands, calls each kernel and writes the outputs."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.choose.lowering.kernel_code import kernel_flags, kernel_module, version_symbol
from mavcg.graph import DTYPES, Graph
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Machine, Packing, Step, dense_view
from mavcg.specs.packed_constant import constant_array
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU

Array = NDArray[Any]
TARGET = parse_target("aarch64-linux-musl")
HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef void kernel(void *, long, long, void *);
static char *taken(long bytes) {
    char *to = aligned_alloc(64, (bytes + 191) / 64 * 64);
    if (fread(to, 1, bytes, stdin) != bytes) exit(4);
    return to;
}
static char *filled(long bytes) { return memset(aligned_alloc(64, (bytes + 191) / 64 * 64), 0x7e, bytes + 64); }
static void written(char *from, long bytes) {
    for (int i = 0; i < 64; i++) if (from[bytes + i] != 0x7e) exit(5);
    fwrite(from, 1, bytes, stdout);
}
"""


@dataclass(frozen=True)
class EmulatedNode:
    """The one node of a graph, its steps and the values of its inputs."""

    graph: Graph
    inputs: Mapping[str, Array]
    steps: tuple[Step, ...]

    @property
    def output(self) -> str:
        return self.graph.nodes[-1].output


def emulated_node(
    graph: Graph, inputs: Mapping[str, Array], lanes: int = 8, packing: Packing | None = None
) -> EmulatedNode:
    """Lower the one node of a graph, whose tensors are dense. packing: another one than that of `lanes`."""
    (node,) = graph.nodes
    views = {name: dense_view(kind) for name, kind in graph.types.items()}
    return EmulatedNode(graph, inputs, lower(node, graph, views, packing or Packing(lanes)))


def compiled(nodes: Sequence[EmulatedNode], machine: Machine, folder: Path, emit: str) -> Path:
    """Compile the kernels of all nodes as a library has them. emit: asm or obj."""
    specs = [*dict.fromkeys(step.spec for node in nodes for step in node.steps)]
    text = kernel_module(specs, machine, "tested", TARGET)
    out = folder / ("kernels.s" if emit == "asm" else "kernels.o")
    compile_module(CodegenJob(text, TARGET, "test", opt_level="2", emit=emit, flags=kernel_flags(machine, specs)), out)
    return out


def run_emulated(nodes: Sequence[EmulatedNode], machine: Machine, folder: Path, cpu: str = "max") -> list[Array]:
    """Return the outputs of nodes, each computed in two ranges of rows, the second first; skip without an emulator."""
    if QEMU is None:
        pytest.skip("qemu-aarch64 is not installed")
    folder.mkdir(exist_ok=True)
    compiled(nodes, machine, folder, "obj")
    lines, heads, data = list[str](), dict[str, str](), list[bytes]()
    for node in nodes:
        lines.append("{")
        for number, (name, kind) in enumerate(node.graph.types.items()):
            given = name in node.inputs
            lines.append(f"char *t{number} = {'taken' if given else 'filled'}({kind.bytes});")
            data += [node.inputs[name].tobytes()] if given else []
        names = {name: f"t{number}" for number, name in enumerate(node.graph.types)}
        workspace = max((operand.workspace_bytes for step in node.steps for operand in step.operands), default=0)
        lines += [f"char *w = filled({workspace});"] if workspace else []
        for step in node.steps:
            kernel, places = kernel_name(step.spec), list[str]()
            heads[kernel] = f'kernel k{len(heads)} __asm__("{version_symbol(kernel, "tested")}");'
            symbol = f"k{list(heads).index(kernel)}"
            for operand in step.operands:
                constant = (
                    operand.constant if operand.constant is not None else node.graph.constants.get(operand.tensor)
                )
                if operand.workspace_bytes:
                    places.append(f"w + {operand.offset}")
                elif constant is None:
                    places.append(names[operand.tensor])
                else:
                    array = constant_array(constant, node.graph.constants)
                    places.append(f"taken({array.nbytes})")
                    data.append(array.tobytes())
            # C does not order the elements of an array's initialiser, which read the input.
            lines.append(f"{{ void *args[{len(places)}];")
            lines += [f"args[{i}] = {place};" for i, place in enumerate(places)]
            rows = step.spec.rows
            lines.append(f"char *s = filled({step.spec.scratch_bytes});")
            lines.append(f"{symbol}(args, {rows // 2}, {rows}, s); {symbol}(args, 0, {rows // 2}, s); }}")
        lines.append(f"written({names[node.output]}, {node.graph.types[node.output].bytes}); }}")
    source = HEAD + "\n".join(heads.values()) + "\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    (folder / "main.c").write_text(source)
    run_zig("cc", ["-target", TARGET.zig_name, "-O1", "-w", "-static", "main.c", "kernels.o", "-o", "main"], "", folder)
    done = subprocess.run(
        [QEMU, "-cpu", cpu, folder / "main"], input=b"".join(data), stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 0, f"ended with {done.returncode}"
    outputs, start = list[Array](), 0
    for node in nodes:
        kind = node.graph.types[node.output]
        size = int(np.prod(kind.shape))
        outputs.append(np.frombuffer(done.stdout, DTYPES[kind.dtype], size, start).reshape(kind.shape))
        start += kind.bytes
    return outputs
