"""Matrix products with a constant right side beside onnxruntime, oneDNN and OpenBLAS: `python -m bench.gemm_peers`.

One thread, f32, everything in one process. onnxruntime's MatMul packs its constant right side when the session is made.
oneDNN is measured with two primitives: that of fully connected layers, whose AVX2 code requires packed weights, and
that of matrix products, whose code packs in every call. OpenBLAS, numpy's own, packs in every call, too. All alternate,
in rotating order, with a loop of independent multiply-adds, which measures the core's peak. Each is called for a
fraction of a millisecond, after one call that is not counted; times are CPU times of the thread. The first decile over
the rounds counts, because other programs, which share caches and cores, can only add time. Calls come from a compiled
loop; onnxruntime is called from Python, and the time of a session whose product has a single element, measured beside
it, is subtracted. GFLOP/s count a multiply-add as two. Beside products with one row stands a loop that only reads the
right side. All results are compared; the command fails if they differ.
"""

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from bench.conv_layers import aligned, peak_caller, product_step
from bench.jit import Compiled, Loops, call_rows, compile_step, host_machine, planned
from bench.onednn import OneDnn, Product
from bench.record import facts, write
from bench.tables.catalogue import show_record
from mavcg.graph import Array
from mavcg.kernels.builder.emit import F32, I64, PTR, Values, address, const, for_range, kernel_name
from mavcg.kernels.builder.lanes import f32_splat
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.specs.kernel import Machine
from mavcg.specs.packed_constant import PackedConstant

# (M, N, K): a square, a small one, and layers of ResNet-50 and MobileNet v2 as products.
SHAPES = (
    (512, 512, 512),
    (64, 64, 64),
    (12544, 64, 147),
    (3136, 64, 576),
    (784, 128, 1152),
    (196, 256, 2304),
    (49, 512, 4608),
    (49, 1280, 320),
    (1, 1000, 2048),
    (1, 4096, 9216),
)
PEERS = ("onnxruntime", "oneDNN", "oneDNN matmul")
# A product with one row can be no faster than its right side is read: a loop that only adds up as many bytes, its time
# taken for the product's.
READING = "reading"
ROUNDS, SECONDS, EMPTY_CALLS = 60, 0.0008, 50
CLOSE = 1e-5  # of the largest element, times the square root of the terms of a sum: other orders round otherwise


@dataclass(frozen=True)
class Implementation:
    """Something that computes a product. run(n): n times; out: where the result is; about: what was chosen, if known.

    empty: the same with next to nothing to compute, whose time is no part of the product's.
    """

    run: Callable[[int], None]
    out: Array
    about: str = ""
    empty: "Implementation | None" = None


def mavcg_product(machine: Machine, left: Array, right: Array, loops: Loops) -> Implementation:
    """Return mavcg's kernel as a library has it, with its planned macro-tile and tasks."""
    step = product_step(left.shape[0], right)
    recipe = step.operands[1].constant
    assert isinstance(recipe, PackedConstant)
    packed = recipe.packed_array(dict.fromkeys(recipe.sources, right))
    macro = planned(step, machine)
    compiled = compile_step(step, machine, macro)
    arrays = [left, aligned(packed), aligned(np.zeros((left.shape[0], right.shape[1]), np.float32))]
    args = (ctypes.c_void_p * 3)(*(a.ctypes.data for a in arrays))
    at, rows, grain = compiled.address(kernel_name(step.spec)), step.spec.rows, call_rows(step, macro)
    keep = (compiled, arrays, args)

    def run(times: int, keep: object = keep) -> None:
        loops.tasks(at, ctypes.addressof(args), rows, grain, 0, times)

    return Implementation(run, arrays[2], str(macro))


def onednn_product(
    make: Callable[[Array, Array, Array], Product], left: Array, right: Array, loops: Loops
) -> Implementation:
    """Return one of oneDNN's primitives."""
    out = aligned(np.zeros((left.shape[0], right.shape[1]), np.float32))
    product = make(left, right, out)

    def run(times: int) -> None:
        loops.repeat(product.address, product.arguments, times)

    return Implementation(run, out, product.implementation)


