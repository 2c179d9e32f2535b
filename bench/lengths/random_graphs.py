"""Random graphs of any length against onnxruntime: `python -m bench.lengths.random_graphs --count 5000 --seed 0`.

Many graphs form one model with a bounded dimension, whose library is built once and run at several lengths; inputs and
outputs lie next to inaccessible pages. Its results are compared with onnxruntime's, and their bits with those of a
library of one length. What no other rule explains is judged as in bench.chains. Graphs that a build refuses are counted
by reason. Exit status 1 if a difference is not explained.
"""

import argparse
import collections
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.differential.libraries import same_bits
from bench.differential.memory import Guarded
from bench.differential.part import Array
from bench.isolated import Died, each
from bench.lengths.growing import OPSETS, SYMBOL, LengthPart, at_length, model_of, values_at
from bench.lengths.kinds import ATTENTION, DYNAMIC, random_graph
from bench.record import facts, write
from mavcg.errors import MavcgError

BATCH = 100  # graphs of one library
BATCH_SECONDS = 1200.0
NEAR = 2e-5  # of the largest magnitude of a result
BOUNDS = (2, 3, 5, 8, 12, 17, 31, 40)  # longest lengths, of one library after the other


@dataclass(frozen=True)
class Compared:
    """A graph's verdict.

    status: same, explained, different, refused (by the build), skipped (onnxruntime does not run it) or crash. runs:
    number of lengths at which it was compared.
    """

    number: int
    operators: tuple[str, ...]
    status: str
    reason: str = ""
    runs: int = 0


@dataclass(frozen=True)
class _Library:
    """Bounds of the graphs of one library, and the length of the library that their bits are compared with."""

    most: int
    lengths: tuple[int, ...]
    fixed: int


def _library(seed: int, batch: int) -> _Library:
    most = BOUNDS[batch % len(BOUNDS)]
    rng = np.random.default_rng([seed, batch, 1])
    drawn = (int(rng.integers(1, most + 1)) for _ in range(2))
    fixed = int(rng.integers(2, most + 1))
    lengths = tuple(dict.fromkeys((1, most, fixed, *drawn, most)))
    return _Library(most, tuple(int(n) for n in rng.permutation(lengths)), fixed)


def session_of(model: Any) -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def _request(model: Path, output: Path, parts: Sequence[LengthPart], dimension: str) -> Any:
    """Return the request of a library for this machine's generic version. dimension: a length, or bounds."""
    from mavcg.model.request import ModelOptions, make_model_request

    shapes = [
        f"{name}={'x'.join(dimension if d == SYMBOL else str(d) for d in part.shapes[name])}"
        for part in parts
        for name in part.inputs
    ]
    options = ModelOptions(cores=("generic",), shapes=shapes, jobs=1, max_error=0.0, bounded=True)
    return make_model_request(model, str(output), options)[0]


def _refusal(part: LengthPart, bounds: str, folder: Path) -> str:
    """Return why a library of this graph alone is refused; "" if it is not."""
    from mavcg.model.stages import plan_model

    path = folder / f"{part.prefix}.onnx"
    path.write_bytes(model_of([part]).SerializeToString())
    try:
        request = _request(path, folder / "libalone.so", [part], bounds)
        plan_model(request, "alone", lambda message: None)
    except MavcgError as error:
        return str(error)
    finally:
        path.unlink()
    return ""


def reason_of(message: str) -> str:
    """Return a refusal without names and numbers, for counting."""
    text = re.sub(r"'[^']*'|%\S+|\([^()]*\d to \d[^()]*\)", "", message.partition(";")[0])
    return re.sub(r"\s+", " ", re.sub(r"\d+", "N", text)).strip()[:160]


def compare_batch(seed: int, batch: int, numbers: Sequence[int], folder: Path) -> list[Compared]:
    """Compare the graphs of one library, in this process; a crash of the build counts as one of its graphs."""
    library, opset = _library(seed, batch), OPSETS[batch % len(OPSETS)]
    results, ready = list[Compared](), dict[int, LengthPart]()
    wanted: dict[int, dict[int, list[Array]]] = {}
    for number in numbers:
        part = random_graph(seed, number, opset, DYNAMIC if batch % 3 else ATTENTION)
        try:
            session = session_of(model_of([part]))
            wanted[number] = {n: session.run(None, values_at(part, n)) for n in library.lengths}
        except Exception as error:  # onnxruntime's own kinds
            results.append(Compared(number, tuple(part.operators), "skipped", str(error)[:200]))
            continue
        try:
            refusal = _refusal(part, f"1..{library.most}", folder)
        except Exception as error:
            results.append(Compared(number, tuple(part.operators), "crash", f"{type(error).__name__}: {error}"[:300]))
            continue
        if refusal:
            results.append(Compared(number, tuple(part.operators), "refused", refusal))
        else:
            ready[number] = part
    return [*results, *(_built(library, ready, wanted, folder) if ready else ())]


