"""Every verb that reads a file is confined before it does: where it may write follows from its options."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.cli import confinement
from mavcg.cli.app import run
from mavcg.cli.confinement import FREE, OUTPUTS, confine_verb
from mavcg.errors import MavcgError
from mavcg.files.child_python import python_command
from mavcg.files.sandbox import missing_parts
from tests.mavcg.cli.planted import commands_by_name, examples_of, lay_out
from tests.mavcg.cli.taken_over import hostile
from tests.mavcg.cli.verbs import VERBS
from tests.mavcg.files.confined_child import in_confined_child

# Options that name files, and are not written to.
READ = {
    "inputs",
    "import_",
    "config",
    "binary",
    "compile_commands",
    "profile",
    "measurements",
    "weights",
    "calibrate",
    "version_script",
    "library_dir",
    "library",
    "source",
    "sysroot",
    "model",
    "check_ir",
    "run_ir",
    "check_cuda",
    "models",
    "space",
    "facts",
    "instance",
    "includes",
    "file",
    "next_library",
    "name",
    "templates",
    "program",
    "rtl",
    "graph",
    "template",
    "accelerator_host",
}
OTHERWISE = {"folder", "driver", "token", "export"}  # of init; not confined with it; of verbs that are not confined
NAMES_A_FILE = re.compile(r"FILE|DIR|FOLDER|LIB|OUT|MODEL|\.[a-zS]+\b|PROGRAM")


def test_every_option_that_names_a_file_is_read_or_written() -> None:
    """A new option is put into OUTPUTS, or here."""
    options = {
        option.name
        for command in commands_by_name().values()
        for option in command.params
        if NAMES_A_FILE.search(option.metavar or "") and "=" not in (option.metavar or "").partition("]")[2][:1]
    }
    known = READ | OTHERWISE | set(OUTPUTS)
    assert options - known - {"words", "arguments", "command", "state", "symbols", "shape"} == set()
    assert set(OUTPUTS) <= options


def test_verbs_that_are_not_confined_are_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs/security.md").read_text()
    assert {" ".join(verb) for verb in VERBS} >= set(FREE)
    for verb in FREE:
        assert f"`{verb}`" in page, verb


Places = Callable[..., "list[str] | None"]


@pytest.fixture
def places(here: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """places("build", output="x"): the folders of a verb with options; None if it is not confined."""

    def places(verb: str, **options: Any) -> list[str] | None:
        confined: list[list[str]] = []
        monkeypatch.setattr(confinement, "_limit_cpu_seconds", lambda: None)
        monkeypatch.setenv("MPLCONFIGDIR", "")  # restored: the verb sets it
        monkeypatch.setattr(confinement, "sandbox", lambda paths, require: confined.append([*map(str, paths)]))
        confine_verb(verb, options)
        return confined[0] if confined else None

    return places


def test_where_a_verb_may_write(places: Places, here: Path) -> None:
    (here / "out").mkdir()
    (here / "link.so").symlink_to(here / "out/real.so")
    assert places("inspect", library=Path("x.so"), sbom=None) == []
    assert places("inspect", library=Path("x.so"), sbom="-") == []
    assert places("inspect", library=Path("x.so"), sbom=Path("out/x.json")) == [f"{here}/out"]
    assert places("build", inputs=[Path("m.onnx")], output=Path("out/x.so"), also=Path("y.onnx")) == [
        f"{here}/out",
        f"{here}",
    ]
    assert places("build", inputs=[Path("m.onnx")], output=None) == [f"{here}"]
    assert places("build", inputs=[Path("m.onnx")], output=Path("new/deep/x.so")) == [f"{here}"]
    assert places("build", inputs=[Path("m.onnx")], output=Path("link.so")) == [f"{here}/out"]
    assert places("build", boards="a,b", inputs=[Path("m.onnx")], output=Path("out")) == ["out"]
    assert places("build", inputs=[Path("m.onnx")], output=Path("/dev/null")) == ["/dev/null"]
    assert places("init", folder=Path("out")) == ["out"]


def test_where_a_build_file_may_write(places: Places, here: Path) -> None:
    for name in ("project", "elsewhere"):
        (here / name).mkdir()
    project = here / "project/mavcg.toml"
    project.write_text('[build]\nsources = ["a.c"]\noutput = "../elsewhere/liba.so"\n[[model]]\nalso = "/dev/null"\n')
    assert places("build", inputs=[project], output=None) == [
        f"{here}/project",
        f"{here}/elsewhere",
        "/dev/null",
        f"{here}",
    ]
    project.write_text("[build\n")
    assert places("build", inputs=[project], output=Path("x.so")) == [f"{here}", f"{here}/project"]
    project.write_text('[build]\ncommand = ["make"]\n')
    assert places("build", inputs=[project], output=None) is None


def test_what_is_not_confined(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places("measure", library=Path("x.so")) is None
    assert places("profile", command=["./app"], import_=None) is None
    assert places("profile", command=[], import_=Path("perf.data"), output=None) is not None
    assert places("simulate", process=True) is None
    assert places("accel run", driver="lib.so") is None
    assert places("explore", workers="tls://farm:8786") is None
    assert places("explore", workers="2") == []
    monkeypatch.setenv("MAVCG_SANDBOX", "off")
    assert places("inspect") is None


def test_further_folders_and_wrong_values(places: Places, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_SANDBOX_FOLDERS", f"{here}:/dev")
    assert places("inspect") == [f"{here}", "/dev"]
    monkeypatch.setenv("MAVCG_SANDBOX", "perhaps")
    with pytest.raises(MavcgError, match="MAVCG_SANDBOX=perhaps: is not a mode; set on, require or off"):
        places("inspect")
    monkeypatch.setenv("MAVCG_SANDBOX", "require")
    monkeypatch.setattr(confinement, "missing_parts", lambda: ["Landlock"])
    with pytest.raises(MavcgError, match="MAVCG_SANDBOX=require: this system has no Landlock; set on to do without"):
        places("inspect")


def test_seconds_of_cpu_end_a_verb(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that uses more seconds than its limit says so and ends with status 2, whatever it reads."""
    monkeypatch.setenv("MAVCG_CPU_SECONDS", "soon")
    with pytest.raises(MavcgError, match="MAVCG_CPU_SECONDS=soon: is not a number of seconds"):
        confine_verb("inspect", {})
    monkeypatch.setenv("MAVCG_CPU_SECONDS", "1")
    reads_for_ever = "\n".join(
        [
            "import sys",
            f"sys.path[:] = {sys.path!r}",
            "from mavcg.cli import confinement",
            "confinement.sandbox = lambda *_, **__: None",
            "confinement.confine_verb('inspect', {})",
            "while True: pass",
        ]
    )
    ended = subprocess.run([sys.executable, "-I", "-c", reads_for_ever], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == "mavcg: the command takes more than 1 seconds of CPU; MAVCG_CPU_SECONDS allows more\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home outside of the temporary folder and of the current one."""
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "home"


def test_a_reader_that_is_taken_over_does_no_harm(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The importer of models is one; the command line confines it before it reads the first byte."""
    from mavcg.model import reading

    Path("net.onnx").write_bytes(b"hostile")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def taken_over(*arguments: object, **options: object) -> object:
            raise MavcgError(json.dumps(hostile(home, listener.getsockname()[1])))

        monkeypatch.setattr(reading, "import_model", taken_over)

        def work() -> tuple[int, str]:
            caught: list[str] = []
            monkeypatch.setattr("mavcg.cli.app.say_error", lambda error: caught.append(str(error)))
            return run(["build", "net.onnx", "--target", "x86_64-linux-gnu"], confine_verb), caught[0]

        assert in_confined_child(work) == (2, "net.onnx: []")
        assert list(home.glob(".[bp]*")) == []
        monkeypatch.setenv("MAVCG_SANDBOX", "off")
        status, managed = in_confined_child(work)
        assert len(json.loads(managed.partition(": ")[2])) == 3, "the test does no harm without the sandbox"


@pytest.mark.long
def test_no_verb_has_threads_before_it_is_confined() -> None:
    """A verb whose module imports NumPy would have OpenBLAS's threads, and would be refused."""
    script = "\n".join(
        [
            "import os",
            "from mavcg.cli.app import _command",
            "from mavcg.cli.verbs import VERBS",
            "for verb in VERBS:",
            "    _command(verb)",
            "    print(verb, len(os.listdir('/proc/self/task')))",
        ]
    )
    done = subprocess.run(python_command(script), capture_output=True, text=True, check=True)
    assert {line.rpartition(" ")[2] for line in done.stdout.splitlines()} == {"1"}, done.stdout


HOOK = """
import json, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.mavcg.cli.taken_over import hostile
log, busy, inputs = os.open({log!r}, os.O_WRONLY | os.O_APPEND), [], {inputs!r}
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and not busy:
        name = os.path.realpath(os.fsdecode(arguments[0]))
        if name in inputs and not (arguments[1] or "r").strip("rbt"):
            busy.append(1)
            managed = hostile(Path({home!r}), {port})
            os.write(log, (json.dumps([sys.argv[1:], os.path.basename(name), managed]) + "\\n").encode())
sys.addaudithook(hook)
from mavcg.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.mark.long
def test_every_verb_that_reads_a_file_is_confined_when_it_opens_it(home: Path) -> None:
    """The examples of each command's help, in processes of their own, taken over where they open the first input.

    Which verbs read is not listed here: an audit hook sees it. None of them gets anything done.
    """
    if missing_parts():
        pytest.skip(f"this system has no {', '.join(missing_parts())}")
    work = Path.cwd()
    lay_out(work)
    for planted in work.glob("*.py"):
        planted.unlink()
    log = home.parent / "log"
    log.write_text("")
    read: dict[tuple[str, ...], list[str]] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(2):  # some examples read what others write
            for verb, command in commands_by_name().items():
                for words in examples_of(command) if " ".join(verb) not in FREE else []:
                    inputs = [str(path) for path in work.iterdir() if path.is_file()]
                    if verb in read or not any(str(work / word) in inputs for word in words):
                        continue
                    status, err = taken_over(home, log, inputs, listener.getsockname()[1], words)
                    assert "Permission denied" not in err, (words, err)
                    if lines := log.read_text().splitlines():
                        read[verb] = json.loads(lines[0])[2]
                        log.write_text("")
            for pattern, names in (("*.elf", ("resnet50.elf", "a.elf")), ("lib*.so", ("libapp.so", "libhot.so"))):
                for name in names if (made := sorted(work.glob(pattern))) else ():
                    (work / name).write_bytes(made[0].read_bytes())
    assert {verb: managed for verb, managed in read.items() if managed} == {}
    least = "accel build, accel fuse, accel simulate, build, estimate, inspect, memory, plan, select, tune-asm"
    assert {" ".join(verb) for verb in read} >= set(least.split(", ")), sorted(read)


def taken_over(home: Path, log: Path, inputs: list[str], port: int, words: list[str]) -> tuple[int, str]:
    """Run a command that is taken over where it opens one of the inputs; returns its status and standard error."""
    script = home.parent / "mavcg.py"
    facts = {"root": str(Path(__file__).parents[3]), "log": str(log), "inputs": inputs, "home": str(home)}
    script.write_text(HOOK.format(**facts, port=port))
    environment = {**os.environ, "TMPDIR": str(home.parent / "temporary")}
    ended = subprocess.run([sys.executable, str(script), *words], env=environment, capture_output=True, text=True)
    return ended.returncode, ended.stderr
