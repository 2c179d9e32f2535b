"""The `mavcg profile` command as a script sees it: stdout, stderr, exit codes."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from mavcg.cli.profile import profile
from mavcg.errors import MavcgError

SCRIPT = """\
label_image 1 [000] 1.0: 60 cycles: 10 _ZN2nn4reluEPfi+0x4 (/data/l.so)
label_image 1 [006] 1.1: 30 cycles: 10 _ZN2nn4gemmEPfi+0x4 (/data/l.so)
label_image 1 [006] 1.2: 10 cycles: ff do_syscall_64 ([kernel.kallsyms])
"""
# A program that prints, works long enough to be sampled, and fails.
BUSY = "import sys, time\nprint('from the program')\nwhile time.process_time() < 0.3: pass\nsys.exit(4)"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile of a command is kept in the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """perf script text by hand, of two CPUs."""
    path = tmp_path / "perf-script.txt"
    path.write_text(SCRIPT)
    return path


def run(*arguments: str | Path) -> Result:
    """The command alone in an application."""
    app = typer.Typer()
    app.command()(profile)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ranking(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.exception
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def test_json_is_the_interface_that_scripts_rely_on(script: Path) -> None:
    document = ranking(run("--import", script, "--json"))
    assert document["functions"] == [
        {
            "symbol": "_ZN2nn4reluEPfi",
            "demangled": "nn::relu(float*, int)",
            "object": "/data/l.so",
            "samples": 60.0,
            "share": 0.6,
            "share_by_core": {},
            "clonable": True,
            "why_not": "",
        },
        {
            "symbol": "_ZN2nn4gemmEPfi",
            "demangled": "nn::gemm(float*, int)",
            "object": "/data/l.so",
            "samples": 30.0,
            "share": 0.3,
            "share_by_core": {},
            "clonable": True,
            "why_not": "",
        },
        {
            "symbol": "do_syscall_64",
            "demangled": "do_syscall_64",
            "object": "[kernel.kallsyms]",
            "samples": 10.0,
            "share": 0.1,
            "share_by_core": {},
            "clonable": False,
            "why_not": "kernel code",
        },
    ]
    assert (document["kind"], document["event"], document["total"]) == ("samples", "cycles", 100.0)


def test_table_marks_what_is_over_the_threshold(script: Path) -> None:
    shown = run("--import", script, "--threshold", "40", "--top", "2").stdout.splitlines()
    assert shown[1].split()[:4] == ["60.0", "%", "clone", "nn::relu"]
    assert shown[2].split()[:3] == ["30.0", "%", "nn::gemm"]
    assert "10.0 % in 1 more functions" in shown[3]
    assert "functions over 40 %, to get a version per core: 1" in shown[4]


def test_saved_profile_is_read_back(script: Path, tmp_path: Path) -> None:
    saved = tmp_path / "app.profile.json"
    first = ranking(run("--import", script, "--json", "-o", saved))
    assert ranking(run("--import", saved, "--json")) == first


def test_plot(script: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (mavcg[plots]) is not installed")
    assert run("--import", script, "--plot", tmp_path / "share.svg").exit_code == 0
    assert "nn::relu" in (tmp_path / "share.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "nothing to profile; give a command after --, as in mavcg profile -- ./app args"),
        (["--import", "SCRIPT", "--", "true"], "--import and a command exclude each other"),
        (["--import", "SCRIPT", "--call-graph"], "--call-graph with --import: has no effect on a recorded profile"),
        (["--import", "SCRIPT", "--threshold", "101"], "--threshold 101: is not a share in percent; give 0 to 100"),
        (["--import", "SCRIPT", "--threshold", "nan"], "--threshold nan: is not a share in percent"),
        (["--import", "SCRIPT", "-o", "/no/such/folder/x.json"], "x.json: cannot be written"),
        (["--import", "absent.txt"], "absent.txt: cannot be read: No such file or directory"),
        (["--with", "gprof", "--", "true"], "--with gprof: not a recorder; give one of perf, callgrind"),
        (["--with", "callgrind", "--event", "cycles", "--", "true"], "--with callgrind: counts every instruction"),
        (["--", "./no-such-program"], "./no-such-program: program not found"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_a_reason(script: Path, arguments: list[str], error: str) -> None:
    result = run(*(str(script) if argument == "SCRIPT" else argument for argument in arguments))
    assert isinstance(result.exception, MavcgError)
    assert error in str(result.exception) and result.stdout == ""


@pytest.fixture(scope="module")
def needs_perf() -> None:
    """perf, where it is installed and may record."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    tried = subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-o", os.devnull, "--", "true"], capture_output=True
    )
    if tried.returncode:
        pytest.skip("perf may not record here")


MAIN = "import sys, typer; from mavcg.cli.profile import profile; typer.run(profile)"


@pytest.mark.long
def test_the_programs_output_does_not_mix_with_the_json(needs_perf: None) -> None:
    command = [sys.executable, "-c", MAIN, "--json", "--frequency", "200", "--", sys.executable, "-c", BUSY]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["exit_status"] == 4 and document["records"] > 10
    assert "from the program" in done.stderr and "ended with exit status 4" in done.stderr


