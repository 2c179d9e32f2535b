"""Remove extensions that a version must not use, because its thread can move to another core while it runs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mavcg.hardware.board import Board
from mavcg.hardware.core import Core

# LLVM uses these only where a program has their intrinsics, and then every version has them.
ONLY_BY_INTRINSICS = ("aes", "sha2")


def runnable_on_sibling_cores(core: Core, cores: Mapping[str, Core], boards: Iterable[Board]) -> Core:
    """Return the core without the extensions that another core of one of its boards lacks.

    A dispatcher chooses once per call, and the scheduler moves threads at any time: on an Exynos 9810, a version for
    the A55 that uses an Armv8.1 atomic is an illegal instruction after a move to the Armv8.0 M3. Only known boards
    count; so far, all unequal pairs are on boards of one vendor (pytorch/cpuinfo #193).
    """
    siblings = {name for board in boards if core.name in board.cores for name in board.cores if name in cores}
    lacking = [
        extension
        for extension in core.extensions
        if extension not in ONLY_BY_INTRINSICS
        and any(extension not in cores[sibling].extensions for sibling in siblings)
    ]
    off = tuple(f"-{extension}" for extension in lacking)
    return replace(core, llvm_features=(*core.llvm_features, *off))
