"""A build in this process, for fixtures that tests share: without another start of Python and its modules."""

import io
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from mavcg.cli.app import run


def build_in(folder: Path, *arguments: str) -> str:
    """Run `mavcg build` in a folder. Returns what it prints on stdout."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        status = run(["build", *arguments])
    assert status == 0, err.getvalue()
    return out.getvalue()
