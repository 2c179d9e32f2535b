"""Libraries that choose their threads: which plan a process gets, and that its own threads keep to the plan's CPUs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.hardware.core import Core
from mavcg.runtime.core_speeds import plan_rows, speed_rows
from mavcg.runtime.coreset import CoreSet
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor, ThreadPlan
from mavcg.toolchain.target import host_target
from tests.machine import needs_two_cpus

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

# Slow first: the order in which they are given does not matter.
PLANS = (
    ThreadPlan(("a", "b"), 2, 3.0),
    ThreadPlan(("b",), 1, 2.0),
    ThreadPlan(("a",), 1, 4.0),
    ThreadPlan(("a",), 2, 1.5),
    ThreadPlan(("a",), 4, 1.0),
)
T = TensorType("f32", (8,))
STEP = ProgramStep("n", "op", "k_1", (OperandAddress("input"), OperandAddress("output")), 8, 1, 8)
PROGRAM = Program("m", (ProgramTensor("x", T),), (ProgramTensor("y", T),), (STEP,), 0, 0, 0, 0)
CORES = CoreSet(tuple(Core(name, "aarch64", "in", name, "") for name in ("little", "big")))

# Runs a model, then prints how many threads it has, and the CPUs that each thread of the process may use, the caller's
# first. Threads that were there before the model, such as NumPy's, are not listed.
PROGRAM_TEXT = """
import json, os, sys, time
import numpy as np
import mavcg
cpus = set(map(int, sys.argv[3].split(",")))
os.sched_setaffinity(0, cpus)
before = set(os.listdir("/proc/self/task"))
with mavcg.load(sys.argv[1], threads=sys.argv[2], pin=sys.argv[4] == "pin") as model:
    y = model.run(np.ones((1, 1000), np.float32), np.zeros(1, np.int32))
    own = sorted(set(os.listdir("/proc/self/task")) - before, key=int)
    # A thread chooses its CPUs before it waits for its first step, and that may be after the run: once it sleeps.
    state = lambda task: open(f"/proc/self/task/{task}/stat").read().rpartition(")")[2].split()[0]
    while any(state(task) != "S" for task in own):
        time.sleep(0.001)
    masks = [sorted(os.sched_getaffinity(int(task))) for task in [os.getpid(), *own]]
    print(json.dumps([model.threads, masks, float(y[0].sum())]))
"""


def started(
    library: Path, cpu_map: str, threads: str = "auto", cpus: Sequence[int] = (0, 1), pin: str = ""
) -> tuple[int, list[list[int]]]:
    """How many threads the model has, and the CPUs of each, the caller's first."""
    command = [sys.executable, "-c", PROGRAM_TEXT, str(library), threads, ",".join(map(str, cpus)), pin]
    environment = os.environ | {"MAVCG_CPU_MAP": cpu_map}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    count, masks, _ = json.loads(done.stdout)
    return count, masks


@pytest.fixture(scope="session")
def planned(build_library: Build) -> Path:
    return build_library("planned", plans=PLANS)


@pytest.mark.sample(2)
@needs_two_cpus
@pytest.mark.parametrize(
    ("cpu_map", "cpus", "threads"),
    [
        ("0=a,1=a", (0, 1), 2),  # 4 on a would be faster, and there are not so many
        ("0=b,1=b", (0, 1), 1),
        ("0=a,1=b", (0, 1), 1),  # b alone is predicted to be faster than both
        ("0=a,1=b", (0,), 1),
        ("0=generic,1=generic", (0, 1), 2),  # no plan: one for each CPU
        ("0=generic,1=generic", (1,), 1),
    ],
)
def test_the_fastest_plan_that_the_cpus_allow(planned: Path, cpu_map: str, cpus: Sequence[int], threads: int) -> None:
    count, masks = started(planned, cpu_map, cpus=cpus)

    assert (count, masks) == (threads, [list(cpus)] * threads)
    assert started(planned, cpu_map, "0", cpus) == (count, masks)


@pytest.mark.long
@needs_two_cpus
def test_the_callers_thread_is_left_where_it_is(build_library: Build) -> None:
    """And so are all threads where the caller gave their number."""
    library = build_library("two_of_one", plans=(ThreadPlan(("a",), 2, 1.0),))

    assert started(library, "0=a,1=a", pin="pin") == (2, [[0, 1], [1]])
    assert started(library, "0=a,1=b", "2") == (2, [[0, 1], [0, 1]])