def onnxruntime_product(left: Array, right: Array, empty: Implementation | None) -> Implementation:
    """Return onnxruntime's MatMul, with input and output bound beforehand."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    m, n = left.shape[0], right.shape[1]
    a, c = (helper.make_tensor_value_info(s, TensorProto.FLOAT, d) for s, d in (("a", left.shape), ("c", (m, n))))
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    graph = helper.make_graph([node], "product", [a], [c], [numpy_helper.from_array(right, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding, out = session.io_binding(), aligned(np.zeros((m, n), np.float32))
    binding.bind_input("a", "cpu", 0, np.float32, left.shape, left.ctypes.data)
    binding.bind_output("c", "cpu", 0, np.float32, out.shape, out.ctypes.data)

    def run(times: int) -> None:
        for _ in range(times):
            session.run_with_iobinding(binding)

    return Implementation(run, out, "MatMul", empty)


def openblas_product(left: Array, right: Array) -> Implementation | None:
    """Return numpy's OpenBLAS; None if numpy uses another library."""
    libraries = sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*"))
    if not libraries:
        return None
    library = ctypes.CDLL(str(libraries[0]))
    library.scipy_openblas_set_num_threads64_(1)
    out = aligned(np.zeros((left.shape[0], right.shape[1]), np.float32))
    (m, k), n = left.shape, right.shape[1]
    sgemm = library.scipy_cblas_sgemm64_
    whole, real, pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    # Row-major, neither side transposed.
    call = (
        ctypes.c_int(101),
        ctypes.c_int(111),
        ctypes.c_int(111),
        whole(m),
        whole(n),
        whole(k),
        real(1.0),
        pointer(left.ctypes.data),
        whole(k),
        pointer(right.ctypes.data),
        whole(n),
        real(0.0),
        pointer(out.ctypes.data),
        whole(n),
    )

    def run(times: int) -> None:
        for _ in range(times):
            sgemm(*call)

    return Implementation(run, out, libraries[0].name)


def reading_loop(machine: Machine, right: Array, loops: Loops) -> Implementation:
    """Return a loop that only reads the right operand, as eight interleaved streams of full vectors.

    A bound by bandwidth.
    """
    lanes, streams = machine.vector_bytes // 4, 8
    module = ir.Module("reading")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I64, PTR]), "reading")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    stream, stretch, out = function.args
    typ = ir.VectorType(F32, lanes)

    def iteration(index: ir.Value, sums: Values) -> Values:
        first = address(b, stream, index)
        return tuple(
            b.fadd(total, b.load(address(b, first, b.mul(stretch, const(i))), align=4, typ=typ))
            for i, total in enumerate(sums)
        )

    sums = for_range(b, const(0), stretch, machine.vector_bytes, [f32_splat(0.0, lanes)] * streams, iteration)
    for i, total in enumerate(sums):
        b.store(total, address(b, out, i * machine.vector_bytes), align=4)
    b.ret_void()
    compiled = Compiled(add_core_attributes(module, machine), machine)
    totals = aligned(np.zeros(streams * lanes, np.float32))
    stretch_bytes = right.nbytes // streams // machine.vector_bytes * machine.vector_bytes
    arguments = (right.ctypes.data, stretch_bytes, totals.ctypes.data, 0)

    def run(times: int, keep: object = (compiled, right)) -> None:
        loops.repeat(compiled.address("reading"), arguments, times)

    return Implementation(run, totals)


