"""`mavcg measure`: what is counted and concluded, with a perf whose samples are known, and once with the real one."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.cli.app import run
from mavcg.objects.inspection import inspect_library
from mavcg.program.measure_versions import measurable_groups
from mavcg.program.measurements import load_measurements, read_measurements
from mavcg.program.perf_runs import CpuGroup, describe_machine
from mavcg.program.version_symbols import VersionedLibrary, read_library
from mavcg.runtime.binding import DetectedCpu
from mavcg.toolchain.target import host_target

# Samples by what the library is told that the CPUs are; "TOLD" in a symbol is that label. Each run takes the next list.
FAKE_PERF = """#!{python}
import json, os, struct, sys
here = {folder!r}
plan = json.load(open(here + "/plan.json"))
if sys.argv[1] == "record":
    out, command = sys.argv[sys.argv.index("-o") + 1], sys.argv[sys.argv.index("--") + 1:]
    if command == ["true"]:
        if plan.get("refuse"):
            print(plan["refuse"], file=sys.stderr)
        sys.exit(1 if plan.get("refuse") else 0)
    told = os.environ["MAVCG_CPU_MAP"].removeprefix("*=")
    with open(here + "/runs", "a") as runs:
        runs.write(json.dumps([told, sorted(os.sched_getaffinity(0))]) + "\\n")
    number = sum(json.loads(line)[0] == told for line in open(here + "/runs")) - 1
    if number == 0 and told == "generic":
        number = 1  # the run that warms up
    lists = plan["samples"][told]
    body = json.dumps([told, lists[(number - (told == "generic")) % len(lists)]]).encode()
    head = b"PERFILE2" + struct.pack("<Q", 104) + b"\\0" * 24 + struct.pack("<QQ", 104, len(body))
    open(out, "wb").write(head.ljust(104, b"\\0") + body)
    print("from the program") if plan.get("prints") else None
    sys.exit(plan.get("exit", 0))
told, samples = json.loads(open(sys.argv[-1], "rb").read()[104:])
for symbol, count in samples.items():
    for _ in range(count):
        name = symbol.replace("TOLD", told)
        print(f"app 1 [000] 1.0: 1000 cycles: 10 {{name}}+0x4 (/app)")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    """A library with versions of dot and of a static function, twice, for two cores."""
    folder = tmp_path_factory.mktemp("library")
    body = "int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s;"
    dot = f"int NAME(const short *a, const short *b, int n) {{ {body} }}\n"
    inner = "static __attribute__((noinline)) " + dot.replace("NAME", "inner")
    use = "int outerN(const short *a, int n) { return inner(a, a, n) + inner(a + 1, a, n); }\n"
    (folder / "a.c").write_text(dot.replace("NAME", "dot") + inner + use.replace("N", "_a"))
    (folder / "b.c").write_text(inner + use.replace("N", "_b"))
    out = folder / "lib.so"
    arguments = ["build", "--source", str(folder / "a.c"), "--source", str(folder / "b.c"), "--hot", "dot,inner"]
    assert run([*arguments, "--cores", ",".join(cores), "-o", str(out)]) == 0
    return out


@pytest.fixture
def fake_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """fake_perf(samples, ...): a perf that hands out these samples, in front of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "perf").write_text(FAKE_PERF.format(python=sys.executable, folder=str(folder)))
    (folder / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def fake(samples: dict[str, list[dict[str, int]]], **more: Any) -> None:
        (folder / "plan.json").write_text(json.dumps({"samples": samples, **more}))

    return fake


def runs_of(tmp_path: Path) -> list[tuple[str, list[int]]]:
    return [tuple(json.loads(line)) for line in (tmp_path / "bin/runs").read_text().splitlines()]


@pytest.fixture
def as_cores(monkeypatch: pytest.MonkeyPatch, cores: tuple[str, str]) -> Callable[..., None]:
    """as_cores(0 or 1, ..): this machine's CPUs are of these of the two cores, all of them of the last."""

    def name(*which: int) -> None:
        allowed = sorted(os.sched_getaffinity(0))
        if len(which) > len(allowed):
            pytest.skip(f"needs {len(which)} CPUs")
        entries = [f"{cpu}={cores[w]}" for cpu, w in zip(allowed, which, strict=False)]
        monkeypatch.setenv("MAVCG_CPU_MAP", ",".join([*entries, f"*={cores[which[-1]]}"]))

    return name


