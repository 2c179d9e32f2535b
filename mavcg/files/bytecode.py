"""Compile modules before a process is confined, in which Python cannot leave them compiled for the next one.

Python does it by itself where a module is imported, unless the module's folder cannot be written to. In a checkout,
each command would compile anew what changed since.
"""

import compileall
import contextlib
import os
import sys
from collections.abc import Iterator


def compile_changed(package: str) -> None:
    """Compile the modules of a package's folders that changed since they were compiled; faults are left to the import.

    A folder counts as changed if an entry was made or replaced in it after its __pycache__ was last written to: so this
    takes a few milliseconds for 100 folders. package: the outermost folder; links in it are followed.
    """
    if sys.dont_write_bytecode or not os.access(package, os.W_OK):
        return
    with contextlib.suppress(OSError):
        for folder in _folders(package):
            compiled = os.path.join(folder, "__pycache__")
            if not os.path.isdir(compiled) or os.stat(folder).st_mtime_ns > os.stat(compiled).st_mtime_ns:
                compileall.compile_dir(folder, maxlevels=0, quiet=2)
                if os.path.isdir(compiled):
                    os.utime(compiled)


def _folders(package: str) -> Iterator[str]:
    yield package
    for entry in os.scandir(package):
        if entry.is_dir() and os.path.isfile(os.path.join(entry.path, "__init__.py")):
            yield from _folders(entry.path)
