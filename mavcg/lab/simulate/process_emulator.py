"""Start an AArch64 program under qemu's user-mode emulator with the trace plugin, and read what it sends.

The plugin (csrc/plugin/trace_plugin.c) is compiled once and kept in the user's cache. Debian's package qemu-user has
plugins; qemu-user-static, which the other parts of mavcg use, has none.
"""

import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mavcg.errors import MavcgError, ToolError
from mavcg.files.store import own_code_folder
from mavcg.hardware.core import Core
from mavcg.lab.simulate.harness import SOURCES
from mavcg.toolchain.helper_library import HelperSources, compiled_helper

PLUGIN = SOURCES / "plugin"
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")
_HEADER = struct.Struct("<IIQ")
_MAPPING = struct.Struct("<QQ")
TRACE, DEFINE, MAPPED, END = 1, 2, 3, 4  # enum chunk of the plugin
_API_MAJORS = range(6, 9)  # releases of qemu whose plugin API is version 1, with the system calls that this one needs
_MODELS = {"cortex-a53", "cortex-a57", "cortex-a72", "cortex-a76", "neoverse-n1"}
_NO_QEMU = "simulate: --process needs qemu-aarch64 with plugins; install Debian's package qemu-user"


@dataclass(frozen=True)
class CallRegion:
    """The part of a program that is sent.

    function: a function's name in the symbol table of the program or of a library that it loads; None for the whole
    program. first, last: numbers of the calls, from 1, both included; last None for all from the first on. between:
    what runs between the end of call `first` and the next call, in place of the calls.
    """

    function: str | None = None
    first: int = 1
    last: int | None = None
    between: bool = False

    def plugin_words(self) -> list[str]:
        """Return the plugin's arguments."""
        if self.function is None:
            return []
        last = [] if self.last is None else [f"last={self.last}"]
        return ["watch=1", f"first={self.first}", *last, f"between={int(self.between)}"]


@dataclass(frozen=True)
class Chunk:
    """A part of the stream. kind: TRACE, DEFINE, MAPPED or END. number: of the thread, or of the block."""

    kind: int
    number: int
    data: bytes


@cache
def traced_qemu() -> str:
    """Return the path of the emulator. Raises: MavcgError if there is none that takes the plugin."""
    path = shutil.which("qemu-aarch64")
    if path is None:
        raise MavcgError(_NO_QEMU)
    try:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
        options = subprocess.run([path, "-h"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{path}: cannot be started ({error}); {_NO_QEMU}") from error
    if "-plugin" not in options:
        raise MavcgError(f"{path}: has no plugins (a static build); {_NO_QEMU}")
    found = re.search(r"version (\d+)", version)
    if found is None or int(found[1]) not in _API_MAJORS:
        raise MavcgError(f"{path}: {version.splitlines()[0] if version else 'no version'}; supported: qemu 6 to 8")
    return path


def emulated_midr(core: Core) -> int | None:
    """Return a MIDR_EL1 of the core, of the first variant that its file names; None if the file has none."""
    if not core.midr:
        return None
    rule = core.midr[0]
    return rule.implementer << 24 | rule.variant_min << 20 | 0xF << 16 | rule.part << 4


def emulated_cpu(core: Core) -> str:
    """Return the value of qemu's -cpu for a core: a model of qemu 7.2 with its extensions, and the core's MIDR."""
    extensions = set(core.extensions)
    if core.name in _MODELS:
        model = core.name
    elif extensions & {"bf16", "i8mm"}:  # only this model has them; mavcg knows no timing of SVE and SME
        model = "max,sve=off,sme=off"
    else:
        model = "cortex-a76" if extensions & {"dotprod", "fullfp16"} else "cortex-a72"
    midr = emulated_midr(core)
    return model if midr is None else f"{model},midr={midr:#x}"


def plugin_path(folder: Path) -> Path:
    """Return the compiled plugin in this folder. Raises: ToolError if it does not compile."""
    return compiled_helper(
        folder, HelperSources("trace-plugin", sorted(PLUGIN.glob("*.[ch]")), _FLAGS, "the trace plugin")
    )


class TracedProgram:
    """A running program and its stream. status: its exit status, after the end; below 0 for a signal."""

    def __init__(self, process: "subprocess.Popen[bytes]", stream: socket.socket) -> None:
        self.process, self._stream = process, stream
        self._file = stream.makefile("rb", buffering=1 << 20)
        self.ended = False
        self.status = 0

    def chunks(self, addresses: Callable[[Path, int, int], Sequence[int]]) -> Iterator[Chunk]:
        """Yield the chunks up to the program's end.

        addresses: returns the addresses of the watched function in a file, given its path, the address of a mapping
        and the mapping's offset in the file.
        """
        while len(head := self._file.read(_HEADER.size)) == _HEADER.size:
            kind, number, size = _HEADER.unpack(head)
            data = self._file.read(size)
            if len(data) < size:
                break
            if kind == MAPPED:
                start, offset = _MAPPING.unpack_from(data)
                found = addresses(Path(os.fsdecode(data[_MAPPING.size :])), start, offset)
                self._stream.sendall(struct.pack(f"<Q{len(found)}Q", len(found), *found))
            self.ended = self.ended or kind == END
            yield Chunk(kind, number, data)
        self.status = self.process.wait()


@contextmanager
def traced_program(
    command: Sequence[str], region: CallRegion, cpu: str, sysroot: Path | None, output: int | None = None
) -> Iterator[TracedProgram]:
    """Start a program, with its arguments; it is ended when the context ends.

    cpu: value of qemu's -cpu. sysroot: folder below which the program finds its loader, libraries and other files.
    output: file descriptor of its standard output. Raises: MavcgError if there is no emulator or no such program.
    """
    emulator, program = traced_qemu(), Path(command[0])
    if not program.is_file():
        raise MavcgError(f"{program}: there is no such program; name an AArch64 program by its path")
    if sysroot is not None and not sysroot.is_dir():
        raise MavcgError(f"--sysroot: {sysroot} is not a folder; name a root of AArch64 Linux")
    ours, theirs = socket.socketpair()
    with own_code_folder() as folder:
        plugin = plugin_path(folder)
        words = [f"{plugin}", f"stream={theirs.fileno()}", *region.plugin_words()]
        root = [] if sysroot is None else ["-L", str(sysroot)]
        start = [emulator, "-cpu", cpu, *root, "-plugin", ",".join(words), "-d", "plugin", *command]
        try:
            process = subprocess.Popen(start, pass_fds=[theirs.fileno()], stdout=output)
        except OSError as error:
            raise ToolError(f"{emulator}: cannot be started ({error})") from error
        finally:
            theirs.close()
        try:
            yield TracedProgram(process, ours)
        finally:
            ours.close()
            if process.poll() is None:
                process.kill()
            process.wait()
