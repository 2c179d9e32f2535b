"""Boots Debian's arm64 kernel in qemu-system-aarch64 with programs of ours, and gives what they print.

Nothing is installed: the kernel's package is fetched by apt for the other architecture, with lists of its own, and
unpacked; it is kept in the user's cache.
"""

import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.files.store import code_folder
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.zig import run_zig

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples/small_cnn/make_model.py"
SOURCE = """\
float total(const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}
"""
TARGET = "aarch64-linux-gnu.2.35"  # the first that keeps rseq
A55, A75, A76, A53 = 0x412FD050, 0x413FD0A1, 0x414FD0B1, 0x410FD034  # QEMU's own for the last two

QEMU = shutil.which("qemu-system-aarch64")
ARM_LIBC = Path("/usr/aarch64-linux-gnu/lib")  # of libc6-arm64-cross: a glibc with rseq
LIBRARIES = ("ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0")
KERNEL = "linux-image-cloud-arm64"  # a third of the general kernel's size, and the same source
BOOT_S, FETCH_S = 400, 300
_ENDED = re.compile(r"@begin (.*?)\n(.*?)\n@end (\d+)\n", re.DOTALL)


class Lacking(Exception):
    """What cannot be had here, in words."""


@dataclass(frozen=True)
class Ran:
    """A line of the script: its output, and the exit status."""

    line: str
    lines: tuple[str, ...]
    status: int


def kernel() -> Path:
    """The kernel's image. Raises: Lacking."""
    folder = code_folder() / "boot"
    found = sorted(folder.glob("vmlinuz-*-arm64"))
    return found[-1] if found else _fetched(folder)


def _fetched(folder: Path) -> Path:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Lacking("no apt-get and dpkg-deb to fetch Debian's arm64 kernel with")
    work = folder / "fetching"
    shutil.rmtree(work, ignore_errors=True)
    for name in ("state/lists/partial", "cache/archives/partial", "unpacked"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # A metapackage: what it depends on has the image.
    script = (
        f'apt-get "$@" update && name=$(apt-cache "$@" depends {KERNEL} | sed -n "s/.*Depends: //p" | head -1) && '
        'apt-get "$@" download "$name" && dpkg-deb --fsys-tarfile "$name"_*.deb | tar x -C unpacked ./boot'
    )
    try:
        command = ["sh", "-c", script, "sh", *options]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=FETCH_S)
        images = list((work / "unpacked/boot").glob("vmlinuz-*-arm64"))
        if done.returncode or not images:
            said = done.stderr.strip().splitlines() or ["no image in it"]
            raise Lacking(f"Debian's arm64 kernel cannot be fetched: {said[-1]}")
        return images[0].replace(folder / images[0].name)
    except subprocess.TimeoutExpired as error:
        raise Lacking("Debian's arm64 kernel cannot be fetched: apt takes too long") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def libraries(folder: Path, cores: str, programs: Sequence[str], selector: str) -> dict[str, bytes | Path]:
    """A program library and a model library for these cores, made by the command line, and programs that use them.

    selector: of the program library, "small" or "static".
    """
    (folder / "total.c").write_text(SOURCE)
    subprocess.run([sys.executable, str(EXAMPLE), str(folder / "model.onnx")], check=True)
    for words in (
        ["--source", "total.c", "--hot", "total", "--keep-slower", "--runtime", selector, "-o", "libtotal.so"],
        ["model.onnx", "--target", "aarch64-linux-gnu", "-o", "libmodel.so"],
    ):
        command = [sys.executable, "-m", "mavcg.cli", "build", *words, "--cores", cores]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for name in programs:
        flags = ["-target", TARGET, "-std=gnu11", "-O2", "-pthread", "-fno-sanitize=all", f"-I{SOURCES}"]
        run_zig("cc", [*flags, str(HERE / f"{name}.c"), "-ldl", "-o", str(folder / name)], f"building {name}.c")
    return {name: folder / name for name in (*programs, "libtotal.so", "libmodel.so")}


def midr_files(midrs: Mapping[int, int]) -> dict[str, bytes | Path]:
    """What sysfs says of each CPU, in the place of what QEMU's one type is."""
    return {f"midr/{cpu}": f"0x{midr:016x}\n".encode() for cpu, midr in midrs.items()}


def bits(ran: Ran) -> str:
    """The line that has all results as numbers."""
    (line,) = [line for line in ran.lines if line.startswith("bits ")]
    return line


def versions(ran: Ran) -> set[str]:
    """Core types whose versions ran, of all functions, by the trace."""
    return {match[1] for line in ran.lines if (match := re.match(r"mavcg: \S+ (\S+) \d+$", line))}


def cpio(files: Mapping[str, bytes | Path]) -> bytes:
    """A compressed initrd of these files, executable; folders are made for them.

    Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst (newc).
    """
    folders = {str(parent) for name in files for parent in Path(name).parents if parent != Path(".")}
    entries: list[tuple[str, int, bytes]] = [(name, 0o40755, b"") for name in sorted({"proc", "sys", "tmp", *folders})]
    for name, content in files.items():
        entries.append((name, 0o100755, content if isinstance(content, bytes) else content.read_bytes()))
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        text = name.encode() + b"\0"
        numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(text), 0)
        head = b"070701" + b"".join(b"%08X" % each for each in numbers) + text
        out += head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
    return gzip.compress(bytes(out), 1)


def boot(
    cpu: str, cpus: int, files: Mapping[str, bytes | Path], script: Sequence[str], folder: Path, seconds: float = BOOT_S
) -> list[Ran]:
    """Run the script's lines on a machine of `cpus` CPUs of a kind that QEMU knows, for at most some seconds.

    files: beside libc, see init.c. Raises: Lacking; RuntimeError with what the console had last where the machine did
    not come to the end.
    """
    if QEMU is None:
        raise Lacking("qemu-system-aarch64 is not installed (Debian: qemu-system-arm)")
    if not all((ARM_LIBC / name).exists() for name in LIBRARIES):
        raise Lacking("libc6-arm64-cross is not installed")
    libc = {f"lib/{name}": ARM_LIBC / name for name in LIBRARIES}
    (folder / "initrd").write_bytes(cpio({**libc, **files, "script": ("\n".join(script) + "\n").encode()}))
    command = [QEMU, "-M", "virt", "-cpu", cpu, "-smp", str(cpus), "-m", "512", "-nic", "none", "-nographic"]
    command += ["-no-reboot", "-kernel", str(kernel()), "-initrd", str(folder / "initrd")]
    command += ["-append", "console=ttyAMA0 loglevel=1 panic=-1"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
        said = done.stdout.replace("\r", "")
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace").replace("\r", "")
    if "@done" not in said:
        raise RuntimeError(f"the machine did not come to the end:\n{said[-3000:]}")
    return [Ran(line, tuple(text.strip().split("\n")), int(status)) for line, text, status in _ENDED.findall(said)]
