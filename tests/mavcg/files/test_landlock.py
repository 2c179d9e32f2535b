"""A restricted process and its children write into the named folders alone, on this machine's kernel."""

import os
import tempfile
from pathlib import Path

import pytest

from mavcg.files import landlock
from mavcg.files.landlock import landlock_version, restrict_writing
from tests.mavcg.files.confined_child import in_confined_child, outcome


def test_writing_is_restricted_to_folders_files_and_devices(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    (allowed / "deep").mkdir(parents=True)
    other.mkdir()
    for folder in (allowed, other):
        (folder / "kept").write_text("kept")
    (other / "single").write_text("")
    (allowed / "link").symlink_to(other / "kept")

    def work() -> dict[str, str]:
        assert restrict_writing([allowed, other / "single", Path("/dev/null"), tmp_path / "absent"], network=True)
        actions = {
            "new file": lambda: (allowed / "deep/new").write_text("x") and 0,
            "named file": lambda: (other / "single").write_text("x") and 0,
            "device": lambda: Path("/dev/null").write_text("x") and 0,
            "rename within": lambda: os.rename(allowed / "deep/new", allowed / "moved"),
            "read": lambda: (other / "kept").read_text() and 0,
            "other file": lambda: (other / "new").write_text("x"),
            "truncate": lambda: os.truncate(other / "kept", 0),
            "remove": lambda: os.remove(other / "kept"),
            "rename out": lambda: os.rename(allowed / "moved", other / "moved"),
            "rename in": lambda: os.rename(other / "kept", allowed / "stolen"),
            "hard link": lambda: os.link(other / "kept", allowed / "hard"),
            "through a link": lambda: (allowed / "link").write_text("x"),
            "folder": lambda: os.mkdir(other / "folder"),
            "symbolic link": lambda: os.symlink("kept", other / "symbolic"),
            "shell": lambda: os.waitstatus_to_exitcode(os.system(f"echo x 2>/dev/null > {other / 'shell'}")),
            "shell in": lambda: os.waitstatus_to_exitcode(os.system(f"echo x > {allowed / 'shell'}")),
        }
        return {name: outcome(action) for name, action in actions.items()}

    came = in_confined_child(work)

    done = ("new file", "named file", "device", "rename within", "read", "shell in")
    assert {name for name, what in came.items() if what == "done"} == set(done)
    assert {what for name, what in came.items() if name not in done} <= {"EACCES", "EPERM", "EXDEV", "status 2"}
    assert sorted(path.name for path in other.iterdir()) == ["kept", "single"]
    assert (other / "kept").read_text() == "kept"


def test_a_kernel_without_it_restricts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 forbids renames between folders, by which files are put in place: it counts as none."""

    class Kernel:
        def __init__(self, version: int) -> None:
            self.version = version

        def syscall(self, number: int, *arguments: object) -> int:
            assert number == 444, "rules were made"
            return self.version

    for version in (-1, 1):
        monkeypatch.setattr(landlock, "_libc", lambda version=version: Kernel(version))
        assert landlock_version() == 0
        assert restrict_writing([tmp_path], network=False) is False


@pytest.mark.parametrize(("version", "size"), [(2, 8), (3, 8), (4, 16), (5, 16), (6, 24), (9, 24)])
def test_a_kernel_is_told_no_more_than_it_knows(version: int, size: int) -> None:
    """include/uapi/linux/landlock.h: one field of 8 bytes, a second since version 4, a third since 6."""
    assert landlock._size(version) == size


def test_signals_do_not_leave_the_sandbox() -> None:
    """Since version 6 of Landlock: no signal reaches a process outside, the one that started it for example."""
    if landlock_version() < 6:
        pytest.skip("this kernel's Landlock has no scopes")
    parent = os.getpid()

    def work() -> str:
        restrict_writing([Path(tempfile.gettempdir())], network=False)
        return outcome(lambda: os.kill(parent, 0))

    assert in_confined_child(work) == "EPERM"
