"""What kernels are compiled to: they call nothing, on any architecture, and emulated cores, Arm's and one with AVX-512,
compute the same."""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.registry import emit, lower
from mavcg.lab.trials import bare_x86
from mavcg.specs.kernel import Machine, Packing, Step, dense_view
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU

CORES = {
    "aarch64": Machine("generic", "aarch64", "cortex-a55", (), vector_bytes=16, in_order=True),
    "x86_64": Machine("x86-64-v3", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16),
    "avx512": Machine("icelake-server", "x86_64", "icelake-server", ("-prefer-256-bit",), vector_bytes=64),
}
EXYNOS = Machine("exynos-m4", "aarch64", "exynos-m4", (), vector_bytes=16)
TRIPLES = {"aarch64": "aarch64-linux-gnu", "x86_64": "x86_64-linux-gnu"}
IMAGE = TensorType("f32", (1, 7, 9, 37))
BYTES = TensorType("i8", (1, 7, 9, 37))
SCALAR = TensorType("f32", ())
TO = {"out_zero": 1, "lo": -5, "hi": 90, "to": "i8"}
EIGHT = {"x_zero": 3, "multiplier": 0.3, **TO}

NODES: dict[str, tuple[str, Sequence[TensorType], dict[str, object]]] = {
    **{op: (op, (IMAGE,), {}) for op in ("gelu", "tanh", "erf", "log", "sin", "tan", "mish", "round", "softplus")},
    "selu": ("selu", (IMAGE,), {}),
    **{f"{op} of large": (op, (IMAGE,), {}) for op in ("cos", "tan")},
    **{f"{op} f32": (op, (TensorType("f32", (99,)),) * 2, {}) for op in ("div", "pow", "mod", "max")},
    **{f"{op} i64": (op, (TensorType("i64", (99,)),) * 2, {}) for op in ("div", "pow", "mod", "max")},
    "fmod": ("mod", (IMAGE, SCALAR), {"fmod": True}),
    "division of i8": ("div", (BYTES, BYTES), {}),
    "sum of f64": ("add", (TensorType("f64", (50,)),) * 2, {}),
    **{
        f"cast {a} {b}": ("cast", (TensorType(a, (3, 41)),), {"to": b})
        for a, b in (
            ("f32", "f16"),
            ("f16", "f32"),
            ("f64", "f16"),
            ("f16", "f64"),
            ("f32", "i64"),
            ("f32", "u64"),
            ("u64", "f32"),
            ("i64", "f16"),
            ("f32", "bool"),
            ("f16", "i8"),
        )
    },
    "quantize": ("quantize", (IMAGE, SCALAR, TensorType("i8", ())), {"to": "i8"}),
    "dequantize": ("dequantize", (BYTES, SCALAR, TensorType("i8", ())), {}),
    "qadd": ("qadd", (BYTES, BYTES), {"a_scale": 0.1, "b_scale": 0.2, "a_zero": 1, "b_zero": 2, **TO}),
    "qmul": ("qmul", (BYTES, BYTES), {"multiplier": 0.2, "a_zero": 1, "b_zero": 2, **TO}),
    "qmean": ("qmean", (BYTES,), {"axes": (1, 2), **EIGHT}),
    "qavg_pool2d": ("qavg_pool2d", (BYTES,), {"kernel": (3, 3), "pads": (1, 1, 1, 1), **EIGHT}),
    "lookup": ("lookup", (BYTES, TensorType("i8", (256,))), {}),
    "transpose": ("transpose", (IMAGE,), {"perm": (0, 3, 1, 2)}),
    "transpose of bytes": ("transpose", (BYTES,), {"perm": (0, 3, 1, 2)}),
    "reshape": ("reshape", (IMAGE,), {"shape": (63, 37)}),
    "concat": ("concat", (IMAGE, IMAGE), {"axis": 3}),
    "pad": ("pad", (IMAGE,), {"before": (0, 1, 1, 0), "after": (0, 1, 1, 0)}),
    "reflect": ("pad", (IMAGE,), {"before": (0, 1, 1, 0), "after": (0, 1, 1, 0), "mode": "reflect"}),
    "max_pool2d": ("max_pool2d", (IMAGE,), {"kernel": (3, 3)}),
    "avg_pool2d": ("avg_pool2d", (IMAGE,), {"kernel": (3, 3)}),
    "mean": ("reduce_mean", (IMAGE,), {"axes": (1, 2)}),
    "product": ("reduce_prod", (TensorType("i64", (3, 50)),), {"axes": (1,)}),
    "arg_max": ("arg_max", (IMAGE,), {"axis": 3}),
    "arg_top": ("arg_top", (IMAGE,), {"axis": 3, "count": 5}),
    "cumulative_sum": ("cumulative_sum", (IMAGE,), {"axis": 1}),
    "true_places": ("true_places", (TensorType("bool", (100,)),), {}),
    "suppress_boxes": (
        "suppress_boxes",
        (TensorType("f32", (2, 9, 4)), TensorType("f32", (2, 3, 9)), SCALAR, SCALAR, TensorType("i64", ())),
        {"bound": 5},
    ),
    "softmax": ("softmax", (IMAGE,), {"axis": 3}),
    "log_softmax": ("log_softmax", (IMAGE,), {"axis": 1}),
    "layer_norm": ("layer_norm", (IMAGE, TensorType("f32", (37,))), {"axis": 3}),
    "attention": (
        "attention",
        tuple(TensorType("f32", (2, length, 3, 19)) for length in (5, 70, 70)),
        {"scale": 0.5, "causal": True},
    ),
    "lrn": ("lrn", (IMAGE,), {"size": 5, "beta": 0.6}),
    "gather": ("gather", (IMAGE, TensorType("i64", (4,))), {"axis": 2}),
    "flat_index": (
        "flat_index",
        (TensorType("i64", (3, 5, 2)),),
        {"lengths": (3, 7), "strides": (7, 1), "offsets": (0, 21)},
    ),
    "scatter": (
        "scatter",
        (TensorType("f32", (7, 40)), TensorType("i64", (5,)), TensorType("f32", (5, 40))),
        {"reduction": "add"},
    ),
    "expand_blocks": (
        "expand_blocks",
        (TensorType("u8", (3, 24)), TensorType("f32", (3, 3)), TensorType("u8", (3, 3))),
        {"bits": 4, "block": 16, "depth": 37},
    ),
    "resample": ("resample", (IMAGE, TensorType("i32", (14, 2)), TensorType("f32", (14, 2))), {"axis": 1}),
}


