"""Writes a seeded decoder as an ONNX file: like Llama, with weights of 4 bits in blocks and caches of a fixed length.

    python make_decoder.py decoder.onnx --size tiny

It knows no language: its weights are random numbers. Its operators are those that onnxruntime-genai's builder writes.
"""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
BLOCK = 32  # weights with a scale


@dataclass(frozen=True)
class Size:
    """Sizes of a decoder. head: elements of a head. inner: of the feed-forward part."""

    layers: int
    hidden: int
    heads: int
    kept_heads: int
    head: int
    inner: int
    words: int


SIZES = {
    "tiny": Size(2, 128, 4, 2, 32, 256, 512),
    "20m": Size(6, 512, 8, 4, 64, 1408, 4096),
    "100m": Size(12, 768, 12, 4, 64, 2048, 16384),
}


class Decoder:
    """The nodes and constants of a decoder."""

    def __init__(self, size: Size, context: int, seed: int, level: int = 0) -> None:
        self.size, self.context, self.level, self.random = size, context, level, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.weights = 0

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], outputs: list[str], domain: str = MICROSOFT, **attributes: Any) -> str:
        """Add a node and return its first output."""
        self.nodes.append(helper.make_node(op, inputs, outputs, outputs[0], domain=domain, **attributes))
        return outputs[0]

    def add_weights(self, name: str, rows: int, depth: int) -> list[str]:
        """Add random weights [rows, depth] as numbers of 4 bits and a scale for each block; return both names."""
        self.weights += rows * depth
        numbers = np.clip(np.rint(self.random.normal(8, 2.6, (rows, depth))), 0, 15).astype(np.uint8)
        packed = numbers[:, ::2] | numbers[:, 1::2] << 4
        spread = self.random.uniform(0.8, 1.2, (rows, depth // BLOCK)) / (2.6 * depth**0.5)
        scales = spread.astype(np.float16).astype(np.float32)
        return [self.constant(f"{name}.weight", packed), self.constant(f"{name}.scales", scales)]

    def product(self, name: str, x: str, depth: int, width: int) -> str:
        """Add a product with weights of 4 bits; activations are quantised in the run at accuracy_level 4."""
        packed, scales = self.add_weights(name, width, depth)
        (tensor,) = (c for c in self.constants if c.name == packed)
        tensor.dims[:] = [width, depth // BLOCK, BLOCK // 2]
        attributes: dict[str, Any] = {
            "K": depth,
            "N": width,
            "bits": 4,
            "block_size": BLOCK,
            "accuracy_level": self.level,
        }
        return self.node("MatMulNBits", [x, packed, scales], [name], **attributes)

    def norm(self, name: str) -> str:
        """Add the factors of a normalisation."""
        return self.constant(name, self.random.uniform(0.8, 1.2, self.size.hidden).astype(np.float32))

    def attention(self, layer: str, x: str) -> str:
        """Add attention over the cache of a layer."""
        s = self.size
        qkv = self.product(f"{layer}.qkv", x, s.hidden, (s.heads + 2 * s.kept_heads) * s.head)
        number = layer.removeprefix("layers.")
        past, present = (
            [f"{when}.{number}.{part}" for part in ("key", "value")] for when in ("past_key_values", "present")
        )
        inputs = [qkv, "", "", *past, "seqlens_k", "total_sequence_length", "cos", "sin"]
        attributes: dict[str, Any] = {"num_heads": s.heads, "kv_num_heads": s.kept_heads, "do_rotary": 1}
        attended = self.node("GroupQueryAttention", inputs, [f"{layer}.attention", *present], **attributes)
        return self.product(f"{layer}.out", attended, s.heads * s.head, s.hidden)

    def feed_forward(self, layer: str, x: str) -> str:
        """Add the gated feed-forward part of a layer."""
        s = self.size
        gate, up = (self.product(f"{layer}.{part}", x, s.hidden, s.inner) for part in ("gate", "up"))
        sigmoid = self.node("Sigmoid", [gate], [f"{layer}.sigmoid"], domain="")
        silu = self.node("Mul", [gate, sigmoid], [f"{layer}.silu"], domain="")
        gated = self.node("Mul", [silu, up], [f"{layer}.gated"], domain="")
        return self.product(f"{layer}.down", gated, s.inner, s.hidden)

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        s = self.size
        angles = np.arange(self.context)[:, None] / 10000.0 ** np.linspace(0, 1, s.head // 2, endpoint=False)
        for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
            self.constant(name, table.astype(np.float32))
        packed, scales = self.add_weights("words", s.words, s.hidden)
        words: dict[str, Any] = {"bits": 4, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
        total = self.node("GatherBlockQuantized", [packed, "input_ids", scales], ["words.rows"], **words)
        x = self.node(
            "SimplifiedLayerNormalization", [total, self.norm("norm")], ["x"], domain="", epsilon=1e-5, axis=-1
        )
        for number in range(s.layers):
            layer = f"layers.{number}"
            for part in (self.attention, self.feed_forward):
                made, factors = part(layer, x), self.norm(f"{layer}.{part.__name__}.norm")
                total_name = f"{made}.total"
                x = self.node(
                    "SkipSimplifiedLayerNormalization",
                    [total, made, factors],
                    [f"{made}.normed", "", "", total_name],
                    epsilon=1e-5,
                )
                total = total_name
        logits = self.product("logits", x, s.hidden, s.words)
        info, cache = helper.make_tensor_value_info, (1, s.kept_heads, self.context, s.head)
        parts = [f"{number}.{part}" for number in range(s.layers) for part in ("key", "value")]
        inputs = [
            info("input_ids", TensorProto.INT64, (1, "tokens")),
            info("seqlens_k", TensorProto.INT32, (1,)),
            info("total_sequence_length", TensorProto.INT32, ()),
            *(info(f"past_key_values.{part}", TensorProto.FLOAT, cache) for part in parts),
        ]
        outputs = [info(logits, TensorProto.FLOAT, (1, "tokens", s.words))]
        outputs += [info(f"present.{part}", TensorProto.FLOAT, cache) for part in parts]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.constants)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("path")
    parser.add_argument("--size", choices=SIZES, default="20m")
    parser.add_argument("--context", type=int, default=256, help="most tokens of a text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--accuracy-level", type=int, default=0, help="4: activations of 8 bits")
    given = parser.parse_args()
    decoder = Decoder(SIZES[given.size], given.context, given.seed, given.accuracy_level)
    onnx.save(decoder.model(), given.path)
    print(f"{given.path}: {decoder.weights / 1e6:.1f} million weights")


if __name__ == "__main__":
    main()
