"""The decoder of examples/decoder as a GGUF file of the architecture llama, with the same numbers of 4 bits (Q4_0).

Q4_0 is blocks of 32 numbers with a scale of f16 and a zero point of 8, as the decoder's weights are; byte j of a block
holds number j and number 16 + j. The file has no words: llama-bench runs numbers of tokens.
Source: ggml, ggml-quants.c (dequantize_row_q4_0); gguf's constants of tensor names.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from examples.decoder.make_decoder import BLOCK, Decoder


def q4_0(packed: NDArray[np.uint8], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return blocks of Q4_0, u8 [rows, 18 bytes of each block].

    packed: [rows, depth / 2], u8, the first number in the lower half. scales: [rows, blocks], f32.
    """
    rows, blocks = scales.shape
    numbers = np.stack([packed & 15, packed >> 4], axis=-1).reshape(rows, blocks, 2, BLOCK // 2)
    halves = numbers[:, :, 0] | numbers[:, :, 1] << 4
    heads = scales.astype(np.float16)[..., None].view(np.uint8)
    return np.ascontiguousarray(np.concatenate([heads, halves], axis=-1).reshape(rows, -1), np.uint8)


def write_gguf(decoder: Decoder, path: Path) -> Path:
    """Write the file. decoder: whose model was made. Raises: ImportError without the package gguf."""
    import gguf

    size = decoder.size
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(decoder.context)
    writer.add_embedding_length(size.hidden)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.inner)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.kept_heads)
    writer.add_rope_dimension_count(size.head)
    writer.add_key_length(size.head)
    writer.add_value_length(size.head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(size.words)
    writer.add_tokenizer_model("no_vocab")
    arrays = {constant.name: numpy_helper.to_array(constant) for constant in decoder.constants}

    def add(name: str, stem: str, rows: slice = slice(None)) -> None:
        scales = arrays[f"{stem}.scales"]
        packed = arrays[f"{stem}.weight"].reshape(len(scales), -1)
        blocks = q4_0(packed[rows], scales[rows])
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    add("token_embd", "words")
    add("output", "logits")
    norms = ["norm", *(f"layers.{i}.{part}.norm" for i in range(size.layers) for part in ("attention", "feed_forward"))]
    names = [name for i in range(size.layers) for name in (f"blk.{i}.attn_norm", f"blk.{i}.ffn_norm")]
    for name, stem in zip([*names, "output_norm"], norms, strict=True):
        writer.add_tensor(f"{name}.weight", arrays[stem])
    ends = np.cumsum([size.heads, size.kept_heads, size.kept_heads]) * size.head
    for i in range(size.layers):
        for part, begin, end in zip("qkv", (0, *ends[:2]), ends, strict=True):
            add(f"blk.{i}.attn_{part}", f"layers.{i}.qkv", slice(begin, end))
        add(f"blk.{i}.attn_output", f"layers.{i}.out")
        for part in ("gate", "up", "down"):
            add(f"blk.{i}.ffn_{part}", f"layers.{i}.{part}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