def findings(ended: Any) -> dict[tuple[str, str], dict[str, Any]]:
    assert ended.status == 0, ended.stderr
    return {(f["name"], f["core"]): f for f in json.loads(ended.stdout)["functions"]}


@pytest.mark.long
def test_gains_spread_and_verdicts(mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any) -> None:
    as_cores(0)
    tag = next(s for s in read_library(library).symbols if s.startswith("inner.")).split(".")[1]
    generic = [{"dot.TOLD": n, f"inner.{tag}.TOLD": 200, "main": 100} for n in (400, 500, 600)]
    own = [{"dot.TOLD": n, f"inner.{tag}.TOLD": 220, "main": 100} for n in (300, 400, 420)]
    fake_perf({"generic": generic, cores[0]: own})

    ended = mavcg("measure", library, "--runs", "3", "--json", "--", "sh", "-c", "true")

    verdicts = findings(ended)
    dot, inner = verdicts["dot", cores[0]], verdicts["inner", cores[0]]
    assert dot["gain"] == pytest.approx(1 - 400 / 500)
    assert dot["spread"] == pytest.approx([1 - 400 / 500, 1 - 420 / 600])
    assert dot["generic_share"] == pytest.approx(1500 / (1500 + 600 + 300))
    assert dot["samples"] == {"generic": 1500, "own": 1120}
    assert dot["generic"] == [400e3, 500e3, 600e3] and dot["own"] == [300e3, 400e3, 420e3]
    assert (dot["verdict"], inner["verdict"]) == ("keep", "drop")
    assert inner["gain"] == pytest.approx(-0.1)
    assert set(verdicts) == {("dot", cores[0]), ("inner", cores[0])}
    assert f"not measured, as this machine has none: {cores[1]}" in ended.stderr


def test_runs_are_pinned_and_interleaved(
    mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any, tmp_path: Path
) -> None:
    as_cores(0, 1)
    before, map_before = os.sched_getaffinity(0), os.environ["MAVCG_CPU_MAP"]
    fake_perf({label: [{"dot.TOLD": 200}] for label in ("generic", *cores)})

    assert mavcg("measure", library, "--runs", "2", "--", "true", "x").status == 0

    first, second = sorted(before)[:1], sorted(before)[1:]
    assert runs_of(tmp_path) == [
        ("generic", first),  # warms up
        ("generic", first),
        (cores[0], first),
        ("generic", second),
        (cores[1], second),
        (cores[0], first),
        ("generic", first),
        (cores[1], second),
        ("generic", second),
    ]
    assert os.sched_getaffinity(0) == before and os.environ["MAVCG_CPU_MAP"] == map_before


@pytest.mark.long
def test_too_few_samples_state_no_gain_and_say_so(
    mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any, tmp_path: Path
) -> None:
    as_cores(0)
    fake_perf({"generic": [{"dot.TOLD": 49}], cores[0]: [{"dot.TOLD": 20}]})

    out = tmp_path / "gains.json"
    ended = mavcg("measure", library, "--runs", "2", "-o", out, "--json", "--", "true", "x")

    dot = findings(ended)["dot", cores[0]]
    assert dot["gain"] is None and dot["spread"] is None and dot["verdict"] == "unknown"
    assert dot["why_not"] == f"98 samples as generic, 40 as {cores[0]}: 100 of each are needed"
    assert read_measurements(out) == {}


