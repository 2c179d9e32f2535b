"""8-bit kernels as they are built, for cores with and without products of 8-bit numbers, beside pages nobody may touch.

Arm cores are emulated, and x86 with AVX-512 and VNNI.
"""

import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.choose.lowering.kernel_code import kernel_module, version_symbol
from mavcg.graph import DTYPES, Graph, Node, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.registry import lower
from mavcg.lab.trials import bare_x86
from mavcg.specs.kernel import Machine, Packing, Step, dense_view
from mavcg.specs.packed_constant import constant_array
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import host_target, parse_target
from mavcg.toolchain.zig import run_zig
from tests.kernels.int8.test_integer_conv import weights_of
from tests.machine import QEMU

Array: TypeAlias = NDArray[Any]
TARGETS = {"aarch64": parse_target("aarch64-linux-musl"), "x86_64": bare_x86.TARGET}
MACHINES = {
    "arm": Machine("a53", "aarch64", "cortex-a53", ("+neon",), in_order=True),
    "arm with dot product": Machine("a76", "aarch64", "cortex-a76", ("+dotprod",), dot_product=True),
    "arm in order with dot product": Machine(
        "a55", "aarch64", "cortex-a55", ("+dotprod",), in_order=True, dot_product=True
    ),
    "arm with products of matrices": Machine(
        "a715", "aarch64", "cortex-a715", ("-sve",), dot_product=True, matrix_product=True
    ),
    "arm in order with products of matrices": Machine(
        "a510", "aarch64", "cortex-a510", ("-sve",), in_order=True, dot_product=True, matrix_product=True
    ),
    "x86": Machine("v3", "x86_64", "x86-64-v3", (), 32, 16),
    "x86 with vnni": Machine("vnni", "x86_64", bare_x86.CPU, (), 32, 16, dot_product=True),
    "x86 with long vectors": Machine("avx512", "x86_64", "skylake-avx512", ("-prefer-256-bit",), 64, 32),
    "x86 with long vnni": Machine("vnni512", "x86_64", bare_x86.CPU, ("-prefer-256-bit",), 64, 32, dot_product=True),
}
# Run by the long suite only: their instructions are those of the others, in other loops.
LONG_CORES = (
    "arm with dot product",
    "arm in order with products of matrices",
    "x86 with vnni",
    "x86 with long vectors",
)
# Weights in groups of eight terms, which products of matrices read, and the other versions of their libraries.
PAIRED = ("arm", "arm with dot product", "arm in order with dot product")
# x, w, attributes; of a product: without kernel and stride. most: that no weight is further from 0 than. kind: of the
# weights of exact sums by a zero point of the run (test_integer_conv.py).
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 7, 9, 3), (10, 3, 3, 3), {"stride": (2, 2)}),
    ((1, 5, 19, 6), (20, 3, 3, 6), {}),
    ((1, 3, 7, 37), (21, 1, 1, 37), {}),
    ((1, 4, 4, 2), (9, 1, 1, 2), {}),
    ((2, 5, 5, 16), (24, 3, 3, 8), {"groups": 2, "dilation": (2, 1)}),
    ((1, 5, 13, 24), (24, 3, 3, 1), {"groups": 24}),
    ((1, 6, 6, 35), (35, 2, 3, 1), {"groups": 35, "stride": (1, 2)}),
    ((1, 70), (70, 57), {}),
    ((11, 33), (33, 40), {}),
    ((1, 6, 6, 36), (36, 2, 3, 1), {"groups": 36, "stride": (1, 2)}),
    ((1, 5, 19, 6), (20, 3, 3, 6), {"most": 64}),
    ((1, 3, 7, 37), (21, 1, 1, 37), {"most": 32}),
    ((1, 5, 9, 43), (24, 3, 1, 43), {"most": 16}),
    ((1, 5, 19, 6), (20, 3, 3, 6), {"kind": "i8"}),
    ((1, 3, 7, 37), (21, 1, 1, 37), {"kind": "channels"}),
    ((1, 3, 7, 37), (21, 1, 1, 37), {"kind": "small"}),
    ((1, 5, 13, 24), (24, 3, 3, 1), {"groups": 24, "kind": "channels"}),
    ((1, 4, 4, 2), (9, 1, 1, 2), {"kind": "u8"}),
    ((11, 33), (33, 40), {"kind": "u8"}),
)
# Bochs 2.7 misreads the displacement of the EVEX form of vpinsrb, by which the last of 3 channels is read.
MISREAD = (12, 13)
USUAL, SMALL = (2, 3), (22, 23)  # the same image by i8 and by u8, with all weights and with small ones
# Pixels, channels and terms around the tiles of products of matrices, which are two pixels by two channels by eight.
EDGES = tuple(
    ((1, 1, pixels, terms), (channels, 1, 1, terms), {} if kind is None else {"kind": kind})
    for pixels, channels, terms, kind in (
        (2, 16, 16, None),
        (3, 15, 24, None),
        (4, 25, 17, "channels"),
        (5, 32, 31, None),
        (6, 16, 14, None),
        (7, 33, 40, None),
        (8, 9, 25, "u8"),
        (11, 41, 23, None),
        (13, 7, 48, None),
        (31, 24, 33, "channels"),
    )
)
CASES = [(*shape, dtype) for shape in (*SHAPES, *EDGES) for dtype in ("i8", "u8")]


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    info = np.iinfo(DTYPES[dtype])
    ends = rng.choice([info.min, info.max], shape)
    return np.where(rng.random(shape) < 0.1, ends, rng.integers(info.min, info.max + 1, shape)).astype(DTYPES[dtype])


