"""Writes the bill of materials of a built library as CycloneDX 1.5: the tools that made it, and the parts linked in.

It is computed from the file alone: its notes, its symbols and its digest. The same library gives the same document,
which therefore has no time. Source: CycloneDX v1.5 JSON Reference (ECMA-424 is its successor).
"""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.objects.inspection import imports_of, inspect_library, notes
from mavcg.runtime.made_with import (
    application_sources,
    engine_sources,
    file_digest,
    selector_sources,
    sources_digest,
)

SPECIFICATION = "1.5"
_SOURCES = {
    "selector": ("The run-time selector: C of mavcg, compiled and linked in", selector_sources),
    "engine": ("The model engine: C of mavcg, compiled and linked in", engine_sources),
    "application": ("The memory of several networks: C of mavcg, compiled and linked in", application_sources),
}
_TOOLS = {
    "llvmlite": "LLVM: makes machine code of the versions and kernels",
    "ziglang": "Compiles C, assembles and links; its compiler-rt and libc++ where the library needs them",
}


def sbom(library: Path) -> dict[str, Any]:
    """Return the CycloneDX document of a library.

    Raises: MavcgError for a file that mavcg did not make, or whose notes are too old to name tools.
    """
    inspect_library(library)  # refuses damaged files and those of others
    builds = [note["made_with"] for note in notes(library) if "made_with" in note]
    if not builds:
        raise MavcgError(f"{library}: does not say what it was made with; build it again with this mavcg")
    digest = file_digest(library)
    components = [part for build in builds for part in _linked_components(build)] + _loader_libraries(library)
    unique = {part["bom-ref"]: part for part in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "tools": {"components": _tools(builds)},
            "component": {
                "type": "library",
                "bom-ref": "library",
                "name": library.name,
                "version": digest[:16],
                "hashes": _hashes(digest),
            },
        },
        "components": list(unique.values()),
        "dependencies": [{"ref": "library", "dependsOn": list(unique)}, *({"ref": ref} for ref in unique)],
    }


def _tools(builds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the components of the tools; builds: the "made_with" of each note."""
    tools: dict[str, dict[str, Any]] = {}
    for build in builds:
        for name, version in {"mavcg": build["mavcg"], **build["tools"]}.items():
            part = {"type": "application", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
            if name in _TOOLS:
                part["description"] = _TOOLS[name]
            tools[f"{name} {version}"] = part
    return list(tools.values())


def _linked_components(build: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the components of the parts linked in; build: the "made_with" of a note."""
    parts = []
    for name, digest in build["sources"].items():
        description, sources = _SOURCES[name]
        part = {
            "type": "library",
            "bom-ref": f"{name}-{digest[:16]}",
            "name": f"mavcg-{name}",
            "version": build["mavcg"],
            "description": description,
            "hashes": _hashes(digest),
        }
        paths = sources()
        if sources_digest(paths) == digest:  # made by this mavcg, whose files can be listed
            part["components"] = [
                {"type": "file", "name": f"runtime/csrc/{path.name}", "hashes": _hashes(file_digest(path))}
                for path in paths
            ]
        parts.append(part)
    if "model" in build:
        model = build["model"]
        parts.append(
            {
                "type": "machine-learning-model",
                "bom-ref": f"model-{model['sha256'][:16]}",
                "name": model["name"],
                "description": "The model's file: its weights are in the library, packed",
                "hashes": _hashes(model["sha256"]),
            }
        )
    return parts


def _loader_libraries(library: Path) -> list[dict[str, Any]]:
    """Return the components of the shared libraries that the file needs at load."""
    return [
        {
            "type": "library",
            "bom-ref": f"loaded-{name}",
            "name": name,
            "scope": "required",
            "description": "A shared library of the system where it runs",
        }
        for name in imports_of(library)[0]
    ]


def _hashes(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest}]
