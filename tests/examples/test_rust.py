"""The Rust example, as its first lines say that it is built."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.cli.sized_models import make_model, near  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no rustc")
def test_rust_app(tmp_path: Path) -> None:
    make_model(tmp_path / "net.onnx", whole=True)
    commands = re.findall(r"^//!     (.*)$", (ROOT / "examples/rust/main.rs").read_text(), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["mavcg", "rustc", "./app"]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    # `mavcg` is this environment's.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
    assert "a wrong size: an input or output has not the size that the model needs" in done.stderr
    x = (np.arange(192) % 7 - 3).astype(np.float32).reshape(1, 3, 8, 8)
    want = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(None, {"x": x})[0]
    assert near(np.array(done.stdout.split(), np.float32).reshape(1, 5), want)
