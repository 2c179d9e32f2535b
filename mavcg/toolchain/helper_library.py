"""Compile mavcg's own C helpers for this machine, once, and load them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mavcg.files.scratch import scratch_folder
from mavcg.files.store import kept_file, own_code_folder
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig


@dataclass(frozen=True)
class HelperSources:
    """The C of a helper.

    name: start of the library's file name. files: .c files, and headers that they include. flags: flags of the
    compiler. title: name of the library in messages, such as "the simulator". made: texts of headers that are made
    when the library is compiled, by file name.
    """

    name: str
    files: Sequence[Path]
    flags: Sequence[str]
    title: str
    made: Mapping[str, str] = field(default_factory=dict)


def load_helper(sources: HelperSources, load: Callable[[str], Any]) -> Any:
    """Return what `load` makes from the path of a shared library, compiled if the user's cache does not have it.

    Raises: ToolError if compilation fails.
    """
    with own_code_folder() as folder:
        return load(str(compiled_helper(folder, sources)))


def compiled_helper(folder: Path, sources: HelperSources) -> Path:
    """Return the library's path in this folder, after compilation if it is not there.

    Its name has the digest of its sources.
    """
    target = host_target().zig_name
    arguments = ["-target", target, *PLAIN_CODE_FLAGS, *sources.flags, "-fPIC", "-shared"]
    parts = [path.read_bytes() for path in sources.files]
    parts += [text.encode() for text in (" ".join(arguments), *sources.made.values())]
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]

    def make(out: Path) -> None:
        files = [str(path) for path in sources.files if path.suffix == ".c"]
        with scratch_folder(f"mavcg-{sources.name}-") as headers:
            for name, text in sources.made.items():
                (Path(headers) / name).write_text(text, encoding="utf-8")
            command = [*arguments, f"-I{headers}", *files, "-o", str(out)]
            run_zig("cc", command, f"compiling {sources.title} for {target}")

    return kept_file(folder, f"{sources.name}-{digest}.so", make)
