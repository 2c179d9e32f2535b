"""A feature level that cannot be made for a function of one core: other cores keep theirs, and get further ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import ALL_LEVELS
from mavcg.passes.ir.hot_module import HotModule
from mavcg.passes.ir.module_text import parse_module
from mavcg.profiles.load import cores_for
from mavcg.program import level_versions
from mavcg.program.level_versions import with_next_levels
from mavcg.program.version_failures import VersionFailures
from mavcg.program.version_values import CompiledVersion, VersionedModule, VersionOptions
from mavcg.toolchain.target import parse_target

ARM = parse_target("aarch64-linux-musl")
A55, A75 = CORES = cores_for(["cortex-a55", "cortex-a75"])
FUNCTIONS = ("f", "g", "h")
FAILING = "cortex-a55-v81"


def version(function: str, label: str, level_of: str = "") -> CompiledVersion:
    """`g` calls `h`, so both get a level together; `f` stands alone."""
    asm, calls = (f"\tbl\th.{label}\n", frozenset({"h"})) if function == "g" else ("\tret\n", frozenset[str]())
    symbol, key = f"{function}.{label}", f"{function} {label}"
    return CompiledVersion(function, label, symbol, asm, key, frozenset(), None, calls, level_of, key)


def compile_all_but_one(
    jobs: object,
    requested: Mapping[str, Sequence[Core | None]],
    once: object,
    generic: object,
    options: object,
    failures: VersionFailures,
    progress: object,
) -> tuple[Any, tuple[CompiledVersion, ...]]:
    """In place of the compiler, which has no register left for one level of `f`."""
    some = [(name, core) for name, cores in requested.items() for core in cores if core]
    for name, core in some:
        if (name, core.name) == ("f", FAILING):
            failures.add(name, "no register is left")
    return {}, tuple(version(name, core.name, core.level_of) for name, core in some if name not in failures.reasons)


def test_a_level_that_fails_on_one_core_leaves_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_versions, "compile_versions", compile_all_but_one)
    text = "".join(f"define void @{name}() {{\n  ret void\n}}\n" for name in FUNCTIONS)
    hot = HotModule(parse_module(text), frozenset(FUNCTIONS), "tag")
    labels = (GENERIC, A55.name, A75.name)
    bodies = tuple(version(name, label) for name in FUNCTIONS for label in labels)
    module = VersionedModule(hot, "k.c", "2", bodies, {}, {}, CORES)
    needs = {(name, label): ("dotprod",) if label != GENERIC else () for name in FUNCTIONS for label in labels}

    first = with_next_levels(module, needs, VersionOptions(CORES, ARM), ALL_LEVELS)
    assert [(level.function, level.core, level.level, level.reason) for level in first.failed_levels] == [
        ("f", "cortex-a55", FAILING, "no register is left")
    ]
    assert [core.name for core in first.cores] == ["cortex-a55", FAILING, "cortex-a75", "cortex-a75-v81"]
    added = {(body.function, body.label) for body in first.bodies} - {(b.function, b.label) for b in bodies}
    assert added == {("g", FAILING), ("h", FAILING), *((name, "cortex-a75-v81") for name in FUNCTIONS)}

    # The A75's code of `f` still needs something that the next level lacks; the A55's failed and is not tried again.
    needs |= {(name, core.name): ("rdm",) for name in FUNCTIONS for core in first.cores if core.level_of}
    second = with_next_levels(first, needs, VersionOptions(CORES, ARM), ALL_LEVELS)
    further = {(b.function, b.label) for b in second.bodies} - {(b.function, b.label) for b in first.bodies}
    assert ("f", "cortex-a75-base") in further and ("f", "cortex-a55-base") not in further
    assert second.failed_levels == first.failed_levels
    done = {**needs, **{(name, core.name): () for name in FUNCTIONS for core in second.cores if core.level_of}}
    assert with_next_levels(second, done, VersionOptions(CORES, ARM), ALL_LEVELS) is second