def measure(shapes: Sequence[tuple[int, int, int]] = SHAPES, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Return a row for each shape."""
    machine, loops = host_machine(), Loops(host_machine())
    library, single = OneDnn(), aligned(np.ones((1, 1), np.float32))
    empty = onnxruntime_product(single, single, None)
    peak, peak_work = peak_caller(machine)
    rows = []
    for m, n, k in shapes:
        random = np.random.default_rng(0)
        left, right = (aligned(random.standard_normal(s).astype(np.float32)) for s in ((m, k), (k, n)))
        implementations = {
            "mavcg": mavcg_product(machine, left, right, loops),
            "onnxruntime": onnxruntime_product(left, right, empty),
            "oneDNN": onednn_product(library.inner_product, left, right, loops),
            "oneDNN matmul": onednn_product(library.matmul, left, right, loops),
        }
        if (blas := openblas_product(left, right)) is not None:
            implementations["OpenBLAS"] = blas
        same_results(implementations, left, right)
        if m == 1:
            implementations[READING] = reading_loop(machine, right, loops)
        work = 2.0 * m * n * k
        top, rates = in_turns(implementations, work, peak, peak_work, rounds)
        best = max(PEERS, key=lambda name: rates[name])
        rows.append(
            {
                "m": m,
                "n": n,
                "k": k,
                "gflops": {name: round(rate, 2) for name, rate in rates.items()},
                "peak_gflops": round(top, 2),
                "share_of_peak": round(rates["mavcg"] / top, 4),
                "best_peer": best,
                "over_best": round(rates["mavcg"] / rates[best], 4),
                "weight_gb_per_s": round(rates["mavcg"] / work * 4 * n * k, 2),
                "about": {name: implementation.about for name, implementation in implementations.items()},
                "rounds": rounds,
            }
        )
    return rows


def same_results(implementations: Mapping[str, Implementation], left: Array, right: Array) -> None:
    """Compare all results. Raises: SystemExit if one differs by more than rounding."""
    exact = left.astype(np.float64) @ right.astype(np.float64)
    for name, implementation in implementations.items():
        implementation.run(1)
        error = float(np.abs(implementation.out - exact).max() / np.abs(exact).max())
        if not error <= CLOSE * left.shape[1] ** 0.5:
            raise SystemExit(f"{name} {left.shape} {right.shape}: is {error:.2g} of the largest element off")


def in_turns(
    implementations: Mapping[str, Implementation], work: float, peak: Callable[[], None], peak_work: float, rounds: int
) -> tuple[float, dict[str, float]]:
    """Return the GFLOP/s of the measured peak and of each implementation, interleaved."""
    calls = {
        name: max(1, round(SECONDS / seconds_of(implementation, 3))) for name, implementation in implementations.items()
    }
    peaks: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in implementations}
    empties: dict[str, list[float]] = {
        name: [] for name, implementation in implementations.items() if implementation.empty is not None
    }
    order = list(implementations)
    for number in range(rounds):
        peak()
        start = time.thread_time()
        peak()
        peaks.append(time.thread_time() - start)
        first = number % len(order)
        for name in order[first:] + order[:first]:
            times[name].append(seconds_of(implementations[name], calls[name]))
            if (empty := implementations[name].empty) is not None:
                empties[name].append(seconds_of(empty, EMPTY_CALLS))
    net = {name: lower(seconds) - (lower(empties[name]) if name in empties else 0.0) for name, seconds in times.items()}
    return peak_work / lower(peaks) / 1e9, {name: work / max(1e-9, seconds) / 1e9 for name, seconds in net.items()}


def seconds_of(implementation: Implementation, calls: int) -> float:
    """Return the seconds of one call, after one that is not counted."""
    implementation.run(1)
    start = time.thread_time()
    implementation.run(calls)
    return (time.thread_time() - start) / calls


def lower(seconds: Sequence[float]) -> float:
    """Return the first decile."""
    return statistics.quantiles(seconds, n=10)[0]


def main() -> None:
    """Measure, print, and write bench/results/gemm_peers.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="M,N,K: only these; nothing is recorded then")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    shapes = [tuple(map(int, shape.split(","))) for shape in args.shapes]
    rows = measure([(m, n, k) for m, n, k in shapes] or SHAPES, args.rounds)
    import onnxruntime

    versions = {"onnxruntime": onnxruntime.__version__, "oneDNN": OneDnn().version, "numpy": np.__version__}
    record = {**facts("measured", "bench.gemm_peers"), "peers": versions, "rows": rows}
    if not shapes:
        write("gemm_peers", record)
    show_record("gemm_peers", record, args.json)


if __name__ == "__main__":
    main()