def integer_case(number: int, packing: Packing) -> tuple[Node, list[Array | None], Step]:
    """Lower a node of exact integer sums, as `lowered` does; all operands but x are constants, the zero point too."""
    x, w, attrs, dtype = CASES[number]
    rng, attrs, kind = np.random.default_rng(number), dict(attrs), attrs["kind"]
    del attrs["kind"]
    zero = np.asarray(rng.integers(*np.iinfo(DTYPES[dtype]).max + np.array([-100, 1])), DTYPES[dtype])
    weights = weights_of(rng, w, kind, 0 if len(w) == 4 else 1)
    node = make_node("iconv2d" if len(w) == 4 else "imatmul", ("x0", "x1", "x2"), ("y",), "tested", **attrs)
    inputs = [numbers(rng, dtype, x), weights, zero]
    types = {f"x{i}": type_of(array) for i, array in enumerate(inputs)}
    types["y"] = infer(node, types)[0]
    graph = Graph("test", ("x0",), ("y",), (node,), types, {"x1": weights, "x2": zero})
    (step,) = lower(node, graph, {name: dense_view(kind) for name, kind in types.items()}, packing)
    operands = tuple(replace(o, tensor="", constant=zero) if o.tensor == "x2" else o for o in step.operands)
    return node, [*inputs, *[None] * 4], with_packed(replace(step, operands=operands), graph)


def with_packed(step: Step, graph: Graph) -> Step:
    """The step with its constants as they are packed."""
    operands = tuple(
        o if o.constant is None else replace(o, constant=constant_array(o.constant, graph.constants))
        for o in step.operands
    )
    return replace(step, operands=operands)


def packing_of(machine: Machine, terms: int = 4) -> Packing:
    return Packing(16 if machine.arch == "x86_64" else 8, 8 if machine.matrix_product else terms)