@pytest.mark.long
def test_the_programs_output_is_passed_through_for_people(needs_perf: None) -> None:
    command = [sys.executable, "-c", MAIN, "--frequency", "200", "--", sys.executable, "-c", BUSY]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("from the program\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names two x86 core types")
@pytest.mark.long
def test_shares_per_core_type_of_this_machine(needs_perf: None) -> None:
    cpu = min(os.sched_getaffinity(0))
    cpu_map = {"MAVCG_CPU_MAP": f"{cpu}=znver3,{cpu + 1}=skylake"}
    command = [sys.executable, "-c", MAIN, "--json", "--frequency", "200", "--"]
    pinned = ["taskset", "-c", str(cpu), sys.executable, "-c", BUSY]
    done = subprocess.run([*command, *pinned], capture_output=True, text=True, env={**os.environ, **cpu_map})
    document = json.loads(done.stdout)
    assert document["board"] == "this machine"
    assert sum(f["share_by_core"].get("znver3", 0.0) for f in document["functions"]) == pytest.approx(1)


def toml(folder: Path, text: str) -> Path:
    path = folder / "mavcg.toml"
    path.write_text(text)
    return path


@pytest.mark.long
def test_without_a_command_the_files_own_is_built_and_run(perf: str, tmp_path: Path) -> None:
    (tmp_path / "busy.sh").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{BUSY}"\n')
    toml(
        tmp_path,
        '[profile]\nbuild = ["chmod", "-v", "+x", "busy.sh"]\ncommand = ["./busy.sh"]\nfrequency = 200\n'
        'board = "host"\n[build]\nthreshold = 99\n',
    )
    command = [sys.executable, "-c", MAIN]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["profile"] == "mavcg-profile.json" and document["command"] == "./busy.sh"
    assert document["board"] == "host" and document["exit_status"] == 4
    assert "busy.sh" in done.stderr.partition("from the program")[0]  # what chmod -v says
    kept = ranking(run("--import", tmp_path / "mavcg-profile.json", "--json"))
    assert kept["functions"] == document["functions"] and "profile" not in kept

    for_people = subprocess.run(command, capture_output=True, text=True)
    assert "over 99 %" in for_people.stdout and for_people.stderr.endswith("mavcg: wrote mavcg-profile.json\n")


@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
def test_callgrind_in_the_place_of_the_file_s_perf(tmp_path: Path) -> None:
    toml(tmp_path, '[profile]\ncommand = ["true"]\nfrequency = 200\nevent = "cycles"\noutput = "made/here/p.json"\n')
    document = ranking(run("--with", "callgrind", "--json"))
    assert document["kind"] == "instructions" and document["profile"] == "made/here/p.json"
    assert (tmp_path / "made" / "here" / "p.json").is_file()


@pytest.mark.long
def test_a_command_that_is_given_is_kept_where_the_file_says(perf: str, tmp_path: Path) -> None:
    config = toml(tmp_path, '[profile]\noutput = "kept.json"\n')
    (tmp_path / "sub").mkdir()
    words = ["--json", "--frequency", "200", "--config", str(config), "--", "./here"]
    (tmp_path / "sub" / "here").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{BUSY}"\n')
    (tmp_path / "sub" / "here").chmod(0o755)
    done = subprocess.run([sys.executable, "-c", MAIN, *words], cwd=tmp_path / "sub", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["profile"] == str(tmp_path / "kept.json")
    assert (tmp_path / "kept.json").is_file() and not list((tmp_path / "sub").glob("*.json"))


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, [], "or write a mavcg.toml that names the command (`mavcg init` does)"),
        ("", [], "mavcg.toml: profile.command is missing; add [profile] with command"),
        ("[profile]\ncommand = ['./absent']", [], "mavcg.toml: profile.command: ./absent: program not found"),
        ("[profile]\ncommand = ['true']\nrecorder = 'gprof'", [], "mavcg.toml: profile.recorder gprof: not a recorder"),
        ("[profile]\ncommand = ['true']\nbuild = ['false']", [], "profile.build = false: ended with exit status 1"),
        ("[profile]\ncommand = ['true']\nboard = 'nosuch'", [], "mavcg.toml: profile.board nosuch: no such board"),
        ("[profile]\ncommand = ['true']\nfrequency = 0", [], "mavcg.toml: profile.frequency = 0: give 1 or more"),
        (
            "[profile]\ncommand = ['true']\noutput = 'mavcg.toml'",
            [],
            "mavcg.toml: is not a profile that `mavcg profile`",
        ),
        ("[profile]\ncommand = 'true'", ["--", "./x"], 'profile.command: "true" is not a list of strings'),
        ("", ["--import", "x", "--config", "mavcg.toml"], "--import and --config exclude each other"),
    ],
)
def test_faults_of_the_file(tmp_path: Path, text: str | None, arguments: list[str], message: str) -> None:
    if text is not None:
        toml(tmp_path, text)
    result = run(*arguments)
    assert isinstance(result.exception, MavcgError), result.exception
    assert message in str(result.exception)
    assert not (tmp_path / "mavcg-profile.json").exists()


