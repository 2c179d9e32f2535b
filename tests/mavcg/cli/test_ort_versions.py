"""The libraries of a partial build in ONNX Runtime 1.16 to 1.32, one wheel from PyPI a minor version.

Each is installed into a folder of its own, and a process with that folder first on its path does what docs/drop-in.md
has a user write: the operator in all versions, the plug-in provider where there is one. A wheel that cannot be had is
skipped with pip's words.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bench.wheels import pip  # noqa: E402
from mavcg.errors import MavcgError  # noqa: E402
from tests.mavcg.cli import test_build_partial, test_ort_provider  # noqa: E402
from tests.mavcg.cli.partial_models import (  # noqa: E402
    ARRAYS,
    build,  # noqa: E402
    check_results,
    make_model,
)

VERSIONS = (
    "1.16.3",
    "1.17.3",
    "1.18.1",
    "1.19.2",
    "1.20.1",
    "1.21.1",
    "1.22.1",
    "1.23.2",
    "1.24.4",
    "1.25.1",
    "1.26.0",
    "1.27.0",
    "1.28.0",
    "1.29.0",
    "1.30.0",
    "1.31.1",
    "1.32.0",
)
OPERATOR = "import sys\n\nsys.path[:0] = sys.argv[1:]\n" + test_build_partial.SCRIPT + "print(ort.__version__)\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    """A folder with net.onnx, two subgraphs of it as libnet.so, and the model that calls them."""
    folder = tmp_path_factory.mktemp("versions")
    make_model(folder / "net.onnx", batch=1, between=True)
    build(folder, cores[1], "--also", "m.mavcg.onnx")
    shutil.copy(folder / "libnet.so", folder / "libm.so")
    for name, array in ARRAYS.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_operator_and_provider(built: Path, tmp_path: Path, version: str) -> None:
    minor = int(version.split(".")[1])
    numpy = ["numpy<2"] if minor < 19 else []  # wheels before 1.19 were compiled for NumPy 1
    try:
        pip("install", "-q", "--only-binary=:all:", f"--target={tmp_path}", f"onnxruntime=={version}", *numpy)
    except MavcgError as error:
        pytest.skip(f"onnxruntime {version} cannot be had: {error}")

    done = run(built, OPERATOR, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [version]
    check(built)
    if minor < 23:  # 1.22 has plug-in providers in C, but no call of Python's registers one
        return
    done = run(built, test_ort_provider.SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{version} ") and "2 of 2 subgraphs of net.onnx" in done.stderr
    check(built)


def run(folder: Path, script: str, packages: Path) -> "subprocess.CompletedProcess[str]":
    """Run a script in the folder, with these packages before the environment's own."""
    (folder / "y.npz").unlink(missing_ok=True)
    command = [sys.executable, "-c", script, str(packages)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def check(folder: Path) -> None:
    """The script's results are those of this environment's ONNX Runtime."""
    with np.load(folder / "y.npz") as made:
        check_results([made[name] for name in made.files], folder / "net.onnx", ARRAYS)
