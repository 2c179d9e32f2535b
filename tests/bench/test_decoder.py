"""python -m bench.decoder: its files for other runtimes have the same decoder; the command to the letter."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
import onnx  # noqa: E402

from bench.decoder import WITH_X1, add_board_with_x1, run_mavcg  # noqa: E402
from bench.decoder_genai import write_genai  # noqa: E402
from bench.decoder_gguf import q4_0, write_gguf  # noqa: E402
from bench.tables.threads import decoder as tables  # noqa: E402
from examples.decoder.make_decoder import BLOCK, SIZES, Decoder  # noqa: E402
from mavcg.graph.reference.block_weights import unpack_bits  # noqa: E402

ROOT = Path(__file__).parents[2]


def dequantised(blocks: np.ndarray) -> np.ndarray:
    """Blocks of Q4_0, [rows, bytes], as f32: by the definition in ggml, number by number."""
    rows = blocks.reshape(len(blocks), -1, 2 + BLOCK // 2)
    scales = rows[..., :2].copy().view(np.float16).astype(np.float32)
    low, high = (rows[..., 2:] & 15).astype(np.float32) - 8, (rows[..., 2:] >> 4).astype(np.float32) - 8
    return np.asarray(np.concatenate([low, high], axis=-1) * scales).reshape(len(blocks), -1)


def test_blocks_of_gguf_have_the_same_weights() -> None:
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (3, 64)).astype(np.uint8)
    scales = rng.uniform(0.01, 1, (3, 4)).astype(np.float16).astype(np.float32)
    numbers = unpack_bits(packed, 4, 128).astype(np.float32) - 8
    wanted = numbers.reshape(3, 4, 32) * scales[..., None]
    np.testing.assert_array_equal(dequantised(q4_0(packed, scales)), wanted.reshape(3, 128))


def test_a_gguf_file_has_all_weights(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    decoder = Decoder(SIZES["tiny"], 64, 0)
    decoder.model()
    reader = gguf.GGUFReader(write_gguf(decoder, tmp_path / "m.gguf"))
    packed = sum(int(t.n_elements) for t in reader.tensors if t.tensor_type.name == "Q4_0")
    assert packed == decoder.weights and len(reader.tensors) == 3 + 9 * SIZES["tiny"].layers


def test_the_model_of_genai_computes_lengths_from_its_mask(tmp_path: Path) -> None:
    """By onnxruntime, with caches of another length than the file's: the tokens of the model without a mask."""
    onnxruntime = pytest.importorskip("onnxruntime")
    decoder = Decoder(SIZES["tiny"], 64, 0, 4)
    model = decoder.model()
    folder = write_genai(decoder, model, tmp_path / "genai")
    config = json.loads((folder / "genai_config.json").read_text())["model"]
    assert config["vocab_size"] == 512 and config["decoder"]["num_key_value_heads"] == 2
    onnx.save(model, tmp_path / "plain.onnx")
    ids, count = np.arange(1, 6)[None], 5
    lengths = {"seqlens_k": np.array([count - 1], np.int32), "total_sequence_length": np.array(count, np.int32)}
    scores = []
    for path, more, room in (
        (tmp_path / "plain.onnx", lengths, 64),
        (folder / "model.onnx", {"attention_mask": np.ones((1, count), np.int64)}, 20),
    ):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs() if i.name.startswith("past")]
        caches = {name: np.zeros((1, 2, room, 32), np.float32) for name in names}
        scores.append(session.run(["logits"], {"input_ids": ids, **more, **caches})[0])
    np.testing.assert_array_equal(*scores)


def test_the_board_with_an_x1_is_one(tmp_path: Path) -> None:
    folder = add_board_with_x1(tmp_path / "more")
    shown = json.loads(run_mavcg("cores", WITH_X1, "--json", profiles=folder))
    assert "cortex-x1" in json.dumps(shown) and "cortex-x2" not in json.dumps(shown)


@pytest.mark.long
def test_the_command() -> None:
    pytest.importorskip("onnxruntime")
    command = [sys.executable, "-m", "bench.decoder", "--size", "tiny", "--tokens", "4", "--rounds", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    record = json.loads(done.stdout)
    made = tables(record)
    assert made.count("| rk3588 |") == 2 and "| mavcg | 1 |" in made
    assert {(row["runtime"].split()[0], row["threads"]) for row in record["rows"]} >= {
        (runtime, threads) for runtime in ("mavcg", "onnxruntime") for threads in (1, 2)
    }
    assert all(row["tokens_per_s"] > 0 for row in (*record["rows"], *record["prompts"]))
    assert [row["runtime"] for row in record["prompts"]] == [row["runtime"] for row in record["rows"]]
    shares = [row["share"] for row in record["prompts"] if not row["runtime"].startswith("llama")]
    assert all(0 < share < 8 for share in shares) and "a prompt of 4 tokens" in made
    assert f"by `{record['peak']['instruction']}`" in made
    assert ("a share may be above 100 %" in made) == ("tiles" in record["peak"])
    assert [row["core"] for row in record["predicted"]] == ["cortex-a55", "cortex-a76", "cortex-x1", "cortex-x2"]
