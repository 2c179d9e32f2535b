"""The scheduler of a library's service, in C on a simulated clock, beside the simulator: the same sections in order."""

import random
import subprocess
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage
from mavcg.apps.service.simulator import simulate
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.zig import run_zig

HERE, START = Path(__file__).parent, 12345
Sections = list[tuple[str, int, int, int]]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("order") / "order"
    flags = ["-O1", "-Wall", "-Werror", "-std=gnu11", f"-I{SOURCES}"]
    files = [str(HERE / "order_driver.c"), *(str(SOURCES / name) for name in ("service.c", "service_accelerators.c"))]
    run_zig("cc", [*flags, *files, "-o", str(program)], "compiling")
    return program


def random_service(generator: random.Random) -> tuple[list[PeriodicTask], int]:
    """Return up to five tasks of one processor, of 40 to 150 % of its time, and a duration."""
    count = generator.randint(1, 5)
    priorities = generator.sample(range(20), count)
    load, tasks = generator.uniform(0.4, 1.5) / count, []
    for number in range(count):
        period = generator.randint(10, 200)
        parts = generator.randint(1, 6)
        sections = tuple(max(1, round(period * load / parts * generator.uniform(0.5, 1.5))) for _ in range(parts))
        stage = TaskStage("cpu", sections)
        deadline = generator.randint(period // 2, 2 * period)
        tasks.append(PeriodicTask(str(number), period, deadline, priorities[number], (stage,)))
    return tasks, generator.randint(100, 2000)


def on_accelerators(task: PeriodicTask, generator: random.Random) -> PeriodicTask:
    """Return the task with every second section as a segment on one of two accelerators."""
    sections = (task.stages[0].sections * 3)[: generator.choice((3, 5))]
    where = ("cpu", f"npu {generator.randint(0, 1)}")
    return replace(task, stages=tuple(TaskStage(where[n % 2], (ns,)) for n, ns in enumerate(sections)))


def simulated(tasks: list[PeriodicTask], duration: int) -> Sections:
    """Return (task, job, begin, end) of slices on the processor and, with -1, of skipped jobs."""
    sections = {task.name: [stage.sections for stage in task.stages] for task in tasks}

    def durations(name: str, job: int, stage: int) -> list[int]:
        return [ns + job * 7 % 4 for ns in sections[name][stage]]

    schedule = simulate(tasks, duration, durations=durations)
    cpu = [each for each in schedule.slices if each.processor == "cpu"]
    rows = [(each.task, each.job, each.begin_ns + START, each.end_ns + START) for each in cpu]
    return rows + sorted((job.task, job.number, -1, -1) for job in schedule.jobs if job.end_ns is None)


def written(task: PeriodicTask, preemptible: bool) -> str:
    """Return the driver's line of a task."""
    accelerator = task.stages[1].processor.removeprefix("npu ") if len(task.stages) > 1 else -1
    sections = [ns for stage in task.stages for ns in stage.sections]
    numbers = (task.period_ns, task.deadline_ns, task.priority, int(preemptible), accelerator, len(sections), *sections)
    return " ".join(map(str, numbers))


def compare(driver: Path, services: list[tuple[list[PeriodicTask], int]], lines: list[str]) -> tuple[int, int]:
    """Compare the driver's schedules with the simulator's; return those with preempted and with skipped jobs."""
    ended = subprocess.run([driver], input="\n".join(lines), capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    texts = [list(group) for dot, group in groupby(ended.stdout.splitlines(), lambda line: line == ".") if not dot]
    preempted = skipped = 0
    assert len(texts) == len(services)
    for (tasks, duration), text in zip(services, texts, strict=True):
        expected = simulated(tasks, duration)
        assert printed("\n".join(text)) == expected
        ran = [row for row in expected if row[2] >= 0]
        preempted += len(ran) > len({row[:2] for row in ran})
        skipped += len(ran) < len(expected)
    return preempted, skipped


def printed(text: str) -> Sections:
    """Return the same of what the driver printed, with sections of a job that follow each other joined."""
    rows = [(task, int(job), int(begin), int(end)) for task, job, begin, end in map(str.split, text.splitlines())]
    joined = list[tuple[str, int, int, int]]()
    for row in rows:
        if row[2] >= 0 and joined and joined[-1][:2] == row[:2] and joined[-1][3] == row[2]:
            joined[-1] = (*row[:2], joined[-1][2], row[3])
        elif row[2] >= 0:
            joined.append(row)
    return joined + sorted(row for row in rows if row[2] < 0)


@pytest.mark.long
def test_a_service_runs_in_the_order_of_the_simulator(driver: Path) -> None:
    """1,000 random services, overloaded ones too, some of whose networks are not preemptible."""
    generator = random.Random(7)
    services, lines = [], []
    for _ in range(1000):
        tasks, duration = random_service(generator)
        whole = [generator.random() < 0.2 for _ in tasks]
        lines.append(f"{len(tasks)} {duration}")
        own = []
        for task, one in zip(tasks, whole, strict=True):
            sections = task.stages[0].sections[:1] if one else task.stages[0].sections
            own.append(replace(task, stages=(TaskStage("cpu", sections),)))
            lines.append(written(own[-1], not one))
        services.append((own, duration))
    preempted, skipped = compare(driver, services, lines)
    assert preempted > 300 and skipped > 100


def test_accelerators_take_segments_in_the_order_of_the_simulator(driver: Path) -> None:
    """500 random services of networks with segments on two accelerators beside networks of the library."""
    generator = random.Random(11)
    services, lines, both = [], [], 0
    for _ in range(500):
        tasks, duration = random_service(generator)
        own = [on_accelerators(task, generator) if generator.random() < 0.7 else task for task in tasks]
        lines += [f"{len(own)} {duration}", *(written(task, True) for task in own)]
        services.append((own, duration))
        both += len({stage.processor for task in own for stage in task.stages}) > 1 and len(own) > 1
    preempted, skipped = compare(driver, services, lines)
    assert both > 200 and preempted > 100 and skipped > 50
