"""Specs of attention and their lowering: softmax(scale * query key^T + mask) value, without a stored matrix of scores.

Query, key and value are read where they lie, [batch, tokens, heads, elements] by strides, so heads need no transposes.
Heads of queries may share a head of keys and values (grouped queries). How many keys there are may be known in a run
only: an operand `count` gives it, as a cache needs, where the tensors have room for more; keys behind it are not read.
With `causal` the last query sees all of these keys, each query before it one less.

A graph has attention as the operator `attention` (graph/ops/attention.py), by GraphBuilder.add("attention", query, key,
value, mask, count, scale=.., causal=..), of which mask and count may be absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.tensor.layer_norm import refuse_other_types
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Operand, Packing, Step, View, Words
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

BLOCK_KEYS = 64  # a change changes the order of sums, and so the bits of results
HALF_QUERIES = 16  # lanes of a vector of AVX-512
MOST_QUERIES = 2 * HALF_QUERIES  # of the widest group


@spec_format("attention")
@dataclass(frozen=True)
class Attention(KernelSpec):
    """An attention. Of f16 and bf16 it is computed in f32 and rounded once.

    outer: (batch, tokens of a query). keys: number of keys, or the most. heads: (of queries, of keys). sizes: elements
    of a head of (query and key, value and out). query, key, value, out: strides of batch, token, head and element, in
    elements. mask: strides of batch, head, token and key, 0 to broadcast; None: there is none. dtypes: of query, key,
    value and out, and of the mask. count: (bytes of a count, stride of batch); None: all keys. reserved: zeros. window:
    most keys that a causal query sees, its own the last; 0: all. softcap: scores become softcap * tanh(score /
    softcap), to which the mask is added; 0: they stay. sink: True if each head of queries has the score of a further
    key, f32, that has no value.
    zero_unseen: True if a query that sees no key gives 0, False if NaN. stored: the type of key and value, "i8",
    "uint4", of which strides are of bytes, or "float8e4m3fn" beside f32 queries; "": that of the query. words: numbers
    that a run sets, of tokens and keys, and strides of batches and heads. A row of work is a token's queries of one
    head of keys; rows are in the order of batch, head, token.
    Operands: query, key, value, out, mask?, count?, sink?, words.
    """

    outer: tuple[int, int]
    keys: int
    heads: tuple[int, int]
    sizes: tuple[int, int]
    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    out: tuple[int, ...]
    mask: tuple[int, ...] | None
    scale: float
    causal: bool = False
    count: tuple[int, int] | None = None
    dtypes: tuple[str, str] = ("f32", "f32")
    reserved: tuple[int, int] = (0, 0)
    window: int = 0
    softcap: float = 0.0
    sink: bool = False
    zero_unseen: bool = False
    stored: str = ""
    words: Words = ()

    @property
    def cache_dtype(self) -> str:
        """Type of key and value."""
        return self.stored or self.dtypes[0]

    @property
    def family(self) -> str:
        return f"attention_{self.dtypes[0]}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.outer, self.heads[0], self.sizes[1]), f"k{self.keys}")

    @property
    def scratch_bytes(self) -> int:
        """Queries, outputs, blocks of scores and of the mask, the last key seen and the sink, of each lane."""
        return (sum(self.sizes) + 2 * BLOCK_KEYS + 1 + self.sink) * MOST_QUERIES * F32_BYTES

    @property
    def rows(self) -> int:
        return self.outer[0] * self.outer[1] * self.heads[1]

    @property
    def shared_rows(self) -> int:
        # Whole vectors of the widest registers: else each chunk's last group has lanes without a query.
        sharing = self.heads[0] // self.heads[1]
        whole = HALF_QUERIES // gcd(HALF_QUERIES, sharing)
        return -(-MOST_QUERIES // (whole * sharing)) * whole

    @property
    def work(self) -> int:
        return 2 * self.macs + 30 * self.rows * self.heads[0] // self.heads[1] * self.keys

    @property
    def macs(self) -> int:
        return self.outer[0] * self.outer[1] * self.heads[0] * self.keys * sum(self.sizes)


def lower_attention(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of an attention node. Raises: as refuse_other_types."""
    query, key, value, mask, count, sink = (views[name] if name else None for name in node.inputs)
    out = views[node.output]
    assert query is not None and key is not None and value is not None
    refuse_other_types(node, query)
    if not out.elements:
        return ()
    if sink is not None and sink.strides != (1,) and sink.elements > 1:
        raise MavcgError(f"node '{node.origin}' ({node.op}): its sinks do not lie side by side; copy them before")
    stored = node.attr("stored") or (key.dtype if key.dtype != query.dtype else "")
    packed = 2 if stored == "uint4" else 1  # numbers of a byte
    if packed > 1 and (key.strides[3], value.strides[3]) != (1, 1):
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): bytes of keys or values lie apart; copy them before the node"
        )
    if node.attr("heads_first"):
        key, value = (_with_keys_first(view) for view in (key, value))
    batch, tokens, heads, depth = query.shape
    spec = Attention(
        (batch, tokens),
        key.shape[1],
        (heads, key.shape[2]),
        (depth, packed * value.shape[3]),
        query.strides,
        key.strides,
        value.strides,
        out.strides,
        _broadcast(mask) if mask is not None else None,
        node.attr("scale"),
        bool(node.attr("causal")),
        (count.item_bytes, _broadcast(count)[0]) if count is not None else None,
        (query.dtype, mask.dtype if mask is not None else "f32"),
        window=node.attr("window"),
        softcap=node.attr("softcap"),
        sink=sink is not None,
        zero_unseen=node.attr("zero_unseen"),
        stored=stored,
    )
    operands = [*(Operand(name) for name in node.inputs[:3]), Operand(node.output, written=True)]
    operands += [Operand(name) for name in node.inputs[3:] if name]
    return (Step(spec, tuple(operands), node.origin),)


def _with_keys_first(view: View) -> View:
    """Return a view [batch, heads, keys, elements] as [batch, keys, heads, elements]."""
    order = (0, 2, 1, 3)
    return View(view.dtype, tuple(view.shape[i] for i in order), tuple(view.strides[i] for i in order))


def _broadcast(view: View) -> tuple[int, ...]:
    """Return a view's strides, 0 along dimensions of length 1."""
    return tuple(0 if length == 1 else stride for length, stride in zip(view.shape, view.strides, strict=True))
