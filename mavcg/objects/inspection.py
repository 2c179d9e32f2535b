"""Reads sizes, symbols and notes of built files, ELF or Mach-O, and describes a built library for `mavcg inspect`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.objects import elf, macho
from mavcg.toolchain.target import Target


@contextmanager
def note_errors(path: Path) -> Iterator[None]:
    """Turn the errors of a file's reader into MavcgError.

    Raises: MavcgError where the file is damaged, or has a note that no mavcg wrote.
    """
    try:
        yield
    except (MavcgError, OSError):  # the latter also of what prints the note
        raise
    except Exception as error:  # pyelftools may raise any class; a note may have any keys and values
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        kind = "Mach-O" if macho.is_macho(path) else "ELF"
        raise MavcgError(f"{path}: a damaged {kind} file ({reason}); build it again") from error


def loaded_bytes(path: Path) -> int:
    """Return the bytes that a file adds to a program's image, without mavcg's note.

    Raises: MavcgError for a file of another format.
    """
    with note_errors(path):
        return macho.loaded_bytes(path) if macho.is_macho(path) else elf.loaded_bytes(path)


def symbol_bytes(path: Path, symbol: str) -> int:
    """Return the size of a function's code, in bytes; 0 if the file does not define it."""
    with note_errors(path):
        return macho.symbol_bytes(path, symbol) if macho.is_macho(path) else elf.symbol_bytes(path, symbol)


def imports_of(path: Path) -> tuple[list[str], list[str]]:
    """Return the (libraries, symbols) that a file imports; an object has no list of libraries."""
    with note_errors(path):
        return (macho.libraries(path), macho.undefined_symbols(path)) if macho.is_macho(path) else elf.imports_of(path)


def notes(path: Path) -> list[dict[str, Any]]:
    """Read the JSON documents of a file's mavcg notes, in link order. Raises: MavcgError for a garbled note."""
    with note_errors(path):
        return macho.notes(path) if macho.is_macho(path) else elf.notes(path)


def note_assembly(value: Any, target: Target) -> str:
    """Return assembly of a note that contains a JSON document."""
    if target.system == "macos":
        return macho.note_assembly(value)
    return elf.note_assembly(value) + elf.property_note(target.arch)


def protection(path: Path) -> list[str]:
    """Return the branch protection that a file's property note states for all its code; [] for Mach-O."""
    return [] if macho.is_macho(path) else elf.protection(path)


def growth_percent(
    summaries: Sequence[Mapping[str, Any]],
    runtime_bytes: int,
    total_bytes: int,
    single_library_bytes: int | None = None,
) -> float:
    """Return the code growth over the single-version build, in percent of it.

    Args:
        summaries: the modules' notes. runtime_bytes: size of the selector. total_bytes: of the library.
        single_library_bytes: size of the library linked without versions; None to compute it from total_bytes and the
            modules' notes.
    """
    if single_library_bytes is not None:
        return 100 * (total_bytes - single_library_bytes) / max(1, single_library_bytes)
    single = sum(int(s["single_bytes"]) for s in summaries)
    extra = sum(int(s["multi_bytes"]) for s in summaries) - single + runtime_bytes
    # A link of objects to one may save bytes of each, which count to none.
    return 100 * extra / max(1, single, total_bytes - extra)


HAS_SETTINGS = "has_settings"  # key of notes: False if the selector has no MAVCG_CPU_MAP and MAVCG_TRACE


