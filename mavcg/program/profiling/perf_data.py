"""Reads binary `perf.data` as samples, by the text that perf script prints of it.

Source of the header: tools/perf/Documentation/perf.data-file-format.txt of Linux.
"""

import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from mavcg.errors import ProfileError, ToolError
from mavcg.program.profiling.perf_script import read_perf_script
from mavcg.program.profiling.sample_table import SampleTable

MAGICS = (b"PERFILE2", b"2ELIFREP")  # the writer's byte order
_FIELDS = ("comm", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso")
_ABSENT = re.compile(r"Cannot print '(\w+)' field")
_HEADER_BYTES = 104
_PIPE_HEADER_BYTES = 16
_TIMEOUT_S = 600

NO_PERF = (
    "perf is not installed; install it (Debian: apt install linux-perf, Ubuntu: linux-tools-generic), or count "
    "instructions exactly with mavcg profile --with callgrind"
)


def check_header(head: bytes, file_bytes: int, location: str) -> None:
    """Refuse a perf.data whose header shows that it is truncated or garbled.

    Args:
        head: the file's first 104 bytes, or the whole of a shorter file.
        file_bytes: size of the file.
    Raises: ProfileError.
    """
    order = "<" if head.startswith(MAGICS[0]) else ">"
    if len(head) < _PIPE_HEADER_BYTES:
        raise ProfileError(f"{location}: truncated: {file_bytes} bytes, fewer than a perf.data header; copy it again")
    (header_bytes,) = struct.unpack_from(f"{order}Q", head, 8)
    if header_bytes == _PIPE_HEADER_BYTES:  # written to a pipe: sizes are not known there
        return
    if header_bytes != _HEADER_BYTES or len(head) < _HEADER_BYTES:
        raise ProfileError(
            f"{location}: garbled: its header is {header_bytes} bytes long, a perf.data's is {_HEADER_BYTES}; "
            f"copy it again in binary mode"
        )
    data_at, data_bytes = struct.unpack_from(f"{order}QQ", head, 40)
    if data_bytes == 0:
        raise ProfileError(
            f"{location}: holds no data: the recording was not ended properly; record again and let perf finish "
            f"(one Ctrl-C)"
        )
    if data_at + data_bytes > file_bytes:
        raise ProfileError(
            f"{location}: truncated: its header states {data_at + data_bytes} bytes, the file has {file_bytes}; "
            f"copy it again"
        )


def read_perf_data(path: Path, location: str = "") -> SampleTable:
    """Read the samples of a perf.data file, with linkage names. location: its name in messages, "" for the path.

    Raises: ProfileError for a file that is truncated, garbled or without samples; ToolError if perf is missing.
    """
    location = location or str(path)
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER_BYTES)
        check_header(head, path.stat().st_size, location)
    except OSError as error:
        raise ProfileError(
            f"{location}: cannot be read: {error.strerror}; give a file that perf record wrote"
        ) from error
    fields = list(_FIELDS)
    while True:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
            status, messages = _perf_script(path, fields, out.fileno())
            absent = _ABSENT.search(messages)
            if status and absent is not None and absent[1] in fields:
                fields.remove(absent[1])  # recorded without it (CPU numbers need --sample-cpu, periods -F)
                continue
            out.seek(0)
            if status:
                raise ProfileError(
                    f"{location}: perf cannot read it: {_gist(messages, status)}; print it with the perf (or "
                    f"simpleperf) that recorded it and import that text"
                )
            return read_perf_script(out, location)


def _perf_script(path: Path, fields: list[str], out: int) -> tuple[int, str]:
    """Run perf script with its text going to the open file `out`; return its exit status and messages."""
    # -G: no callers. -f: accept a file that another user recorded.
    command = ["perf", "script", "--header", "--no-demangle", "-G", "-f", "-F", ",".join(fields), "-i", str(path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            timeout=_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise ToolError(f"{path}: a perf.data, and {NO_PERF}; or import the text of perf script instead") from error
    except PermissionError as error:
        raise ToolError(f"perf: cannot be run: {error.strerror}; check its file mode") from error
    except subprocess.TimeoutExpired as error:
        raise ProfileError(
            f"{path}: perf script did not end within {_TIMEOUT_S} s; record for a shorter time, or less often "
            f"(--frequency)"
        ) from error
    return done.returncode, done.stderr.decode("utf-8", "replace")


def _gist(messages: str, status: int) -> str:
    """Return the first line of a tool's messages, or its status if there are none."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    if status < 0:
        return f"it died of signal {-status}"
    return lines[0].rstrip(".") if lines else f"exit status {status}"
