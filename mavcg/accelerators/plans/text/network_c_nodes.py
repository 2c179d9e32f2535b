"""C of the nodes of a network other than products: calls of the functions of network_c_library.py."""

from collections.abc import Callable, Iterator
from math import prod

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.graph.ops.op import node_location

_ACTS = {"relu": (), "leaky_relu": ("alpha",), "clip": ("min", "max"), "sigmoid": (), "tanh": ()}
_BINARY = {"add": "+", "sub": "-", "mul": "*"}


def refuse(node: Node, form: str) -> MavcgError:
    """Return the error for a form of a node that has no C here."""
    return MavcgError(f"{node_location(node)}: a network as C has no {node.op} {form}; emit single layers by --layer")


class NodeWriter:
    """Writer of the C lines of nodes. value: function that returns the C expression of a tensor."""

    def __init__(self, graph: Graph, value: Callable[[str], str]) -> None:
        self.graph, self.value = graph, value

    def call(self, node: Node, out: str) -> Iterator[str]:
        """Yield the lines that compute a node into a buffer. Raises: MavcgError for a node that has no C here."""
        make: Callable[[Node, str], Iterator[str]] | None = {
            "max_pool2d": self.pool,
            "avg_pool2d": self.pool,
            "reduce_mean": self.mean,
            "concat": self.concat,
            "softmax": self.softmax,
            "lrn": self.lrn,
            "transpose": self.transpose,
        }.get(node.op)
        if node.op in _BINARY:
            make = self.binary
        elif node.op in _ACTS:
            make = self.activation
        if make is None:
            raise refuse(node, "at all")
        yield from make(node, out)

    def act(self, node: Node, act: str, values: list[float]) -> tuple[str, str] | None:
        """Return the C function of an activation and its further arguments; None for no activation."""
        if act and act not in _ACTS:
            raise refuse(node, f"with {act}")
        return (f"act_{act}", "".join(f", (float){value!r}" for value in values)) if act else None

    def activation(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of an activation that is a node."""
        count = prod(self.graph.types[node.output].shape)
        act = self.act(node, node.op, [float(node.attr(name)) for name in _ACTS[node.op]])
        assert act
        yield f"memcpy({out}, {self.value(node.inputs[0])}, sizeof(float) * {count});"
        yield f"{act[0]}({out}, {count}{act[1]});"

    def binary(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of an elementwise operator on two tensors of one shape."""
        if any(self.graph.types[name].shape != self.graph.types[node.output].shape for name in node.inputs[:2]):
            raise refuse(node, "of two shapes")
        a, b = (self.value(name) for name in node.inputs[:2])
        count = prod(self.graph.types[node.output].shape)
        yield f"for (int i = 0; i < {count}; i++) {out}[i] = ({a})[i] {_BINARY[node.op]} ({b})[i];"
        if "act" in dict(node.attrs) and (act := self.act(node, str(node.attr("act")), list(node.attr("act_args")))):
            yield f"{act[0]}({out}, {count}{act[1]});"

    def pool(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of a pooling over windows of an image; an average excludes padding."""
        if node.op == "avg_pool2d" and any(node.attr("count_pads")):
            raise refuse(node, "that counts pads")
        (_, rows, columns, channels), (_, out_h, out_w, _) = (
            self.graph.types[name].shape for name in (node.inputs[0], node.output)
        )
        if self.graph.types[node.output].shape[0] != 1:
            raise refuse(node, "of several images")
        windows = (*node.attr("kernel"), *node.attr("stride"), *node.attr("dilation"), *node.attr("pads")[:2])
        words = ", ".join(map(str, (rows, columns, channels, out_h, out_w, *windows)))
        yield f"pool({self.value(node.inputs[0])}, {out}, {int(node.op == 'max_pool2d')}, {words});"

    def mean(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of a mean over the rows and columns of one image."""
        shape = self.graph.types[node.inputs[0]].shape
        if tuple(node.attr("axes")) != (1, 2) or len(shape) != 4 or shape[0] != 1:
            raise refuse(node, "of other dimensions than rows and columns of one image")
        _, rows, columns, channels = shape
        sizes = (rows, columns, channels, 1, 1, rows, columns, 1, 1, 1, 1, 0, 0)
        yield f"pool({self.value(node.inputs[0])}, {out}, 0, {', '.join(map(str, sizes))});"

    def concat(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of a concatenation along any dimension: for each tensor, copies of its contiguous runs."""
        shape, axis = self.graph.types[node.output].shape, node.attr("axis") % len(self.graph.types[node.output].shape)
        outer, pitch, begin = prod(shape[:axis]), prod(shape[axis:]), 0
        for name in node.inputs:
            run = prod(self.graph.types[name].shape[axis:])
            yield f"copy_runs({self.value(name)}, {out} + {begin}, {outer}, {run}, {pitch});"
            begin += run

    def softmax(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of a softmax along the last dimension."""
        shape = self.graph.types[node.output].shape
        if node.attr("axis") not in (-1, len(shape) - 1):
            raise refuse(node, f"along dimension {node.attr('axis')}")
        yield f"softmax({self.value(node.inputs[0])}, {out}, {prod(shape[:-1])}, {shape[-1]});"

    def lrn(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of a local response normalisation over channels."""
        shape = self.graph.types[node.output].shape
        values = ", ".join(repr(float(node.attr(name))) for name in ("alpha", "beta", "bias"))
        sizes = f"{prod(shape[:-1])}, {shape[-1]}, {node.attr('size')}"
        yield f"lrn({self.value(node.inputs[0])}, {out}, {sizes}, {values});"

    def transpose(self, node: Node, out: str) -> Iterator[str]:
        """Yield the C of a transpose, one loop for each dimension."""
        shape, perm = self.graph.types[node.inputs[0]].shape, node.attr("perm")
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        sizes = ", ".join(str(shape[axis]) for axis in perm)
        steps = ", ".join(str(strides[axis]) for axis in perm)
        orders = f"(const int[]){{{sizes}}}, (const int[]){{{steps}}}"
        yield f"transpose({self.value(node.inputs[0])}, {out}, {len(shape)}, {orders});"
