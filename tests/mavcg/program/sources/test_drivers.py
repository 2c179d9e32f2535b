"""Compilers that a compile_commands.json names: known ones are run, others only when the user allows them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.drivers import checked_drivers, parse_query_drivers


def unit(folder: Path, *compiler: str) -> CompileUnit:
    return CompileUnit(folder / "x.c", folder, (*compiler, "-c", "x.c"), folder / "x.o", "c")


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of PATH with programs of many names; the current folder has the same, and is in PATH as `.`."""
    for folder in (tmp_path / "bin", tmp_path / "here"):
        folder.mkdir()
        for name in ("gcc", "aarch64-linux-gnu-g++-12", "clang++-19", "armv8a-linux-androideabi21-clang", "evil"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:.")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "only-here-in-gcc").touch(0o755)
    (tmp_path / "here" / "clang").touch(0o755)
    return tmp_path / "bin"


@pytest.mark.parametrize("name", ["gcc", "aarch64-linux-gnu-g++-12", "clang++-19", "armv8a-linux-androideabi21-clang"])
def test_known_compilers_of_path_are_run_by_their_full_paths(bin_folder: Path, tmp_path: Path, name: str) -> None:
    (named,) = checked_drivers([unit(tmp_path, name)], ())
    assert named.compiler == (str(bin_folder / name),) and named.flags == ("-c", "x.c")
    assert checked_drivers([unit(tmp_path, str(bin_folder / name))], ()) == (named,)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("evil", "evil is not the name of a known compiler"),
        ("/bin/sh", "sh is not the name of a known compiler"),
        ("./gcc", "is not a folder of the system or of PATH"),
        ("here/gcc", "is not a folder of the system or of PATH"),
        ("/usr/bin/../../{tmp}/here/gcc", "is not a folder of the system or of PATH"),
        ("clang", "./clang is found by a relative folder of PATH"),
    ],
)
def test_others_are_refused_with_the_way_out(bin_folder: Path, tmp_path: Path, word: str, reason: str) -> None:
    with pytest.raises(MavcgError) as error:
        checked_drivers([unit(tmp_path, word.format(tmp=str(tmp_path).lstrip("/")))], ())
    assert str(error.value).startswith(f"{tmp_path}/x.c: its compile command names the compiler")
    assert reason in str(error.value) and "--query-driver '" in str(error.value)


@pytest.mark.parametrize("glob", ["{tmp}/here/*", "{tmp}/**", "**/gcc", "/none/*,{tmp}/h?re/gcc", "{tmp}/here/gcc"])
def test_the_user_allows_by_globs(bin_folder: Path, tmp_path: Path, glob: str) -> None:
    allowed = parse_query_drivers([glob.format(tmp=tmp_path)])
    assert checked_drivers([unit(tmp_path / "here", "./gcc")], allowed)[0].compiler == (str(tmp_path / "here/gcc"),)


@pytest.mark.parametrize("glob", ["{tmp}/*", "{tmp}/here/gc", "{tmp}/here/gcc?"])
def test_a_glob_means_no_more_than_it_says(bin_folder: Path, tmp_path: Path, glob: str) -> None:
    with pytest.raises(MavcgError, match="which is not run"):
        checked_drivers([unit(tmp_path / "here", "./gcc")], parse_query_drivers([glob.format(tmp=tmp_path)]))


def test_a_relative_glob_is_refused() -> None:
    with pytest.raises(MavcgError, match="--query-driver 'gcc': is not an absolute path"):
        parse_query_drivers(["/x/*,gcc"])


def test_zig_is_never_run_so_it_may_lie_anywhere(tmp_path: Path) -> None:
    for words in (("/x/zig", "cc"), ("/x/python", "-m", "ziglang", "c++")):
        assert checked_drivers([unit(tmp_path, *words)], ()) == (unit(tmp_path, *words),)


