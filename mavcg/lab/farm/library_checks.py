"""Compares workers' answers about libraries with the requests: digests, names and kinds of files, reports.

Types were compared when the answers were read. A worker can still send wrong code; see docs/security.md.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mavcg.lab.farm.library_tasks import (
    EmittedModule,
    LibraryTask,
    LinkedFiles,
    LinkTask,
    PreparedLibrary,
    Refusal,
    module_digest,
)
from mavcg.lab.jobs.messages import MessageError
from mavcg.runtime.companions import companion_paths, library_stem

_OBJECT_MARKS = (b"\x7fELF", b"\xcf\xfa\xed\xfe")  # ELF, and Mach-O of 64 bits
_REPORTED = {"library_bytes": (int,), "code_bytes": (int,), "kernels": (int,), "versions": (list, tuple)}
_SHOWN = 80  # characters of a text in an error


def check_prepare_libraries(tasks: Sequence[LibraryTask], results: Sequence[PreparedLibrary | Refusal]) -> None:
    """Raise MessageError for a module whose digest is another one's, by which its object would be kept and used."""
    for library in results:
        if isinstance(library, PreparedLibrary):
            if len(library.ir) != len(library.modules):
                raise MessageError("a library with another number of modules")
            for module in library.ir:
                if module_digest(module.text, module.symbol, module.settings) != module.digest:
                    raise MessageError(f"a module with the digest of another one, {shorten(module.digest)}")


def check_compile_modules(modules: Sequence[EmittedModule], results: Sequence[bytes | Refusal]) -> None:
    """Raise MessageError for an object that is not one."""
    for module, content in zip(modules, results, strict=True):
        if isinstance(content, bytes) and not content.startswith(_OBJECT_MARKS):
            raise MessageError(f"what is no object file, for module {module.digest}")


def check_link_libraries(tasks: Sequence[LinkTask], results: Sequence[LinkedFiles | Refusal]) -> None:
    """Raise MessageError for files with other names than the request's, and for a report of something else."""
    for task, library in zip(tasks, results, strict=True):
        if isinstance(library, LinkedFiles):
            _check_files(task.task.request.output, library)
            _check_report(task.task.request.output, library.document)


def _check_files(output: Path, library: LinkedFiles) -> None:
    """Compare the files' names with those of the library and of the files beside it, and their kinds."""
    allowed = [output.name, *(path.name for path in companion_paths(library_stem(output), output))]
    names = [name for name, _ in library.files]
    if others := [name for name in names if name not in allowed]:
        raise MessageError(f"a file of the name {shorten(others[0])}, which is none of {', '.join(allowed)}")
    if names[:1] != allowed[:1] or len(set(names)) != len(names) or not set(allowed[1:4]) <= set(names):
        raise MessageError(f"other files than {', '.join(allowed)}: {', '.join(names) or 'none'}")
    if not library.files[0][1].startswith(_OBJECT_MARKS):
        raise MessageError(f"what is no library, as {output.name}")


def _check_report(output: Path, document: Mapping[str, Any]) -> None:
    """Check what the report's table needs, and that it can be printed as JSON."""
    if document.get("output") != str(output):
        raise MessageError(f"the report of another library than {output}")
    for key, kind in _REPORTED.items():
        if type(document.get(key)) not in kind:
            raise MessageError(f"a report with {key} of class {type(document.get(key)).__name__}")
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError):
        raise MessageError("a report that is no JSON") from None


def shorten(text: str) -> str:
    """Return a text of somebody else's for an error, with its beginning alone if it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..")
