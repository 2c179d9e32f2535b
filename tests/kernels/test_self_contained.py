"""What kernels are compiled to, for every architecture: they call nothing, but for moving memory."""

import re
from collections.abc import Sequence

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from mavcg.graph import Graph, TensorType
from mavcg.kernel import Machine, Packing, dense_view
from mavcg.kernels.emit import prepared
from mavcg.kernels.registry import emit, lower
from mavcg.ops import infer, make_node

CORES = {
    "aarch64": Machine("generic", "aarch64", "cortex-a55", (), vector_bytes=16, in_order=True),
    "x86_64": Machine("x86-64-v3", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16),
    "avx512": Machine("icelake-server", "x86_64", "icelake-server", ("-prefer-256-bit",), vector_bytes=64),
}
TRIPLES = {"aarch64": "aarch64-linux-gnu", "x86_64": "x86_64-linux-gnu"}
IMAGE = TensorType("f32", (1, 7, 9, 37))
BYTES = TensorType("i8", (1, 7, 9, 37))
SCALAR = TensorType("f32", ())
TO = {"out_zero": 1, "lo": -5, "hi": 90, "to": "i8"}
EIGHT = {"x_zero": 3, "multiplier": 0.3, **TO}

NODES: dict[str, tuple[str, Sequence[TensorType], dict[str, object]]] = {
    **{op: (op, (IMAGE,), {}) for op in ("gelu", "tanh", "erf", "log", "sin", "mish", "round", "softplus", "selu")},
    **{f"{op} f32": (op, (TensorType("f32", (99,)),) * 2, {}) for op in ("div", "pow", "mod", "max")},
    **{f"{op} i64": (op, (TensorType("i64", (99,)),) * 2, {}) for op in ("div", "pow", "mod", "max")},
    "fmod": ("mod", (IMAGE, SCALAR), {"fmod": True}),
    "division of i8": ("div", (BYTES, BYTES), {}),
    "sum of f64": ("add", (TensorType("f64", (50,)),) * 2, {}),
    **{
        f"cast {a} {b}": ("cast", (TensorType(a, (3, 41)),), {"to": b})
        for a, b in (("f32", "f16"), ("f16", "f32"), ("f64", "f16"), ("f16", "f64"), ("f32", "i64"), ("f32", "u64"),
                     ("u64", "f32"), ("i64", "f16"), ("f32", "bool"), ("f16", "i8"))
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
    "softmax": ("softmax", (IMAGE,), {"axis": 3}),
    "log_softmax": ("log_softmax", (IMAGE,), {"axis": 1}),
    "layer_norm": ("layer_norm", (IMAGE, TensorType("f32", (37,))), {"axis": 3}),
    "lrn": ("lrn", (IMAGE,), {"size": 5, "beta": 0.6}),
    "gather": ("gather", (IMAGE, TensorType("i64", (4,))), {"axis": 2}),
    "resample": ("resample", (IMAGE, TensorType("i32", (14, 2)), TensorType("f32", (14, 2))), {"axis": 1}),
}  # fmt: skip


def assembly(name: str, machine: Machine) -> str:
    """A node's kernels, compiled for a machine that need not be this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    op, inputs, attrs = NODES[name]
    names = [f"x{i}" for i in range(len(inputs))]
    node = make_node(op, names, ("y",), name, **attrs)  # type: ignore[arg-type]
    types = dict(zip(names, inputs, strict=True))
    types["y"] = infer(node, types)[0]
    graph = Graph("test", tuple(names), ("y",), (node,), types)
    module = ir.Module("test")
    module.triple = TRIPLES[machine.arch]
    for step in lower(node, graph, {k: dense_view(t) for k, t in types.items()}, Packing(8)):
        emit(module, step.spec, machine)
    parsed = llvm.parse_assembly(prepared(module, machine))
    target = llvm.Target.from_triple(module.triple).create_target_machine(cpu=machine.llvm_cpu, opt=2)
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(parsed, builder)
    return str(target.emit_assembly(parsed))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", NODES)
def test_kernels_call_nothing(core: str, name: str) -> None:
    text = assembly(name, CORES[core])
    called = set(re.findall(r"^\s(?:bl|b|callq?|jmp)\s+([A-Za-z_]\w*)", text, re.M))
    assert called <= {"memcpy", "memset", "memmove"}
    traps = re.findall(r"\b(?:udf|ud2|brk)\b", text)
    assert not traps
