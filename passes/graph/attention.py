"""Find attention that is written as products of matrices and a softmax."""

from dataclasses import dataclass, replace

import numpy as np

from mavcg.graph import Graph, Node
from mavcg.passes.graph.broadcasts import delay_broadcasts
from mavcg.passes.graph.rewrite import Rewrite, scalar_of, use_counts

MOST_ELEMENTS = 256  # of a head, whose queries and outputs are held in a thread's scratch
_ABSORBS = -1e30  # a score plus such a number is that number again
_HEADS_INSIDE = (0, 2, 1, 3)


def fuse_attention(graph: Graph, dynamic: bool = False) -> Graph:
    """Replace two products of matrices with a softmax between them by attention, where they lie in heads.

    Before:
        input %q: f32[1,2,5,4]
        input %k: f32[1,2,4,5]
        input %v: f32[1,2,5,4]
        input %m: f32[1,1,1,5]
        const %c: f32[] = {0.5}
        %s = matmul(%q, %k)
        %t = mul(%s, %c)
        %u = add(%t, %m)
        %p = softmax(%u) axis=3
        %y = matmul(%p, %v)
        return %y
    After:
        input %q: f32[1,2,5,4]
        input %k: f32[1,2,4,5]
        input %v: f32[1,2,5,4]
        input %m: f32[1,1,1,5]
        %q.1 = transpose(%q) perm=[0,2,1,3]
        %k.1 = transpose(%k) perm=[0,3,1,2]
        %v.1 = transpose(%v) perm=[0,2,1,3]
        %y.1 = attention(%q.1, %k.1, %v.1, %m) scale=0.5
        %y = transpose(%y.1) perm=[0,2,1,3]
        return %y

    These transposes cancel those that divided the elements of a token into heads. A model that quantizes at run time is
    left as it is unless `dynamic`: another rounding of a sum may become another number of 8 bits.
    """
    quantized = any(node.op == "dynamic_range" for node in graph.nodes)
    if (quantized and not dynamic) or not any(n.op == "softmax" for n in graph.nodes):
        return graph
    before, graph = graph, delay_broadcasts(graph)
    makers = {name: node for node in graph.nodes for name in node.outputs}
    finder = _Finder(graph, makers, use_counts(graph))
    found = {node.output: each for node in graph.nodes if node.op == "matmul" and (each := finder.attention(node))}
    if not found:
        return before
    new = Rewrite(graph)
    for node in graph.nodes:
        if node.output not in found:
            new.keep(node)
            continue
        each = found[node.output]
        query, key, value = (
            new.add("transpose", (new.of(name),), name, node.origin, perm=perm)
            for name, perm in zip((each.query, each.key, node.inputs[1]), each.perms, strict=True)
        )
        mask = _mask(each, new, node.origin)
        if mask and len(new.types[mask].shape) < 4:
            shape = new.types[mask].shape
            mask = new.add("reshape", (mask,), mask, node.origin, shape=(1,) * (4 - len(shape)) + shape)
        attrs = {"scale": each.scale, "causal": each.causal}
        made = new.add("attention", (query, key, value, mask, ""), node.output, node.origin, **attrs)
        new.into(node.output, "transpose", (made,), node.origin, perm=_HEADS_INSIDE)
    return new.finish()


def _mask(attention: "_Attention", new: Rewrite, origin: str) -> str:
    """Return the tensor that is added to the scores; "" for none."""
    filled = attention.filled
    if filled is not None:  # what takes the place of a score absorbs it, too
        zero = new.constant(np.zeros((), np.float32), "unmasked")
        names = [_before_broadcast(name, new) for name in filled.inputs]
        names[1 if filled.inputs[1] == attention.mask else 2] = zero
        return new.add("where", names, filled.output, origin)
    return _before_broadcast(attention.mask, new)


def _before_broadcast(name: str, new: Rewrite) -> str:
    """Return the tensor of the new graph that a tensor of the old one is, before it was broadcast."""
    maker = new.made.get(new.of(name))
    return maker.inputs[0] if maker is not None and maker.op == "broadcast_to" else new.of(name)


@dataclass(frozen=True)
class _Attention:
    """An attention as it is written: tensors in heads [batch, heads, tokens, elements], or the key transposed.

    mask: added to the scores after they were scaled; "": none. filled: a node that replaces some of the scores, its
    input `mask`, by a number. perms: of query, key and value, to heads inside. causal: the last query sees all keys,
    each one before it one less.
    """

    query: str
    key: str
    scale: float
    mask: str
    perms: tuple[tuple[int, ...], ...] = ()
    filled: Node | None = None
    causal: bool = False


