"""Random graphs against onnxruntime: `python -m bench.differential --count 10000 --seed 0`.

Many graphs that have nothing to do with each other are one model, whose library is built once; each graph has inputs
and outputs of its own, which lie against pages that nobody may touch. A graph follows from --seed and its number alone:
--only NUMBER does one again. A difference is *explained* where docs/operators.md has its class, else the run fails.
"""

import argparse
import collections
import contextlib
import json
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.differential_graphs import OPSETS, Array, Part, model_of, random_part
from bench.isolated import Died, each
from bench.record import RESULTS, facts, write
from mavcg.errors import MavcgError, ToolError

BATCH = 48  # graphs of one library
BATCH_SECONDS = 600.0
RELATIVE = 2e-5  # of the largest finite result of a graph: sums in other orders, polynomials of other people
# What an operator brings into later ones: that f32 rounds otherwise may be the last step before a jump.
JUMPS = ("Ceil", "Floor", "Round", "Sign", "ThresholdedRelu", "Shrink", "ArgMax", "ArgMin", "Hardmax", "TopK", "Equal")
STEEP = ("Exp", "Tan", "Reciprocal", "Log", "Sqrt", "Pow", "Sin", "Cos", "ReduceProd", "Div", "LpNormalization")
NUDGES = 16  # last bits of its inputs that a difference may be worth: three operators that round several times each
ROUNDED_TO_ZERO = ("Elu", "Celu", "Selu", "Tanh")  # by onnxruntime, where the result is a denormal number
EIGHT_BIT = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul")


@dataclass(frozen=True)
class Compared:
    """What became of a graph. status: same, explained, different, refused (by the importer), skipped (onnxruntime does
    not run it), crash or hang. reason: the class of the difference, or the words of whoever refused."""

    number: int
    operators: tuple[str, ...]
    status: str
    reason: str = ""


