"""The reports of a build: where versions run, JSON, one line for a log."""

import io
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from mavcg.assembly.version_tuning import VersionTuning
from mavcg.hardware.board import Board, Cluster
from mavcg.objects.inspection import Inspection
from mavcg.passes.asm.tuning_reports import FunctionReport, LoopReport
from mavcg.profiles.load import cores_for, load_board
from mavcg.program.build_json import build_json
from mavcg.program.build_values import BuildResult
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.objects import ModuleObjects
from mavcg.program.report import build_line, show_build, show_inspection
from mavcg.program.report_words import tuning_line
from mavcg.program.version_choice import FunctionChoice, VersionChoice
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import parse_target

A55, A75, M4 = "cortex-a55", "cortex-a75", "exynos-m4"
CORE_SET = CoreSet(cores_for([A55, A75, M4]))


def result(*kept: VersionChoice, refused: dict[str, str] | None = None, **more: Any) -> BuildResult:
    choices = (FunctionChoice("_ZN2nn4reluEPfi", kept),) if kept else ()
    refused_ = MappingProxyType(refused or {})
    module = ModuleObjects("relu.cpp", (Path("relu.o"),), (), choices, refused_, frozenset(), 1000, 1300, (CORE_SET,))
    fields: dict[str, Any] = dict(
        output=Path("out/lib.so"),
        target=parse_target("aarch64-linux-android"),
        cores=cores_for([A55, A75, M4]),
        hot=(HotSymbol("nn::relu", "_ZN2nn4reluEPfi", why="61.0% of the run"),),
        modules=(module,),
        not_found=(),
        notes=(),
        single_library_bytes=None,
        runtime_bytes=700,
        total_bytes=3000,
        needed_libraries=("libc.so",),
        needed_symbols=("memcpy",),
        seconds=1.5,
        cpu_seconds=2.25,
    )
    return BuildResult(**{**fields, **more})


ALL = (
    VersionChoice("generic", "generic", 100),
    VersionChoice(A55, A55, 160),
    VersionChoice(A75, A55, 160),
    VersionChoice(M4, "generic", 100, "+0.3% over generic (measured), under the required 1.0%"),
)


def shown(built: BuildResult, board: Board | None = None) -> str:
    out = io.StringIO()
    show_build(built, board, Console(file=out, width=160, highlight=False))
    return out.getvalue()


def test_the_story_on_one_screen() -> None:
    lines = shown(result(*ALL), load_board("exynos9820")).splitlines()
    rows = [line.split() for line in lines[2:6]]
    assert lines[0].strip() == "out/lib.so for aarch64-linux-android"
    assert rows[0] == ["nn::relu(float*,", "int)", "generic", "100", "any", "other", "core"]
    assert "61.0% of the run, relu.cpp" in lines[3] and "CPUs 0-3" in lines[3] and "160" in lines[3]
    assert "CPUs 4-5" in lines[4] and "same machine code as cortex-a55: shared" in lines[4]
    assert "CPUs 6-7" in lines[5] and "dropped, runs generic: +0.3% over generic (measured)" in lines[5]
    # 300 bytes of versions and 700 of runtime, of 3000 in all.
    assert "code growth 50.00 % over the single-version build" in shown(result(*ALL))
    assert "700 bytes of run-time selector, of 3000 bytes in all" in shown(result(*ALL))


def test_json_of_the_same() -> None:
    report = build_json(result(*ALL), load_board("exynos9820"))
    assert report["functions"] == [
        {
            "name": "_ZN2nn4reluEPfi",
            "demangled": "nn::relu(float*, int)",
            "source": "relu.cpp",
            "why": "61.0% of the run",
            "dispatched": True,
            "arithmetic": "exact",
            "versions": [
                {
                    "core": "generic",
                    "version": "generic",
                    "bytes": 100,
                    "shares_body_with": None,
                    "dropped": None,
                    "extensions": [],
                    "runs_on": "any other core",
                },
                {
                    "core": A55,
                    "version": A55,
                    "bytes": 160,
                    "shares_body_with": None,
                    "dropped": None,
                    "extensions": [],
                    "runs_on": "CPUs 0-3",
                    "decided_by": "nothing",
                },
                {
                    "core": A75,
                    "version": A75,
                    "bytes": 160,
                    "shares_body_with": A55,
                    "dropped": None,
                    "extensions": [],
                    "runs_on": "CPUs 4-5",
                    "decided_by": "nothing",
                },
                {
                    "core": M4,
                    "version": M4,
                    "bytes": 100,
                    "shares_body_with": None,
                    "runs_on": "CPUs 6-7",
                    "decided_by": "nothing",
                    "extensions": [],
                    "dropped": "+0.3% over generic (measured), under the required 1.0%",
                },
            ],
        }
    ]
    assert (report["growth_percent"], report["needed"], report["libraries"]) == (50.0, ["memcpy"], ["libc.so"])


