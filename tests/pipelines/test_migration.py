"""A thread that the scheduler moves between two core types in mid-call gets the same bits, each call by its version."""

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "examples/edge_app"
# Two core types whose instructions this machine is likely to have; what it lacks it says, and the test is skipped.
CORES = ("haswell", "skylake") if platform.machine() == "x86_64" else ("cortex-a53", "cortex-a57")
KERNELS = ("gemm_f32", "gemm_s8", "depthwise_f32")

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or not {0, 1} <= os.sched_getaffinity(0),
    reason="needs CPUs 0 and 1 to move a thread between",
)


@dataclass(frozen=True)
class Demo:
    """The driver, linked with a multi-versioned library and with the plain kernels."""

    program: Path

    def run(
        self, flips: int, map_: str, *before: str, **environment: str
    ) -> tuple[dict[str, int], dict[str, set[str]]]:
        """(what it counted, kernel -> versions that ran)."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
        done = subprocess.run(
            [*before, str(self.program), str(flips)],
            env=outside | {"MAVCG_CPU_MAP": map_} | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode == 77 or "MAVCG_CPU_MAP" in done.stderr:
            pytest.skip(f"this machine does not do as two core types: {done.stderr.strip()[:300]}")
        assert done.returncode == 0, f"{done.returncode}: {done.stdout} {done.stderr[-2000:]}"
        words = done.stdout.split()
        ran: dict[str, set[str]] = {}
        for function, version in re.findall(r"^mavcg: (\S+) (\S+) [1-9]\d*$", done.stderr, re.MULTILINE):
            ran.setdefault(function, set()).add(version)
        return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}, ran


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Built as a user builds: `mavcg build` makes the library, gcc the program."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("migration")
    library = folder / "libkernels.so"
    flags = ["-std=c11", "-O3", "-ffp-contract=off"]
    build = ["build", "--source", str(APP / "ops/*.c"), *(f"--flag={flag}" for flag in flags)]
    build += ["--hot", ",".join(KERNELS), "--cores", ",".join(CORES), "--runtime", "static", "-o", str(library)]
    subprocess.run([sys.executable, "-m", "mavcg.cli", *build], check=True, capture_output=True)
    renamed = [f"-D{kernel}=plain_{kernel}" for kernel in KERNELS]
    for kernel in KERNELS:
        source, made = str(APP / f"ops/{kernel}.c"), str(folder / f"{kernel}.o")
        subprocess.run(["gcc", *flags, *renamed, "-c", source, "-o", made], check=True)
    plain = [str(folder / f"{kernel}.o") for kernel in KERNELS]
    driver = str(Path(__file__).with_name("migrate_kernels.c"))
    link = ["gcc", "-O2", "-g", "-pthread", f"-I{APP}", driver, *plain, str(library), f"-Wl,-rpath,{folder}"]
    # requantize and pack_s8 are defined by the plain gemm_s8.c too: the library's may stand for them.
    subprocess.run([*link, "-o", str(folder / "driver")], check=True)
    return Demo(folder / "driver")


@pytest.mark.long
@pytest.mark.parametrize("flips", [100, 400, 1_000, 10_000])
def test_thousands_of_flips(demo: Demo, flips: int) -> None:
    counted, ran = demo.run(flips, f"0={CORES[0]},1={CORES[1]}", MAVCG_TRACE="1")
    assert counted["wrong"] == 0
    assert counted["flips"] == flips and counted["moves"] == flips // 20 and counted["calls"] > flips + flips // 20
    assert counted["others"] > flips // 10
    assert ran == dict.fromkeys(KERNELS, set(CORES))


@pytest.mark.long
@pytest.mark.parametrize("flips", [100, 500])
def test_flips_between_a_known_and_an_unknown_core(demo: Demo, flips: int) -> None:
    counted, ran = demo.run(flips, f"0=generic,1={CORES[1]}", MAVCG_TRACE="1")
    assert counted["wrong"] == 0
    assert ran == dict.fromkeys(KERNELS, {"generic", CORES[1]})


@pytest.mark.long
def test_helgrind_has_nothing_to_say(demo: Demo) -> None:
    # Without MAVCG_TRACE: its counters are C11 atomics, which helgrind takes for plain memory.
    # CORES[0] and generic: valgrind emulates no more than AVX2.
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    helgrind = ["valgrind", "-q", "--tool=helgrind", "--error-exitcode=9", "--fair-sched=yes"]
    counted, _ = demo.run(1000, f"0={CORES[0]},1=generic", *helgrind)
    assert counted["wrong"] == 0 and counted["flips"] == 1000 and counted["others"] > 50
