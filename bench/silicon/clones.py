"""Source files of a published kernel, from the user's clone: nothing is downloaded and nothing is kept."""

import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder


@contextmanager
def checked_out(clone: Path, commit: str, folders: tuple[str, ...], generated: Mapping[str, str]) -> Iterator[Path]:
    """Provide a temporary folder with these folders of a commit and with generated files (name -> text).

    clone: a git repository, bare or not. Raises: MavcgError if it has no such commit or folder.
    """
    with scratch_folder("mavcg-silicon-") as folder:
        words = ["git", "-C", str(clone), "archive", "--format=tar", commit, "--", *folders]
        done = subprocess.run(words, capture_output=True)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise MavcgError(f"{clone}: commit {commit}: {said[0] if said else 'git archive failed'}; fetch it whole")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        for name, text in generated.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield Path(folder)
