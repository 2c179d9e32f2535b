"""Compile mavcg's own C helpers for this machine, once, and load them."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mavcg.files.store import kept_file, own_code_folder
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig


def load_helper(name: str, files: Sequence[Path], flags: Sequence[str], title: str, load: Callable[[str], Any]) -> Any:
    """Return what `load` makes from the path of a shared library, compiled if the user's cache does not have it.

    name: start of the file's name. files: .c files, and headers that they include. flags: flags of the compiler. title:
    name of the library in messages, such as "the simulator".
    Raises: ToolError if compilation fails.
    """
    with own_code_folder() as folder:
        return load(str(compiled_helper(folder, name, files, flags, title)))


def compiled_helper(folder: Path, name: str, files: Sequence[Path], flags: Sequence[str], title: str) -> Path:
    """Return the library's path in this folder, after compilation if it is not there.

    Its name has the digest of its sources.
    """
    target = host_target().zig_name
    arguments = ["-target", target, *PLAIN_CODE_FLAGS, *flags, "-fPIC", "-shared"]
    parts = [*(path.read_bytes() for path in files), " ".join(arguments).encode()]
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]

    def make(out: Path) -> None:
        sources = [str(path) for path in files if path.suffix == ".c"]
        run_zig("cc", [*arguments, *sources, "-o", str(out)], f"compiling {title} for {target}")

    return kept_file(folder, f"{name}-{digest}.so", make)
