"""Runs a lowered node on this machine, compiled in memory, for the tests of the families."""

import itertools
import platform
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES, Graph, Node, is_float, type_of
from mavcg.graph.layout import dense_strides
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.registry import Lower, emit, lower
from mavcg.runtime.kernel_call import KernelCall
from mavcg.specs.kernel import Machine, Packing, Step, View, dense_view
from mavcg.specs.packed_constant import constant_array
from mavcg.specs.tile_plan import MacroTile
from mavcg.toolchain.in_memory import compile_in_memory

Array = NDArray[Any]
X86_64_V3 = Machine("x86-64-v3", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16)


def host_machines() -> tuple[Machine, ...]:
    """Every kind of machine whose code this one runs."""
    if platform.machine() != "x86_64":
        return (Machine("generic", "aarch64", "generic", ("+neon",)),)
    features = llvm.get_host_cpu_features()
    machines = [X86_64_V3] if features.get("avx2") and features.get("fma") else []
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512bw"):
        vnni = bool(features.get("avx512vnni"))
        # Not the host's name: the same code is tested wherever the features are there.
        cpu = "icelake-server" if vnni else "skylake-avx512"
        wide = ("-prefer-256-bit",)
        machines.append(Machine(cpu, "x86_64", cpu, wide, vector_bytes=64, vector_registers=32, dot_product=vnni))
    return tuple(machines)


class Compiled:
    """The functions of some steps, compiled for one machine.

    optimised: as LLVM does for a library; else the same IR goes straight into instructions, in a fifth of the time.
    """

    def __init__(
        self, steps: Sequence[Step], machine: Machine, macro: MacroTile | None = None, optimised: bool = True
    ) -> None:
        module = ir.Module("test")
        module.triple = llvm.get_default_triple()
        for spec in dict.fromkeys(step.spec for step in steps):
            emit(module, spec, machine, macro)
        self.text = add_core_attributes(module, machine)
        level = 3 if optimised else 0
        self.engine = compile_in_memory(self.text, machine.llvm_cpu, machine.llvm_features, level, level)

    def run(self, step: Step, pointers: Sequence[int], ranges: Sequence[tuple[int, int]]) -> None:
        """Call the step's function on each range, with its scratch."""
        function = self.engine.get_function_address(kernel_name(step.spec))
        scratch = np.full(step.spec.scratch_bytes + 64, 0xA5, np.uint8)
        aligned = (scratch.ctypes.data + 63) & ~63
        call = KernelCall(function, pointers, aligned)
        for begin, end in ranges:
            call(begin, end)


GUARD = 64  # elements on either side of an output that nobody may touch


class Buffer:
    """A tensor in memory as its view says, with what lies around it filled with a pattern."""

    def __init__(self, view: View, values: Array | None) -> None:
        span = 1 + sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) if view.elements else 0
        dtype = DTYPES[view.dtype]
        self.view, self.span = view, span
        store = np.frombuffer(bytes([0x5A]) * ((span + 2 * GUARD) * dtype.itemsize + 64), np.uint8).copy()
        start = -store.ctypes.data % 64
        self.memory = store[start : start + (span + 2 * GUARD) * dtype.itemsize].view(dtype)
        self.inner = np.lib.stride_tricks.as_strided(
            self.memory[GUARD:], view.shape, [s * dtype.itemsize for s in view.strides]
        )
        if values is not None:
            self.inner[...] = values
        self.untouched = self.memory.copy()

    @property
    def pointer(self) -> int:
        return int(self.memory.ctypes.data) + GUARD * self.memory.itemsize

    def assert_surroundings_untouched(self) -> None:
        """Assert that nothing was written that is not an element of the tensor."""
        after = self.memory.copy()
        np.lib.stride_tricks.as_strided(after[GUARD:], self.view.shape, self.inner.strides)[...] = 0
        before = self.untouched.copy()
        np.lib.stride_tricks.as_strided(before[GUARD:], self.view.shape, self.inner.strides)[...] = 0
        assert after.tobytes() == before.tobytes(), "written outside the output"


