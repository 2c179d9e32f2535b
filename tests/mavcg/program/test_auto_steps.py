"""Steps of `mavcg auto` that need no program: whose samples count to which function, and what a build came to."""

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from mavcg.program.auto_steps import AutoMachine, AutoRequest, ProgramSteps, count_to_functions, detected_board
from mavcg.program.buildfile import BuildFile, ProjectFile
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.perf_runs import RunsHere
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.sample_table import Key, sample_frame
from mavcg.program.unmodelled_versions import NOTHING_MORE
from mavcg.program.version_symbols import VersionedLibrary

LIBRARY = VersionedLibrary(
    Path("libhot.so"),
    MappingProxyType({"dot": [{"generic": "generic", "cortex-a55": "cortex-a55"}]}),
    MappingProxyType({"dot.generic": ("dot", "generic"), "dot.cortex-a55": ("dot", "cortex-a55")}),
    frozenset({"helper.cortex-a55"}),
)


def test_samples_of_versions_dispatchers_and_copies_count_to_their_function() -> None:
    names = ("dot", "dot.generic", "dot.cortex-a55", "dot.slow", "helper.cortex-a55", "helper", "other.slow", "a.b")
    rows: dict[Key, list[float]] = {(name, "libhot.so", None, None): [1.0, 1.0] for name in names}
    profile = Profile(sample_frame(rows), "samples", "cycles")

    folded = count_to_functions(profile, LIBRARY)

    found = folded.frame.groupby("symbol")["samples"].sum().to_dict()
    assert found == {"dot": 4.0, "helper": 2.0, "other.slow": 1.0, "a.b": 1.0}
    assert count_to_functions(profile, None) is profile


def test_a_machine_whose_cpus_are_alike_needs_no_board() -> None:
    assert detected_board("m", "aarch64-linux-gnu", [(0, "cortex-a55"), (1, "cortex-a55")]) is None
    board = detected_board(
        "m", "aarch64-linux-gnu", [(0, "cortex-a55"), (1, "cortex-a76"), (2, None), (3, "cortex-a76")]
    )
    assert board is not None
    assert {c.core: c.cpus for c in board.clusters} == {"cortex-a55": (0,), "cortex-a76": (1, 3), "generic": (2,)}


@pytest.mark.parametrize("only_hot", [False, True])
def test_functions_that_no_source_holds_build_nothing(tmp_path: Path, only_hot: bool) -> None:
    (tmp_path / "a.c").write_text("int f(int x) { return x + 1; }\n")
    command = {"directory": str(tmp_path), "file": "a.c", "arguments": ["cc", "-c", "a.c", "-o", "a.o"]}
    (tmp_path / "compile_commands.json").write_text(json.dumps([command]))
    build = BuildFile(output="libhot.so", cores=("cortex-a55",))
    inputs: dict[str, Any] = (
        {"compile_commands": "compile_commands.json", "only_hot": True} if only_hot else {"sources": ("a.c",)}
    )
    project = ProjectFile(tmp_path / "mavcg.toml")
    steps = ProgramSteps(AutoRequest(project, replace(build, **inputs)), AutoMachine(RunsHere(), (), "it is a test"))

    built = steps.build([HotSymbol("main", named_by_user=False)], {}, True)

    assert (built.library, built.versions, dict(built.left)) == (None, (), {"main": "not in the input"})
    assert not (tmp_path / "libhot.so").exists()


@pytest.mark.parametrize(
    ("core", "target", "kept", "dropped"),
    [
        ("haswell", "x86_64-linux-gnu.2.17", ["neither measured nor modelled, kept for its instructions of avx"], []),
        ("cortex-a76", "aarch64-linux-gnu.2.17", [], ["within the model's error of"]),
    ],
)
def test_where_nothing_runs_the_model_decides_where_there_is_one(
    tmp_path: Path, core: str, target: str, kept: list[str], dropped: list[str]
) -> None:
    """A version that gains nothing by the model goes; one of a core without a model stays and says so."""
    (tmp_path / "a.c").write_text("int sum(const int *x, int n) { int s = 0; while (n--) s += x[n]; return s; }\n")
    build = BuildFile(output="libhot.so", cores=(core,), target=target, sources=("a.c",), flags=("-O2",))
    project = ProjectFile(tmp_path / "mavcg.toml")
    steps = ProgramSteps(AutoRequest(project, build), AutoMachine(RunsHere(), (), "it is a test"))

    built = steps.build([HotSymbol("sum", named_by_user=False)], {}, True)

    assert all(v.how.startswith(words) for v, words in zip(built.versions, kept, strict=True))
    assert len(built.dropped) == len(dropped)
    assert all("(model)" in v.why and words in v.why for v, words in zip(built.dropped, dropped, strict=True))


@pytest.mark.long
def test_a_version_that_has_nothing_but_another_order_goes_where_nothing_runs(tmp_path: Path) -> None:
    """A pointer chase: the first build keeps it, so that it can be measured, and says what the next one drops."""
    chase = "long chase(const long *next, long n) { long at = 0; while (n--) at = next[at]; return at; }\n"
    (tmp_path / "a.c").write_text(chase)
    target = "x86_64-linux-gnu.2.17"
    build = BuildFile(output="libhot.so", cores=("znver4",), target=target, sources=("a.c",), flags=("-O2",))
    request = AutoRequest(ProjectFile(tmp_path / "mavcg.toml"), build)
    measuring = ProgramSteps(request, AutoMachine(RunsHere(), ()))
    kept = measuring.build([HotSymbol("chase", named_by_user=False)], {}, True)
    assert [v.how for v in kept.versions] == ["neither measured nor modelled, kept"]
    assert kept.useless == {("chase", "znver4")}
    dropped = measuring.build([HotSymbol("chase", named_by_user=False)], {}, False)
    assert not dropped.versions and [v.why for v in dropped.dropped] == [NOTHING_MORE]