def _built(
    library: _Library, ready: Mapping[int, LengthPart], wanted: Mapping[int, Any], folder: Path
) -> list[Compared]:
    """Build the library of these graphs, run it, and compare; in halves if that fails."""
    parts = list(ready.values())
    runs: dict[Any, list[Array]] | str
    try:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            runs = _runs(library, parts, Path(name), wanted)
    except Exception as error:
        runs = f"{type(error).__name__}: {error}"[:300]
    if isinstance(runs, str):
        if len(parts) == 1:
            return [Compared(parts[0].number, tuple(parts[0].operators), "crash", runs)]
        items = list(ready.items())
        middle = len(items) // 2
        halves = (dict(items[:middle]), dict(items[middle:]))
        return [result for half in halves for result in _built(library, half, wanted, folder)]
    results, at = [], 0
    for part in parts:
        own = {key: run[at : at + len(part.outputs)] for key, run in runs.items()}
        at += len(part.outputs)
        results.append(verdict_of(part, library, own, wanted[part.number]))
    return results


def _runs(
    library: _Library, parts: Sequence[LengthPart], folder: Path, wanted: Mapping[int, Any]
) -> dict[Any, list[Array]] | str:
    """Return the outputs at each length, and of the fixed library at None, or how the process died."""
    from mavcg.model.model import build_model

    model = folder / "lengths.onnx"
    model.write_bytes(model_of(parts).SerializeToString())
    bounded, fixed = folder / "libbounded.so", folder / "libfixed.so"
    build_model(_request(model, bounded, parts, f"1..{library.most}"))
    build_model(_request(model, fixed, parts, str(library.fixed)))

    def run(_: int) -> dict[Any, list[Array]]:
        outputs: dict[Any, list[Array]] = _guarded(bounded, library.lengths, parts, wanted)
        return outputs | {None: _guarded(fixed, [library.fixed], parts, wanted)[library.fixed]}

    (result,) = each(run, 1, BATCH_SECONDS / 2)
    value: dict[Any, list[Array]] | str = result.value.reason if isinstance(result.value, Died) else result.value
    return value


def _guarded(
    path: Path, lengths: Sequence[int], parts: Sequence[LengthPart], wanted: Mapping[int, Any]
) -> dict[int, list[Array]]:
    """Return a library's outputs at these lengths, one after the other; arrays end at, or begin after, a guard page."""
    from mavcg.runtime.loading import load

    results = {}
    with load(path, threads=2) as model:
        for number, length in enumerate(lengths):
            at_end = number % 3 != 1
            given = {name: x for part in parts for name, x in values_at(part, length).items()}
            inputs = []
            for tensor in model.inputs:
                memory = Guarded(given[tensor.name].shape, given[tensor.name].dtype, at_end)
                memory.array[...] = given[tensor.name]
                inputs.append(memory)
            like = [array for part in parts for array in wanted[part.number][length]]
            outputs = [Guarded(array.shape, array.dtype, at_end) for array in like]
            for memory in outputs:
                memory.array.reshape(-1).view(np.uint8)[...] = 0xA5
            model.run(*[memory.array for memory in inputs], out=[memory.array for memory in outputs])
            results[length] = [memory.array.copy() for memory in outputs]
    return results


def verdict_of(
    part: LengthPart, library: _Library, ours: Mapping[Any, Sequence[Array]], theirs: Mapping[int, Sequence[Array]]
) -> Compared:
    operators, runs = tuple(part.operators), len(library.lengths)
    # A library of one length folds what follows from it, such as a divisor or a result that reads no input.
    other_bits = "Div" not in operators and not same_bits(ours[library.fixed], ours[None])
    if other_bits and _reads_inputs(part, library.fixed):
        return Compared(part.number, operators, "different", f"other bits than of length {library.fixed}", runs)
    explained = ""
    for length in library.lengths:
        if all(_near(a, b) for a, b in zip(ours[length], theirs[length], strict=True)):
            continue
        status, reason = _judged(part, length, ours[length])
        if status == "different":
            return Compared(part.number, operators, status, f"length {length}: {reason}", runs)
        explained = reason
    return Compared(part.number, operators, "explained" if explained else "same", explained, runs)


