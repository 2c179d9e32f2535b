"""Opens the machine that --runner names: another one, or this one by its own shell."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mavcg.lab.runners.adb import find_device
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.runners.ssh import parse_ssh
from mavcg.lab.runners.transport import RunnerError
from mavcg.text.terminal import one_line

FORMS = "local, ssh:user@host, ssh:user@host:port, adb or adb:SERIAL"


@dataclass(frozen=True)
class LocalTransport:
    """A transport to this machine: copies files, runs scripts by /bin/sh."""

    name: str = "local"
    install: str = "this machine needs a POSIX shell"
    is_this_machine: bool = True

    @property
    def folder(self) -> str:
        """Implement `Transport.folder`."""
        return tempfile.gettempdir()

    def argv(self, script: str) -> list[str]:
        """Implement `Transport.argv`."""
        return ["/bin/sh", "-c", script]

    def send(self, file: Path, to: str) -> None:
        """Implement `Transport.send`."""
        self._copy(file, Path(to))

    def fetch(self, file: str, to: Path) -> None:
        """Implement `Transport.fetch`."""
        self._copy(Path(file), to)

    def _copy(self, file: Path, to: Path) -> None:
        try:
            shutil.copyfile(file, to)
        except OSError as error:
            raise RunnerError(f"local: {error.filename or to}: {error.strerror}; see that there is room") from None

    def close(self) -> None:
        """Implement `Transport.close`; nothing is kept open."""

    def fault(self, status: int, client_message: str, running: bool) -> RunnerError:
        """Implement `Transport.fault`."""
        return RunnerError(
            f"local: the shell ended with status {status}: {client_message or 'it says nothing'}; run it again"
        )


def check_runner(text: str) -> None:
    """Raise RunnerError if a text does not name a runner; no machine is contacted."""
    kind, _, address = text.partition(":")
    if kind == "ssh" and address:
        parse_ssh(address)
    elif text == "simulate":
        raise RunnerError(f"--runner {text}: runs no programs, and only `mavcg tune` takes it; here give {FORMS}")
    elif kind == "fleet":
        raise RunnerError(f"--runner {text}: only `mavcg tune` takes a fleet's file; here give {FORMS}")
    elif text not in ("local", "adb") and not (kind == "adb" and address):
        raise RunnerError(
            f"--runner {one_line(text)}: is not a runner; give {FORMS}; `mavcg tune` also takes fleet:FILE and simulate"
        )


def open_runner(text: str) -> ShellRunner:
    """Return the runner for local, ssh:user@host[:port] or adb[:SERIAL]; nothing is created on the machine yet.

    Raises: RunnerError for any other text; for adb, if adb is missing, or there is no device or more than one.
    """
    check_runner(text)
    kind, _, rest = text.partition(":")
    if kind == "ssh":
        return ShellRunner(parse_ssh(rest))
    return ShellRunner(find_device(rest) if kind == "adb" else LocalTransport())
