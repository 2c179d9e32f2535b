"""ONNX's backend node tests: a model of one operator (or of its function body), inputs, and expected outputs.

    python -m bench.onnx_node_tests                 through kernels compiled in memory: the counts, and what failed or
                                                    is out of scope with its reason; bench/results/onnx_node_tests.json
    python -m bench.onnx_node_tests --by reference  through the definitions in NumPy
    python -m bench.onnx_node_tests --by library    through libraries as `mavcg build` makes them, a second each
    python -m bench.onnx_node_tests --json          the same as JSON

They come with the onnx package, which makes them when asked. A test is *passed*, *failed*, or *out of scope*: the
importer refuses it as unsupported, and its words are the reason. A model whose shapes, axes or scales are inputs of the
graph cannot be compiled as it is, since only a run would tell them: these inputs are put into the file as constants
with the test's values, and the test is counted among those `with constants`. The elements of sequences are arguments
of their own, whose shapes the build gets, as it gets those of inputs with free dimensions.
"""

import argparse
import collections
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.host_library import build_for_host
from bench.isolated import Died, each
from bench.jit import host_machine
from bench.onnx_node_cases import Case, cases
from bench.program_runner import model_runner
from bench.record import facts, write
from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array
from mavcg.graph.reference import run
from mavcg.importers.limits import NeedsConstant, Unsupported
from mavcg.importers.onnx_file import import_onnx
from mavcg.importers.onnx_narrow import NARROW
from mavcg.importers.onnx_order import reads

Run = Callable[..., Sequence[Array]]  # the graph's inputs -> its outputs
Shapes = Mapping[str, tuple[int, ...]]
Runner = Callable[[Path, Shapes], Run]  # a model file, shapes of inputs -> what computes it; MavcgError: it is refused


@dataclass(frozen=True)
class Outcome:
    """Result of a test.

    status: passed, failed, out of scope. constants: inputs that were made constants of the file.
    """

    name: str
    operators: tuple[str, ...]
    status: str
    reason: str = ""
    constants: tuple[str, ...] = ()


_NARROW = {type.dtype: type for type in NARROW.values()}


def as_run(array: Any) -> Any:
    """Return an array as a run reads it: of a type that graphs lack its bits, or its integers (onnx_narrow.py)."""
    narrow = _NARROW.get(array.dtype) if isinstance(array, np.ndarray) else None
    if narrow is None:
        return array
    outside = DTYPES[narrow.outside]
    return array.view(outside) if narrow.is_float else array.astype(outside)


