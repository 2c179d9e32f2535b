"""Threads that compute on a booted kernel with eight CPUs of three kinds, and are moved, frozen and suspended.

    python -m tests.runtime.booted.moves --count 1000000 --minutes 60    # prints how many moves, and the results' bits

The kinds are MIDRs in sysfs: QEMU's machines have CPUs of one type ("-cpu" is given once, and `virt` refuses others),
so that registers say Cortex-A76 everywhere. Frequency does not change: the machine has no cpufreq.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.runtime.booted.machine import A55, A75, Ran, bits, boot, libraries, midr_files

CPUS, KINDS = 8, {0: "cortex-a55", 4: "cortex-a75", 6: "cortex-a76"}  # the first CPU of each kind
MIDRS = {**dict.fromkeys(range(4), A55), **dict.fromkeys((4, 5), A75)}
CHUNK, BOOT_S = 5000, 3000  # moves of a process; seconds of a machine
CHUNKS = 4


def machine_files(folder: Path) -> dict[str, bytes | Path]:
    """Libraries for the three kinds, and the programs."""
    return libraries(folder, ",".join(KINDS.values()), ["init", "work", "move"], "small") | midr_files(MIDRS)


def boot_eight(
    files: Mapping[str, bytes | Path], script: Sequence[str], folder: Path, seconds: float
) -> dict[str, Ran]:
    """What each line printed. Raises: Lacking; RuntimeError where the machine did not come to the end."""
    return {each.line: each for each in boot("cortex-a76", CPUS, files, script, folder, seconds)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Boot machines until that many moves are done or the minutes are over; 1 if a result differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="moves of a thread to another CPU")
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args(arguments)
    moved, results = 0, set[str]()
    with tempfile.TemporaryDirectory() as name:
        files = machine_files(Path(name))
        end = time.monotonic() + 60 * given.minutes
        while moved < given.count and time.monotonic() < end:
            # Lines of a script are told apart by their numbers.
            script = [f"/move migrate {CHUNK + number}" for number in range(CHUNKS)]
            for ran in boot_eight(files, script, Path(name), BOOT_S).values():
                if ran.status:
                    print("\n".join((ran.line, *ran.lines)))
                    return 1
                moved += int(ran.line.split()[-1])
                results.add(bits(ran))
            print(f"{moved} moves, {len(results)} different result", flush=True)
    print(f"{moved} moves between {CPUS} CPUs of {len(KINDS)} kinds: {sorted(results)}")
    return 0 if len(results) == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