def _reads_inputs(part: LengthPart, length: int) -> bool:
    """Return True if other inputs of this length have other results, as they have but where slices leave constants."""
    session, values = session_of(model_of([part])), values_at(part, length)
    others = {name: x.reshape(-1)[::-1].reshape(x.shape) for name, x in values.items()}
    return not same_bits(session.run(None, values), session.run(None, others))


def _near(a: Array, b: Array) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    with np.errstate(all="ignore"):
        bound = NEAR * max(1e-3, float(np.abs(b).max(initial=0.0))) if a.dtype.kind == "f" else 0
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return bool(np.all((difference <= bound) | (np.isnan(a) & np.isnan(b)) | (a == b)))


def _judged(part: LengthPart, length: int, ours: Sequence[Array]) -> tuple[str, str]:
    """Return status and reason by bench.chains: onnxruntime without optimisation and NumPy in double precision."""
    from bench.chains.chain import chain_of
    from bench.chains.verdict import FAULTS, opinions_of, verdict

    chain = chain_of(at_length(part, length))
    found = verdict(chain, ours, opinions_of(chain))
    if found.status in FAULTS:
        return "different", found.reason
    return "explained", found.reason or "onnxruntime differs by its optimisations"


def compare_all(seed: int, numbers: Sequence[int], workers: int, seconds: float = float("inf")) -> Iterator[Compared]:
    """Yield verdicts: BATCH graphs in a library, each library in a process that may crash.

    seconds: after which no further library is begun.
    """
    end = time.monotonic() + seconds
    batches = [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]
    with tempfile.TemporaryDirectory() as name:

        def work(i: int) -> list[Compared]:
            if time.monotonic() >= end:
                return []
            return compare_batch(seed, batches[i][0] // BATCH, batches[i], Path(name))

        for result in each(work, len(batches), BATCH_SECONDS, None, workers):
            if isinstance(result.value, Died):
                for number in batches[result.index]:
                    yield Compared(number, (), "crash", result.value.reason)
            else:
                yield from result.value


def main() -> None:
    """Compare graphs; exit status 1 if a difference is not explained, or a process died."""
    parser = argparse.ArgumentParser(prog="python -m bench.lengths.random_graphs", description="Random graphs")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no library after so many seconds")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this graph alone, with its library's bounds")
    parser.add_argument("--record", action="store_true", help="write the counts to bench/results")
    options = parser.parse_args()
    numbers = list(range(options.count)) if options.only is None else [options.only]
    results: list[Compared] = []
    started = time.monotonic()
    for result in compare_all(options.seed, numbers, max(1, options.workers), options.seconds):
        results.append(result)
        if result.status in ("different", "crash"):
            print(f"{result.status}: {result.number}: {result.reason}: {'+'.join(result.operators)}", flush=True)
        if len(results) % (5 * BATCH) == 0:
            counts = collections.Counter(one.status for one in results)
            print(
                f"{len(results)} graphs, {time.monotonic() - started:.0f} s: {dict(counts)}",
                file=sys.stderr,
                flush=True,
            )
    print(_summary_text(results))
    if options.record:
        write("random_lengths", record_of(options.count, options.seed, results))
    sys.exit(1 if any(one.status in ("different", "crash") for one in results) else 0)


def _summary_text(results: Sequence[Compared]) -> str:
    counts = collections.Counter(one.status for one in results)
    lines = [", ".join(f"{status} {count}" for status, count in counts.most_common())]
    for status in ("refused", "explained", "skipped"):
        reasons = collections.Counter(reason_of(one.reason) for one in results if one.status == status)
        lines += [f"  {status} {count}: {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def record_of(count: int, seed: int, results: Sequence[Compared]) -> dict[str, Any]:
    counts = collections.Counter(one.status for one in results)
    reasons = collections.Counter(reason_of(one.reason) for one in results if one.status == "refused")
    record = facts("counted", f"bench.lengths.random_graphs --count {count} --seed {seed}")
    return record | {
        "graphs": len(results),
        "runs": sum(one.runs for one in results),
        "counts": dict(counts),
        "refused": dict(reasons.most_common()),
    }


if __name__ == "__main__":
    main()
