"""Random sentence encoders as exporters write BERT, with a free number of tokens, for tests of bounded lengths."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.mavcg.choose.lengths.bounded_models import node, save_model

Array = NDArray[Any]
WORDS, MOST = 50, 96
LEAST_F32 = float(np.finfo(np.float32).min)


class Encoder:
    """A BERT over input_ids and attention_mask [batch, tokens], written operator by operator."""

    def __init__(self, heads: int = 2, size: int = 12, seed: int = 0, batch: int | str = 1) -> None:
        self.batch = batch
        self.rng = np.random.default_rng(seed)
        self.heads, self.size, self.width = heads, size, heads * size
        self.nodes: list[Any] = []
        self.arrays: dict[str, Array] = {}

    def add(self, op: str, *inputs: str | Array | int | float, **attributes: Any) -> str:
        """Add a node; arrays and numbers become constants: numbers of f32, whole ones of i64."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(op, names, [name], name=f"{op.lower()}_{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Array | int | float) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(value, np.float32 if isinstance(value, float) else None)
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, x: str, rows: int, columns: int) -> str:
        made = self.add("MatMul", x, self.normal(rows, columns, scale=rows**-0.5))
        return self.add("Add", made, self.normal(columns, scale=0.1))

    def norm(self, x: str) -> str:
        return self.add("LayerNormalization", x, self.normal(self.width), self.normal(self.width), axis=-1)

    def tokens(self, x: str) -> str:
        """The length, as exporters compute it."""
        return self.add("Gather", self.add("Shape", x), np.array(1), axis=0)

    def embeddings(self) -> str:
        words = self.add("Gather", self.normal(WORDS, self.width), "input_ids")
        end = self.add("Unsqueeze", self.tokens("input_ids"), np.array([0]))
        numbers = self.add("Slice", np.arange(MOST)[None], np.array([0]), end, np.array([1]))
        places = self.add("Gather", self.normal(MOST, self.width), numbers)
        return self.norm(self.add("Add", self.add("Add", words, places), self.normal(1, 1, self.width)))

    def mask(self, masked: float = -10000.0) -> str:
        """Return the mask that is added to the scores."""
        seen = self.add("Unsqueeze", self.add("Unsqueeze", "attention_mask", np.array([1])), np.array([2]))
        return self.add("Mul", self.add("Sub", 1.0, self.add("Cast", seen, to=1)), masked)

    def filled_mask(self) -> str:
        """The same for each query, expanded and filled as masks of scaled_dot_product_attention are."""
        seen = self.add("Unsqueeze", self.add("Unsqueeze", "attention_mask", np.array([1])), np.array([2]))
        length = self.add("Unsqueeze", self.tokens("attention_mask"), np.array([0]))
        whole = self.add("Concat", np.array([1, 1]), length, length, axis=0)
        unseen = self.add("Sub", 1.0, self.add("Cast", self.add("Expand", seen, whole), to=1))
        return self.add("Where", self.add("Cast", unseen, to=9), LEAST_F32, unseen)

    def causal_mask(self) -> str:
        """Return a decoder's mask, cut from a triangle of the longest length."""
        length = self.add("Unsqueeze", self.tokens("input_ids"), np.array([0]))
        starts, ends = np.array([0, 0]), self.add("Concat", length, length, axis=0)
        seen = self.add("Slice", np.tri(MOST, dtype=bool)[None, None], starts, ends, np.array([2, 3]))
        return self.add("Where", seen, 0.0, -float("inf"))

    def in_heads(self, x: str, perm: tuple[int, ...]) -> str:
        length = self.add("Unsqueeze", self.tokens(x), np.array([0]))
        shape = self.add("Concat", np.array([0]), length, np.array([self.heads, self.size]), axis=0)
        return self.add("Transpose", self.add("Reshape", x, shape), perm=perm)

    def attention(self, x: str, mask: str, memory: str = "") -> str:
        """Attention of x to itself, or to another sequence."""
        query, key, value = (
            self.in_heads(self.linear(source, self.width, self.width), perm)
            for source, perm in ((x, (0, 2, 1, 3)), (memory or x, (0, 2, 3, 1)), (memory or x, (0, 2, 1, 3)))
        )
        scores = self.add("Div", self.add("MatMul", query, key), float(self.size**0.5))
        weights = self.add("Softmax", self.add("Add", scores, mask), axis=-1)
        made = self.add("Transpose", self.add("MatMul", weights, value), perm=(0, 2, 1, 3))
        length = self.add("Unsqueeze", self.tokens(made), np.array([0]))
        return self.add("Reshape", made, self.add("Concat", np.array([0]), length, np.array([self.width]), axis=0))

    def layer(self, x: str, mask: str, memory: str = "") -> str:
        made = self.linear(self.attention(x, mask, memory), self.width, self.width)
        x = self.norm(self.add("Add", made, x))
        inner = self.linear(x, self.width, 2 * self.width)
        gelu = self.add("Mul", self.add("Add", self.add("Erf", self.add("Div", inner, 2.0**0.5)), 1.0), inner)
        outer = self.linear(self.add("Mul", gelu, 0.5), 2 * self.width, self.width)
        return self.norm(self.add("Add", outer, x))

    def mean(self, x: str) -> str:
        """The mean of the tokens that the mask selects, as sentence-transformers computes it."""
        seen = self.add("Unsqueeze", "attention_mask", np.array([-1]))
        seen = self.add("Cast", self.add("Expand", seen, self.add("Shape", x)), to=1)
        axes = np.array([1])
        total = self.add("ReduceSum", self.add("Mul", x, seen), axes, keepdims=0)
        count = self.add("Clip", self.add("ReduceSum", seen, axes, keepdims=0), 1e-9)
        return self.add("Div", total, count)

    def save(self, path: Path, *outputs: str, more: Sequence[Any] = ()) -> Path:
        """Write the file. more: inputs besides the two."""
        value = onnx.helper.make_tensor_value_info
        inputs = [*(value(name, 7, [self.batch, "tokens"]) for name in ("input_ids", "attention_mask")), *more]
        save_model(path, self.nodes, inputs, [value(name, 1, None) for name in outputs], self.arrays)
        return path


def bert(path: Path, layers: int = 2, pooled: bool = True, masked: float = -10000.0, batch: int | str = 1) -> Path:
    """A file of an encoder: the tokens' vectors and, if pooled, the sentence's. masked: added to a score; 0: filled."""
    net = Encoder(batch=batch)
    x, mask = net.embeddings(), net.mask(masked) if masked else net.filled_mask()
    for _ in range(layers):
        x = net.layer(x, mask)
    return net.save(path, x, *[net.mean(x)] * pooled)


def sentence(length: int, seed: int = 0, batch: int = 1) -> Mapping[str, Array]:
    """Inputs of a length, of which some tokens at the end are not part of the sentences."""
    rng = np.random.default_rng([seed, length])
    seen = np.ones((batch, length), np.int64)
    for row in seen:
        row[length - int(rng.integers(0, (length + 1) // 2)) :] = 0 if length > 2 else 1
    return {"input_ids": rng.integers(0, WORDS, (batch, length)), "attention_mask": seen}