def snapshot(folder: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture
def hostile(tmp_path: Path, here: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Writes a compile_commands.json with one command, builds with it; says what was run and written."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "dot.c").write_text(
        "int dot(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s; }\n"
    )
    program = project / "evil"
    program.write_text(f'#!/bin/sh\ntouch {project}/was-run\nexec /usr/bin/gcc "$@"\n')
    program.chmod(0o755)
    (project / "cc1").write_text(program.read_text())
    (project / "cc1").chmod(0o755)
    (project / "gcc").symlink_to(program)

    def build(*words: str, more: tuple[str, ...] = ()) -> tuple[int, str, set[str]]:
        from mavcg.cli.app import run

        entry = {"directory": str(project), "file": "dot.c", "arguments": [*words, "-c", "dot.c"]}
        (project / "compile_commands.json").write_text(json.dumps([entry]))
        output = tmp_path_factory.mktemp("out") / "libdot.so"
        before = snapshot(here)
        status = run(
            [
                "build",
                "--compile-commands",
                str(project / "compile_commands.json"),
                "--hot",
                "dot",
                "--cores",
                "haswell",
                "--target",
                "x86_64-linux-gnu.2.17",
                "-o",
                str(output),
                "--json",
                *more,
            ]
        )
        after = snapshot(here)
        changed = {name for name in after if after[name] != before.get(name) and not os.path.isdir(name)}
        return status, output.name if output.exists() else "", changed

    return build


@pytest.mark.parametrize("word", ["{project}/evil", "./evil", "./gcc", "{project}/gcc", "sh", "/bin/sh", "evil"])
def test_a_hostile_compiler_word_is_not_run(
    hostile: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    status, _, changed = hostile(word.format(project=tmp_path / "project"))
    if word == "evil":  # nothing of that name is in PATH: nothing to run
        assert not changed
        return
    assert status == 2 and not changed
    assert "is not run to query its headers" in capsys.readouterr().err


def test_an_allowed_one_is_run(hostile: Any, tmp_path: Path, gcc: object) -> None:
    status, made, changed = hostile("./evil", more=("--query-driver", f"{tmp_path}/project/*"))
    assert (status, made) == (0, "libdot.so") and changed == {f"{tmp_path}/project/was-run"}


WRITES = """
-foptimization-record-file=P/a.yaml -fsave-optimization-record -Xclang -dependency-file -Xclang P/b.d -save-temps
-save-temps=obj --save-temps -fcrash-diagnostics-dir=P/c -ftime-trace=P/d.json -ftime-trace -fprofile-generate=P/e
-fprofile-instr-generate=P/f --coverage -fcoverage-mapping -MD -MF P/g.d -MMD --serialize-diagnostics P/h.dia
-serialize-diagnostics P/h2.dia -o P/i.o -fplugin=P/evil.so -fpass-plugin=P/evil.so -Xclang -load -Xclang P/evil.so
-BP -B P -wrapper P/evil -specs=P/specs --specs=P/specs -Wp,-MD,P/j.d -Wp,-MMD,P/k.d -Xpreprocessor -MD
-Xpreprocessor -MF -Xpreprocessor P/l.d -fproc-stat-report=P/m.csv -fmodules -fmodules-cache-path=P/n
-fimplicit-modules --config=P/config -dumpdir P/ -aux-info P/o.X -MJ P/p.json -gsplit-dwarf
-fstack-usage -mllvm -pass-remarks-output=P/q.yaml -mllvm -stats -Xarch_host -ftime-trace=P/r
-fdump-tree-all=P/t -fopt-info-all=P/u -fcallgraph-info=su -fdeps-file=P/w
-working-directory P/sub -gen-reproducer=always -fbuild-session-file=P/evil -Xclang -header-include-file
-Xclang P/x -Xclang -diagnostic-log-file -Xclang P/y -Xclang -stats-file=P/z -save-stats=cwd -include-pch P/pch
-fuse-ld=P/evil -thinlto-index=P/1 -fthinlto-index=P/1 -Xassembler
-MD -Wa,-MD,P/2.d -Wa,-a=P/3 -Xanalyzer -o -Xlinker -Map=P/4 -Wl,-Map=P/5 -fanalyzer
""".split()


def test_options_that_write_files_or_run_code_do_neither(
    hostile: Any, tmp_path: Path, gcc: object, capsys: pytest.CaptureFixture[str]
) -> None:
    project = str(tmp_path / "project")
    words = [word.replace("P", project) if "P" in word else word for word in WRITES]
    (tmp_path / "words").write_text(" ".join(words))
    for command in (words, [f"@{tmp_path}/words"]):
        status, made, changed = hostile("gcc", "-O2", *command)
        assert (status, made, changed) == (0, "libdot.so", set())
        report = "\n".join(json.loads(capsys.readouterr().out)["notes"])
        for said in (
            f"-foptimization-record-file={project}/a.yaml left out: it writes files",
            "-Xclang -dependency-file",
            f"-fplugin={project}/evil.so left out",
            "-Xclang -load left out: it runs code",
            "-mllvm left out",
            f"-fpass-plugin={project}/evil.so left out: it runs code",
            f"-fproc-stat-report={project}/m.csv left out",
            f"--config={project}/config left out",
            f"-fcrash-diagnostics-dir={project}/c left out: it writes files",
        ):
            assert said in report, said


@pytest.mark.parametrize(
    "words", ["--config P", "-index-store-path P/s", "-module-dependency-dir P/v", "-filelist P", "-Xopenmp-target P/x"]
)
def test_values_of_unknown_options_are_inputs_so_the_entry_is_no_unit(
    hostile: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    status, _, changed = hostile("gcc", *words.replace("P", f"{tmp_path}/project").split())
    assert status == 2 and not changed and "no input defines" in capsys.readouterr().err


@pytest.mark.parametrize("special", ["/dev/zero", "pipe", "."])
def test_a_response_file_that_never_ends_is_refused(
    hostile: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], special: str
) -> None:
    os.mkfifo(tmp_path / "project/pipe")
    status, _, changed = hostile("gcc", f"@{special}")
    assert status == 2 and not changed and "is not a file" in capsys.readouterr().err
