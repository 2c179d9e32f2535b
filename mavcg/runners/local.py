"""This machine, by its own shell."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mavcg.runners.finished import RunnerError


@dataclass(frozen=True)
class LocalTransport:
    """Files are copied, scripts run by /bin/sh."""

    name: str = "local"
    install: str = "this machine needs a POSIX shell"

    @property
    def folder(self) -> str:
        """As Transport."""
        return tempfile.gettempdir()

    def argv(self, script: str) -> list[str]:
        """As Transport."""
        return ["/bin/sh", "-c", script]

    def send(self, file: Path, to: str) -> None:
        """As Transport."""
        self._copy(file, Path(to))

    def fetch(self, file: str, to: Path) -> None:
        """As Transport."""
        self._copy(Path(file), to)

    def _copy(self, file: Path, to: Path) -> None:
        try:
            shutil.copyfile(file, to)
        except OSError as error:
            raise RunnerError(f"local: {error.filename or to}: {error.strerror}; see that there is room") from None

    def close(self) -> None:
        """As Transport: nothing is kept open."""

    def fault(self, status: int, words: str, running: bool) -> RunnerError:
        """As Transport."""
        return RunnerError(f"local: the shell ended with status {status}: {words or 'it says nothing'}; run it again")
