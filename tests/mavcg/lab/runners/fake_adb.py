"""Behaves as adb does, before a folder of this machine: devices, shell, push, pull; states and faults as it is told.

FAKE_ADB_STATES: a file, a line a device, "SERIAL STATE", then words: "old": shell has status 0 whatever happens, one
stream and CR LF, as before Android 7; "full": push finds no space; "lost": the device vanishes after a line of output.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = os.environ["FAKE_ADB_ROOT"]
FOLDER = "/data/local/tmp"
rows = [line.split() for line in Path(os.environ["FAKE_ADB_STATES"]).read_text().splitlines() if line]
states = {row[0]: row[1] for row in rows}
words = {word for row in rows for word in row[2:]}


def end(message: str, status: int = 1) -> None:
    print(message, file=sys.stderr)
    sys.exit(status)


def chosen(serial: str) -> None:
    if serial and serial not in states:
        end(f"adb: device '{serial}' not found")
    if not states:
        end("adb: no devices/emulators found")
    if not serial and len(states) > 1:
        end("adb: more than one device/emulator")
    state = states[serial or next(iter(states))]
    if state == "unauthorized":
        end("adb: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set")
    if state != "device":
        end(f"adb: device {state}")


def shell(script: str) -> None:
    """The device's folder stands where it stands on a device, as far as paths in scripts go."""
    here = script.replace(FOLDER, ROOT + FOLDER)
    old = "old" in words
    process = subprocess.Popen(
        ["sh", "-c", here], stdout=subprocess.PIPE, stderr=subprocess.STDOUT if old else None, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.buffer.write(line.replace(b"\n", b"\r\n") if old else line)
        sys.stdout.flush()
        if "lost" in words and line.startswith(b"{"):
            Path(os.environ["FAKE_ADB_STATES"]).write_text("".join(f"{row[0]} {row[1]}\n" for row in rows))
            process.kill()
            end("error: device offline" if "offline" in words else "adb: connection reset by peer")
    status = process.wait()
    sys.exit(0 if old else status if status >= 0 else 128 - status)


def copy(words_: list[str], push: bool) -> None:
    source, to = words_
    if push and "full" in words:
        end(f"adb: error: failed to copy '{source}' to '{to}': remote couldn't create file: No space left on device")
    source, to = (source, ROOT + to) if push else (ROOT + source, to)
    try:
        shutil.copyfile(source, to)
    except OSError as error:
        end(f"adb: error: failed to copy '{source}' to '{to}': {error.strerror}")
    print(f"{source}: 1 file pushed, 0 skipped.")


arguments = sys.argv[1:]
given = ""
if arguments[:1] == ["-s"]:
    given, arguments = arguments[1], arguments[2:]
if arguments == ["devices"]:
    print("List of devices attached")
    for name, state in states.items():
        print(f"{name}\t{state}")
    print()
else:
    chosen(given)
    if arguments[0] == "shell":
        shell(" ".join(arguments[1:]))
    else:
        copy(arguments[1:], arguments[0] == "push")