def as_test(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return a run's output as the type that a test expects."""
    narrow = _NARROW.get(dtype)
    if narrow is None or array.dtype != DTYPES[narrow.outside]:
        return array
    return array.view(dtype) if narrow.is_float else array.astype(dtype)


def reference_runner(path: Path, shapes: Shapes) -> Run:
    """Return a function that imports the file and computes it by the NumPy definitions."""
    graph = import_onnx(path, shapes)
    return lambda *arrays: graph.present(run(graph, *arrays))


def run_case(case: Case, runner: Runner, folder: Path) -> Outcome:
    """Run one test. folder: for its model file. Any error but a refusal counts as a failure."""
    values = {i.name: v for i, v in zip(case.model.graph.input, case.inputs, strict=False)}
    constants: tuple[str, ...] = ()
    path = folder / f"{case.name}.onnx"

    def outcome(status: str, reason: str = "") -> Outcome:
        return Outcome(case.name, case.operators, status, reason.replace(str(path), path.name), constants)

    if any(value is None for value in values.values()):
        return outcome("out of scope", "an optional argument that a run leaves out; each has one")
    while True:
        model = with_constants(case.model, {name: values[name] for name in constants})
        path.write_bytes(model.SerializeToString())
        try:
            computed = runner(path, given_shapes(model, values))
            break
        except NeedsConstant as error:
            more = [n for n in inputs_behind(model, error.tensor) if isinstance(values.get(n), np.ndarray | np.generic)]
            if not more:
                return outcome("out of scope", str(error))
            constants = (*constants, *more)
        except Unsupported as error:
            return outcome("out of scope", str(error))
        except MavcgError as error:
            return outcome("failed", str(error))
        except Exception as error:
            return outcome("failed", f"{type(error).__name__}: {error}")
        finally:
            path.unlink()
    try:
        given = [value for name, value in values.items() if name not in constants]
        made = computed(*(as_run(array) for array in tensors(given)))
    except Exception as error:
        return outcome("failed", f"{type(error).__name__}: {error}")
    reason = difference(made, case)
    return outcome("failed" if reason else "passed", reason)


def tensors(values: Sequence[Any]) -> list[Any]:
    """Return values with the elements of sequences in their place."""
    return [array for value in values for array in (value if isinstance(value, list) else [value])]


def given_shapes(model: Any, values: Mapping[str, Any]) -> Shapes:
    """Return the shapes that a build needs: of inputs with free dimensions, and of the elements of sequences."""
    shapes: dict[str, tuple[int, ...]] = {}
    for info in model.graph.input:
        value, dims = values[info.name], info.type.tensor_type.shape.dim
        if isinstance(value, list):
            shapes |= {f"{info.name}.{i}": array.shape for i, array in enumerate(value)}
        elif any(not dim.HasField("dim_value") for dim in dims):
            shapes[info.name] = value.shape
    return shapes


def with_constants(model: Any, values: dict[str, Array]) -> Any:
    """Return the model with some inputs as initializers."""
    from onnx import numpy_helper

    made = type(model)()
    made.CopyFrom(model)
    kept = [i for i in made.graph.input if i.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in values.items())
    return made


def inputs_behind(model: Any, tensor: str) -> list[str]:
    """Return the graph's inputs that a tensor depends on; all of them if it is inside of a function."""
    inputs = [i.name for i in model.graph.input]
    maker = {name: node for node in model.graph.node for name in node.output}
    if tensor not in maker and tensor not in inputs:
        return inputs
    seen: dict[str, None] = {}
    todo = [tensor]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = None
            todo += reads(maker[name]) if name in maker else []
    return [name for name in inputs if name in seen]


def difference(made: Sequence[Array], case: Case) -> str:
    """Return a description of how results differ; "" if they agree."""
    expected = tensors(case.outputs)
    if len(made) != len(expected):
        return f"{len(made)} outputs where {len(expected)} are expected"
    for i, (have, want) in enumerate(zip(made, expected, strict=True)):
        want = np.asarray(want)
        have = as_test(have, want.dtype)
        if have.dtype != want.dtype or have.shape != want.shape:
            return f"output {i} is {have.dtype}{list(have.shape)} where {want.dtype}{list(want.shape)} is expected"
        with np.errstate(all="ignore"):
            if want.dtype in _NARROW:
                have, want = have.astype(np.float64), want.astype(np.float64)
            if not np.allclose(have, want, case.rtol, case.atol, equal_nan=True):
                differences = np.abs(have.astype(np.float64) - want.astype(np.float64))
                worst, count = np.nanmax(differences), int((differences > 0).sum())
                return f"output {i} differs by up to {worst:.3g} in {count} of {want.size} elements"
    return ""


def run_all(runner: Runner = reference_runner, names: Iterable[str] = ()) -> list[Outcome]:
    """Run all tests, or those of these names, one after the other in this process."""
    selected = set(names)
    with tempfile.TemporaryDirectory() as folder:
        return [run_case(c, runner, Path(folder)) for c in cases() if not selected or c.name in selected]


def run_isolated(runner: Runner, chosen: Sequence[Case], workers: int = 1, seconds: float = 120) -> list[Outcome]:
    """Run these tests in child processes, so that a crash is the failure of one test. seconds: limit for each."""
    with tempfile.TemporaryDirectory() as folder:
        results = each(lambda index: run_case(chosen[index], runner, Path(folder)), len(chosen), seconds, None, workers)
        by_index = {result.index: result.value for result in results}
    return [
        Outcome(case.name, case.operators, "failed", by_index[i].reason)
        if isinstance(by_index[i], Died)
        else by_index[i]
        for i, case in enumerate(chosen)
    ]


def kernel_runner() -> Runner:
    """Run the pipeline as far as kernels, which are compiled in memory for this machine's core."""
    machine = host_machine()
    return lambda path, shapes: model_runner(path, machine, shapes=shapes)


def library_runner(path: Path, shapes: Shapes) -> Run:
    """Return a function that builds a library, loads it and runs it, as users do."""
    import mavcg

    written = [f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items()]
    return mavcg.load(build_for_host(path, path.with_name(f"lib{path.stem}.so"), written, jobs=1)).run


RUNNERS: dict[str, Callable[[], Runner]] = {
    "kernels": kernel_runner,
    "reference": lambda: reference_runner,
    "library": lambda: library_runner,
}


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Count the tests of each status, and those that passed only with constants."""
    by_status = collections.Counter(o.status for o in outcomes)
    with_them = sum(o.status == "passed" and bool(o.constants) for o in outcomes)
    return {s: by_status[s] for s in ("passed", "failed", "out of scope")} | {"passed with constants": with_them}


def by_operator(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """Return the counts by operator: a test counts for every operator in its model."""
    by_operator: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        for operator in outcome.operators:
            by_operator[operator][outcome.status] += 1
    return {operator: dict(sorted(statuses.items())) for operator, statuses in sorted(by_operator.items())}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.onnx_node_tests", description="ONNX's backend node tests")
    parser.add_argument("names", nargs="*", help="tests to run; all where none is named, which is recorded then")
    parser.add_argument("--by", choices=RUNNERS, default="kernels", help="what computes the models")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a CPU)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th test")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    chosen = [c for c in cases() if not arguments.names or c.name in arguments.names][:: arguments.every]
    outcomes = run_isolated(RUNNERS[arguments.by](), chosen, max(1, arguments.workers))
    record = facts("counted", f"bench.onnx_node_tests --by {arguments.by}") | {
        "onnx": version("onnx"),
        "counts": counts(outcomes),
        "operators": by_operator(outcomes),
        "tests": [asdict(o) for o in outcomes if o.status != "passed"],
    }
    if not arguments.names and arguments.every == 1 and arguments.by != "reference":  # which has no record
        write(f"onnx_node_tests{'' if arguments.by == 'kernels' else '_' + arguments.by}", record)
    if arguments.json:
        json.dump(record, sys.stdout, indent=2)
        print()
        return
    for outcome in outcomes:
        if outcome.status != "passed":
            print(f"{outcome.status}: {outcome.name}: {outcome.reason[:200]}")
    print(", ".join(f"{status} {count}" for status, count in counts(outcomes).items()))


if __name__ == "__main__":
    main()
