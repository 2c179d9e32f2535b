"""Many chains in one library of mavcg, built and run: each chain's verdict.

A library that cannot be built, or that ends its process, is divided until the chain that is the cause is alone.
"""

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.chains.chain import Chain, model_bytes
from bench.chains.judges import inferred_by_mavcg
from bench.chains.verdict import (
    CRASH,
    DIFFERENT,
    FAULTS,
    REFUSED,
    Opinions,
    Shapes,
    Verdict,
    opinions_of,
    shape_verdict,
    verdict,
)
from bench.differential import arm
from bench.differential.libraries import build_by_rows, build_plainly, host_cores, same_bits
from bench.differential.memory import run_guarded
from bench.differential.part import Array
from bench.differential.truth import DYNAMIC
from bench.isolated import Died, each
from mavcg.errors import MavcgError, ToolError

GENERIC, CORES, BOARD, ROWS, ARM = "generic", "host cores", "host board", "by rows", "cortex-a55"
RUN_SECONDS = 300.0


@dataclass(frozen=True)
class Judged:
    """A chain's verdict, and the versions of code that it is of."""

    verdict: Verdict
    versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Ready:
    """A chain that mavcg imports, and what the judges say of it."""

    number: int
    chain: Chain
    shapes: Shapes
    opinions: Opinions


def judged(chains: Sequence[Chain], kind: str, folder: Path) -> list[Judged]:
    """Return the verdict on each chain, built as `kind` says: chains of one format and opset, with different names."""
    results: dict[int, Judged] = {}
    ready = []
    for number, chain in enumerate(chains):
        opinions = opinions_of(chain)
        try:
            shapes = inferred_by_mavcg(chain, folder)
        except MavcgError as error:
            results[number] = Judged(Verdict(REFUSED, _message(error, chain)))
            continue
        except Exception as error:
            results[number] = Judged(Verdict(CRASH, f"import: {type(error).__name__}: {error}"[:300]))
            continue
        found = shape_verdict(chain, shapes, opinions)
        if found is not None and found.status in FAULTS:
            results[number] = Judged(found)
        else:
            ready.append(_Ready(number, chain, shapes, opinions))
    # A network with dynamic quantization has other bits of sigmoid and tanh throughout (passes/graph/activations.py).
    for is_dynamic in (False, True):
        alike = [one for one in ready if (DYNAMIC in one.chain.operators) == is_dynamic]
        results |= _built(alike, kind, folder) if alike else {}
    return [results[number] for number in range(len(chains))]


def _message(error: Exception, chain: Chain) -> str:
    return re.sub(rf"\S*{chain.prefix}\S*", "NAME", str(error))[:200]


def _built(ready: Sequence[_Ready], kind: str, folder: Path) -> dict[int, Judged]:
    """Return the verdicts by number."""
    try:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            runs = _runs(ready, kind, Path(own))
    except ToolError as error:  # a compiler's message: no input may lead to one
        return _divided(ready, kind, folder, Verdict(CRASH, str(error)[:300]))
    except MavcgError as error:
        return _divided(ready, kind, folder, Verdict(REFUSED, _message(error, ready[0].chain)), str(error))
    except Exception as error:
        return _divided(ready, kind, folder, Verdict(CRASH, f"build: {type(error).__name__}: {error}"[:300]))
    dead = [f"{version}: {run}" for version, run in runs.items() if isinstance(run, str)]
    if dead:
        return _divided(ready, kind, folder, Verdict(CRASH, "; ".join(dead)))
    results, at = {}, 0
    for one in ready:
        count = len(one.chain.outputs)
        outputs = {version: run[at : at + count] for version, run in runs.items()}
        at += count
        results[one.number] = Judged(_of_versions(one, outputs), tuple(outputs))
    return results


