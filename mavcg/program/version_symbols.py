"""Maps symbols of a library, program or object to versions of functions, and finds versions that share code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC
from mavcg.objects.elf import function_symbols, is_static_program
from mavcg.objects.inspection import HAS_SETTINGS, inspect_library, note_errors, notes


@dataclass(frozen=True)
class VersionedLibrary:
    """The versions in a library, from its notes and symbols.

    Args:
        code_labels: function -> for each module that defines it, (label -> label of the version whose code it runs).
        symbols: symbol of a version -> (function, label).
        copies: symbols of copied helpers.
        has_settings: False for a small selector, which has MAVCG_CPU_MAP by libmavcg_rt.so alone.
    """

    path: Path
    code_labels: Mapping[str, Sequence[Mapping[str, str]]]
    symbols: Mapping[str, tuple[str, str]]
    copies: frozenset[str]
    has_settings: bool = True

    @property
    def cores(self) -> tuple[str, ...]:
        """Cores for which at least one function has other code than the generic version's."""
        labels = dict.fromkeys(
            label for modules in self.code_labels.values() for code_labels in modules for label in code_labels
        )
        return tuple(label for label in labels if self.functions_for(label))

    def functions_for(self, core: str) -> tuple[str, ...]:
        """Return the functions whose version for this core is not the generic one."""
        return tuple(
            function
            for function, modules in self.code_labels.items()
            if any(code_labels.get(core, code_labels[GENERIC]) != code_labels[GENERIC] for code_labels in modules)
        )

    def same_code(self, function: str, label: str) -> frozenset[str]:
        """Return the labels of the versions with the same code, this one included; their symbols have one address."""
        return frozenset(
            twin
            for code_labels in self.code_labels[function]
            for twin, body in code_labels.items()
            if body == code_labels.get(label, code_labels[GENERIC])
        )


def _label(version: Mapping[str, Any]) -> str:
    """Return the label of a version in a note; those of older builds name the core alone."""
    return str(version.get("version", version["core"]))


def read_library(path: Path) -> VersionedLibrary:
    """Read the versions in a library, program or object.

    Raises: MavcgError if a file has no versions, its symbols are stripped, or MAVCG_CPU_MAP cannot choose versions.
    """
    with note_errors(path):
        code_labels, symbols, copies = _code_and_symbols(path)
        cores = VersionedLibrary(path, code_labels, symbols, copies).cores  # of notes that lack a generic version
    has_settings = not any(note.get(HAS_SETTINGS) is False for note in notes(path))
    if not has_settings and is_static_program(path):
        raise MavcgError(
            f"{path}: is a static program, whose small selector has no MAVCG_CPU_MAP, by which its versions are run in "
            "turn; measure a build with --runtime static"
        )
    library = VersionedLibrary(path, code_labels, symbols, copies, has_settings)
    if not cores:
        raise MavcgError(f"{path}: every function has one version for all cores; there is nothing to measure")
    if not symbols:
        raise MavcgError(
            f"{path}: its symbols are stripped, so samples cannot be assigned to versions; measure before strip"
        )
    return library


def _code_and_symbols(
    path: Path,
) -> tuple[dict[str, list[Mapping[str, str]]], dict[str, tuple[str, str]], frozenset[str]]:
    """Return `code_labels`, `symbols` and `copies` of a VersionedLibrary."""
    code_labels: dict[str, list[Mapping[str, str]]] = {}
    for function in inspect_library(path).functions:
        versions = function["versions"]
        code_labels.setdefault(function["name"], []).append(
            {_label(v): v["shares_body_with"] or _label(v) for v in versions}
        )
    labels = {label for modules in code_labels.values() for labels_of_module in modules for label in labels_of_module}
    symbols: dict[str, tuple[str, str]] = {}
    copies = set()
    for symbol, _bytes in function_symbols(path):
        stem, _dot, label = symbol.rpartition(".")
        if label not in labels:
            continue
        # The versions of a static function carry its module's tag: f.1f2e3d4c.cortex-a55.
        name = stem if stem in code_labels else stem.rpartition(".")[0]
        if name in code_labels:
            symbols[symbol] = (name, label)
        else:
            copies.add(symbol)
    return code_labels, symbols, frozenset(copies)
