"""Which symbols of a library, program or object are versions of which function, and which of them share code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.core import GENERIC
from mavcg.elf import function_symbols
from mavcg.errors import MavcgError
from mavcg.inspection import inspect_library


@dataclass(frozen=True)
class VersionedLibrary:
    """What a library's notes and symbols say about its versions.

    bodies: function -> for each module that defines it: label -> label of the body whose code it runs.
    symbols: symbol of a version -> (function, label). copies: symbols of helpers that were copied into versions.
    """

    path: Path
    bodies: Mapping[str, Sequence[Mapping[str, str]]]
    symbols: Mapping[str, tuple[str, str]]
    copies: frozenset[str]

    @property
    def cores(self) -> tuple[str, ...]:
        """Cores for which some function has code of its own, that is, not generic's."""
        labels = dict.fromkeys(label for modules in self.bodies.values() for bodies in modules for label in bodies)
        return tuple(label for label in labels if self.functions_for(label))

    def functions_for(self, core: str) -> tuple[str, ...]:
        """Functions whose version for this core is not the generic one."""
        return tuple(
            function
            for function, modules in self.bodies.items()
            if any(bodies.get(core, bodies[GENERIC]) != bodies[GENERIC] for bodies in modules)
        )

    def same_code(self, function: str, label: str) -> frozenset[str]:
        """Labels of the versions that this one shares its code with, itself included: symbols of one address."""
        return frozenset(
            other
            for bodies in self.bodies[function]
            for other, body in bodies.items()
            if body == bodies.get(label, bodies[GENERIC])
        )


def read_library(path: Path) -> VersionedLibrary:
    """The versions in a library, program or object. Raises: MavcgError when it holds none that can be told apart."""
    bodies: dict[str, list[Mapping[str, str]]] = {}
    for function in inspect_library(path).functions:
        versions = function["versions"]
        bodies.setdefault(function["name"], []).append(
            {v["core"]: v["shares_body_with"] or v["core"] for v in versions}
        )
    labels = {label for modules in bodies.values() for one in modules for label in one}
    symbols: dict[str, tuple[str, str]] = {}
    copies = set()
    for symbol, _bytes in function_symbols(path):
        stem, _dot, label = symbol.rpartition(".")
        if label not in labels:
            continue
        # The versions of a static function carry its module's tag: f.1f2e3d4c.cortex-a55.
        name = stem if stem in bodies else stem.rpartition(".")[0]
        if name in bodies:
            symbols[symbol] = (name, label)
        else:
            copies.add(symbol)
    library = VersionedLibrary(path, bodies, symbols, frozenset(copies))
    if not library.cores:
        raise MavcgError(f"{path}: every function has one body for all cores; there is nothing to measure")
    if not symbols:
        raise MavcgError(f"{path}: its symbols are stripped, so samples cannot be told apart; measure before strip")
    return library
