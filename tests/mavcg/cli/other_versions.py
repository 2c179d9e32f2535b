"""Other versions of ONNX Runtime than the one beside the tests, each in a folder of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ONLY_PYTHON_3_11 = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the older versions have wheels for Python 3.11"
)


def run_with_version(version: str, folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder with a version of onnxruntime, whose packages' folder is its first argument.

    It comes from PyPI; the test is skipped where that cannot be reached.
    """
    target = folder / "site"
    packages = (f"onnxruntime=={version}", "numpy==1.26.4", "packaging", "flatbuffers", "protobuf")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), *packages]
    if subprocess.run(command, capture_output=True, timeout=1200).returncode:
        pytest.skip("PyPI cannot be reached")
    # -S: without this environment's own packages.
    command = [sys.executable, "-S", "-c", script, str(target), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
