"""Libraries of many random graphs: built whole, run in processes of their own, and a verdict for each graph.

A library is for this machine, for its board by parts of rows, or for AArch64; some have versions for several cores,
whose bits are compared. Each graph's inputs and outputs lie next to inaccessible pages.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.differential import arm
from bench.differential.arm import emulator
from bench.differential.cases import Case, onnx_case, tflite_case
from bench.differential.memory import run_guarded
from bench.differential.part import OPSETS, Array
from bench.isolated import Died, each
from mavcg.errors import MavcgError, ToolError

VERSION_SECONDS = 300.0
# Every fourth library has versions for cores beside the generic one, run one after the other in processes of their own.
CORES_EVERY = 4
# Core -> the flag of /proc/cpuinfo of a machine that can run its code.
CORES = {"haswell": "avx2", "znver3": "vaes", "skylake-avx512": "avx512vl", "sapphirerapids": "avx512_fp16"}
ARM_EVERY = 16  # of that many libraries one is for AArch64 with --arm, run under qemu, generic and for two cores
ROWS_EVERY = 4  # of that many libraries one is for this machine's board, by parts of rows in the smallest arena
TFLITE_EVERY = 8  # of that many libraries one is of TFLite graphs


@dataclass(frozen=True)
class Compared:
    """A graph's verdict.

    status: same, explained, different, refused (by the importer), skipped (the other runtime does not run it), crash or
    hang. reason: the class of the difference, or the message of the refusal. versions: code versions whose bits were
    compared. format: onnx or tflite. dtype: the float type of an ONNX graph.
    """

    number: int
    operators: tuple[str, ...]
    status: str
    reason: str = ""
    versions: tuple[str, ...] = ("generic",)
    format: str = ""
    dtype: str = ""


def check_batch(number: int, seed: int, numbers: Sequence[int], folder: Path, with_arm: bool = False) -> list[Compared]:
    """Run batch_of; an exception counts as a crash of all its graphs."""
    try:
        return batch_of(number, seed, numbers, folder, with_arm)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:300]
        return [Compared(each_number, (), "crash", message) for each_number in numbers]


def batch_of(number: int, seed: int, numbers: Sequence[int], folder: Path, with_arm: bool = False) -> list[Compared]:
    """Compare the graphs of one library, in this process.

    with_arm: a share of the libraries is built for AArch64 too.
    """
    from mavcg.importers.declared_shapes import GivenShapes
    from mavcg.importers.load import import_model
    from mavcg.passes.graph.pipeline import optimise

    results: list[Compared] = []
    cases: list[Case] = []
    float_types: dict[int, Any] = {}
    tflite = number % TFLITE_EVERY == TFLITE_EVERY - 1
    for each_number in numbers:
        case = tflite_case(seed, each_number) if tflite else onnx_case(seed, each_number, OPSETS[number % len(OPSETS)])
        if not tflite:
            float_types[each_number] = case.part.dtype
        try:
            case.theirs = case.run_other()
        except Exception as error:  # the other runtime's own kinds
            results.append(Compared(each_number, case.operators, "skipped", str(error)[:200]))
            continue
        path = folder / f"{number}-{each_number}.{case.suffix}"
        path.write_bytes(case.model([case]))
        try:
            optimise(import_model(path, GivenShapes(ignore_declared=path.suffix == ".tflite")))
            cases.append(case)
        except MavcgError as error:
            reason = str(error).replace(str(path), path.name)[:200]
            results.append(Compared(each_number, case.operators, "refused", reason))
        finally:
            path.unlink()
    if cases:
        results += _compare(number, cases, folder, with_arm)
    suffix = "tflite" if tflite else "onnx"
    types = {number: np.dtype(dtype).name for number, dtype in float_types.items()}
    return [replace(result, format=suffix, dtype=types.get(result.number, "")) for result in results]


def host_cores() -> tuple[str, ...]:
    """Return the cores of CORES whose code this machine can run."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return tuple(name for name, flag in CORES.items() if flag in flags)