def test_where_nothing_is_to_be_profiled_the_document_is_empty(tmp_path: Path) -> None:
    toml(tmp_path, '[[model]]\nfile = "a.onnx"\n')
    result = run("--json")
    assert result.exit_code == 0 and "it names models only" in result.stderr
    document = json.loads(result.stdout)
    assert document["functions"] == [] and document["command"] is None


def test_this_machine_is_a_board(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = "znver3" if platform.machine() == "x86_64" else "cortex-a76"
    monkeypatch.setenv("MAVCG_CPU_MAP", f"0-4095={core}")
    text = script.read_text().replace("[006]", "[000]")
    script.write_text(text)
    document = ranking(run("--import", script, "--board", "host", "--json"))
    assert document["board"] == "host"
    assert [f["share_by_core"] for f in document["functions"]] == [{core: 0.6}, {core: 0.3}, {core: 0.1}]


def test_importing_the_command_imports_nothing_heavy() -> None:
    heavy = (
        "import sys, mavcg.cli.profile; print([m for m in ('pandas', 'matplotlib', 'elftools') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_classes_of_two_networks_as_json_and_chart(tmp_path: Path) -> None:
    for name, gemm in (("small", 60), ("large", 90)):
        (tmp_path / f"{name}.txt").write_text(
            f"app 1 [000] 1.0: {gemm} cycles: 10 conv2d_f32_nhwc_1x14x14x64_ca79a197.generic+0x4 (/d/libn.so)\n"
            f"app 1 [000] 1.1: {100 - gemm} cycles: 10 softmax_f32_1x1000_0a1b2c3d.generic+0x4 (/d/libn.so)\n"
            "app 1 [000] 1.2: 300 cycles: 10 main+0x4 (/d/app)\n"
        )
    both = ("--classes", "--import", tmp_path / "small.txt", "--import", tmp_path / "large.txt")
    document = ranking(run(*both, "--of", "libn.so", "--json", "--plot", tmp_path / "shares.svg"))
    assert [row["label"] for row in document["classes"]] == ["small", "large"]
    assert [row["shares"]["GEMM/conv"] for row in document["classes"]] == [0.6, 0.9]
    assert document["gemm_mean"] == pytest.approx(0.75) and document["classified_by"] == "names"
    assert {f["classified_by"] for row in document["classes"] for f in row["functions"]} == {"name"}
    assert "by code: share of functions classed by their machine code" in run(*both).stdout
    assert "normalisation, softmax" in (tmp_path / "shares.svg").read_text()
    assert ranking(run(*both, "--json"))["classes"][0]["shares"]["other"] == 0.75


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--of", "libn.so"), "--of libn.so: is for --classes"),
        (("--import", "b.txt"), "--import b.txt: a ranking is of one profile"),
        (("--classes", "--of", "absent.so"), "no samples in absent.so; there are some in \\[kernel.kallsyms\\], l.so"),
        (("--classes", "--import", "other/perf-script.txt"), "2 files have the name perf-script"),
    ],
)
def test_refusals_of_classes(script: Path, arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises(MavcgError, match=reason):
        raise run("--import", script, *arguments).exception or AssertionError("accepted")


def test_a_renamed_convolution_keeps_its_class(tmp_path: Path) -> None:
    source = (
        "void NAME(const float *x, const float *w, float *restrict y, int oc, int h, int b, int ic) {\n"
        "  for (int o = 0; o < oc; o++) for (int i = 0; i < h; i++) for (int j = 0; j < b; j++) { float s = 0;\n"
        "    for (int c = 0; c < ic; c++) for (int p = 0; p < 3; p++) for (int q = 0; q < 3; q++)\n"
        "      s += x[(c * (h + 2) + i + p) * (b + 2) + j + q] * w[((o * ic + c) * 3 + p) * 3 + q];\n"
        "    y[(o * h + i) * b + j] = s; } }\n"
    )
    for name, option in (("conv3x3", False), ("f1", False), ("f1", True)):
        made = tmp_path / name / "librenamed.so"
        made.parent.mkdir(exist_ok=True)
        (made.parent / "a.c").write_text(source.replace("NAME", name))
        command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-musl", "-mcpu=baseline", "-O2"]
        subprocess.run([*command, "-shared", "-nostdlib", str(made.parent / "a.c"), "-o", str(made)], check=True)
        recorded = "/board/librenamed.so" if option else made  # a file that is on the board only, or here
        profile = tmp_path / name / "perf.txt"
        profile.write_text(f"app 1 [000] 1.0: 60 cycles: 10 {name}+0x4 ({recorded})\n")
        binary = ("--binary", made) if option else ()
        document = ranking(run("--classes", "--import", profile, "--json", *binary))
        (function,) = document["classes"][0]["functions"]
        assert (function["function"], function["class"], function["classified_by"]) == (name, "GEMM/conv", "code")
        assert document["classified_by"] == "code" and document["classes"][0]["shares"]["GEMM/conv"] == 1
        assert "100.0 %" in run("--classes", "--import", profile, *binary).stdout