def test_what_directive_and_passes_bring_is_told_apart() -> None:
    """The thesis's figure 4.3: the compiler's directive alone, and with split and schedule."""
    tuned = LoopReport(".L1", 7, 105.0, 64.0, 76, 116, splits=16)
    loops = (tuned, LoopReport(".L2", 9, unchanged_because="a fence in its body"))
    functions = (FunctionReport("nn::relu", loops, blocks=2),)
    tuning = VersionTuning(functions, "FLOP", 4.5, 4.876190, 8.0)
    built = result(*ALL)
    built = replace(built, modules=(replace(built.modules[0], tunings={("_ZN2nn4reluEPfi", A55): tuning}),))
    versions = {v["core"]: v for v in build_json(built, None)["functions"][0]["versions"]}
    assert versions[A55]["model"] == {
        "unit": "FLOP/cycle",
        "generic": 4.5,
        "directive": 4.876,
        "tuned": 8.0,
        "main_loop": "hottest by nesting and trip counts",
        "loops": 2,
        "loops_tuned": 1,
        "blocks_tuned": 2,
        "splits": 16,
    }
    assert "model" not in versions[M4]
    line = "FLOP/cycle of its main loop, model: generic 4.50, -mcpu 4.88, split+schedule 8.00"
    assert tuning_line(tuning.as_json()) == line
    assert "split+schedule" in shown(built)
    assert tuning_line(VersionTuning(functions).as_json()) == "1 of 2 loops rescheduled"
    assert tuning_line(VersionTuning((FunctionReport("f", loops[1:]),)).as_json()) == ""


def test_where_versions_run_without_a_board() -> None:
    runs_on = {v["core"]: v["runs_on"] for v in build_json(result(*ALL), None)["functions"][0]["versions"]}
    assert runs_on["generic"] == "any other core"
    assert runs_on[A55].startswith("MIDR 0x41/0xd05 r1+")
    assert runs_on[M4].startswith("MIDR 0x53/0x003")


def test_where_versions_run_on_a_board_with_other_cores() -> None:
    board = Board("b", "B", "aarch64-linux-gnu", (Cluster(A55, (0, 2)), Cluster("cortex-x1", (7,))))
    runs_on = {v["core"]: v["runs_on"] for v in build_json(result(*ALL), board)["functions"][0]["versions"]}
    assert runs_on == {
        "generic": "any other core: CPU 7",
        A55: "CPUs 0,2",
        A75: "no core of this board",
        M4: "no core of this board",
    }


def test_what_was_refused_missed_and_noted() -> None:
    built = result(
        refused={"printf_like": "variadic"}, not_found=(HotSymbol("memcpy", why="9.0% of the run"),), notes=("a note",)
    )
    text = shown(built)
    assert "printf_like" in text and "as it was" in text and "refused: variadic" in text
    assert "not in the input, left as it is: memcpy (9.0% of the run)" in text and "note: a note" in text
    report = build_json(built, None)
    assert report["refused"] == [{"name": "printf_like", "source": "relu.cpp", "why": "variadic"}]
    assert report["not_found"] == ["memcpy"] and report["notes"] == ["a note"]


def test_one_body_for_all_is_said() -> None:
    single = result(VersionChoice("generic", "generic", 100), VersionChoice(A55, "generic", 100))
    assert "one version for all: called directly" in shown(single)
    assert build_line(single).startswith("lib.so: nn::relu(float*, int) (one version for all); growth 30 % (")


def test_a_build_in_one_line() -> None:
    line = build_line(result(*ALL, refused={"f": "variadic"}))
    versions, without, refused, cost = line.split("; ")
    assert cost == "growth 30 % (1000 to 1300 bytes, 2.2 s of CPU time)"
    assert versions == "lib.so: nn::relu(float*, int) (generic, cortex-a55)"
    assert without == f"without {M4}: +0.3% over generic (measured), under the required 1.0%"
    assert refused == "f left as it was: variadic"


def test_inspection_for_people() -> None:
    function = {
        "name": "_ZN2nn4reluEPfi",
        "versions": [
            {"core": "generic", "bytes": 100, "shares_body_with": None},
            {"core": A75, "bytes": 160, "shares_body_with": A55},
        ],
        "dropped": [{"core": M4, "why": "too little"}],
    }
    out = io.StringIO()
    inspection = Inspection(Path("lib.so"), (function,), {"v": "variadic"}, 3.66, 5000, 700, (), ("memcpy",))
    show_inspection(inspection, Console(file=out, width=160, highlight=False, markup=False))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[0] == "lib.so" and lines[2].split()[-2:] == ["generic", "100"]
    assert lines[3].split(maxsplit=2) == [A75, "160", "same code as cortex-a55"]
    assert lines[4].split(maxsplit=1) == [M4, "dropped: too little"]
    assert "refused: v: variadic" in lines
    assert "code growth 3.66 % over the single-version build; 5000 bytes loaded, 700 of them" in out.getvalue()
    assert "needs no library: memcpy" in lines


def test_a_long_line_for_the_log_becomes_lines() -> None:
    refused = {f"f{n}": "it is variadic: its arguments cannot be forwarded" for n in range(8)}
    lines = build_line(result(*ALL, refused=refused), ["note: gcc inlined f"]).split("\n")
    assert lines[0] == "lib.so:" and lines[-1] == "note: gcc inlined f" and max(map(len, lines)) < 100
    assert lines[3:11] == [f"{name} left as it was: {why}" for name, why in refused.items()]