class Guarded:
    """Memory of an array's size that ends where a page begins that nobody may touch, or begins where one ends."""

    def __init__(self, shape: Sequence[int], dtype: Any, at_end: bool) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        page = mmap.PAGESIZE
        pages = max(1, -(-size // page))
        self._map = mmap.mmap(-1, (pages + 2) * page)
        start = np.frombuffer(self._map, np.uint8).ctypes.data
        for place in (start, start + (pages + 1) * page):
            _forbid(place, page)
        offset = page + (pages * page - size if at_end else 0)
        self.array = np.frombuffer(self._map, dtype, int(np.prod(shape, dtype=np.int64)), offset).reshape(shape)


def _forbid(place: int, size: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(size), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


def run_guarded(library: Path, parts: Sequence[Part], at_end: bool) -> list[Array]:
    """The outputs of a library of these graphs, in their order, from and into guarded memory."""
    from mavcg.loading import load
    from mavcg.runtime.declared import ffi

    with load(library) as model:
        given = {name: array for part in parts for name, array in part.inputs.items()}
        held = []
        for tensor in model.inputs:
            memory = Guarded(tensor.shape, tensor.dtype, at_end)
            memory.array[...] = given[tensor.name]
            held.append(memory)
        outputs = [Guarded(tensor.shape, tensor.dtype, at_end) for tensor in model.outputs]
        for memory in outputs:
            memory.array.reshape(-1).view(np.uint8)[...] = 0xA5
        # As Model.run, but that outputs are not of its making.
        places = [ffi.new("void *[]", [ffi.cast("void *", m.array.ctypes.data) for m in a]) for a in (held, outputs)]
        model._check(model._run_model(model._context, *places))
        return [memory.array.copy() for memory in outputs]


def expected(part: Part) -> list[Array]:
    """What onnxruntime makes of a graph. Raises: its own exceptions where it does not run it."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(part.model().SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(part.outputs, part.inputs)]


def verdict(part: Part, ours: Sequence[Array], theirs: Sequence[Array]) -> tuple[str, str]:
    """Status and class of what two runs of a graph differ in."""
    worst = ("same", "")
    for have, want in zip(ours, theirs, strict=True):
        if have.shape != want.shape or have.dtype != want.dtype:
            return "different", f"{have.dtype}{list(have.shape)} where {want.dtype}{list(want.shape)} is expected"
        found = _difference(part, have, want)
        if found:
            worst = max(worst, found, key=lambda pair: ("same", "explained", "different").index(pair[0]))
    return worst


def judged(part: Part, ours: Sequence[Array], theirs: Sequence[Array]) -> tuple[str, str]:
    """The verdict; a difference that onnxruntime shows itself for other last bits of the inputs is explained."""
    status, reason = verdict(part, ours, theirs)
    if status == "different" and not part.hard and moved_as_far(part, ours, theirs):
        return "explained", "ill-conditioned: last bits of the inputs move it as far"
    return status, reason


def moved_as_far(part: Part, ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    """True if onnxruntime's own results differ as much once a last bit of each input has changed, up or down."""
    rng = np.random.default_rng(0)
    nudged = {
        name: np.nextafter(x, np.where(rng.random(x.shape) < 0.5, -np.inf, np.inf).astype(x.dtype))
        if x.dtype.kind == "f" else x
        for name, x in part.inputs.items()
    }  # fmt: skip
    after = expected(replace(part, inputs=nudged))
    with np.errstate(all="ignore"):
        apart, moved = (
            max(float(np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0)) for a, b in pairs)
            for pairs in (list(zip(ours, theirs, strict=True)), list(zip(after, theirs, strict=True)))
        )
    return apart <= moved * NUDGES


def _difference(part: Part, have: Array, want: Array) -> tuple[str, str] | None:
    operators = set(part.operators)
    with np.errstate(all="ignore"):
        if want.dtype.kind != "f":
            apart = have.astype(np.float64) - want.astype(np.float64)
            if not np.any(apart):
                return None
            if operators & set(EIGHT_BIT) and np.max(np.abs(apart)) <= 1:
                return "explained", "8 bits: one step"
        else:
            wide, other = have.astype(np.float64), want.astype(np.float64)
            finite = np.isfinite(wide) & np.isfinite(other)
            size = float(np.max(np.abs(other[finite]), initial=0.0))
            steep = 50 if operators & set(STEEP) else 1
            near = np.abs(wide - other) <= steep * RELATIVE * np.maximum(size, 1e-3) + 1e-37
            alike = np.where(finite, near, (np.isnan(wide) & np.isnan(other)) | (wide == other))
            if alike.all():
                return None
    named = next((op for op in part.operators if op in HARD_CLASSES), "") if part.hard else ""
    if named:
        return "explained", f"hard numbers: {named}"
    if set(part.operators[1:]) & {"Sin", "Cos", "Tan"}:
        return "explained", "a sine, cosine or tangent of other last bits"
    if part.hard and set(part.operators[:-1]) & set(ROUNDED_TO_ZERO) and set(part.operators[1:]) & {"Log", "Sqrt"}:
        return "explained", "a tiny negative number that onnxruntime rounds to zero, behind a logarithm or a root"
    if len(part.operators) > 1 and operators & set(JUMPS):
        return "explained", "rounded to the other side of a jump"
    return "different", "+".join(part.operators)


# In which NaN, infinities, denormal or huge numbers come out otherwise than in onnxruntime, by docs/operators.md.
HARD_CLASSES = (
    "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "DynamicQuantizeLinear", "QuantizeLinear", "Conv",
    "ConvTranspose", "MatMul", "Gemm",
    "Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "TopK", "ReduceLogSumExp", "ReduceL2", "LpNormalization",
    "BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN", "Resize",
    "AveragePool", "GlobalAveragePool",
)  # fmt: skip


def checked_batch(number: int, seed: int, numbers: Sequence[int], folder: Path) -> list[Compared]:
    """batch_of, whose exceptions are crashes of all its graphs."""
    try:
        return batch_of(number, seed, numbers, folder)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"[:300]
        return [Compared(each_number, (), "crash", words) for each_number in numbers]


def batch_of(number: int, seed: int, numbers: Sequence[int], folder: Path) -> list[Compared]:
    """The graphs of one library, compared, in this process."""
    from mavcg.importers.load import import_model
    from mavcg.passes.graph.pipeline import optimise

    opset = OPSETS[number % len(OPSETS)]
    results: list[Compared] = []
    kept: list[tuple[int, Part, list[Array]]] = []
    for each_number in numbers:
        part = random_part(seed, each_number, opset)
        operators = tuple(part.operators)
        try:
            theirs = expected(part)
        except Exception as error:  # onnxruntime's own kinds
            results.append(Compared(each_number, operators, "skipped", str(error)[:200]))
            continue
        path = folder / f"{number}-{each_number}.onnx"
        path.write_bytes(part.model().SerializeToString())
        try:
            optimise(import_model(path, {}))
            kept.append((each_number, part, theirs))
        except MavcgError as error:
            results.append(Compared(each_number, operators, "refused", str(error).replace(str(path), path.name)[:200]))
        finally:
            path.unlink()
    if kept:
        results += _compared(number, kept, folder)
    return results


def _compared(number: int, kept: Sequence[tuple[int, Part, list[Array]]], folder: Path) -> list[Compared]:
    """The graphs of one library; each by itself where they cannot be built together."""
    parts = [part for _, part, _ in kept]
    try:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            model, library = Path(own, "batch.onnx"), Path(own, "libbatch.so")
            model.write_bytes(model_of(parts).SerializeToString())
            _build(model, library)
            outputs = iter(run_guarded(library, parts, at_end=number % 2 == 0))
    except ToolError:
        raise  # a compiler's words: no input may bring it to that
    except MavcgError as error:
        if len(kept) == 1:
            return [Compared(kept[0][0], tuple(kept[0][1].operators), "refused", str(error)[:200])]
        middle = len(kept) // 2
        return [*_compared(number, kept[:middle], folder), *_compared(number, kept[middle:], folder)]
    return [
        Compared(each_number, tuple(part.operators), *judged(part, [next(outputs) for _ in part.outputs], theirs))
        for each_number, part, theirs in kept
    ]


def _build(model: Path, library: Path) -> None:
    from mavcg.model_road.model import build_model
    from mavcg.model_road.request import make_model_request

    request, _ = make_model_request(model, str(library), None, ("generic",), None, jobs=1)
    build_model(request)


def compared(numbers: Sequence[int], seed: int, workers: int) -> Iterator[Compared]:
    """Graphs of these numbers, a library for BATCH of them, each in a process that may crash."""
    batches = [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]
    with tempfile.TemporaryDirectory() as name:
        done = each(
            lambda i: checked_batch(batches[i][0] // BATCH, seed, batches[i], Path(name)),
            len(batches), BATCH_SECONDS, None, workers,
        )  # fmt: skip
        for result in done:
            if isinstance(result.value, Died):
                for number in batches[result.index]:
                    yield Compared(number, (), result.value.kind, result.value.reason)
            else:
                yield from result.value


def again(workers: int) -> None:
    """Compare anew what the record leaves unexplained, and put the new verdicts into it. Exit status 1 if some stay."""
    record = json.loads((RESULTS / "differential.json").read_text())
    numbers = [each["number"] for each in record["unexplained"]]
    seed = int(record["command"].rpartition(" ")[2])
    results = [result for number in numbers for result in compared([number], seed, workers)]
    counts = collections.Counter(record["counts"])
    counts.subtract(each["status"] for each in record["unexplained"])
    counts.update(result.status for result in results)
    classes = collections.Counter(record["explained"])
    classes.update(result.reason for result in results if result.status == "explained")
    record["counts"] = {status: count for status, count in counts.items() if count}
    record["explained"] = dict(classes.most_common())
    record["unexplained"] = [asdict(result) for result in results if result.status in ("different", "crash", "hang")]
    record["compared_again"] = sorted({*record.get("compared_again", ()), *numbers})
    write("differential", record)
    print(", ".join(f"{result.number}: {result.status} ({result.reason})" for result in results))
    sys.exit(1 if record["unexplained"] else 0)


def main() -> None:
    """The command line; exit status 1 where a difference is not explained, or a batch died."""
    parser = argparse.ArgumentParser(prog="python -m bench.differential", description="Random graphs, onnxruntime")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this graph alone, with its batch's opset")
    parser.add_argument("--again", action="store_true", help="only those that the record leaves unexplained, for it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.again:
        again(max(1, arguments.workers))
        return
    numbers = [arguments.only] if arguments.only is not None else list(range(arguments.count))
    results: list[Compared] = []
    with contextlib.suppress(KeyboardInterrupt):  # what is done is recorded
        for result in compared(numbers, arguments.seed, max(1, arguments.workers)):
            results.append(result)
            if result.status in ("different", "crash", "hang"):
                print(f"{result.status}: {result.number}: {result.reason}", file=sys.stderr, flush=True)
    counts = collections.Counter(result.status for result in results)
    classes = collections.Counter(result.reason for result in results if result.status == "explained")
    operators = {operator for result in results for operator in result.operators}
    bad = [asdict(result) for result in results if result.status in ("different", "crash", "hang")]
    record = facts("counted", f"bench.differential --count {len(results)} --seed {arguments.seed}") | {
        "graphs": len(results),
        "counts": dict(counts),
        "operators": sorted(operators),
        "opsets": list(OPSETS),
        "explained": dict(classes.most_common()),
        "unexplained": bad,
    }
    if arguments.only is None:
        write("differential", record)
    if arguments.json:
        json.dump(record, sys.stdout, indent=2)
        print()
    else:
        print(", ".join(f"{status} {count}" for status, count in counts.items()))
        if arguments.only is not None:
            print(results)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