@pytest.mark.long
def test_another_version_than_the_one_told_is_no_measurement(
    mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any, tmp_path: Path
) -> None:
    as_cores(0)
    fake_perf({"generic": [{"dot.generic": 500}], cores[0]: [{"dot.generic": 400, "dot.TOLD": 100}]})

    ended = mavcg("measure", library, "--runs", "1", "-o", tmp_path / "g.json", "--", "true", "x")

    assert ended.status == 0 and load_measurements(tmp_path / "g.json") == ()
    assert f"no gain stated: set to run as {cores[0]}, it ran its version for generic" in " ".join(ended.stdout.split())


@pytest.mark.long
def test_a_file_is_updated_and_build_drops_by_it(
    mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any, tmp_path: Path
) -> None:
    gains, rebuilt = tmp_path / "gains.json", tmp_path / "rebuilt.so"
    for core, own in ((0, 400), (1, 999)):
        as_cores(core)
        fake_perf({"generic": [{"dot.TOLD": 1000}], cores[core]: [{"dot.TOLD": own}]})
        assert mavcg("measure", library, "--runs", "1", "-o", gains, "--", "true", "x").status == 0
    assert {k: round(g.fraction, 3) for k, g in read_measurements(gains).items()} == {
        ("dot", cores[0]): 0.6,
        ("dot", cores[1]): 0.001,
    }

    source = library.with_name("a.c")
    arguments = ["--source", source, "--hot", "dot", "--cores", ",".join(cores), "--measurements", gains]
    built = json.loads(mavcg("build", *arguments, "-o", rebuilt, "--json").stdout)

    versions = {v["core"]: v for v in built["functions"][0]["versions"]}
    assert versions[cores[0]]["dropped"] is None
    assert versions[cores[1]]["dropped"].startswith("+0.1% over generic (measured, 1 runs, ")
    assert [v["core"] for v in inspect_library(rebuilt).functions[0]["versions"]] == ["generic", cores[0]]


@pytest.mark.long
def test_min_gain_moves_the_verdict(mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any) -> None:
    as_cores(0)
    fake_perf({"generic": [{"dot.TOLD": 1000}], cores[0]: [{"dot.TOLD": 900}]})
    for percent, word in (("9", "keep"), ("11", "drop")):
        ended = mavcg("measure", library, "--runs", "1", "--min-gain", percent, "--json", "--", "true", "x")
        assert findings(ended)["dot", cores[0]]["verdict"] == word


def test_table_for_people(mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any) -> None:
    as_cores(0)
    fake_perf({"generic": [{"dot.TOLD": 600, "main": 400}], cores[0]: [{"dot.TOLD": 300, "main": 400}]}, prints=True)
    ended = mavcg("measure", library, "--runs", "1", "--", "true", "x")
    lines = ended.stdout.splitlines()
    assert "from the program" not in ended.stdout
    assert lines[0].split() == ["function", "core", "generic", "time", "gain", "least", "most", "noise", "samples"]
    assert lines[1].split()[0:2] == ["dot", cores[0]]
    assert lines[1].split()[3:] == ["60.0%", "+50.0%", "+50.0%", "+50.0%", "4.5%", "600,", "300", "keep"]


@pytest.mark.long
def test_a_program_that_fails_is_told(mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any) -> None:
    as_cores(0)
    fake_perf({"generic": [{"dot.TOLD": 600}], cores[0]: [{"dot.TOLD": 300}]}, exit=3)
    ended = mavcg("measure", library, "--runs", "1", "--", "sh", "x")
    assert ended.status == 0 and "sh ended with exit status 3; what it did up to there was measured" in ended.stderr


def test_none_of_the_versions_seen(mavcg: Any, library: Path, cores: Any, fake_perf: Any, as_cores: Any) -> None:
    as_cores(0)
    fake_perf({"generic": [{"main": 600}]}, exit=1)
    ended = mavcg("measure", library, "--", "true", "x")
    assert ended.status == 2 and ended.stdout == ""
    assert (
        "none of its versions was seen to run (true ended with exit status 1); give a command that loads"
        in ended.stderr
    )


