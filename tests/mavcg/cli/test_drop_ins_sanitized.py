"""Every drop-in is loaded, run, made to fail and unloaded under the address and undefined-behaviour sanitizers, in the
real runtimes; then all of them in one process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert.interpreter")

from tests.mavcg.cli.litert_models import chain  # noqa: E402
from tests.mavcg.cli.partial_models import make_model  # noqa: E402
from tests.mavcg.importers.tflite.conftest import Writer  # noqa: E402

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SANITIZERS = ("libasan.so", "libubsan.so")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def preloads() -> str:
    """The sanitizers' libraries of gcc, for LD_PRELOAD."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    asked = [["gcc", f"-print-file-name={name}"] for name in SANITIZERS]
    paths = [subprocess.run(each, capture_output=True, text=True, check=True).stdout.strip() for each in asked]
    if not all(Path(path).is_absolute() for path in paths):
        pytest.skip("gcc has no sanitizers")
    return ":".join(paths)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str], preloads: str) -> Path:
    """A folder with libnet.so, libm.so and libblas.so, whose C is compiled with sanitizers."""
    folder = tmp_path_factory.mktemp("sanitized")
    make_model(folder / "net.onnx", batch=1)
    (folder / "m.tflite").write_bytes(chain(Writer()))
    for arguments in (
        ["build", "net.onnx", "--partial", "--cores", cores[1], "-o", "libnet.so", "--also", "net.mavcg.onnx"],
        ["build", "m.tflite", "--partial", "--cores", cores[1], "-o", "libm.so"],
        ["blas", "build", "--cores", cores[1], "-o", "libblas.so"],
    ):
        command = [sys.executable, "-m", "tests.mavcg.cli.sanitized_build", *arguments]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr
    for name in ("libnet.so", "libm.so", "libblas.so"):
        assert b"__asan_report_load8" in (folder / name).read_bytes(), f"{name} has no sanitizer"
    return folder


def run_under(preloads: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Python and the runtimes leave memory to the end of the process: leaks are no faults here.
    options = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run(
        [sys.executable, str(HERE / "drop_ins_script.py"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env=dict(os.environ) | options | {"LD_PRELOAD": preloads},
    )


@pytest.mark.parametrize("what", ["ort", "provider", "litert", "blas", "all"])
def test_load_run_error_unload(libraries: Path, preloads: str, what: str) -> None:
    done = run_under(preloads, libraries, what, "3")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr[-3000:]
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr


def test_a_preloaded_blas(libraries: Path, preloads: str) -> None:
    """As `LD_PRELOAD=libblas.so app`: beside the other drop-ins, whose runtimes have sums of their own."""
    done = run_under(f"{preloads}:{libraries / 'libblas.so'}", libraries, "all", "1")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr[-3000:]


def test_the_sanitizer_would_say_it(libraries: Path, preloads: str) -> None:
    """An array that is shorter than its argument says is a fault that must be found."""
    done = run_under(preloads, libraries, "overrun")
    assert done.returncode != 0 and "heap-buffer-overflow" in done.stderr and "read_options" in done.stderr