RunNode = Callable[..., list[Array]]


def run_node_on(
    machine: Machine,
    node: Node,
    graph: Graph,
    inputs: Mapping[str, Array],
    views: Mapping[str, View] | None = None,
    parts: int = 1,
    packing: Packing | None = None,
    macro: MacroTile | None = None,
    lowering: Lower = lower,
    optimised: bool = True,
    fault: Array | None = None,
) -> list[Array]:
    """The outputs of one node of a graph, its rows computed in `parts` ranges, the last first.

    views: where a tensor does not lie densely. macro: how the kernel is tiled. lowering: the way it is computed.
    optimised: as Compiled has it. fault: i32[1], the fault word; where it is not given, it must stay 0. Checks that
    nothing outside the outputs is written.
    """
    names = [*dict.fromkeys([n for n in (*node.inputs, *node.outputs) if n])]
    seen = {name: (views or {}).get(name) or dense_view(graph.types[name]) for name in names}
    steps = lowering(node, graph, seen, packing or Packing(lanes=16 if machine.arch == "x86_64" else 8))
    compiled = Compiled(steps, machine, macro, optimised)
    buffers = {name: Buffer(seen[name], inputs.get(name, graph.constants.get(name))) for name in names}
    kept: list[Array] = []
    room = max((operand.workspace_bytes for step in steps for operand in step.operands), default=0)
    word = np.zeros(1, np.int32) if fault is None else fault
    workspace = np.full(room + 64, 0xFF, np.uint8)  # anything at first: NaNs
    for step in steps:
        pointers = []
        for operand in step.operands:
            if operand.fault_word:
                pointers.append(word.ctypes.data)
            elif operand.workspace_bytes:
                pointers.append(workspace.ctypes.data + -workspace.ctypes.data % 64 + operand.offset)
            elif operand.constant is None:
                pointers.append(buffers[operand.tensor].pointer)
            else:
                constant = constant_array(operand.constant, graph.constants)
                raw = np.zeros(constant.nbytes + operand.align, np.uint8)
                start = -raw.ctypes.data % operand.align
                raw[start : start + constant.nbytes] = np.frombuffer(constant.tobytes(), np.uint8)
                kept.append(raw)
                pointers.append(raw.ctypes.data + start)
        rows = step.spec.rows * (macro.parts if macro else 1)
        edges = [rows * part // parts for part in range(parts + 1)]
        compiled.run(step, pointers, list(zip(edges, edges[1:], strict=False))[::-1])
    for name in node.outputs:
        if name:
            buffers[name].assert_surroundings_untouched()
    assert fault is not None or not word[0], "an index of this test does not exist"
    return [np.array(buffers[name].inner) for name in node.outputs if name]


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether the long tests run, too: then LLVM optimises every kernel."""
    return bool(pytestconfig.getoption("markexpr") != "not long")


_OPTIMISED_TESTS: set[tuple[str, ...]] = set()  # those whose first copy has run: file and function


def first_copy(request: pytest.FixtureRequest, *more: str) -> bool:
    """True for the first copy of a parametrised test function, for each value of `more`, that this process runs."""
    key = (str(request.path), request.function.__qualname__, *more)
    seen = key in _OPTIMISED_TESTS
    _OPTIMISED_TESTS.add(key)
    return not seen


@pytest.fixture(params=host_machines(), ids=lambda machine: machine.name)
def run_node(request: pytest.FixtureRequest, thorough: bool) -> RunNode:
    """run_node_on for every kind of machine that can be run here.

    The fast suite has LLVM optimise the first copy of each test only, and runs what the emitter wrote in the others.
    """
    optimised = first_copy(request, request.param.name) or thorough
    return lambda *args, **named: run_node_on(request.param, *args, **{"optimised": optimised, **named})


@pytest.fixture(params=host_machines(), ids=lambda machine: machine.name)
def run_emitted(request: pytest.FixtureRequest, thorough: bool) -> RunNode:
    """run_node for tests of many shapes: the fast suite runs what the emitter wrote, without LLVM's optimisations."""
    return lambda *args, **named: run_node_on(request.param, *args, **{"optimised": thorough, **named})


def machines_of_all_widths() -> tuple[Machine, ...]:
    """The machines of host_machines, and the first of them with shorter and longer vectors than it has."""
    first, *others = host_machines()
    widths = (first.vector_bytes, 16, 32, 64)
    return (*(replace(first, vector_bytes=width) for width in dict.fromkeys(widths)), *others)


AssertNode = Callable[..., list[Array]]


@pytest.fixture
def assert_node(request: pytest.FixtureRequest, thorough: bool) -> AssertNode:
    """Compute one node with vectors of every length, in one and several parts, and assert that it is right.

    The fast suite has LLVM optimise the first node of a test's first copy only, for the first length: what the
    emitters write is the same for all of them. It takes all lengths for the first copy, and for another one the first
    length and one of the others, which its name decides.

    assert_node(op, inputs, rtol=0, atol=0, views={}, constants=(), compare=True, **attrs): inputs are arrays, None
    where absent, named x0, x1, .. and the output y, for `views`; constants: the numbers of those that the graph knows.
    Every machine's result has the same bytes and, but for compare=False, agrees with the reference: exactly, or within
    rtol of it and atol.
    """

    first = first_copy(request)
    nodes = itertools.count(0 if first else 1)
    machines = list(zip(machines_of_all_widths(), itertools.cycle((1, 3, 2)), strict=False))
    if not (first or thorough):
        machines = [machines[0], machines[1 + zlib.crc32(request.node.name.encode()) % (len(machines) - 1)]]

    def assert_right(
        op: str,
        inputs: Sequence[Array | None],
        rtol: float = 0.0,
        atol: float = 0.0,
        views: Mapping[str, View] | None = None,
        constants: Sequence[int] = (),
        compare: bool = True,
        **attrs: Any,
    ) -> list[Array]:
        names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
        arrays = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
        node = make_node(op, names, ("y",), "tested", **attrs)
        types = {name: type_of(array) for name, array in arrays.items()}
        known = {f"x{i}": arrays[f"x{i}"] for i in constants}
        types["y"] = infer(node, types, known)[0]
        graph = Graph("test", tuple(n for n in arrays if n not in known), ("y",), (node,), types, known)
        results: list[Array] = []
        first_node = next(nodes) == 0
        for machine, parts in machines:
            optimised = thorough or (first_node and not results)
            results += run_node_on(machine, node, graph, arrays, views, parts, optimised=optimised)[:1]
        dtype = DTYPES[types["y"].dtype]
        assert results[0].dtype == dtype and results[0].shape == types["y"].shape
        if compare:
            (expected,) = evaluate(node, inputs, wide=is_float(dtype) and op not in ("cast", "equal"))
            with np.errstate(over="ignore"):
                rounded = expected.astype(dtype)
            if dtype == DTYPES["bf16"]:  # NumPy compares no numbers of its type
                computed, rounded = results[0].astype(np.float32), rounded.astype(np.float32)
            else:
                computed = results[0]
            if rtol or atol:
                expected = np.where(np.isinf(rounded), rounded, expected)
                np.testing.assert_allclose(computed, expected, rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(computed, rounded)
        for result in results[1:]:
            assert result.tobytes() == results[0].tobytes(), "another vector length, another result"
        return results

    return assert_right


def padded_view(dtype: str, shape: Sequence[int], gap: int = 3) -> View:
    """A view whose lines have a gap after each of them, as inside a larger buffer."""
    strides = list(dense_strides([*shape[:-1], shape[-1] + gap] if shape else ()))
    return View(dtype, tuple(shape), tuple(strides))


@pytest.fixture
def inside() -> Callable[..., View]:
    """padded_view(dtype, shape, gap)."""
    return padded_view