def test_perf_that_may_not_sample(mavcg: Any, library: Path, fake_perf: Any, as_cores: Any) -> None:
    as_cores(0)
    fake_perf({}, refuse="Access to performance monitoring is limited: perf_event_paranoid")
    ended = mavcg("measure", library, "--", "true", "x")
    assert ended.status == 2 and "perf: not permitted to record" in ended.stderr
    assert "sysctl kernel.perf_event_paranoid=1" in ended.stderr


def test_no_perf(mavcg: Any, library: Path, as_cores: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    as_cores(0)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = mavcg("measure", library, "--", "/bin/sh", "x")
    assert ended.status == 2 and "perf: is not installed, and measuring gains needs it; install it" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["LIB"], "measure: no command is named; give one after --"),
        (["/bin/sh", "--", "true"], "holds no versions made by mavcg"),
        (["absent.so", "--", "true"], "absent.so: cannot be read"),
        (["LIB", "--", "./absent"], "./absent: program not found"),
        (["LIB", "-o", "/no/such/folder/g.json", "--", "true"], "the folder /no/such/folder does not exist"),
        (["LIB", "-o", "/bin/sh", "--", "true"], "/bin/sh: cannot be read (not UTF-8 text"),
        (["LIB", "--min-gain", "nan", "--", "true"], "--min-gain nan: is not a percentage"),
        (["LIB", "--runs", "0", "--", "true"], "Invalid value for '--runs'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_a_reason(
    mavcg: Any, library: Path, as_cores: Any, arguments: list[str], message: str
) -> None:
    as_cores(0)
    ended = mavcg("measure", *(str(library) if a == "LIB" else a for a in arguments))
    assert ended.status == 2 and ended.stdout == ""
    assert message in ended.stderr


