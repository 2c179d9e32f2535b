"""The summary of `pytest --cpu`: seconds by file and folder, their sum, and libraries that a test had ziglang make."""

from pathlib import Path

import pytest

from tests.cpu_seconds import BUDGET, COLLECTING, CpuSeconds, libraries_made_since, report


def test_what_takes_most_comes_first() -> None:
    by_file = {"tests/a/test_x.py": 3.0, "tests/a/test_y.py": 4.0, "tests/b/test_z.py": 5.5, COLLECTING: 18.0}
    lines = list(report(by_file, 40, []))

    folders, files = lines[1:4], lines[5:9]
    assert [line.split() for line in folders] == [["18.0", COLLECTING], ["7.0", "tests/a"], ["5.5", "tests/b"]]
    assert [line.split()[1] for line in files] == [COLLECTING, *sorted(by_file, key=lambda f: -by_file[f])[1:]]
    assert lines[9] == f"40 tests took 30 CPU seconds; the budget of the fast suite is {BUDGET}" and len(lines) == 10


def test_libraries_that_set_up_had_not_made_are_named(tmp_path: Path) -> None:
    for number, name in enumerate(("libc.a", "libc++.a", "in.o")):
        (tmp_path / f"o/{number}").mkdir(parents=True)
        (tmp_path / f"o/{number}/{name}").write_bytes(b"")

    made = libraries_made_since(0.0, tmp_path)
    assert made == ["libc++.a", "libc.a"]
    assert "ziglang made libc++.a, libc.a meanwhile" in list(report({}, 0, made))[-1]
    newest = max(path.stat().st_mtime for path in tmp_path.glob("o/*/*"))
    assert libraries_made_since(newest, tmp_path) == []


def test_workers_seconds_are_added_up(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    class Node:
        workeroutput = {"cpu_seconds": (2, {"tests/test_x.py": 1.5})}

    class Crashed:
        pass

    plugin = CpuSeconds(pytestconfig, tmp_path, 0.0)
    for node in (Node(), Node(), Crashed()):
        plugin.pytest_testnodedown(node)
    assert plugin.tests == 4 and plugin.by_file == {"tests/test_x.py": 3.0}