Array = NDArray[Any]


def lowered(name: str) -> tuple[Node, dict[str, TensorType], tuple[Step, ...]]:
    """A node of NODES with the types of x0, x1, .. and y, and its steps."""
    op, inputs, attrs = NODES[name]
    names = [f"x{i}" for i in range(len(inputs))]
    node = make_node(op, names, ("y",), name, **attrs)
    types = dict(zip(names, inputs, strict=True))
    types["y"] = infer(node, types)[0]
    graph = Graph("test", tuple(names), ("y",), (node,), types)
    return node, types, lower(node, graph, {k: dense_view(t) for k, t in types.items()}, Packing(8))


def assembly(steps: Iterable[Step], machine: Machine) -> str:
    """Kernels, compiled for a machine that need not be this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = ir.Module("test")
    module.triple = TRIPLES[machine.arch]
    for spec in dict.fromkeys(step.spec for step in steps):
        emit(module, spec, machine)
    parsed = llvm.parse_assembly(add_core_attributes(module, machine))
    target = llvm.Target.from_triple(module.triple).create_target_machine(cpu=machine.llvm_cpu, opt=2, reloc="pic")
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(parsed, builder)
    return str(target.emit_assembly(parsed))


@cache
def all_assembly(machine: Machine) -> str:
    """The kernels of all nodes."""
    return assembly((step for name in NODES for step in lowered(name)[2]), machine)


@cache
def functions_of(machine: Machine) -> dict[str, str]:
    """The code of each function of all_assembly."""
    return dict(re.findall(r'^"?([A-Za-z_][^\s":]*)"?:[^\n]*\n(.*?)^\s*\.size\s', all_assembly(machine), re.M | re.S))


# AVX2 in the long suite only: the code for AVX-512 is made of the same intrinsics.
@pytest.mark.parametrize(
    "core", [pytest.param(core, marks=[] if core == "aarch64" else [pytest.mark.long]) for core in CORES]
)
@pytest.mark.parametrize("name", NODES)
def test_kernels_call_nothing(core: str, name: str) -> None:
    kernels = {kernel_name(step.spec) for step in lowered(name)[2]}
    text = "".join(functions_of(CORES[core])[kernel] for kernel in kernels)
    called = set(re.findall(r"^\s(?:bl|b|callq?|jmp)\s+([A-Za-z_]\w*)", text, re.M))
    assert called <= {"memcpy", "memset", "memmove"}
    assert not re.findall(r"\b(?:udf|ud2|brk)\b", text)


def inputs_of(name: str) -> list[Array]:
    """Random inputs: floats that logarithms and roots take, indices that exist."""
    rng = np.random.default_rng(0)
    inputs = []
    for tensor in NODES[name][1]:
        dtype = DTYPES[tensor.dtype]
        if dtype.kind == "f":
            values = rng.standard_normal(tensor.shape) + 2
            if name.endswith("of large"):
                values = np.ldexp(values, rng.integers(-4, 120, tensor.shape))
            inputs.append(np.asarray(values).astype(dtype))
        else:
            low, high = (
                (0, 2) if dtype.itemsize > 1 or dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            )
            inputs.append(np.asarray(rng.integers(low, high, tensor.shape, endpoint=True)).astype(dtype))
    return inputs


def _call(number: int, name: str) -> str:
    """C that reads a node's inputs, runs its steps in two halves, the second first, and writes the output."""
    node, types, steps = lowered(name)
    lines = ["int fault[1] = {0};"]
    for tensor, kind in types.items():
        lines.append(f"char *{tensor} = aligned_alloc(64, {kind.bytes // 64 * 64 + 128});")
        lines += [f"fread({tensor}, 1, {kind.bytes}, stdin);"] if tensor in node.inputs else []
    for step in steps:
        places = ", ".join("fault" if operand.fault_word else operand.tensor for operand in step.operands)
        rows = step.spec.rows
        scratch = step.spec.scratch_bytes // 64 * 64 + 64
        lines.append(f"{{ void *args[] = {{{places}}}; char *s = aligned_alloc(64, {scratch});")
        lines += [f"{kernel_name(step.spec)}(args, {a}, {b}, s);" for a, b in ((rows // 2, rows), (0, rows // 2))] + [
            "}"
        ]
    lines.append(f"fwrite(y, 1, {types['y'].bytes}, stdout);")
    return f"static void node_{number}(void) {{\n" + "\n".join(lines) + "\n}\n"


def emulated(machine: Machine, folder: Path) -> bytes:
    """The outputs of all nodes, one behind the other, from kernels for an Arm core or for x86 with AVX-512."""
    steps = [step for name in NODES for step in lowered(name)[2]]
    folder.mkdir()
    (folder / "kernels.s").write_text(all_assembly(machine))
    kernels = dict.fromkeys(kernel_name(step.spec) for step in steps)
    source = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        + "".join(f"void {kernel}(void *, long, long, void *);\n" for kernel in kernels)
        + "".join(_call(i, name) for i, name in enumerate(NODES))
        + "int main(void) {\n"
        + "".join(f"node_{i}();\n" for i in range(len(NODES)))
        + "return 0; }\n"
    )
    data = b"".join(array.tobytes() for name in NODES for array in inputs_of(name))
    if machine.arch == "x86_64":
        zig = ["-target", bare_x86.TARGET.zig_name, "-w", "-c", "kernels.s", "-o", "kernels.o"]
        run_zig("cc", zig, "kernels", folder)
        written = sum(lowered(name)[1]["y"].bytes for name in NODES)
        return bare_x86.run_bare(folder, source, [folder / "kernels.o"], data, written)
    (folder / "main.c").write_text(source)
    zig = ["-target", "aarch64-linux-musl", "-O1", "-w", "-static", "main.c", "kernels.s", "-o", "main"]
    run_zig("cc", zig, "kernels", folder)
    assert QEMU is not None
    return subprocess.run([QEMU, str(folder / "main")], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.fixture(scope="module")
def from_cores(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What an in-order and an out-of-order core of Arm make of the same inputs."""
    if QEMU is None:
        pytest.skip("qemu-aarch64 is not installed")
    folder = tmp_path_factory.mktemp("emulated")
    return {machine.name: emulated(machine, folder / machine.name) for machine in (CORES["aarch64"], EXYNOS)}


@pytest.mark.long
def test_long_vectors_of_x86_agree_in_every_bit(from_cores: Mapping[str, bytes], tmp_path: Path) -> None:
    if not bare_x86.bochs_there():
        pytest.skip("bochs is not installed")
    assert emulated(CORES["avx512"], tmp_path / "avx512") == from_cores["generic"]


@pytest.mark.long
def test_cores_agree_in_every_bit(from_cores: Mapping[str, bytes]) -> None:
    first, second = from_cores.values()
    assert len(first) == sum(lowered(name)[1]["y"].bytes for name in NODES) and first == second


@pytest.mark.parametrize("name", NODES)
def test_an_emulated_core_computes_the_same(from_cores: Mapping[str, bytes], name: str) -> None:
    order = list(NODES)
    start = sum(lowered(earlier)[1]["y"].bytes for earlier in order[: order.index(name)])
    node, types, _ = lowered(name)
    arrays: list[Array | None] = [*inputs_of(name)]
    (expected,) = evaluate(node, arrays + [None] * (len(node.inputs) - len(arrays)))
    computed = np.frombuffer(from_cores["generic"], expected.dtype, expected.size, start).reshape(expected.shape)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(computed, expected, rtol=2e-5, atol=2e-5)
    else:
        np.testing.assert_array_equal(computed, expected)
