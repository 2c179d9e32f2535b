"""Loads LLVM IR that the user provides as text or bitcode, from a compiler of any language."""

import subprocess
from pathlib import Path
from typing import Literal

from mavcg.errors import MavcgError
from mavcg.files.bounded_read import read_bounded
from mavcg.files.child_python import python_command
from mavcg.files.decode import MOST_BYTES
from mavcg.files.scratch import scratch_folder
from mavcg.program.sources import parse_child
from mavcg.program.sources.to_ir import IrModule

# Magic numbers of file formats. Sources: LLVM BitCodeFormat ("Magic Number", "Wrapper"), System V gABI, ar(5),
# Mach-O and PE/COFF headers.
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_MACH_O = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xca\xfe\xba\xbe")
_ELF_MACHINES = {0x3E: "x86-64", 0xB7: "AArch64", 0x28: "32-bit Arm", 0x03: "32-bit x86", 0xF3: "RISC-V"}
_ELF_TYPES = {1: "object file", 2: "executable", 3: "shared library or executable"}
_COFF = {b"MZ": "a Windows executable", b"\x64\x86": "a COFF object (x86-64)", b"\x64\xaa": "a COFF object (AArch64)"}

CHILD_CODE = "from mavcg.program.sources.parse_child import main; sys.exit(main(*sys.argv[1:]))"
PARSE_SECONDS = 120  # LLVM may loop on a damaged file
_MAKE_IR = "give what `clang -S -emit-llvm`, `zig build-obj -femit-llvm-bc` or `rustc --emit=llvm-bc` writes"


def load_ir(path: Path) -> IrModule:
    """Load and verify a module from a text (.ll) or bitcode (.bc) file; return it as text of llvmlite's LLVM.

    It is parsed in a child process, because LLVM aborts on some malformed input.
    Raises: MavcgError for a file that is not IR (with its kind), truncated, of another LLVM, or invalid.
    """
    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise MavcgError(f"{path}: {error.strerror}; name a .ll or .bc file") from error
    if not data.strip(b"\0 \t\r\n"):
        raise MavcgError(f"{path}: {'empty' if not data else 'holds only blanks'}; {_MAKE_IR}")
    if kind := file_kind(data):
        raise MavcgError(f"{path}: is {kind}, not LLVM IR; {_MAKE_IR}")
    text = _read_in_child(path, data)
    return IrModule(text, path.absolute(), _notes(text), None)


def file_kind(data: bytes) -> str:
    """Return the kind of a file that is not LLVM IR, by its first bytes; "" if it may be IR."""
    if data.startswith(b"\x7fELF"):
        order: Literal["big", "little"] = "big" if data[5:6] == b"\x02" else "little"
        kind = _ELF_TYPES.get(int.from_bytes(data[16:18], order), "file")
        machine = _ELF_MACHINES.get(int.from_bytes(data[18:20], order), "another machine")
        return f"a native ELF {kind} ({machine})"
    if data.startswith((b"!<arch>\n", b"!<thin>\n")):
        return "an archive of objects"
    if data.startswith(_MACH_O):
        return "a native Mach-O file"
    if data.startswith(_BITCODE):
        return ""
    if named := next((name for magic, name in _COFF.items() if data.startswith(magic)), ""):
        return named
    return "a binary file of no known kind" if b"\0" in data[:4096] else ""


def _read_in_child(path: Path, data: bytes) -> str:
    with scratch_folder("mavcg-") as folder:
        given, output = Path(folder, "given"), Path(folder, "read.ll")
        given.write_bytes(data)
        command = python_command(CHILD_CODE, str(given), str(output))
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PARSE_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise MavcgError(f"{path}: LLVM does not finish reading it ({PARSE_SECONDS} s); {_MAKE_IR}") from error
        if done.returncode == parse_child.REFUSED:
            raise MavcgError(_refusal(path, data, done.stdout.replace(str(given), str(path)).strip()))
        if done.returncode:
            last_line = done.stderr.strip().splitlines()[-1:] or [f"signal {-done.returncode}"]
            raise MavcgError(f"{path}: LLVM cannot read it ({last_line[0]}); it is damaged: make it again")
        return output.read_text(encoding="utf-8", errors="surrogateescape")


def _refusal(path: Path, data: bytes, reason: str) -> str:
    if not data.startswith(_BITCODE):
        return f"{path}: not LLVM IR that {parse_child.llvm_name()} reads: {reason}; {_MAKE_IR}"
    if any(word in reason for word in ("Producer", "epoch", "Unknown attribute", "Invalid record", "Unknown")):
        return (
            f"{path}: bitcode that {parse_child.llvm_name()} does not read: {reason}; it is damaged or of a newer "
            "LLVM: make it again with a compiler on this LLVM or an older one"
        )
    return f"{path}: damaged or truncated bitcode: {reason}; make it again"


def _notes(text: str) -> tuple[str, ...]:
    if " optnone" not in text:
        return ()
    return ("has functions made at -O0 (optnone): of these, only the versions are optimised",)
