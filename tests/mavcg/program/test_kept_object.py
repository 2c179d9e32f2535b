"""An object with versions is used again only where nothing that it was made from has changed; by Python and by C."""

import errno
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import mavcg.program.kept_object as kept_object
from mavcg.program.buildfile import BuildFile
from mavcg.program.cold_command import plain_command
from mavcg.program.cold_launch import cache_root
from mavcg.program.kept_object import find_object, keep_object, object_key, put_object
from mavcg.program.launch_program import SOURCE, write_launch_program
from mavcg.program.launching import leave_note
from mavcg.program.made_with import files_of_mavcg, programs
from mavcg.program.sources.dependencies import files_in_rule
from mavcg.toolchain.zig import run_zig, zig_program
from tests.conftest import zig_cache

COMMAND = ["gcc", "-MD", "-c", "a.c"]
OBJECT = b"versions\0of dot"
MESSAGE = "mavcg: a.o: dot (generic, x)\n  without y: it is z"
LONG_WAY = 77  # status of what stands for mavcg
CHANGES = ("source", "header", "gone", "tool", "config", "entry", "writable", "folder", "link", "boot")


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose compile command is noted to make an object with a hot function."""
    for name in (*kept_object.ENVIRONMENT[1:], *kept_object.NEVER_WITH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    (here / "mavcg.toml").write_text('[build]\nhot = ["dot"]\n')
    (here / "a.c").write_text("void dot(void) {}")
    (here / "a.h").write_text("#define A")
    (here / "tool").write_text("a compiler")
    (here / "a.o").write_bytes(OBJECT)
    leave_note(here / "mavcg.toml", BuildFile(hot=("dot",)))
    return here


def key(command: list[str] = COMMAND, config: str | None = None) -> str:
    compiled = plain_command(command)
    assert compiled
    return object_key(command, compiled, config)


def keep(folder: Path, on_host: bool = False) -> None:
    inputs = [str(folder / name) for name in ("a.c", "a.h")]
    keep_object(key(), "a.o", MESSAGE, inputs, [str(folder / name) for name in ("mavcg.toml", "tool")], on_host)
    (folder / "a.o").write_bytes(b"plain dot")
    (folder / "a.d").write_text("a.o: a.c a.h\n")


def entry() -> Path:
    return Path(cache_root(), kept_object.FOLDER, hashlib.sha256(key().encode()).hexdigest())


def change(folder: Path, what: str) -> None:
    """Make one of CHANGES, after which a kept object may no longer be used."""
    if what in ("source", "header"):
        path = folder / ("a.c" if what == "source" else "a.h")
        path.write_text(path.read_text() + " ")
    elif what == "gone":
        (folder / "a.h").unlink()
    elif what == "tool":
        (folder / "tool").write_text("another compiler")
    elif what == "config":
        (folder / "mavcg.toml").write_text('[build]\nhot = ["dot"]\n#\n')
        leave_note(folder / "mavcg.toml", BuildFile(hot=("dot",)))
    elif what == "entry":
        entry().write_bytes(entry().read_bytes()[:-1] + b"?")
    elif what == "writable":
        entry().chmod(0o666)
    elif what == "folder":
        entry().parent.chmod(0o777)
    elif what == "link":
        entry().rename(folder / "elsewhere")
        entry().symlink_to(folder / "elsewhere")


def test_an_object_is_found_and_put_in_place(folder: Path) -> None:
    assert find_object(key()) is None
    keep(folder, on_host=True)
    (folder / "a.c").write_text("void dot(void) {}")  # written again, with the same text
    found = find_object(key())
    assert found and (found.message, found.content) == (MESSAGE, OBJECT)

    compiled = plain_command(COMMAND)
    assert compiled and put_object(found, compiled, None)
    assert (folder / "a.o").read_bytes() == OBJECT and not list(folder.glob("*.part"))
    assert (folder / "a.d").read_text().startswith(f"a.o: {folder / 'mavcg.toml'} a.c a.h\n")


@pytest.mark.parametrize("what", CHANGES)
def test_none_is_found_after_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    keep(folder, on_host=True)
    assert find_object(key())
    change(folder, what)
    if what == "boot":
        (folder / "boot").write_text("another")
        monkeypatch.setattr(kept_object, "BOOT", str(folder / "boot"))
    assert find_object(key()) is None


@pytest.mark.parametrize("text", ["char *d = __DATE__;", "char *t = __TIMESTAMP__;", 'asm(".incbin \\"a\\"");'])
def test_sources_that_depend_on_more_than_files_are_not_kept(folder: Path, text: str) -> None:
    (folder / "a.h").write_text(text)
    keep(folder)
    assert find_object(key()) is None


def test_a_key_names_all_that_the_command_depends_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.toml").write_text("")
    keys = [key(), key(["gcc", "-c", "a.c"]), key(["gcc", "-MD", "-c", "-O2", "a.c"]), key(config="other.toml")]
    for name in kept_object.ENVIRONMENT:
        monkeypatch.setenv(name, f"{os.environ.get(name, '')}:/elsewhere")
        keys.append(key())
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    keys.append(key(config=str(folder / "mavcg.toml")))
    assert len({*keys}) == len(keys) and "" not in keys

    for name in kept_object.NEVER_WITH:
        monkeypatch.setenv(name, "x")
        assert key() == "", name
        monkeypatch.delenv(name)
    monkeypatch.setenv("MAVCG_CACHE", "off")
    assert key() == "" and find_object("") is None


def test_versions_depend_on_mavcg_and_the_compilers() -> None:
    named = {Path(path).name for path in (*files_of_mavcg(), *programs(["sh", "-c"], []))}
    assert {"kept_object.py", "zig", "sh", "cortex-a55.toml", "select.c"} <= named
    assert any(name.startswith("libllvmlite") for name in named)


def test_a_compiler_behind_one_of_its_name_counts_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ccache in the place of gcc starts the gcc of a later folder of PATH, which may be replaced by another one."""
    for folder in ("first", "second"):
        (here / folder).mkdir()
        (here / folder / "gcc").write_text("#!/bin/sh\n")
        (here / folder / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}/first:{here}/none:{here}/second")
    assert programs(["gcc", "-c"])[:-1] == [f"{here}/first/gcc", f"{here}/second/gcc"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.o: a.c \\\n /usr/x.h \\\n  b.h\n\nb.h:\n", ("/d/a.c", "/usr/x.h", "/d/b.h")),
        ("a.o b.o: a\\ b.c a\\#b.h a$$b.h c\\d.h\n", ("/d/a b.c", "/d/a#b.h", "/d/a$b.h", "/d/c\\d.h")),
        ("no rule", ()),
    ],
)
def test_names_in_a_rule_are_read_as_make_reads_them(here: Path, text: str, names: tuple[str, ...]) -> None:
    (here / "a.d").write_text(text)
    assert files_in_rule(here / "a.d", Path("/d")) == names
    assert files_in_rule(here / "none.d", Path("/d")) == ()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program of `mavcg launch --program`, a gcc that compiles nothing and what stands for mavcg."""
    folder = tmp_path_factory.mktemp("tools")
    for name, does in (("mavcg", f"exit {LONG_WAY}"), ("gcc", "echo compiled")):
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    write_launch_program(folder / "mavcg-launch", [str(folder / "mavcg")])
    return folder


def run_program(tools: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([tools / "mavcg-launch", *COMMAND], capture_output=True, text=True)


@pytest.mark.long
@pytest.mark.parametrize("what", ["", *CHANGES[:-1]])
def test_the_program_uses_the_objects_that_python_does(
    tools: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert run_program(tools).returncode == LONG_WAY
    keep(folder, on_host=True)
    change(folder, what)
    ended = run_program(tools)
    if what:
        assert (ended.returncode, ended.stdout) == (LONG_WAY, "") and (folder / "a.o").read_bytes() == b"plain dot"
        return
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "compiled\n", MESSAGE + "\n")
    assert (folder / "a.o").read_bytes() == OBJECT and not list(folder.glob("*.part"))
    assert (folder / "a.d").read_text().startswith(f"a.o: {folder / 'mavcg.toml'} a.c a.h\n")


@pytest.mark.long
def test_the_programs_digests_are_those_of_python(here: Path) -> None:
    main = '#include <stdlib.h>\n#include "sha256.h"\nint main(void) { static char text[300], hex[HEX_BYTES];'
    main += " for (int i = 0; i < 300; i++) text[i] = (char)(i * 7);"
    main += " for (size_t n = 0; n <= 300; n++) { hex_digest(text, n, hex); puts(hex); } return 0; }\n"
    (here / "main.c").write_text(main)
    run_zig("cc", ["-O1", f"-I{SOURCE.parent}", "main.c", "-o", "digests"], "compiling", here)
    printed = subprocess.run(["./digests"], capture_output=True, text=True, check=True).stdout.split()
    text = bytes(i * 7 % 256 for i in range(300))
    assert printed == [hashlib.sha256(text[:n]).hexdigest() for n in range(301)]


HOT = '#include "a.h"\nint dot(const short *a, int n) { int s = A; while (n--) s += a[n] * a[n]; return s; }\n'


@pytest.mark.long
@pytest.mark.parametrize(
    "command", ["gcc -O2", "gcc -O2 -MD -g", "gcc -O2 -MMD", "zig cc -O2 -MD", "ccache gcc -O2 -MMD"]
)
def test_a_file_that_is_compiled_again_gets_the_same_object(
    here: Path, cores: list[str], gcc: object, mavcg: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    if "ccache" in command and not shutil.which("ccache"):
        pytest.skip("ccache is not installed")
    for name, value in {"MAVCG_CACHE": here / "cache", "CCACHE_DIR": here / "ccache"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("PATH", f"{Path(zig_program()).parent}:{os.environ['PATH']}")
    names = ", ".join(f'"{core}"' for core in cores)
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["dot"]\ncores = [{names}]\n')
    (here / "a.h").write_text("#define A 1\n")
    (here / "a.c").write_text(HOT)

    def compile_it() -> Any:
        return mavcg("launch", "--strict", *command.split(), "-c", "a.c")

    seen = []
    for _ in range(3):
        ended = compile_it()
        assert ended.status == 0, ended
        seen.append(((here / "a.o").read_bytes(), "from the cache" in ended.stderr))
    assert [found for _, found in seen] == [False, True, True] and len({made for made, _ in seen}) == 1

    (here / "a.h").write_text("#define A 2\n")
    ended = compile_it()
    assert ended.status == 0 and "from the cache" not in ended.stderr and (here / "a.o").read_bytes() != seen[0][0]
    # gcc compiles it once from now on, and with -MMD names only some of the files that it reads.
    assert ("from the cache" in compile_it().stderr) == (command != "gcc -O2 -MMD")


def test_an_object_that_cannot_be_put_in_place_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder)
    kept, compiled = find_object(key()), plain_command(COMMAND)
    assert kept and compiled
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    before = sorted(folder.iterdir())

    assert not put_object(kept, compiled, str(folder / "mavcg.toml"))
    assert sorted(folder.iterdir()) == before and (folder / "a.o").read_bytes() == b"plain dot"
