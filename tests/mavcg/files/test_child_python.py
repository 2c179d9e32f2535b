"""Child Pythons run nothing from the folder that the user stands in."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mavcg.files.child_python import python_command

ROOT = Path(__file__).parents[3]
PARTS = ("mavcg", "kernels", "passes", "profiles", "runtime")
# Modules that children import first, the interpreter's own habits included.
PLANTED = (
    "pickle",
    "numpy",
    "networkx",
    "llvmlite",
    "typing",
    "re",
    "sitecustomize",
    "usercustomize",
    "mavcg",
    "multiprocessing",
    "selectors",
    "json",
    "struct",
    "distributed",
    "dask",
    "tornado",
    "onnx",
    "cffi",
    "signal",
)
KERNEL = "float f(const float *a, int n) { float s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder of modules that leave a mark when they are executed."""
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r})\n")
    return tmp_path


@pytest.fixture
def script(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command `mavcg` as pip writes it: Python with the script's folder, not the current one, before its own."""
    path = tmp_path_factory.mktemp("bin") / "mavcg"
    path.write_text("import sys\nfrom mavcg.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n")
    return [sys.executable, str(path)]


def output(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_child_imports_nothing_from_the_current_folder(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    monkeypatch.setattr(sys, "path", ["", str(trap), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(trap))

    output(python_command("import pickle, numpy, llvmlite, mavcg.assembly.tuning"), trap)

    assert not (trap / "executed").exists()


def test_arguments_reach_the_code() -> None:
    assert output(python_command("print(sys.argv[1:])", "a b", "-c"), Path()) == "['a b', '-c']"


def test_a_plain_checkout_gives_its_children_itself(tmp_path: Path) -> None:
    """As `python -m mavcg.cli` in a checkout: the package is in the current folder, and nowhere else."""
    (tmp_path / "mavcg").symlink_to(ROOT / "mavcg")
    (tmp_path / "networkx.py").write_text("raise SystemExit('executed')\n")
    inner = "import mavcg.passes.asm.tune as t; print(t.__file__)"
    code = f"import subprocess, mavcg.files.child_python as c; subprocess.run(c.python_command({inner!r}), check=True)"

    assert output([sys.executable, "-c", code], tmp_path) == str(tmp_path / "mavcg/passes/asm/tune.py")


@pytest.mark.long
def test_a_build_with_two_tuning_processes_executes_nothing_planted(trap: Path, script: list[str]) -> None:
    (trap / "k.c").write_text(KERNEL)
    build = ["build", "--source", "k.c", "--hot", "f", "--cores", "cortex-a55,cortex-a53", "--jobs", "2"]
    build += ["-o", "libk.so"]

    done = subprocess.run(
        [*script, *build],
        cwd=trap,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "MAVCG_CACHE": "off"},
    )

    assert done.returncode == 0, done.stderr
    assert (trap / "libk.so").exists() and not (trap / "executed").exists()


@pytest.mark.long
def test_a_build_for_two_boards_executes_nothing_planted(trap: Path, tiny_onnx: Path, script: list[str]) -> None:
    """To the letter: mavcg build A.onnx B.onnx --boards exynos9820,rk3588 -o out, beside a planted pickle.py."""
    for name in ("A.onnx", "B.onnx"):
        (trap / name).write_bytes(tiny_onnx.read_bytes())

    build = ["build", "A.onnx", "B.onnx", "--boards", "exynos9820,rk3588", "-o", "out"]
    done = subprocess.run(
        [*script, *build],
        cwd=trap,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "MAVCG_CACHE": str(trap / "cache")},
    )

    assert done.returncode == 0, done.stderr
    assert len(list((trap / "out").rglob("lib*.so"))) == 4 and not (trap / "executed").exists()


# What Python itself and the script import before mavcg's first line runs: the user has named the folder by then.
FIRST = {"typing", "re", "sitecustomize", "usercustomize", "mavcg", "struct", "signal"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["an empty entry of PYTHONPATH", "python -m"])
def test_a_current_folder_on_the_path_is_left(how: str, trap: Path, script: list[str], tiny_onnx: Path) -> None:
    for name in FIRST:
        (trap / f"{name}.py").unlink(missing_ok=True)
    (trap / "A.onnx").write_bytes(tiny_onnx.read_bytes())
    if how == "python -m":
        script = [sys.executable, "-m", "mavcg.cli"]
    variables = {"PYTHONPATH": f":{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "MAVCG_CACHE": "off"}

    done = subprocess.run(
        [*script, "build", "A.onnx", "--cores", "cortex-a55", "-o", "liba.so"],
        cwd=trap,
        capture_output=True,
        text=True,
        env=variables,
    )

    assert done.returncode == 0, done.stderr
    assert (trap / "liba.so").exists() and not (trap / "executed").exists()


def test_the_audit_of_profiles_executes_nothing_planted(trap: Path, script: list[str]) -> None:
    output([*script, "cores", "check"], trap)

    assert not (trap / "executed").exists()


def test_ir_is_read_by_a_child_that_executes_nothing_planted(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mavcg.program.sources.load_ir import load_ir

    monkeypatch.chdir(trap)
    (trap / "k.ll").write_text("define i32 @f() {\n  ret i32 1\n}\n")

    assert "define i32 @f()" in load_ir(Path("k.ll")).text
    assert not (trap / "executed").exists()


def test_nobody_else_starts_python() -> None:
    """One function knows how: nobody else in the package names the interpreter or runs a module by `-m`.

    forked_worker forks, which starts no interpreter; who waits for its pipes starts nothing.
    """
    starts = re.compile(
        r"sys\.executable|\"-m\", *\"\w|multiprocessing(?!\.connection)|ProcessPoolExecutor|LocalCluster|Nanny"
    )
    paths = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    users = {str(path.relative_to(ROOT)) for path in paths if starts.search(path.read_text())}

    allowed = {"child_python", "forked_worker"}
    assert (
        users - {*(f"mavcg/files/{name}.py" for name in allowed), "mavcg/program/sources/compile_commands.py"} == set()
    )
