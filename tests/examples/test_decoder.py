"""examples/decoder: the commands of its README to the letter, whose tokens are equal, in C, Python and onnxruntime."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mavcg
from examples.decoder.generate import generate
from mavcg.errors import MavcgError
from mavcg.importers.onnx_file import import_onnx

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from examples.decoder.generate import by_library, by_onnxruntime  # noqa: E402
from examples.decoder.make_decoder import SIZES, Decoder  # noqa: E402

FOLDER = Path(__file__).parents[2] / "examples/decoder"
STATE = "past_key_values.*=present.*"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands of the README have run; what they print is in `printed`."""
    folder = tmp_path_factory.mktemp("decoder")
    for name in ("make_decoder.py", "generate.py", "generate.c"):
        (folder / name).symlink_to(FOLDER / name)
    tools = folder / "tools"
    tools.mkdir()
    python = Path(sys.executable)
    (tools / "cc").write_text(f'#!/bin/sh\nexec {python} -m ziglang cc "$@"\n')
    (tools / "cc").chmod(0o755)
    commands = re.findall(r"^    (.*)$", (FOLDER / "README.md").read_text(), re.M)
    env = dict(os.environ) | {"PATH": f"{tools}:{python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "printed").write_text(done.stdout)
    return folder


@pytest.mark.long
def test_the_commands_of_the_readme(there: Path) -> None:
    printed = (there / "printed").read_text()
    texts = re.findall(r"^\d+(?: \d+){19}$", printed, re.M)
    assert len(texts) == 4 and len(set(texts)) == 1 and len(set(texts[0].split())) > 3


@pytest.mark.long
def test_a_prompt_by_one_library_and_the_rest_by_another(there: Path) -> None:
    tokens = [5, 17, 300, 2, 41]
    with mavcg.load(there / "libprompt.so") as prompt, mavcg.load(there / "libdecoder.so") as model:
        filled = np.array([[*tokens, 0, 0, 0]], np.int64)
        (scores,) = prompt.run(filled, np.array([4], np.int32), np.array(8, np.int32))
        model.restore_state(prompt.save_state())
        first = int(scores[0, 4].argmax())
        (scores,) = model.run(np.array([[first]]), np.array([5], np.int32), np.array(6, np.int32))
        found = [first, int(scores[0, 0].argmax())]
    assert found == generate(by_onnxruntime(str(there / "decoder.onnx"), 1), tokens, 2)


@pytest.mark.long
def test_a_text_that_is_longer_than_the_cache_ends_in_an_error(there: Path) -> None:
    with mavcg.load(there / "libdecoder.so") as model:
        last, token = np.array([256], np.int32), np.zeros((1, 1), np.int64)
        with pytest.raises(MavcgError, match="index"):
            model.run(token, last, last.reshape(()) + 1)
        model.reset()
        model.run(token, last - 256, last.reshape(()) - 255)


def test_weights_stay_packed_and_caches_are_attended_where_they_are(tmp_path: Path) -> None:
    import onnx

    onnx.save(Decoder(SIZES["tiny"], 64, 0).model(), tmp_path / "m.onnx")
    graph = import_onnx(tmp_path / "m.onnx", {"input_ids": (1, 1)})
    ops = [node.op for node in graph.nodes]
    assert ops.count("block_matmul") == 2 * 5 + 1 and ops.count("attention") == 2 and "matmul" not in ops
    assert ops.count("scatter") == 4 and ops.count("expand_blocks") == 1


@pytest.mark.long
@pytest.mark.parametrize("level", [0, 4])
def test_a_larger_decoder_says_what_onnxruntime_says(level: int, tmp_path: Path) -> None:
    """The same text with f32 activations; with quantised ones the same scores but for some roundings."""
    import onnx

    onnx.save(Decoder(SIZES["20m"], 128, 0, level).model(), tmp_path / "m.onnx")
    command = [sys.executable, "-m", "mavcg.cli", "build", "m.onnx", "--board", "host", "--shape", "input_ids=1x1"]
    subprocess.run([*command, "--state", STATE, "-o", "libm.so"], cwd=tmp_path, check=True, capture_output=True)
    ours, theirs = by_library(str(tmp_path / "libm.so"), 2), by_onnxruntime(str(tmp_path / "m.onnx"), 2)
    tokens = [11, 7, 1999]
    for place in range(24):
        computed, expected = (step([tokens[place]], place) for step in (ours, theirs))
        assert np.abs(computed - expected).max() < (0.2 if level == 4 else 1e-4) * expected.std()
        assert level == 4 or computed.argmax() == expected.argmax()
        if place >= 2:
            tokens.append(int(expected.argmax()))