def lowered(number: int, packing: Packing) -> tuple[Node, list[Any], Step]:
    """A case: its node, the node's inputs, its one step. Every other case has weights of -128."""
    x, w, attrs, dtype = CASES[number]
    if "kind" in attrs:
        return integer_case(number, packing)
    rng, most = np.random.default_rng(number), attrs.get("most", 128)
    attrs = {name: value for name, value in attrs.items() if name != "most"}
    weights = np.clip(numbers(rng, "i8", w), max(-128 + number // 2 % 2, -most), min(127, most)).astype(np.int8)
    channels, terms = (w[0], w[1] * w[2] * w[3]) if len(w) == 4 else (w[1], w[0])
    multiplier = (rng.uniform(0.5, 2, channels) / (90 * terms**0.5)).astype(np.float32)
    inputs = [numbers(rng, dtype, x), weights, rng.integers(-5000, 5000, channels).astype(np.int32), multiplier]
    low = int(np.iinfo(DTYPES[dtype]).min)
    result = {"x_zero": low + 100, "out_zero": low + 90, "lo": low, "hi": low + 250, "to": dtype}
    names = [f"x{i}" for i in range(4)]
    node = make_node("qconv2d" if len(w) == 4 else "qmatmul", names, ("y",), "tested", **attrs, **result)
    types = {name: type_of(array) for name, array in zip(names, inputs, strict=True)}
    types["y"] = infer(node, types)[0]
    graph = Graph("test", ("x0",), ("y",), (node,), types, dict(zip(names[1:], inputs[1:], strict=True)))
    (step,) = lower(node, graph, {name: dense_view(kind) for name, kind in types.items()}, packing)
    return node, inputs, with_packed(step, graph)


DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define SPAN (1l << 21) /* of a page of the emulated x86 */
/* Memory of `bytes` between pages that may not be touched: it begins after the first, or ends where the last begins.
   all: where these pages are, from one call to the next. */
static char *between(char **all, long bytes, int at_end) {
    if (!*all) *all = mmap(0, 3 * SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes > SPAN || *all == MAP_FAILED || mprotect(*all + SPAN, SPAN, PROT_READ | PROT_WRITE)) exit(3);
    return at_end ? *all + 2 * SPAN - bytes : *all + SPAN;
}
static char *taken(char *to, long bytes) { if (fread(to, 1, bytes, stdin) != bytes) exit(4); return to; }
static char *aligned(long bytes) { return taken(aligned_alloc(64, (bytes + 63) / 64 * 64), bytes); }
typedef void kernel(void *, long, long, void *);
/* p: x, packed weights, biases, multipliers, second parts of weights or 0. */
static void compute(kernel *run, char **p, long x_bytes, long out_bytes, long rows) {
    static char *pages[2];
    for (int at_end = 0; at_end < 2; at_end++) {
        char *in = between(&pages[0], x_bytes, at_end), *out = between(&pages[1], out_bytes, at_end);
        memset(out, 0x5a, out_bytes);
        memcpy(in, p[0], x_bytes);
        void *args[] = {in, p[1], out, p[2], p[3], p[4]};
        run(args, rows / 2, rows, 0);
        run(args, 0, rows / 2, 0);
        fwrite(out, 1, out_bytes, stdout);
    }
}
"""


def driver(steps: Sequence[Step], sizes: Sequence[int]) -> str:
    """C that reads every case's operands, computes each twice and writes the outputs."""
    lines: list[str] = []
    heads: list[str] = []
    for step, out_bytes in zip(steps, sizes, strict=True):
        assert step.spec.scratch_bytes == 0
        symbol = f"kernel_{len(lines)}"
        heads.append(f'kernel {symbol} __asm__("{version_symbol(kernel_name(step.spec), "tested")}");')
        x_bytes = step.spec.x.elements  # type: ignore[attr-defined]
        packed = [o.constant.nbytes for o in step.operands if o.constant is not None]
        reads = [f"p[0] = taken(malloc({x_bytes}), {x_bytes});"]
        reads += [f"p[{i}] = aligned({size});" for i, size in enumerate(packed, 1)]
        call = f"compute({symbol}, p, {x_bytes}, {out_bytes}, {step.spec.rows});"
        lines.append("{ char *p[5] = {0}; " + " ".join([*reads, call]) + " }")
    return DRIVER + "\n".join(heads) + "\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"


def needs_bochs(machine: Machine) -> bool:
    """Whether it has AVX-512: then it is emulated, whether or not this processor has it."""
    return machine.arch == "x86_64" and machine.llvm_cpu != "x86-64-v3"


def run(machine: Machine, source: str, kernels: Path, data: bytes, output_bytes: int) -> bytes:
    """What the driver writes, by this processor or an emulated one."""
    folder = kernels.parent
    if needs_bochs(machine):
        if not bare_x86.bochs_there():
            pytest.skip("bochs is not installed")
        return bare_x86.run_bare(folder, source, [kernels], data, output_bytes)
    if machine.arch != host_target().arch and (machine.arch != "aarch64" or QEMU is None):
        pytest.skip(f"neither {machine.arch} nor an emulator of it")
    if machine.arch == "x86_64" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no AVX2")
    (folder / "main.c").write_text(source)
    emulated = machine.arch != platform.machine()
    # For this machine dynamically, by ziglang's libraries of `make setup`: those of musl would be built first.
    target = ["-target", TARGETS[machine.arch].zig_name, "-static"] if emulated else []
    run_zig("cc", [*target, "-O1", "-w", "main.c", kernels.name, "-o", "main"], "linking", folder)
    emulator = [str(QEMU), "-cpu", "max"] if emulated else []
    done = subprocess.run([*emulator, folder / "main"], input=data, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}"
    return done.stdout


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in turns", "every case"])
@pytest.mark.parametrize(
    "core, terms",
    [
        *(pytest.param(core, 4, marks=[pytest.mark.long] if core in LONG_CORES else []) for core in MACHINES),
        *(pytest.param(core, 8, marks=[pytest.mark.long] if core in LONG_CORES else []) for core in PAIRED),
    ],
)
@pytest.mark.sample(1)
def test_every_core_computes_the_same(core: str, terms: int, every: bool, tmp_path: Path) -> None:
    """In turns: each shape by i8 or by u8, by the other on the next machine. terms: most in a group of weights."""
    machine = MACHINES[core]
    turn = list(MACHINES).index(core)
    numbers_of = [number for number in range(2 * len(SHAPES)) if every or (number % 2 + number // 2 + turn) % 2 == 0]
    numbers_of = [number for number in numbers_of if number not in MISREAD or not needs_bochs(machine)]
    assert_exact(numbers_of, machine, packing_of(machine, terms), tmp_path)


@pytest.mark.parametrize(
    "core", ["arm with products of matrices", pytest.param("arm in order with dot product", marks=pytest.mark.long)]
)
def test_sums_of_eight_terms_around_the_edges_of_tiles(core: str, tmp_path: Path) -> None:
    """By products of matrices, and by the dot products of another version, which unpacks the same weights."""
    packing, first = Packing(8, 8), 2 * len(SHAPES)
    numbers_of = [first + 2 * edge + edge % 2 for edge in range(len(EDGES))]
    terms = [getattr(lowered(number, packing)[2].spec, "terms", 0) for number in numbers_of]
    assert terms == [8] * len(EDGES)
    assert_exact(numbers_of, MACHINES[core], packing, tmp_path)


def assert_exact(numbers_of: Sequence[int], machine: Machine, packing: Packing, folder: Path) -> None:
    """Check that these cases' kernels compute what the reference does."""
    assert_cases([lowered(number, packing) for number in numbers_of], machine, folder)


def assert_cases(cases: Sequence[tuple[Node, list[Any], Step]], machine: Machine, folder: Path) -> None:
    """Check that the kernels of nodes with inputs and packed steps, in one program, compute what the reference does."""
    target = TARGETS[machine.arch]
    expected = [evaluate(node, inputs)[0] for node, inputs, _ in cases]
    steps = [step for _, _, step in cases]
    text = kernel_module([*dict.fromkeys(s.spec for s in steps)], machine, "tested", target)
    compile_module(CodegenJob(text, target, machine.name, opt_level="2", emit="obj"), folder / "kernels.o")
    data = b"".join(
        inputs[0].tobytes()
        + b"".join(constant_array(o.constant, {}).tobytes() for o in step.operands if o.constant is not None)
        for _, inputs, step in cases
    )
    source = driver(steps, [want.nbytes for want in expected])
    written = run(machine, source, folder / "kernels.o", data, sum(2 * want.nbytes for want in expected))
    start = 0
    for (node, _, _), want in zip(cases, expected, strict=True):
        for _ in range(2):
            computed = np.frombuffer(written, want.dtype, want.size, start).reshape(want.shape)
            np.testing.assert_array_equal(computed, want, err_msg=str(node))
            start += want.nbytes
    assert start == len(written)


@pytest.mark.parametrize(
    "machine, instruction, numbers_of",
    [
        (MACHINES["arm with dot product"], r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b", USUAL),
        (MACHINES["arm in order with dot product"], r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b", USUAL),
        (MACHINES["arm with products of matrices"], r"u?smmla\s+v\d+\.4s, v\d+\.16b, v\d+\.16b", USUAL),
        (MACHINES["arm"], r"sadalp\s+v\d+\.4s", USUAL),
        (MACHINES["x86"], r"vpmaddwd\s+%ymm", USUAL),
        (MACHINES["x86"], r"vpmaddubsw\s+.*%ymm", SMALL),
        (MACHINES["x86 with long vectors"], r"vpmaddubsw\s+.*%zmm", SMALL),
        (Machine("alderlake", "x86_64", "alderlake", (), 32, 16, dot_product=True), r"vpdpbusd\s+.*%ymm", USUAL),
        (Machine("icelake", "x86_64", "icelake-server", (), 64, 32, dot_product=True), r"vpdpbusd\s+.*%zmm", USUAL),
    ],
)
@pytest.mark.spread
@pytest.mark.parametrize("which", [0, 1])
def test_cores_use_what_they_have(
    machine: Machine, instruction: str, numbers_of: tuple[int, int], which: int, tmp_path: Path
) -> None:
    target = parse_target(f"{machine.arch}-linux-gnu")
    _, _, step = lowered(numbers_of[which], packing_of(machine))
    compile_module(CodegenJob(kernel_module([step.spec], machine, "t", target), target, "test"), tmp_path / "kernel.s")
    text = (tmp_path / "kernel.s").read_text()
    assert len(re.findall(instruction, text)) > 10
    assert not re.search(r"^\s+(bl|callq?)\s", text, re.M)
