"""Finds the version of a kernel that each core of a library runs, and what its versions need in all.

The engine looks a thread's core up once, for all kernels. So the kernels that a core runs count as one version, which
runs only where the kernel of the system offers every extension that one of them needs.
"""

from collections.abc import Mapping, Sequence, Set

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC, Core
from mavcg.runtime.coreset import GENERIC_ID, CoreSet, stand_in_id
from mavcg.runtime.needs import kernel_usable_extensions

# Linkage names of kernels' versions, <kernel>.<label> -> the extensions that each needs beyond generic's.
KernelNeeds = Mapping[str, Set[str]]


def versions_of(kernel: str, needs: KernelNeeds, core_set: CoreSet) -> tuple[str, ...]:
    """Return the symbols that generic and each core of the set run.

    A core runs its own version, else that of its first stand-in that has one, else generic; a feature level its own,
    else the nearest of its core above it that can run there, else generic.
    Raises: MavcgError without a generic version.
    """
    if f"{kernel}.{GENERIC}" not in needs:
        raise MavcgError(f"kernel {kernel}: no object defines {kernel}.{GENERIC}; every kernel has a generic version")
    there = CoreSet(tuple(core for core in core_set.cores if f"{kernel}.{core.name}" in needs))
    labels = (GENERIC, *there.names)
    chosen = [
        level_label(kernel, core_set.at_or_above(core), needs)
        if core.level_of
        else labels[stand_in_id(core, there) - GENERIC_ID]
        for core in core_set.cores
    ]
    return tuple(f"{kernel}.{label}" for label in (GENERIC, *chosen))


def level_label(kernel: str, ladder: Sequence[Core], needs: KernelNeeds) -> str:
    """Return the label of the version that the last level of a ladder runs, as versions_of. ladder: the best first."""
    usable = kernel_usable_extensions(ladder[-1])
    for core in reversed(ladder):
        own = needs.get(f"{kernel}.{core.name}")
        if own is not None and own <= usable:
            return core.name
    return GENERIC


def needs_of_versions(needs: KernelNeeds, core_set: CoreSet) -> dict[str, tuple[str, ...]]:
    """Return the extensions that the kernels which each core of the set runs need in all."""
    by_core: dict[str, set[str]] = {name: set() for name in core_set.names}
    for kernel in (name.removesuffix(f".{GENERIC}") for name in needs if name.endswith(f".{GENERIC}")):
        for name, symbol in zip(core_set.names, versions_of(kernel, needs, core_set)[1:], strict=True):
            by_core[name] |= needs[symbol]
    return {name: tuple(sorted(own)) for name, own in by_core.items()}
