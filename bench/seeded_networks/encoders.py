"""Encoders for question answering, in the form of ALBERT (Lan et al., 2020) and MobileBERT (Sun et al., 2020).

Layers and sizes are those of the published base models, on 384 tokens as TensorFlow Lite's question answering models;
the graphs are written here, with seeded weights. Outputs: a score of each token as the answer's start, and as its end.
"""

from typing import TYPE_CHECKING

import numpy as np

from bench.seeded_networks.writer import OnnxWriter

if TYPE_CHECKING:
    import onnx

TOKENS = 384
_MASKED = -10000.0


class _Encoder(OnnxWriter):
    """Layers of both encoders; all tensors between them are [1, tokens, features]."""

    def linear(self, x: str, name: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        """Add x times weights plus bias. name: of the weights, which layers may share."""
        if f"{name}.w" not in self.weights:
            self.weight(f"{name}.w", self.draw((inputs, outputs), float(np.sqrt(gain / inputs))))
            self.weight(f"{name}.b", self.draw((outputs,), 0.02))
        return self.node("Add", [self.node("MatMul", [x, f"{name}.w"]), f"{name}.b"])

    def scale(self, op: str, x: str, name: str, size: int) -> str:
        """Add LayerNormalization or, with op "", MobileBERT's NoNorm: a scale and an offset for each feature."""
        if f"{name}.scale" not in self.weights:
            self.weight(f"{name}.scale", self.random.uniform(0.8, 1.2, size).astype(np.float32))
            self.weight(f"{name}.offset", self.draw((size,), 0.05))
        if op:
            return self.node(op, [x, f"{name}.scale", f"{name}.offset"], axis=-1, epsilon=1e-12)
        return self.node("Add", [self.node("Mul", [x, f"{name}.scale"]), f"{name}.offset"])

    def embed(self, words: int, size: int) -> str:
        """Add the lookup of `input_ids` in a random table."""
        return self.node("Gather", [self.weight("words", self.draw((words, size), 1.0)), "input_ids"], axis=0)

    def add_positions(self, x: str, size: int) -> str:
        """Add the embeddings of positions and segments to x."""
        x = self.node("Add", [x, self.draw((1, TOKENS, size), 0.1)])
        return self.node("Add", [x, self.node("Gather", [self.draw((2, size), 0.1), "segment_ids"], axis=0)])

    def mask(self) -> str:
        """Add the attention mask [1, 1, 1, tokens]: 0 for tokens that count, -10000 for others."""
        kept = self.node("Unsqueeze", [self.node("Cast", ["input_mask"], to=1), np.array([1, 2], np.int64)])
        return self.node("Mul", [self.node("Sub", [np.float32(1), kept]), np.float32(_MASKED)])

    def attention(self, query: str, key: str, value: str, mask: str, heads: int, size: int) -> str:
        """Add softmax(Q K^T / sqrt(features of a head) + mask) V for each head, concatenated."""
        split, each = np.array([1, TOKENS, heads, size // heads], np.int64), size // heads
        q, v = (self.node("Transpose", [self.node("Reshape", [t, split])], perm=[0, 2, 1, 3]) for t in (query, value))
        k = self.node("Transpose", [self.node("Reshape", [key, split])], perm=[0, 2, 3, 1])
        scores = self.node("Mul", [self.node("MatMul", [q, k]), np.float32(1 / np.sqrt(each))])
        weights = self.node("Softmax", [self.node("Add", [scores, mask])], axis=-1)
        joined = self.node("Transpose", [self.node("MatMul", [weights, v])], perm=[0, 2, 1, 3])
        return self.node("Reshape", [joined, np.array([1, TOKENS, size], np.int64)])

    def gelu(self, x: str) -> str:
        """Add GELU in its form with tanh, as ALBERT's code has it."""
        cube = self.node("Mul", [self.node("Mul", [x, x]), x])
        inner = self.node("Add", [x, self.node("Mul", [cube, np.float32(0.044715)])])
        tanh = self.node("Tanh", [self.node("Mul", [inner, np.float32(np.sqrt(2 / np.pi))])])
        return self.node("Mul", [self.node("Mul", [x, np.float32(0.5)]), self.node("Add", [tanh, np.float32(1)])])

    def answer(self, x: str, size: int) -> "onnx.ModelProto":
        """Return the model, ended by the two scores of each token."""
        both = self.node("Transpose", [self.linear(x, "answer", size, 2)], perm=[2, 0, 1])
        at = self.node("Split", [both], outputs=2, axis=0)
        squeezed = [self.node("Squeeze", [f"{at[:-2]}.{part}", np.array([0], np.int64)]) for part in (0, 1)]
        given = {"input_ids": np.int64, "input_mask": np.int32, "segment_ids": np.int32}
        ids = [(name, kind, (1, TOKENS)) for name, kind in given.items()]
        return self.model(ids, [(name, (1, TOKENS)) for name in squeezed])


def albert(layers: int = 12) -> "onnx.ModelProto":
    """Return ALBERT base: embeddings of 128, 768 features, 12 heads, 3072 inner features.

    All layers share their weights.
    """
    net, size = _Encoder("albert"), 768
    x = net.scale("LayerNormalization", net.add_positions(net.embed(30000, 128), 128), "norm0", 128)
    x, mask = net.linear(x, "wider", 128, size), net.mask()
    for _ in range(layers):
        query, key, value = (
            net.linear(x, name, size, size, gain) for name, gain in (("query", 4), ("key", 4), ("value", 1))
        )
        y = net.linear(net.attention(query, key, value, mask, 12, size), "attended", size, size)
        x = net.scale("LayerNormalization", net.node("Add", [x, y]), "norm1", size)
        y = net.linear(net.gelu(net.linear(x, "inside", size, 3072)), "outside", 3072, size)
        x = net.scale("LayerNormalization", net.node("Add", [x, y]), "norm2", size)
    return net.answer(x, size)


def mobilebert(layers: int = 24) -> "onnx.ModelProto":
    """Return MobileBERT: 512 features, bottlenecks of 128, 4 heads, 4 feed-forward networks per layer, no LayerNorm."""
    net, wide, narrow = _Encoder("mobilebert"), 512, 128
    words = net.embed(30522, narrow)
    around = [net.node("Pad", [words, np.array([0, begin, 0, 0, end, 0], np.int64)]) for begin, end in ((0, 1), (1, 0))]
    bounds = (([1], [TOKENS + 1]), ([0], [TOKENS]))
    shifted = [
        net.node("Slice", [t, np.array(first, np.int64), np.array(last, np.int64), np.array([1], np.int64)])
        for t, (first, last) in zip(around, bounds, strict=True)
    ]
    x = net.linear(net.node("Concat", [shifted[0], words, shifted[1]], axis=2), "trigrams", 3 * narrow, wide)
    x, mask = net.scale("", net.add_positions(x, wide), "norm0", wide), net.mask()
    for number in range(layers):
        x = _mobilebert_layer(net, x, mask, f"layer{number}", wide, narrow)
    return net.answer(x, wide)


def _mobilebert_layer(net: _Encoder, x: str, mask: str, name: str, wide: int, narrow: int) -> str:
    def bottleneck(part: str) -> str:
        return net.scale("", net.linear(x, f"{name}.{part}", wide, narrow), f"{name}.{part}.norm", narrow)

    shared, y = bottleneck("shared"), bottleneck("input")
    # Without LayerNorm features grow from layer to layer: a smaller gain keeps softmax away from 0 and 1.
    query, key = (net.linear(shared, f"{name}.{part}", narrow, narrow, 0.05) for part in ("query", "key"))
    value = net.linear(x, f"{name}.value", wide, narrow)
    attended = net.linear(net.attention(query, key, value, mask, 4, narrow), f"{name}.attended", narrow, narrow, 0.25)
    y = net.scale("", net.node("Add", [attended, y]), f"{name}.norm", narrow)
    for number in range(4):
        part = f"{name}.ffn{number}"
        inside = net.node("Relu", [net.linear(y, f"{part}.inside", narrow, wide, 2.0)])
        outside = net.linear(inside, f"{part}.outside", wide, narrow, 0.1)
        y = net.scale("", net.node("Add", [outside, y]), f"{part}.norm", narrow)
    outer = net.linear(y, f"{name}.outer", narrow, wide, 0.1)
    return net.scale("", net.node("Add", [outer, x]), f"{name}.outer.norm", wide)
