"""A profile of an ARM program on a desk without ARM: every instruction that qemu-aarch64 runs, counted by function.

    python emulated_profile.py ./program args > perf-script.txt
    mavcg profile --import perf-script.txt -o program.json

Counts, not times: a function that waits for memory looks cheaper than it is. The program must be linked statically, for
qemu names functions of the program's own file only. Written as `perf script` text, which mavcg imports.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_INSTRUCTION = re.compile(r"0x([0-9a-f]+):  [0-9a-f]{8}")
_RUN = re.compile(r"Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/[^\]]*\] ?(.*)")


def count_instructions(log: Iterable[str]) -> Counter[tuple[int, str]]:
    """(address of a block, its function) -> instructions run, from qemu's log of `-d in_asm,exec,nochain`.

    in_asm lists a block's instructions when qemu translates it, exec names the block each time that it runs.
    """
    length: dict[int, int] = {}
    counts: Counter[tuple[int, str]] = Counter()
    start = -1
    for line in log:
        instruction = _INSTRUCTION.match(line)
        if instruction:
            if start < 0:
                start = int(instruction[1], 16)
                length[start] = 0
            length[start] += 1
            continue
        start = -1
        run = _RUN.match(line)
        if run:
            address = int(run[1], 16)
            counts[address, run[2].strip()] += length.get(address, 0)
    return counts


def record(qemu: str, command: list[str]) -> Counter[tuple[int, str]]:
    """Run a program under qemu; its own output goes to stderr. Raises: SystemExit where it fails."""
    read, write = os.pipe()
    emulator = [qemu, "-d", "in_asm,exec,nochain", "-D", f"/dev/fd/{write}"]
    process = subprocess.Popen([*emulator, *command], pass_fds=[write], stdout=sys.stderr)
    os.close(write)
    with open(read, encoding="utf-8", errors="replace") as log:
        counts = count_instructions(log)
    if process.wait():
        sys.exit(f"emulated_profile: {' '.join(command)} ended with status {process.returncode}")
    return counts


def main() -> None:
    """Print one sample per block, its period the instructions that ran there."""
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None:
        sys.exit("emulated_profile: qemu-aarch64 is not installed; install qemu-user-static, or record on a board")
    if len(sys.argv) < 2:
        sys.exit(f"usage: {Path(sys.argv[0]).name} PROGRAM ARGS.. > perf-script.txt")
    program = Path(sys.argv[1]).resolve()
    print(f"# cmdline : qemu-aarch64 {' '.join(sys.argv[1:])}")
    for (address, symbol), count in record(qemu, [str(program), *sys.argv[2:]]).most_common():
        print(f"{program.name[:15]} 1 0.0: {count} instructions: {address:x} {symbol or '[unknown]'} ({program})")


if __name__ == "__main__":
    main()
