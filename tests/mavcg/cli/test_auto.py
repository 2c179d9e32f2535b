"""`mavcg auto`, run as docs/auto.md says, in a fresh folder; and what it refuses."""

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mavcg.cost.model_error import model_error
from mavcg.objects.inspection import inspect_library
from mavcg.profiles.load import load_core
from mavcg.program.auto_report import show_auto
from mavcg.program.auto_rounds import AutoResult, DroppedVersion, Round, VersionGain
from mavcg.program.measurements import load_measurements
from mavcg.program.perf_runs import this_machine
from mavcg.program.version_choice import Gain
from mavcg.toolchain.target import host_target

PAGE = Path(__file__).parents[3] / "docs/auto.md"
CC = "cc" if shutil.which("cc") else f"{sys.executable} -m ziglang cc -mcpu=baseline -fno-sanitize=all"
OTHER = "cortex-a55" if host_target().arch == "x86_64" else "znver3"  # a core that this machine does not run


@pytest.fixture
def project(here: Path) -> Path:
    """The files of the page's example, in the current folder."""
    files = re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)```\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["mavcg.toml", "build.sh", "hot.c", "main.c"]
    for name, text in files:
        (here / name).write_text(text.replace("    cc ", f"    {CC} ") if name == "build.sh" else text)
    return here


@pytest.fixture
def core(here: Path) -> str:
    """The name of this machine's core."""
    name = next((cpu.core for cpu in this_machine() if cpu.core), None)
    if name is None:
        pytest.skip("this machine's core is not one that mavcg knows")
    return name


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


RUNS = 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "rounds"), [([], 1), pytest.param(["--runner", "local", "--per-round", "1"], 2, marks=pytest.mark.long)]
)
def test_the_page_to_the_letter(
    mavcg: Any, perf: str, core: str, project: Path, options: list[str], rounds: int
) -> None:
    """Both functions in one round on this machine; one a round through a shell, as on a board."""
    edit(project / "mavcg.toml", 'output  = "libhot.so"', 'output = "libhot.so"\nmeasurements = "gains.json"')

    # As many runs as give enough samples beside another test on the same two CPUs.
    done = mavcg("auto", "--json", "--runs", str(RUNS), *options)

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert sorted(name for each in document["rounds"] for name in each["functions"]) == ["dot", "scale"]
    assert (document["library"], document["waiting"], document["measured"]) == ("libhot.so", [], True)
    versions = {v["function"]: v for each in document["rounds"] for v in each["versions"]}
    gains = {name: v["gain"] for name, v in versions.items()}
    dropped = {each["function"] for entry in document["rounds"] for each in entry["dropped"]}
    least = {name: max(0.01, v["noise"]) for name, v in versions.items() if v["gain"] is not None}
    assert dropped == {name for name, needed in least.items() if gains[name] < needed}
    assert all(1 - versions[n]["after"] / versions[n]["before"] == pytest.approx(gains[n]) for n in least)
    if host_target().arch == "x86_64":
        assert gains["scale"] > 0.2 and "scale" not in dropped  # SSE2 has no 32-bit multiply
    measured = {(m.function, m.core) for m in load_measurements(Path("gains.json"))}
    assert ("scale", core) in measured

    functions = {f["name"]: f for f in inspect_library(Path("libhot.so")).functions}
    assert set(functions) == {"dot", "scale"}
    for name, function in functions.items():
        assert (core in [v["core"] for v in function["versions"]]) == (name not in dropped)
    words = done.stderr.splitlines()
    assert [line for line in words if "profiling" in line] == [
        "mavcg: round 1: profiling",
        *(f"mavcg: round {n + 2}: profiling with libhot.so" for n in range(rounds)),
    ]
    assert len(document["rounds"]) == rounds
    assert words.count(f"mavcg: measuring {RUNS} runs as generic and as {core} each") == rounds
    # The program that the last build left runs with the library, and prints what it did before.
    with_versions = subprocess.run(["./app"], capture_output=True, text=True, env={"LD_LIBRARY_PATH": "."}, check=True)
    subprocess.run(["sh", "build.sh"], check=True, env={"PATH": "/usr/bin:/bin"})
    assert with_versions.stdout == subprocess.run(["./app"], capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_a_board_that_is_not_here_is_left_to_the_model(mavcg: Any, perf: str, project: Path) -> None:
    edit(project / "mavcg.toml", 'board   = "host"', f'cores = ["{OTHER}"]\ntune = "off"')

    done = mavcg("auto")

    assert done.status == 0, done.stderr
    assert "nothing was measured, the model alone decided: the library is for" in " ".join(done.stdout.split())
    assert "mavcg: measuring" not in done.stderr
    assert "libhot.so is done" in done.stdout and done.stderr.count("profiling with libhot.so") == 1
    assert {f["name"] for f in inspect_library(Path("libhot.so")).functions} == {"dot", "scale"}


@pytest.mark.long
def test_a_program_that_does_not_take_the_library_up_is_told(mavcg: Any, perf: str, core: str, project: Path) -> None:
    edit(project / "build.sh", '-n "$MAVCG_LIBRARY"', "-n ''")

    done = mavcg("auto", "--runs", "1")

    assert done.status == 2 and "none of its versions was seen to run" in done.stderr
    assert "$MAVCG_LIBRARY names it there" in done.stderr and "docs/auto.md" in done.stderr


def test_nothing_hot_builds_nothing(mavcg: Any, perf: str, core: str, project: Path) -> None:
    done = mavcg("auto", "--threshold", "100")

    assert done.status == 0, done.stderr
    assert "no function that could have versions takes over 100 % of the run: nothing was built" in done.stdout
    assert not Path("libhot.so").exists()


@pytest.mark.parametrize(
    ("old", "new", "arguments", "words"),
    [
        ("[build]", "[buidl]", (), "mavcg.toml: buidl: no such key; did you mean build?"),
        ('command = ["./app"]', "", (), "names no program to profile; add [profile] with command"),
        ('sources = ["hot.c"]', 'command = ["make"]', (), "[build] command builds the program itself"),
        ('sources = ["hot.c"]', 'sources = ["cold.c"]', (), "cold.c: is not there"),
        ('["sh", "build.sh"]', '["false"]', (), "profile.build = false: ended with exit status 1"),
        ('["./app"]', '["./other"]', (), "./other"),
        ('"host"', '"nobody"', (), "--board nobody: no such board"),
        ("x", "x", ("--threshold", "200"), "--threshold 200: is not a share"),
        ("x", "x", ("--", "./another", "--threshold", "1"), "./another"),
        ("x", "x", ("other.toml", "--", "./app"), "other.toml: "),
        ("x", "x", ("--runner", "carrier-pigeon"), "--runner carrier-pigeon: is not a runner"),
    ],
)
def test_bad_input_is_refused_with_a_reason(
    mavcg: Any, perf: str, core: str, project: Path, old: str, new: str, arguments: tuple[str, ...], words: str
) -> None:
    if old != new:
        edit(project / "mavcg.toml", old, new)

    done = mavcg("auto", *arguments)

    assert done.status == 2 and words in done.stderr, done.stderr
    assert done.stdout == "" and not Path("libhot.so").exists()


def test_without_a_file_it_says_what_to_write(mavcg: Any, here: Path) -> None:
    done = mavcg("auto")
    assert done.status == 2 and "there is no mavcg.toml in this folder; write one with [profile] command" in done.stderr


PLAIN = """
void prefix(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) { s += a[i]; a[i] = s; } }
struct node { struct node *next; long v; };
long chase(const struct node *p) { long s = 0; while (p) { s += p->v; p = p->next; } return s; }
unsigned crc(const unsigned char *p, int n, const unsigned *t) {
    unsigned c = ~0u;
    while (n--) c = t[(c ^ *p++) & 255] ^ (c >> 8);
    return ~c;
}
"""
# With these: the eight of an auditor.
MORE = """
void divide(int *a, const int *b, int n) { for (int i = 0; i < n; i++) a[i] = a[i] / (b[i] | 1); }
void small(float *c, const float *a, const float *b, int n) {
    for (int k = 0; k < n; k++, a += 16, b += 16, c += 16)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                float s = 0;
                for (int l = 0; l < 4; l++) s += a[4 * i + l] * b[4 * l + j];
                c[4 * i + j] = s;
            }
}
void histogram(int *h, const unsigned char *p, int n) { for (int i = 0; i < n; i++) h[p[i]]++; }
int longest(const char *s) {
    int best = 0, run = 0;
    for (; *s; s++) { run = *s == 'a' ? run + 1 : 0; if (run > best) best = run; }
    return best;
}
void sort(int *a, int n) {
    for (int i = 1; i < n; i++) {
        int v = a[i], j = i;
        while (j > 0 && a[j - 1] > v) { a[j] = a[j - 1]; j--; }
        a[j] = v;
    }
}
"""
FIGURES = re.compile(r"model: generic ([\d.]+)((?:, [^,]* [\d.]+)+)")


def auto_without_runner(mavcg: Any, here: Path, text: str) -> tuple[dict[tuple[str, str], str], ...]:
    """(versions that are kept, those that are dropped), each with the reason, of all functions in a C file."""
    functions = re.findall(r"^\w+ (\w+)\(", text, re.MULTILINE)
    (here / "hot.c").write_text(text)
    calls = "".join(f"fn={name}\n1 100\n" for name in functions)
    (here / "callgrind.out").write_text(f"# callgrind format\nevents: Ir\nob=app\n{calls}")
    (here / "mavcg.toml").write_text(
        '[build]\nsources = ["hot.c"]\nboard = "exynos9820"\noutput = "libhot.so"\nprofile = "callgrind.out"\n'
    )

    report = json.loads(mavcg("auto", "--json").stdout)
    (only,) = report["rounds"]
    assert report["measured"] is False
    dropped = {(v["function"], v["core"]): v["why"] for v in only["dropped"]}
    kept = {(v["function"], v["core"]): v["how"] for v in only["versions"] if (v["function"], v["core"]) not in dropped}
    assert len(dropped) + len(kept) == 3 * len(functions)
    return kept, dropped


@pytest.mark.long
def test_of_eight_plain_functions_no_version_stays_that_gains_nothing_or_of_which_nothing_is_known(
    mavcg: Any, here: Path
) -> None:
    """To the letter: prefix sum, pointer chase, CRC, division, 4x4 products, histogram and two more."""
    kept, dropped = auto_without_runner(mavcg, here, PLAIN + MORE)
    assert len(kept) + len(dropped) == 24 and len(dropped) >= 12
    for (function, core), how in kept.items():
        if shared := re.search(r"runs the version of ([\w-]+):", how):
            assert (function, shared[1]) in kept
            continue
        figures = FIGURES.search(how)
        assert figures, (function, core, how)
        best = max(map(float, re.findall(r" ([\d.]+)(?:,|$)", figures[2])))
        error = model_error(load_core(core)).fraction
        assert 1 - float(figures[1]) / best > error - 0.005, (function, core, how)


def test_without_a_runner_the_model_prices_every_loop_and_what_gains_nothing_goes(mavcg: Any, here: Path) -> None:
    """Plain loops of integers, for three cores of which two have no published figures."""
    kept, dropped = auto_without_runner(mavcg, here, PLAIN)
    assert all(re.search(r"\(model\), (over|within) ", why) for why in dropped.values())
    known = ("of its main loop, model: generic", "runs the version of")
    assert all(any(words in how for words in known) for how in kept.values())  # none of which nothing is known
    assert {core for _, core in kept} >= {"cortex-a55"} and ("chase", "exynos-m4") in dropped
    assert "assumed for its model" in dropped["chase", "exynos-m4"]


def test_the_report_has_times_gain_and_noise_of_each_version() -> None:
    gain = Gain(0.5, "measured, 5 runs", 0.02, 8e6, 4e6, "cpu-clock")
    versions = (VersionGain("dot", "znver3", 0.5, gain.how, gain), VersionGain("add", "znver3", None, ""))
    useless = DroppedVersion("add", "znver3", "useless")
    done = Round(("dot", "add"), {"dot": 0.7, "add": 0.2}, versions, (useless,), {})
    with io.StringIO() as out:
        show_auto(AutoResult((done,), Path("lib.so"), (), True), "here", 0.05, Console(file=out, width=200))
        lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[0] == "round function share version before after gain".split()
    assert lines[1] == "1 dot 70.0% znver3 8.0 ms 4.0 ms +50.0% ±2.0% kept: measured, 5 runs".split()
    assert lines[2] == "add 20.0% znver3 dropped: useless".split()
