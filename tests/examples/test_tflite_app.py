"""examples/tflite_app: its README's commands to the letter, and what it says of faulty input."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.tflite_app import face, label_image
from mavcg.toolchain.target import host_target

ROOT = Path(__file__).parents[2]
README = ROOT / "examples" / "tflite_app" / "README.md"


@pytest.mark.parametrize("main", [face.main, label_image.main])
def test_help_names_the_delegate(main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0 and "--delegate LIBRARY.so" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["m.tflite"], "m.tflite: there is no such file"),
        (["m.tflite", "--image", "none.npy"], "none.npy: there is no such file"),
        (["m.tflite", "--image", "flat.npy"], r"flat.npy: is of shape \(5, 5\); an image is \[height, width, 3\]"),
        (["m.tflite", "--image", "f32.npy"], "f32.npy: holds float32; an image holds uint8"),
        (["m.tflite", "--image", "text.npy"], "text.npy: is not a .npy file"),
        (["m.tflite", "--labels", "none.txt"], "none.txt: there is no such file"),
        (["m.tflite", "--threads", "0"], "0 is less than 1"),
    ],
)
def test_faults_of_the_command_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("flat.npy", np.zeros((5, 5), np.uint8))
    np.save("f32.npy", np.zeros((5, 5, 3), np.float32))
    Path("text.npy").write_text("no array")

    with pytest.raises(SystemExit) as ended:
        label_image.main(arguments)
    assert ended.value.code == 2 and re.search(said, capsys.readouterr().err)


def test_one_delegate_for_two_models(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        face.main(["--delegate", "libblazeface.so"])
    assert "give the detector's and the landmarks'" in capsys.readouterr().err


@pytest.mark.long
def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter")
    if host_target().arch != "x86_64" or not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("the README's core types are those of an x86-64 machine with CPUs 0 and 1")
    if subprocess.run(["perf", "record", "-q", "-o", os.devnull, "--", "true"], capture_output=True).returncode:
        pytest.skip("perf may not record here")
    for name in ("examples", "bench"):
        (tmp_path / name).symlink_to(ROOT / name)
    commands = re.findall(r"^    (.*)$", README.read_text(), re.M)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")} | {"PATH": path}
    script = "\n".join(commands)
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1500)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^without [\d.]+ ms, with [\d.]+ ms$", done.stdout, re.M)) == 4
    assert len(re.findall(r"^apart \S+, largest", done.stdout, re.M)) == 4
    assert {"haswell", "broadwell"} <= set(re.findall(r"^mavcg: \S+ (\w+) \d+$", done.stderr, re.M))
    points = np.load(tmp_path / "cpu0.npy")
    assert points.shape == (468, 3)
    assert np.abs(points[:, :2].mean(axis=0) - 240).max() < 48  # about the drawn face's centre