def _of_versions(one: _Ready, outputs: Mapping[str, Sequence[Array] | str]) -> Verdict:
    """Return the verdict on the first version; other bits of another are a difference."""
    first, *others = outputs.values()
    found = verdict(one.chain, [np.asarray(x) for x in first], one.opinions)
    if found.status in FAULTS:
        return found
    for version, answers in zip(list(outputs)[1:], others, strict=True):
        if not same_bits([np.asarray(x) for x in first], [np.asarray(x) for x in answers]):
            return Verdict(DIFFERENT, f"{version}: other bits than {next(iter(outputs))}")
    own = shape_verdict(one.chain, one.shapes, one.opinions)
    return own if own is not None and found.status == "same" else found


def _divided(ready: Sequence[_Ready], kind: str, folder: Path, of_one: Verdict, message: str = "") -> dict[int, Judged]:
    """Return the verdicts of a library that failed: of halves, or without the chain that the message names."""
    if len(ready) == 1:
        return {ready[0].number: Judged(of_one)}
    named = [one for one in ready if one.chain.prefix in message] if message else []
    if len(named) == 1:
        rest = [one for one in ready if one is not named[0]]
        verdict_of_named = Verdict(of_one.status, _message(MavcgError(message), named[0].chain))
        return {named[0].number: Judged(verdict_of_named)} | _built(rest, kind, folder)
    middle = len(ready) // 2
    return _built(ready[:middle], kind, folder) | _built(ready[middle:], kind, folder)


def _runs(ready: Sequence[_Ready], kind: str, folder: Path) -> dict[str, list[Array] | str]:
    """Build a library and return each version's outputs, or how it ended. Raises: MavcgError."""
    chains = [one.chain for one in ready]
    model, library = folder / f"chains.{chains[0].format}", folder / "libchains.so"
    model.write_bytes(model_bytes(chains))
    inputs = {name: x for chain in chains for name, x in chain.inputs.items()}
    at_end = ready[0].number % 2 == 0
    if kind == ARM:
        build_plainly(model, library, ("cortex-a55",), arm.TARGET)
        like = [np.zeros(*one.shapes[name]) for one in ready for name in one.chain.outputs]
        driver = arm.make_driver(folder)
        return {
            f"AArch64 {version}": arm.run_arm(driver, library, version, list(inputs.values()), like, at_end)
            for version in (GENERIC, "cortex-a55")
        }
    versions: tuple[str, ...] = (GENERIC,)
    if kind == ROWS:
        build_by_rows(model, library)
    elif kind == BOARD:
        versions = build_for_board(model, library)
    else:
        cores = host_cores() if kind == CORES else ()
        build_plainly(model, library, cores, None)
        versions = (GENERIC, *cores)
    prefix = {ROWS: "by rows, ", BOARD: "host board, "}.get(kind, "")
    return {f"{prefix}{version}": _run(version, library, inputs, at_end) for version in versions}


def _run(version: str, library: Path, inputs: Mapping[str, Array], at_end: bool) -> list[Array] | str:
    """Return the outputs of one version, from a process of its own: MAVCG_CPU_MAP is read only once."""

    def run(_: int) -> list[Array]:
        os.environ["MAVCG_CPU_MAP"] = f"*={version}"
        return run_guarded(library, inputs, at_end)

    (result,) = each(run, 1, RUN_SECONDS)
    value: list[Array] | str = result.value.reason if isinstance(result.value, Died) else result.value
    return value


def build_for_board(model: Path, library: Path) -> tuple[str, ...]:
    """Build for this machine's board, with algorithms chosen for the whole network; returns the versions.

    No algorithm with larger rounding errors may be chosen, because the bound on differences does not include them.
    """
    from mavcg.model.model import build_model
    from mavcg.model.request import ModelOptions, make_model_request, without_declared_shapes

    request, _ = make_model_request(model, str(library), ModelOptions(board="host", jobs=1, max_error=0.0))
    build_model(without_declared_shapes(request, model.suffix == ".tflite"))
    return (GENERIC,)