@dataclass(frozen=True)
class Inspection:
    """The contents of a built library.

    Args:
        functions: as in the notes, each with its versions and dropped versions.
        refused: function that was not versioned -> reason.
        growth_percent: code growth over the single-version build.
        loaded_bytes: of the whole library.
        runtime_bytes: of the selector in it.
        libraries, needed: libraries and symbols that it imports.
        protection: the branch protection that the file states.
    """

    path: Path
    functions: tuple[Mapping[str, Any], ...]
    refused: Mapping[str, str]
    growth_percent: float
    loaded_bytes: int
    runtime_bytes: int
    libraries: tuple[str, ...]
    needed: tuple[str, ...]
    protection: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the document of `mavcg inspect --json`."""
        return {
            "functions": [dict(function) for function in self.functions],
            "refused": dict(self.refused),
            "growth_percent": round(self.growth_percent, 3),
            "loaded_bytes": self.loaded_bytes,
            "runtime_bytes": self.runtime_bytes,
            "libraries": list(self.libraries),
            "needed": list(self.needed),
            "protection": list(self.protection),
        }


def inspect_library(path: Path) -> Inspection:
    """Return the contents of a library.

    Raises: MavcgError for a file that is not ELF, is damaged, or has no version made by mavcg.
    """
    with note_errors(path):
        return _inspect(path)


def model_of(path: Path) -> dict[str, Any] | None:
    """Return the note of a model library with the file's loaded bytes; None for another kind of mavcg library.

    Raises: as inspect_library.
    """
    with note_errors(path):
        return _model_note(path)


def blas_of(path: Path) -> dict[str, Any] | None:
    """Return the note of a BLAS library with the file's loaded bytes; None for another kind of mavcg library.

    Raises: as inspect_library.
    """
    with note_errors(path):
        return _blas_note(path)


def application_of(path: Path) -> dict[str, Any] | None:
    """Return the note of an application's library; None for another kind of mavcg library.

    Raises: as inspect_library.
    """
    with note_errors(path):
        return _application_note(path)


def versions_text(note: Mapping[str, Any]) -> str:
    """Return the versions of a library with the extensions that each needs: "generic, cortex-a55 (dotprod)"."""
    extensions = note.get("extensions", {})  # notes of earlier versions of mavcg have none
    needs = {label: " ".join(extensions.get(label, ())) for label in note["versions"]}
    return ", ".join(f"{label} ({own})" if own else label for label, own in needs.items())


def network_of_library(path: Path, network: str | None) -> dict[str, Any] | None:
    """Return the note of a model library, or of one network in an application's library; None for another kind.

    Raises: MavcgError if `network` is missing, unknown, or given for a model library; as inspect_library.
    """
    application = application_of(path)
    if application is None:
        if network is not None and model_of(path) is not None:
            raise MavcgError(f"--network {network}: {path} holds one model; leave the option out")
        return model_of(path)
    names = [network["model"] for network in application["networks"]]
    if network not in names:
        given = f"--network {network}: is not in {path}" if network is not None else f"{path}: holds several networks"
        raise MavcgError(f"{given}; give --network with one of {', '.join(names)}")
    note: dict[str, Any] = application["networks"][names.index(network)]
    return note


def _inspect(path: Path) -> Inspection:
    documents = notes(path)
    if not documents:
        raise MavcgError(f"{path}: holds no versions made by mavcg; name a library that `mavcg build` wrote")
    libraries, symbols = imports_of(path)
    # Objects contain the selector and the tables of their core sets; the linker keeps each of them once.
    parts: dict[str, int] = {}
    for note in documents:
        if "core_set" in note:  # of a library that an earlier mavcg built
            parts[note["core_set"]] = int(note["runtime_bytes"])
        parts |= {name: int(size) for name, size in note.get("runtime", {}).items()}
    runtime = sum(parts.values())
    total = loaded_bytes(path)
    # If several mavcg libraries are linked into one program, no note has the size of the whole.
    singles = [int(note["single_library_bytes"]) for note in documents if "single_library_bytes" in note]
    single = singles[0] if len(singles) == 1 else None
    modules = [note for note in documents if "functions" in note]
    return Inspection(
        path,
        tuple(function for note in modules for function in note["functions"]),
        {name: why for note in modules for name, why in note["refused"].items()},
        growth_percent(modules, runtime, total, single),
        total,
        runtime,
        tuple(libraries),
        tuple(symbols),
        tuple(protection(path)),
    )


def _model_note(path: Path) -> dict[str, Any] | None:
    for note in notes(path):
        if "model" in note:
            loaded = loaded_bytes(path)
            sizes = {"loaded_bytes": loaded, "code_bytes": loaded - int(note["weight_bytes"])}
            return {**note, "protection": protection(path), **sizes}
    return None


def _blas_note(path: Path) -> dict[str, Any] | None:
    for note in notes(path):
        if "blas" in note:
            return {**note, "protection": protection(path), "loaded_bytes": loaded_bytes(path)}
    return None


def _application_note(path: Path) -> dict[str, Any] | None:
    for note in notes(path):
        if "application" in note:
            return {**note, "protection": protection(path), "loaded_bytes": loaded_bytes(path)}
    return None