def test_a_machine_without_the_librarys_cores(
    mavcg: Any, library: Path, cores: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAVCG_CPU_MAP", "*=generic")
    ended = mavcg("measure", library, "--", "true")
    assert ended.status == 2
    assert f"has versions for {cores[0]}, {cores[1]}, and this machine has none of them (CPU" in ended.stderr
    assert "generic); measure on a machine that has one" in ended.stderr


def test_a_bad_map_is_refused(mavcg: Any, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CPU_MAP", "0=pentium")
    ended = mavcg("measure", library, "--", "true")
    assert ended.status == 2 and "MAVCG_CPU_MAP: '0=pentium' names a core that is not known" in ended.stderr


def test_a_stripped_library_is_refused(mavcg: Any, library: Path, tmp_path: Path, run_program: Any) -> None:
    stripped = tmp_path / "stripped.so"
    if not shutil.which("strip"):
        pytest.skip("strip is not installed")
    assert run_program("strip", "-o", stripped, library).status == 0
    ended = mavcg("measure", stripped, "--", "true")
    assert ended.status == 2 and "its symbols are stripped" in ended.stderr


def test_symbols_of_static_functions_are_known_by_their_name(library: Path, cores: tuple[str, str]) -> None:
    known = read_library(library)
    labels = ("generic", *cores)
    assert {s for s, (f, _) in known.symbols.items() if f == "dot"} == {f"dot.{label}" for label in labels}
    inner = [s for s, (f, _) in known.symbols.items() if f == "inner"]
    assert len(inner) == 6 and len({s.split(".")[1] for s in inner}) == 2  # two modules, each with its tag


SHARED = VersionedLibrary(
    Path("lib.so"),
    {
        "f": [{"generic": "generic", "a": "generic", "b": "b", "c": "b"}],
        "g": [{"generic": "generic", "a": "generic"}, {"generic": "generic", "a": "a"}],
    },
    {},
    frozenset(),
)


def test_versions_that_share_generics_code_are_not_measured() -> None:
    assert SHARED.cores == ("a", "b", "c")
    assert SHARED.functions_for("a") == ("g",)
    assert SHARED.functions_for("b") == ("f",)
    assert SHARED.functions_for("d") == ()


def test_samples_of_shared_code_count_under_any_of_its_names() -> None:
    assert SHARED.same_code("f", "c") == {"b", "c"}
    assert SHARED.same_code("f", "generic") == {"generic", "a"}
    assert SHARED.same_code("g", "a") == {"generic", "a"}


def detected(*cores: str | None) -> Sequence[DetectedCpu]:
    return [DetectedCpu(cpu, core, "") for cpu, core in enumerate(cores)]


def test_places_are_the_allowed_cpus_of_the_librarys_cores() -> None:
    found = detected("b", "b", "c", None, "other", "a")
    assert measurable_groups(SHARED, found, frozenset(range(5))) == (CpuGroup("b", (0, 1)), CpuGroup("c", (2,)))


def test_cpus_that_may_not_be_used_are_told() -> None:
    from mavcg.errors import MavcgError

    with pytest.raises(MavcgError, match=r"none of them \(CPUs 0-1 b not allowed here; CPU 2 of no known core\)"):
        measurable_groups(SHARED, detected("b", "b", None), frozenset({2}))


def test_a_machine_is_described_by_board_cpus_clock_and_governor(tmp_path: Path) -> None:
    clock = tmp_path / "sys/devices/system/cpu/cpu4/cpufreq"
    clock.mkdir(parents=True)
    (clock / "scaling_max_freq").write_text("2314000\n")
    (clock / "scaling_governor").write_text("schedutil\n")
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_text("Some Board\0")
    assert describe_machine((4, 5), tmp_path) == "Some Board CPUs 4-5 up to 2314 MHz governor schedutil"
    assert describe_machine((0,), tmp_path) == "Some Board CPU 0"


@pytest.mark.long
def test_with_the_real_perf(
    mavcg: Any, perf: str, tmp_path: Path, run_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's own core against generic, on a product that its vector instructions speed up."""
    from mavcg.program.perf_runs import this_machine

    monkeypatch.delenv("MAVCG_CPU_MAP", raising=False)
    core = next((cpu.core for cpu in this_machine() if cpu.core), None)
    if core is None:
        pytest.skip("this machine's core is not one that mavcg knows")
    (tmp_path / "k.c").write_text(
        "void scale(int *restrict a, const int *restrict b, int n) {\n"
        "    for (int i = 0; i < n; i++) a[i] = a[i] * b[i] + 7;\n}\n"
    )
    (tmp_path / "app.c").write_text(
        "extern void scale(int *, const int *, int); static int a[4096], b[4096];\n"
        "int main(void) { for (int i = 0; i < 400000; i++) scale(a, b, 4096); return a[5] == 3; }\n"
    )
    library, app, out = tmp_path / "libk.so", tmp_path / "app", tmp_path / "gains.json"
    assert mavcg("build", "--source", tmp_path / "k.c", "--hot", "scale", "--cores", core, "-o", library).status == 0
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", host_target().zig_name, "-O1", "-fno-sanitize=all"]
    assert run_program(*zig, tmp_path / "app.c", library, "-o", app, LC_ALL="C").status == 0
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    ended = mavcg("measure", library, "--runs", "1", "-o", out, "--json", "--", app)

    verdict = findings(ended)["scale", core]
    assert verdict["why_not"] == "" and verdict["generic_share"] > 0.5
    assert verdict["verdict"] == ("drop" if verdict["gain"] < 0.01 else "keep")
    assert read_measurements(out)["scale", core].fraction == pytest.approx(verdict["gain"])
    if core.startswith("znver") or "lake" in core or core in ("haswell", "broadwell"):
        assert verdict["gain"] > 0.2  # SSE2 has no 32-bit multiply