def _compare(number: int, cases: Sequence[Case], folder: Path, with_arm: bool) -> list[Compared]:
    """Compare the graphs of one library; if they cannot be built together, each in a library of its own."""
    at_end = number % 2 == 0
    try:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            model, library = Path(own, f"batch.{cases[0].suffix}"), Path(own, "libbatch.so")
            model.write_bytes(cases[0].model(cases))
            if with_arm and number % ARM_EVERY == 1 and emulator():
                cores: tuple[str, ...] = arm.CORES
                prefix = "AArch64 "
                build_plainly(model, library, cores, arm.TARGET)
                runs = _arm_runs(library, cases, at_end, Path(own))
            elif number % ROWS_EVERY == ROWS_EVERY - 2:
                cores, prefix = (), "by rows, "
                build_by_rows(model, library)
                runs = [_run_version("generic", library, cases, at_end)]
            else:
                cores = host_cores() if number % CORES_EVERY == 0 else ()
                prefix = ""
                build_plainly(model, library, cores, None)
                runs = [_run_version(version, library, cases, at_end) for version in ("generic", *cores)]
    except ToolError:
        raise  # a compiler's message: no input may lead to one
    except MavcgError as error:
        named = re.search(r"\bg(\d+)_", str(error))  # the prefix of a graph's names
        refused = [case for case in cases if len(cases) == 1 or (named and case.number == int(named[1]))]
        if refused:
            rest = [case for case in cases if case is not refused[0]]
            refusal = Compared(refused[0].number, refused[0].operators, "refused", str(error)[:200])
            return [refusal, *(_compare(number, rest, folder, with_arm) if rest else ())]
        middle = len(cases) // 2
        return [
            *_compare(number, cases[:middle], folder, with_arm),
            *_compare(number, cases[middle:], folder, with_arm),
        ]
    versions = tuple(f"{prefix}{version}" for version in ("generic", *cores))
    dead = [f"{version}: {run}" for version, run in zip(versions, runs, strict=True) if isinstance(run, str)]
    if dead:
        return [Compared(case.number, case.operators, "crash", "; ".join(dead)) for case in cases]
    results, at = [], 0
    for case in cases:
        generic, *others = (run[at : at + len(case.theirs)] for run in runs)
        at += len(case.theirs)
        unlike = [v for v, answers in zip(cores, others, strict=True) if not same_bits(generic, answers)]
        status, reason = case.verdict(generic)
        if unlike:
            status, reason = "different", f"{', '.join(unlike)}: other bits than generic: {'+'.join(case.operators)}"
        results.append(Compared(case.number, case.operators, status, reason, versions))
    return results


def _arm_runs(library: Path, cases: Sequence[Case], at_end: bool, folder: Path) -> list[list[Array] | str]:
    """Return the outputs of each version of a library for AArch64, run in qemu."""
    driver = arm.make_driver(folder)
    inputs = [array for case in cases for array in case.inputs.values()]
    like = [array for case in cases for array in case.theirs]
    return [arm.run_arm(driver, library, version, inputs, like, at_end) for version in ("generic", *arm.CORES)]


def same_bits(a: Sequence[Array], b: Sequence[Array]) -> bool:
    """True if all arrays have the same bytes, except for the sign and payload of NaN."""
    return all(
        np.array_equal(np.isnan(x), np.isnan(y))
        and np.where(np.isnan(x), 0, x).tobytes() == np.where(np.isnan(y), 0, y).tobytes()
        if x.dtype.kind == "f"
        else x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


def _run_version(version: str, library: Path, cases: Sequence[Case], at_end: bool) -> list[Array] | str:
    """Return the outputs of one version, or why it died, from a process of its own: MAVCG_CPU_MAP is read only once."""

    def run(_: int) -> list[Array]:
        os.environ["MAVCG_CPU_MAP"] = f"*={version}"
        return run_guarded(library, {name: x for case in cases for name, x in case.inputs.items()}, at_end)

    (result,) = each(run, 1, VERSION_SECONDS)
    return result.value.reason if isinstance(result.value, Died) else result.value


def build_plainly(model: Path, library: Path, cores: Sequence[str], target: str | None) -> None:
    from mavcg.model.model import build_model
    from mavcg.model.request import ModelOptions, make_model_request, without_declared_shapes

    request, _ = make_model_request(model, str(library), ModelOptions(cores=("generic", *cores), target=target, jobs=1))
    # The writer of TFLite files leaves shapes of results to the runtime.
    request = without_declared_shapes(request, model.suffix == ".tflite")
    build_model(request)


def build_by_rows(model: Path, library: Path) -> None:
    """Build for this machine's board in the smallest arena: by parts of rows where that makes it smaller.

    No algorithm with larger rounding errors may be chosen, because the bound on differences does not include them.
    """
    from mavcg.choose.limits.arena_limit import ArenaTooLargeError
    from mavcg.model.model import build_model
    from mavcg.model.request import ModelOptions, make_model_request, without_declared_shapes

    request, _ = make_model_request(
        model, str(library), ModelOptions(board="host", cores=("generic",), jobs=1, max_error=0.0)
    )
    # The writer of TFLite files leaves shapes of results to the runtime.
    request = without_declared_shapes(request, model.suffix == ".tflite")
    try:
        build_model(replace(request, max_arena_bytes=0))
    except ArenaTooLargeError as error:
        build_model(replace(request, max_arena_bytes=error.least_bytes))
