"""CPU seconds of the tests: `pytest --cpu` prints the folders and files that take most, and the sum beside BUDGET.

A test is booked with all that its process used until the next test began, ended child processes and fixtures that it is
the first to ask for included; fixtures of a session are therefore booked on one file. Processors that are shared with
other work, or are threads of one core, count more seconds for the same tests.
"""

import os
import resource
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

# What two processors do in 6 minutes, less what lint and mypy take beside the tests.
BUDGET = 600
MOST_FILES, MOST_FOLDERS = 25, 12
COLLECTING = "(collecting)"
LIBRARIES = ("libc.a", "libc++.a", "libc++abi.a", "libunwind.a")


def used() -> float:
    """Return the CPU seconds of this process and of the children that it has waited for."""
    kinds = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(kind.ru_utime + kind.ru_stime for kind in kinds)


def libraries_made_since(start: float, cache: Path) -> list[str]:
    """Return the names of ziglang's support libraries that were made in its cache after a time of the clock."""
    made = [path for name in LIBRARIES for path in cache.glob(f"o/*/{name}") if path.stat().st_mtime > start]
    return sorted(path.name for path in made)


def report(by_file: Mapping[str, float], tests: int, made: list[str]) -> Iterator[str]:
    """Yield the lines of the summary.

    by_file: seconds by test file, and COLLECTING. made: the libraries of libraries_made_since.
    """
    folders = defaultdict[str, float](float)
    for file, seconds in by_file.items():
        folders[str(Path(file).parent) if file != COLLECTING else COLLECTING] += seconds
    for what, rows, most in (("folders", folders, MOST_FOLDERS), ("files", by_file, MOST_FILES)):
        yield f"CPU seconds, the {what} that take most:"
        yield from (f"{rows[name]:8.1f}  {name}" for name in sorted(rows, key=lambda name: -rows[name])[:most])
    yield f"{tests} tests took {sum(by_file.values()):.0f} CPU seconds; the budget of the fast suite is {BUDGET}"
    if made:
        yield (
            f"ziglang made {', '.join(made)} meanwhile, up to two minutes of CPU time each: link as set-up does "
            "(scripts/warm_toolchain.py)"
        )


class CpuSeconds:
    """The plugin: counts in every process that runs tests, adds up and prints in the one that the user started."""

    def __init__(self, config: pytest.Config, zig_cache: Path, now: float) -> None:
        self.config, self.zig_cache, self.start = config, zig_cache, now
        self.by_file = defaultdict[str, float](float)
        self.tests = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        before = used()
        collected = yield
        self.by_file[COLLECTING] += used() - before
        return collected

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before = used()
        ran = yield
        self.by_file[item.nodeid.partition("::")[0]] += used() - before
        self.tests += 1
        return ran

    def pytest_sessionfinish(self) -> None:
        if "PYTEST_XDIST_WORKER" in os.environ:
            output: dict[str, Any] = self.config.workeroutput  # type: ignore[attr-defined]
            output["cpu_seconds"] = self.tests, dict(self.by_file)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        tests, by_file = getattr(node, "workeroutput", {}).get("cpu_seconds", (0, {}))
        self.tests += tests
        for file, seconds in by_file.items():
            self.by_file[file] += seconds

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in report(self.by_file, self.tests, libraries_made_since(self.start, self.zig_cache)):
            terminalreporter.write_line(line)
