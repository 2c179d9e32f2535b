"""Run a C program on an emulated x86 processor with AVX-512 and VNNI, which this machine may lack.

qemu has no AVX-512, but Bochs has. It emulates a whole computer, so the program is booted without an operating system,
with the few C library functions of runtime/bare/: fread from stdin, fwrite to stdout, malloc, exit.
"""

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mavcg.errors import MavcgError, ToolError
from mavcg.runtime import build
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

TARGET = parse_target("x86_64-linux-musl")  # of the program's objects, which need nothing of the system
CPU = "icelake-client"  # as compilers call what is emulated
LIMIT_S = 300
_MODEL = "corei7_icelake_u"  # as Bochs calls it
_SOURCES = Path(build.__file__).parent / "bare"
_BIOS = (Path("/usr/share/bochs/BIOS-bochs-legacy"), Path("/usr/share/bochs/VGABIOS-lgpl-latest"))
_SECTOR, _CHUNK, _CYLINDER = 512, 64, 16 * 63  # the last two in sectors
_HEADER_AT = 0x1E0  # in the first sector, where runtime/bare/boot.S reads it
_STATES = 0xE7  # XCR0: x87, SSE, AVX, masks and both halves of the ZMM registers
_MAGIC = 0x6D617663
_FLAGS = ("-target", "x86_64-freestanding", "-ffreestanding", "-mno-red-zone", *PLAIN_CODE_FLAGS, "-O2", "-c")


def bochs_there() -> bool:
    """Return True if the emulator and its BIOS are installed."""
    return shutil.which("bochs") is not None and all(path.exists() for path in _BIOS)


def run_bare(folder: Path, source: str, objects: Sequence[Path], input_bytes: bytes, output_bytes: int) -> bytes:
    """Return the output of a C program. input_bytes: its input.

    Args:
        folder: folder for intermediate files.
        source: C source with main; it may include stdio.h, stdlib.h and string.h as far as runtime/bare/ has them.
        objects: objects to link with it, for TARGET, position-independent or not.
        output_bytes: largest size of its output.
    Raises: ToolError if it cannot be built (it may have 512 KiB) or exits with another status than 0; MavcgError
    without Bochs.
    """
    if not bochs_there():
        raise MavcgError("bochs: not installed, and this machine has no AVX-512; install bochs and bochs-term")
    (folder / "program.c").write_text(source)
    action = "a program for an emulated x86"
    run_zig("cc", [*_FLAGS, str(_SOURCES / "boot.S"), "-o", "boot.o"], action, folder)
    for path in (_SOURCES / "bare.c", Path("program.c")):
        run_zig(
            "cc", [*_FLAGS, "-isystem", str(_SOURCES / "include"), str(path), "-o", f"{path.stem}.o"], action, folder
        )
    linked = (("boot", ["boot.o"]), ("program", ["bare.o", "program.o", *(str(path.resolve()) for path in objects)]))
    for name, files in linked:
        script = str(_SOURCES / f"{name}.ld")
        run_zig("ld.lld", ["-T", script, "--oformat=binary", *files, "-o", f"{name}.bin"], action, folder)
    program, boot = (folder / "program.bin").read_bytes(), (folder / "boot.bin").read_bytes()
    first, output_sectors = _write_disk(folder / "disk.img", boot, program, input_bytes, output_bytes)
    _run_bochs(folder)
    with (folder / "disk.img").open("rb") as disk:
        disk.seek(first * _SECTOR)
        output = disk.read(output_sectors * _SECTOR)
        magic, status, written = struct.unpack("<3I", disk.read(12))
    if magic != _MAGIC or status:
        how = f"status {status}" if magic == _MAGIC else "a fault"
        raise ToolError(f"bochs: the emulated program ended with {how}")
    return output[:written]


def _sectors(size: int, multiple: int = 1) -> int:
    return -(-size // (_SECTOR * multiple)) * multiple


def _write_disk(path: Path, boot: bytes, program: bytes, input_bytes: bytes, output_bytes: int) -> tuple[int, int]:
    """Write a disk with boot sector, program, input and room for the output; return first sector and sectors of the
    output.
    """
    program_sectors, output_sectors = _sectors(len(program), _CHUNK), _sectors(output_bytes)
    input_at = 1 + program_sectors
    output_at = input_at + _sectors(len(input_bytes))
    header = struct.pack("<6I", _STATES, program_sectors, input_at, len(input_bytes), output_at, output_sectors)
    parts = {0: boot, _HEADER_AT: header, _SECTOR: program, input_at * _SECTOR: input_bytes}
    with path.open("wb") as disk:
        disk.truncate(_sectors((output_at + output_sectors + 1) * _SECTOR, _CYLINDER) * _SECTOR)
        for at, part in parts.items():
            disk.seek(at)
            disk.write(part)
    return output_at, output_sectors


def _run_bochs(folder: Path) -> None:
    bios, vga = _BIOS
    lines = (
        "config_interface: textconfig",
        'display_library: rfb, options="timeout=0"',  # that which needs neither a screen nor a terminal
        f"romimage: file={bios}",
        f"vgaromimage: file={vga}",
        f"cpu: model={_MODEL}, ips=100000000",
        "memory: guest=1024, host=256",
        "boot: disk",
        "ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14",
        "ata1: enabled=0",
        "ata0-master: type=disk, path=disk.img, mode=flat",
        "plugin_ctrl: speaker=0, gameport=0, parallel=0, usb_uhci=0",
        "log: bochs.log",
        "panic: action=fatal",
    )
    (folder / "bochsrc").write_text("\n".join(lines) + "\n")
    try:
        # Debian's emulator is built with its debugger, which waits for "continue". It treats switching off as a panic,
        # so its exit status means nothing; the contents of the disk show what the program did.
        subprocess.run(
            ["bochs", "-q", "-f", "bochsrc"],
            cwd=folder,
            input=b"c\n",
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"bochs: the emulated program did not end within {LIMIT_S} s") from error
