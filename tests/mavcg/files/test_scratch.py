"""Folders for intermediate files: gone at the end, whatever ends the process; files that never follow a link."""

import errno
import itertools
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.files.scratch import interrupts_on_signals, registration, scratch_folder
from mavcg.files.whole_file import whole, whole_beside, write_whole

MODULES = 40  # far more than a machine compiles in the second before the signal
SOURCE = "float total(const float *x, int n) { float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
BUILD = ("build", "--source", "a.c", "--hot", "total", "--cores", "cortex-a55", "-o", "out.so")
WAIT_S = 60.0


def test_a_scratch_folder_is_ours_alone_and_gone_at_the_end(tmp_path: Path) -> None:
    with scratch_folder(".part-", tmp_path) as first, scratch_folder(".part-", tmp_path) as second:
        assert first != second and first.parent == tmp_path
        assert stat.S_IMODE(first.stat().st_mode) == 0o700
        (first / "below").mkdir()
        (first / "below" / "file").write_text("x")

    assert not list(tmp_path.iterdir())


def test_a_link_in_the_place_of_a_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where its name is guessed: two containers with one PID share no name, and a planted link is an error."""
    monkeypatch.setattr("os.urandom", lambda count: b"guessed!")
    (tmp_path / "victim").write_text("precious")
    for name in (f".mavcg-{b'guessed!'.hex()}.part", f".out.json.{os.getpid()}.part"):
        (tmp_path / name).symlink_to("victim")
    with pytest.raises(MavcgError, match=r"out\.json: cannot be written \(File exists"):
        write_whole(tmp_path / "out.json", "new")

    assert (tmp_path / "victim").read_text() == "precious"
    monkeypatch.undo()
    write_whole(tmp_path / "out.json", "new")
    assert (tmp_path / "out.json").read_text() == "new" and (tmp_path / "victim").read_text() == "precious"


def test_two_processes_with_one_number_write_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with whole(tmp_path / "a") as first, whole(tmp_path / "a") as two:
        first.write_text("one")
        two.write_text("two")

    assert (tmp_path / "a").read_text() == "one" and [each.name for each in tmp_path.iterdir()] == ["a"]


def test_content_is_on_the_disk_before_the_file_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(handle: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    def note_replace(made: Path, target: Path) -> None:
        done.append(f"-> {target}")
        replace(made, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_whole(tmp_path / "a", "new")

    assert len(done) == 2 and done[0].endswith(".part") and done[1] == f"-> {tmp_path / 'a'}"


def test_a_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", "x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_tool_s_output_replaces_what_a_link_points_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/a")
    with whole_beside(tmp_path / "link") as made:
        assert made.name == "link" and not made.exists()
        made.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "a").read_text() == "new"

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="device or a pipe"), whole_beside(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "pipe", "there"]


def test_temporary_folders_are_made_in_one_way() -> None:
    """Others would stay where a signal ends the process, or have names that can be foreseen."""
    root = Path(__file__).parents[3]
    others = re.compile(r"TemporaryDirectory|NamedTemporaryFile|mkdtemp|mkstemp|mktemp\(|getpid\(\)[^\n]*(part|tmp)")
    folders = [root / name for name in ("mavcg", "runtime", "passes", "kernels", "profiles")]
    sources = [each for folder in folders for each in folder.rglob("*.py")]

    assert len(sources) > 300 and not [each for each in sources if others.search(each.read_text())]


def test_registered_files_go_where_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), registration(tmp_path / "half", (tmp_path / "half").touch):
        (tmp_path / "half").write_text("x")
        raise ZeroDivisionError

    assert not list(tmp_path.iterdir())


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from mavcg.cli import main; main()", *words]


def environment_of(folder: Path) -> dict[str, str]:
    """Temporary files in a folder of their own; no schedules that were found before."""
    (folder / "temporary").mkdir()
    return os.environ | {"TMPDIR": str(folder / "temporary"), "MAVCG_CACHE": "off"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_build_that_is_ended_leaves_nothing(tmp_path: Path, name: str) -> None:
    """Many modules: the signal comes while compilers run, and more of them are to come."""
    work = tmp_path / "work"
    work.mkdir()
    for number in range(MODULES):
        (work / f"{number}.c").write_text(SOURCE.replace("total", f"total{number}"))
    words = [word for number in range(MODULES) for word in ("--source", f"{number}.c", "--hot", f"total{number}")]
    environment = environment_of(tmp_path)
    process = subprocess.Popen(
        command("build", *words, "--cores", "cortex-a55,cortex-a76", "-o", "out.so"),
        cwd=work,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
    )
    temporary = tmp_path / "temporary"
    until = time.monotonic() + WAIT_S
    while not list(temporary.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)
    assert process.poll() is None and list(temporary.iterdir())
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=WAIT_S)

    assert process.returncode == (-getattr(signal, name) if name != "SIGINT" else process.returncode) != 0
    assert "Traceback" not in said
    assert not list(temporary.iterdir())
    assert {each.name for each in work.iterdir()} == {f"{number}.c" for number in range(MODULES)}
    until = time.monotonic() + WAIT_S  # killed compilers are gone when their parents, or init, have waited for them
    while (left := session_of(process.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def session_of(number: int) -> str:
    """The processes of a session, a line each."""
    return subprocess.run(["ps", "-s", str(number), "-o", "pid=,comm="], capture_output=True, text=True).stdout.strip()


def test_work_that_has_more_to_put_in_order_is_interrupted() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupts_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    assert signal.getsignal(signal.SIGTERM) == before


def test_nohup_stays_in_force(tmp_path: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from mavcg.files.scratch import remove_on_signals; remove_on_signals()\n"
        "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, callable(signal.getsignal(signal.SIGTERM)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "True True\n"


def limited(words: Sequence[str], folder: Path, environment: dict[str, str], file_bytes: int) -> tuple[int, str]:
    """A command whose files may have so many bytes."""
    done = subprocess.run(
        command(*words),
        cwd=folder,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},  # which would be cut off (tests/mavcg/file_limit.py)
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)),
    )
    return done.returncode, done.stderr


def test_a_file_that_becomes_too_large_is_named_with_its_size(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mavcg.files.whole_file import write_whole\n"
        "try: write_whole(Path(sys.argv[1]), bytes(100000), '-o')\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # which would be cut off (tests/mavcg/file_limit.py)
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )

    assert done.stdout == (
        f"-o {tmp_path / 'a'}: cannot be written (File too large: 100000 bytes are needed); make room, or name another "
        "file\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_build_without_room_for_its_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(SOURCE)
    status, said = limited(BUILD, tmp_path, environment_of(tmp_path), 1024)

    assert status == 2 and "Traceback" not in said and len(said.splitlines()) < 20
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.c", "temporary"]
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("cores",), ("cores", "--json"), ("--help",)])
def test_a_full_standard_output_is_named(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(*words), stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("mavcg: standard output: No space left on device; make room")
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs root, who may mount a small file system")
    return folder


@pytest.mark.long
def test_a_full_disk_is_named_with_what_is_needed(small_disk: Path, tmp_path: Path) -> None:
    try:
        (small_disk / "old").write_text("old")
        with pytest.raises(MavcgError) as raised:
            write_whole(small_disk / "old", bytes(1 << 20), "-o")
        said, path = str(raised.value), small_disk / "old"
        assert f"-o {path}: cannot be written (No space left on device: 1048576 bytes are needed, " in said
        assert f" are free in {small_disk}); make room" in said
        assert [each.name for each in small_disk.iterdir()] == ["old"] and (small_disk / "old").read_text() == "old"

        (small_disk / "filling").write_bytes(bytes(60000))
        (tmp_path / "a.c").write_text(SOURCE)
        environment = environment_of(tmp_path)
        words = command(*BUILD[:-1], str(small_disk / "out.so"))
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert f"{small_disk}" in done.stderr and "make room" in done.stderr, done.stderr
        assert sorted(each.name for each in small_disk.iterdir()) == ["filling", "old"]
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


@pytest.mark.parametrize("holds", [True, False])
def test_a_folder_goes_though_it_could_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    """Once if it holds a file, ever if it is empty."""
    opened, failing = os.open, [1] if holds else range(99)
    numbers = itertools.count(1)

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).startswith(str(tmp_path / ".try-")) and next(numbers) in failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, *rest, **more)

    with scratch_folder(".try-", tmp_path) as folder:
        if holds:
            (folder / "file").write_text("x")
        monkeypatch.setattr(os, "open", refuse)
    assert not list(tmp_path.iterdir()) and next(numbers) > 1