@pytest.mark.long
@pytest.mark.parametrize(
    ("cpus", "pin", "printed"),
    [
        (0b11111111, 0, "2 c0"),  # CPUs 6 and 7, for the one thread beside the caller's
        (0b11111111, 1, "2 80"),
        (0b10111111, 0, "3 b0 b0"),  # only one `b`: both core types, three threads
        (0b10110000, 0, "3"),  # these are all that it may use
        (0b00001111, 0, "4"),  # all that the process may use is `generic`: no plan, a thread for each
        (0b00111111, 1, "6 2 4 8 10 20"),
        (-1, 0, "1"),  # a sandbox does not say
    ],
)
def test_threads_keep_off_the_cores_that_are_not_chosen(
    build_checked: Build, run: Run, cpus: int, pin: int, printed: str
) -> None:
    plans = (ThreadPlan(("b",), 2, 1.0), ThreadPlan(("a", "b"), 3, 2.0), ThreadPlan(("generic", "a", "b"), 8, 3.0))
    program = build_checked(("-DPRETENDING",), ("-Dsyscall=pretended_syscall",), plans)

    done = run(program, "plans", str(cpus), str(pin), MAVCG_CPU_MAP="0-3=generic,4-5=a,6-7=b")
    assert done.stdout == f"{printed}\nok\n"


@pytest.mark.long
@pytest.mark.skipif(host_target().arch != "x86_64", reason="of virtual x86 machines")
@pytest.mark.parametrize(
    ("cpus", "virtual", "printed"),
    [(0b11, 1, "1 ffffffffffffffff ok\n"), (0b11, 0, "ok\n"), (0b01, 1, "ok\n"), (-1, 1, "ok\n")],
)
def test_a_virtual_machine_wakes_threads_off_the_callers_cpu(
    build_checked: Build, run: Run, cpus: int, virtual: int, printed: str
) -> None:
    """The caller is on CPU 1. Threads that may not run on all CPUs are left alone, as on other machines."""
    pretended = [f"-D{name}=pretended_{name.removeprefix('MAVCG_').lower()}" for name in ("syscall", "MAVCG_CPUID")]
    program = build_checked(("-DPRETENDING",), (*pretended, "-Dsysconf=pretended_sysconf"))

    assert run(program, "woken", str(cpus), str(virtual)).stdout == printed


def test_the_table_has_the_fastest_first() -> None:
    plans = (ThreadPlan(("big", "little"), 8, 2.0), ThreadPlan(("big",), 4, 2.0), ThreadPlan(("generic",), 2, 0.5))

    rows = plan_rows(replace(PROGRAM, thread_plans=plans), CORES)
    assert [re.sub(r" /\*.*", "", row) for row in rows] == [
        "{2, {0x2, 0x0, 0x0, 0x0}},",
        "{4, {0x8, 0x0, 0x0, 0x0}},",
        "{8, {0xc, 0x0, 0x0, 0x0}},",
    ]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (ThreadPlan(("big",), 0, 1.0), "thread plan 0 on big: 0 threads; give 1 to 1024"),
        (ThreadPlan(("big",), 1025, 1.0), "1025 threads"),
        (ThreadPlan((), 2, 1.0), "thread plan 2 on nothing: names no core"),
        (ThreadPlan(("big", "huge"), 2, 1.0), r"big\+huge: .* no version for 'huge'; it has generic, little, big"),
        (ThreadPlan(("big",), 2, 0.0), "a time of 0.0"),
        (ThreadPlan(("big",), 2, float("nan")), "a time of nan"),
    ],
)
def test_plans_that_cannot_be(plan: ThreadPlan, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        plan_rows(replace(PROGRAM, thread_plans=(plan,)), CORES)


def test_equal_speeds_are_one_line() -> None:
    """Core ids: 0 not known, 1 generic, 2 little, 3 big. Where a label is missing, the slowest that is there counts."""
    given: tuple[tuple[tuple[str, int], ...], ...] = (
        (),
        (("big", 700), ("little", 256)),
        (("big", 9), ("little", 9), ("generic", 9)),
        (("big", 700),),
        (),
        (("little", 256), ("big", 700), ("generic", 256)),
    )
    program = replace(PROGRAM, steps=tuple(replace(STEP, core_speeds=weights) for weights in given))

    lines, numbers = speed_rows(program, CORES)
    assert lines == ["{256, 256, 256, 256},", "{256, 256, 256, 700},"]
    assert numbers == [0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ((("big", 0),), "step 'n': speed 0 of big; give 1 to 65535"),
        ((("big", 65536),), "speed 65536"),
        ((("huge", 256),), "step 'n': the library has no version for 'huge'"),
    ],
)
def test_speeds_that_cannot_be(weights: tuple[tuple[str, int], ...], words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        speed_rows(replace(PROGRAM, steps=(replace(STEP, core_speeds=weights),)), CORES)