@dataclass(frozen=True)
class _Finder:
    """Looks for attention upwards from its last product. makers: by output. uses: of each tensor."""

    graph: Graph
    makers: dict[str, Node]
    uses: dict[str, int]

    def attention(self, last: Node) -> _Attention | None:
        """Return the attention whose last product a node is."""
        weights, value, *added = last.inputs
        softmax = self._only(self._before_replacement(weights), "softmax")
        plain = not any(added) and not last.attr("transpose_b") and not last.attr("act")
        if softmax is None or not plain or self.graph.types[weights].dtype != "f32":
            return None
        shape = self.graph.shape(weights)
        if len(shape) != 4 or softmax.attr("axis") != 3 or self.graph.shape(value)[:2] != shape[:2]:
            return None
        found = self._scores(softmax.inputs[0], shape)
        if found is None or max(self.graph.shape(value)[3], self.graph.shape(found.query)[3]) > MOST_ELEMENTS:
            return None
        return found

    def _before_replacement(self, name: str) -> str:
        """Return the tensor of which a `where` replaces nothing: ONNX's Attention without keys for some queries."""
        node = self._only(name, "where")
        replaced = self.graph.constants.get(node.inputs[0]) if node is not None else None
        return name if node is None or replaced is None or replaced.any() else node.inputs[2]

    def _only(self, name: str, op: str) -> Node | None:
        """Return the node that makes a tensor, if it is of this operator and nothing else reads the tensor."""
        node = self.makers.get(name)
        return node if node is not None and node.op == op and self.uses[name] == 1 else None

    def _scores(self, name: str, shape: tuple[int, ...]) -> _Attention | None:
        """Return the attention whose scores, masked and scaled, are a tensor."""
        node = self.makers.get(name)
        if node is None or self.uses[name] != 1 or self.graph.shape(name) != shape:
            return None
        if node.op == "matmul":
            return self._product(node, shape)
        if node.op in ("mul", "div"):
            inner, factor = self._factor_of(node)
            found = self._scores(inner, shape) if inner else None
            return None if found is None or found.mask or found.causal else replace(found, scale=found.scale * factor)
        if node.op == "where":
            return self._filled_scores(node, shape)
        sides = (node.inputs, node.inputs[::-1]) if node.op == "add" else ()
        for product, mask in sides:
            found = self._scores(product, shape)
            if found is not None and self._is_zero(mask):
                return found
            if found is not None and not found.causal and self._is_triangle(mask, 0.0, shape):
                return replace(found, causal=True)
            if found is not None and not found.mask and len(self.graph.shape(mask)) <= 4:
                return replace(found, mask=mask)
        return None

    def _filled_scores(self, node: Node, shape: tuple[int, ...]) -> _Attention | None:
        """Return the attention some of whose scores a node replaces by a very low number."""
        for side, other in ((1, 2), (2, 1)):
            number = scalar_of(self.graph.constants.get(node.inputs[other]))
            found = self._scores(node.inputs[side], shape) if number is not None and number <= _ABSORBS else None
            if found is not None and not found.causal and self._is_triangle(node.inputs[0], side == 1, shape):
                return replace(found, causal=True)
            if found is not None and not found.mask:
                return replace(found, mask=node.inputs[side], filled=node)
        return None

    def _is_zero(self, name: str) -> bool:
        """Return True for a constant of zeros, which hides no key."""
        array = self.graph.constants.get(name)
        return array is not None and len(array.shape) <= 4 and not array.any()

    def _is_triangle(self, name: str, seen: float | bool, shape: tuple[int, ...]) -> bool:
        """Return True for a constant that is `seen` where a causal query sees a key, and elsewhere hides it."""
        array = self.graph.constants.get(name)
        if array is None or array.shape[-2:] != shape[2:] or array.size != shape[2] * shape[3] or shape[2] < 2:
            return False
        matrix, sees = array.reshape(shape[2:]), np.tri(shape[2], shape[3], shape[3] - shape[2], dtype=bool)
        hidden = matrix != seen if isinstance(seen, bool) else matrix <= _ABSORBS
        return bool((matrix[sees] == seen).all() and hidden[~sees].all())

    def _factor_of(self, node: Node) -> tuple[str, float]:
        """Return the tensor that a node multiplies by a number, and the number; "" where it does not."""
        for side, other in ((0, 1), (1, 0)) if node.op == "mul" else ((0, 1),):
            number = scalar_of(self.graph.constants.get(node.inputs[other]))
            if number and np.isfinite(number) and self.graph.constants[node.inputs[other]].ndim <= 4:
                return node.inputs[side], number if node.op == "mul" else 1 / number
        return "", 0.0

    def _product(self, node: Node, shape: tuple[int, ...]) -> _Attention | None:
        """Return the attention whose scores are a product of a query and a key, each perhaps scaled."""
        query, key, *added = node.inputs
        if any(added) or node.attr("act"):
            return None
        scale = 1.0
        names = []
        for name in (query, key):
            maker = self.makers.get(name)
            inner, factor = self._factor_of(maker) if maker is not None and maker.op in ("mul", "div") else ("", 1.0)
            if inner and self.graph.shape(inner) == self.graph.shape(name):
                name, scale = inner, scale * factor
            names.append(name)
        ranks = [len(self.graph.shape(name)) for name in names]
        if ranks != [4, 4] or any(self.graph.shape(name)[:2] != shape[:2] for name in names):
            return None
        turned = _HEADS_INSIDE if node.attr("transpose_b") else (0, 3, 1, 2)
        return _Attention(names[0], names[1], scale, "", (_HEADS_INSIDE, turned, _HEADS_INSIDE))
