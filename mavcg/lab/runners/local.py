"""Transport to this machine, by its own shell."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mavcg.lab.runners.finished import RunnerError


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
