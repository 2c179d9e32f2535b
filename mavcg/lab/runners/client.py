"""Runs a client program (ssh, adb, sh) and reads its output line by line, with a limit on its silence."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mavcg.lab.runners.transport import RunnerError, Silent

LAST_WORDS_S = 2.0  # to read standard error after the client's end, which a background process may keep open


@dataclass(frozen=True)
class Client:
    """The result of a client program. status: negative for a signal. words: its messages on standard error."""

    status: int
    stdout: bytes
    words: str


def run_client(
    argv: Sequence[str],
    machine: str,
    install: str,
    *,
    silence_s: float,
    stdin_file: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Client:
    """Run a client to its end; if anything is raised, Ctrl-C included, it is stopped with its children.

    machine: its name, for messages. install: advice for the error that the client is missing. silence_s: time without
    output after which it is stopped. stdin_file: file for its standard input. on_line: called with each line of output.
    Raises: RunnerError if the client is missing; Silent; what on_line raises.
    """
    with contextlib.ExitStack() as stack:
        stdin: int | IO[bytes] = (
            subprocess.DEVNULL if stdin_file is None else stack.enter_context(stdin_file.open("rb"))
        )
        try:
            # In a new session, so that Ctrl-C at the terminal does not reach the client before we stop it.
            process = subprocess.Popen(
                argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except FileNotFoundError:
            raise RunnerError(f"{machine}: {argv[0]} is not there; {install}") from None
        except OSError as error:
            raise RunnerError(f"{machine}: {argv[0]} cannot be run ({error.strerror}); {install}") from None
        try:
            return _read(process, machine, silence_s, on_line)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _read(
    process: "subprocess.Popen[bytes]", machine: str, silence_s: float, on_line: Callable[[str], None] | None
) -> Client:
    lines: queue.Queue[bytes | None] = queue.Queue()
    words: list[bytes] = []
    assert process.stdout is not None and process.stderr is not None
    out, err = process.stdout, process.stderr

    def read_out() -> None:
        for line in out:
            lines.put(line)
        lines.put(None)

    def read_err() -> None:
        words.extend(err)

    readers = [threading.Thread(target=work, daemon=True) for work in (read_out, read_err)]
    for reader in readers:
        reader.start()
    taken: list[bytes] = []
    while True:
        try:
            line = lines.get(timeout=silence_s)
        except queue.Empty:
            raise Silent(f"{machine}: no output for {silence_s:.0f} s; check the machine") from None
        if line is None:
            break
        taken.append(line)
        if on_line is not None:
            on_line(line.decode("utf-8", "replace").rstrip("\r\n"))
    status = process.wait()
    readers[1].join(LAST_WORDS_S)
    return Client(status, b"".join(taken), b"".join(words).decode("utf-8", "replace").strip())
