"""The scheduler of a library's service, in C on a simulated clock, beside the simulator: the same sections in order."""

import random
import subprocess
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
    run_zig("cc", [*flags, str(HERE / "order_driver.c"), str(SOURCES / "service.c"), "-o", str(program)], "compiling")
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


def simulated(tasks: list[PeriodicTask], duration: int) -> Sections:
    """Return (task, job, begin, end) of slices and, with -1, of skipped jobs."""
    sections = {task.name: task.stages[0].sections for task in tasks}

    def durations(name: str, job: int, stage: int) -> list[int]:
        return [ns + job * 7 % 4 for ns in sections[name]]

    schedule = simulate(tasks, duration, durations=durations)
    rows = [(each.task, each.job, each.begin_ns + START, each.end_ns + START) for each in schedule.slices]
    return rows + sorted((job.task, job.number, -1, -1) for job in schedule.jobs if job.end_ns is None)


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
            own.append(
                PeriodicTask(task.name, task.period_ns, task.deadline_ns, task.priority, (TaskStage("cpu", sections),))
            )
            times = " ".join(map(str, sections))
            lines.append(f"{task.period_ns} {task.deadline_ns} {task.priority} {int(not one)} {len(sections)} {times}")
        services.append((own, duration))
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
    assert preempted > 300 and skipped > 100
