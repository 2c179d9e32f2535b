"""examples/tflite_app on an emulated board: LiteRT's wheel for AArch64, Debian's Python, and the board's delegates."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.debian import unpacked_packages
from bench.models import model_path
from mavcg.errors import MavcgError
from tests.machine import MIDRS, QEMU, needs_qemu

pytestmark = [pytest.mark.long, needs_qemu]

ROOT = Path(__file__).parents[2]
DEBIAN = (
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libstdc++6",
    "python3.11-minimal",
    "zlib1g",
)
WHEELS = ("ai-edge-litert==2.3.0", "numpy==2.4.6", "flatbuffers")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
# Without it LiteRT reads the host's, finds no core in it, and XNNPACK ends by SIGSEGV in allocate_tensors.
CPUINFO = """\
processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0a
CPU revision\t: 1

"""
MODELS = ("blazeface", "face_landmark")


@pytest.fixture(scope="module")
def python() -> list[str]:
    """The command of an emulated Python that has LiteRT; its CPU comes from QEMU_CPU."""
    root = unpacked_packages("arm64", DEBIAN)
    if isinstance(root, str):
        pytest.skip(root)
    packages = root / "site"
    if not packages.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:"]
        platforms = [f"--platform={name}" for name in PLATFORMS]
        command = [*pip, *platforms, "--python-version=3.11", f"--target={root / 'unfinished'}", *WHEELS]
        if subprocess.run(command, capture_output=True, timeout=600).returncode:
            pytest.skip("PyPI cannot be reached")
        (root / "unfinished").rename(packages)
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "cpuinfo").write_text(CPUINFO)
    return [str(QEMU), "-L", str(root), "-E", f"PYTHONPATH={packages}", str(root / "usr/bin/python3.11")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models and their libraries for a board."""
    made = tmp_path_factory.mktemp("board")
    (made / "examples").symlink_to(ROOT / "examples")
    for name in MODELS:
        try:
            shutil.copy(model_path(name), made / f"{name}.tflite")
        except MavcgError as error:
            pytest.skip(str(error))
        build = [sys.executable, "-m", "mavcg.cli", "build", f"{name}.tflite", "--board", "exynos9820", "--partial"]
        done = subprocess.run([*build, "-o", f"lib{name}.so"], cwd=made, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    return made


def test_the_face_pipeline_on_every_core_of_a_board(python: list[str], folder: Path) -> None:
    delegates = [f"--delegate=lib{name}.so" for name in MODELS]
    program = [*python, "-m", "examples.tflite_app.face", "--rounds", "1", *delegates]
    one_cpu = {min(os.sched_getaffinity(0))}  # a thread that is moved while it reads the register runs `generic` once
    for core in ("cortex-a55", "cortex-a75", "exynos-m4"):
        done = subprocess.run(
            [*program, "--save", f"{core}.npy"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
            env=os.environ | {"QEMU_CPU": f"max,midr={MIDRS[core]:#x}", "MAVCG_TRACE": "1"},
            preexec_fn=lambda: os.sched_setaffinity(0, one_cpu),
        )

        assert done.returncode == 0, done.stdout + done.stderr[-2000:]  # status 1: the results are more than 1e-4 apart
        assert re.findall(r"(\d+ of \d+) nodes$", done.stderr, re.M) == ["164 of 164", "97 of 97"]
        assert set(re.findall(r"^mavcg: \S+ (\S+) [1-9]\d*$", done.stderr, re.M)) == {core}
        (apart,) = re.findall(r"^apart (\S+), largest", done.stdout, re.M)
        assert float(apart) > 0  # the delegates computed, and not the runtime
    assert len({(folder / f"{core}.npy").read_bytes() for core in ("cortex-a55", "cortex-a75", "exynos-m4")}) == 1
