"""MAVCG_TRACE: counts per function and version at exit, per process; the table at load."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.runtime.coreset import CoreSet

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]


def test_runs_are_counted_and_printed_at_exit(build: Build, run: Run, two_cores: CoreSet) -> None:
    done = run(build("which.c", two_cores), MAVCG_TRACE="1", MAVCG_CPU_MAP="all=a")

    assert done.stderr.splitlines() == ["mavcg: which a 2"]  # before main and in main
    assert "rseq off" in done.stdout  # every call is counted: none goes by the fast path


def test_nothing_is_printed_without_it(build: Build, run: Run, two_cores: CoreSet) -> None:
    for trace in ({}, {"MAVCG_TRACE": ""}, {"MAVCG_TRACE": "0"}):
        assert run(build("which.c", two_cores), **trace).stderr == ""


def test_each_process_prints_its_own_runs(build: Build, run: Run, two_cores: CoreSet) -> None:
    done = run(build("family.c", two_cores), MAVCG_TRACE="1", MAVCG_CPU_MAP="all=b")

    assert sorted(done.stderr.splitlines()) == ["mavcg: which b 5", "mavcg: which b 5"]  # child 3 + 2, parent 3 + 2


def test_a_child_with_its_parents_number_counts_its_own_runs(build: Build, run: Run, two_cores: CoreSet) -> None:
    """As the first process of a PID namespace has it whose parent is the first of another."""
    done = run(build("namespaces.c", two_cores), MAVCG_TRACE="1", MAVCG_CPU_MAP="all=b")

    assert sorted(done.stderr.splitlines()) == ["mavcg: which b 2", "mavcg: which b 4"]


@pytest.mark.parametrize("flag", ["-DPROCESS_ID=7", "-DADVICE_WIPE_ON_FORK=999999"])
def test_processes_of_one_number_and_kernels_that_clear_no_pages(
    build_whole: Build, run: Run, two_cores: CoreSet, flag: str
) -> None:
    """Processes are told apart where they all have one number, and by number where the kernel clears no memory."""
    done = run(build_whole("family.c", two_cores, flags=[flag]), MAVCG_TRACE="1", MAVCG_CPU_MAP="all=b")

    assert sorted(done.stderr.splitlines()) == ["mavcg: which b 5", "mavcg: which b 5"]


def test_all_threads_are_counted(build: Build, run: Run, two_cores: CoreSet) -> None:
    done = run(build("threads.c", two_cores), MAVCG_TRACE="1", MAVCG_CPU_MAP="all=b")

    assert done.stdout == "version 3: 80000\n"
    assert done.stderr.splitlines() == ["mavcg: which b 80000"]


def test_the_table_at_load(build: Build, run: Run, two_cores: CoreSet) -> None:
    done = run(build("which.c", two_cores), MAVCG_TRACE="cpus", MAVCG_CPU_MAP="0=a,1-2=b,*=generic")

    assert done.stderr.splitlines() == [
        "mavcg: cpu 0: a (MAVCG_CPU_MAP)",
        "mavcg: cpu 1: b (MAVCG_CPU_MAP)",
        "mavcg: cpu 2: b (MAVCG_CPU_MAP)",
        "mavcg: all other cpus: generic (MAVCG_CPU_MAP)",
    ]


def test_both_and_a_word_that_means_nothing(build: Build, run: Run, two_cores: CoreSet) -> None:
    done = run(build("which.c", two_cores), MAVCG_TRACE="1,cups,cpus", MAVCG_CPU_MAP="all=a")

    assert done.stderr.splitlines() == [
        "mavcg: MAVCG_TRACE: 'cups' is not 1, cpus or 0; it is left out",
        "mavcg: all other cpus: a (MAVCG_CPU_MAP)",
        "mavcg: which a 2",
    ]


def test_a_closed_stderr_is_no_error(build: Build, two_cores: CoreSet) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "{build("which.c", two_cores)}" 2>&-'],
        env=os.environ | {"MAVCG_TRACE": "1,cpus", "MAVCG_CPU_MAP": "all=a,bad"},
        capture_output=True,
        timeout=300,
    )

    assert done.returncode == 0 and b"main 1" in done.stdout


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make a set-user-ID program")
def test_a_set_user_id_program_does_not_heed_its_caller(build: Build, two_cores: CoreSet, tmp_path: Path) -> None:
    program = tmp_path / "which"
    program.write_bytes(build("which.c", two_cores).read_bytes())
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o6755)
    for folder in (tmp_path, *tmp_path.parents):
        if not os.stat(folder).st_mode & 0o001:
            os.chmod(folder, os.stat(folder).st_mode | 0o001)
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("the temporary folder is mounted nosuid")
    done = subprocess.run(
        [program], env={"MAVCG_TRACE": "1", "MAVCG_CPU_MAP": "all=a"}, capture_output=True, text=True, timeout=300
    )

    assert done.stderr == "" and "main 1" in done.stdout
