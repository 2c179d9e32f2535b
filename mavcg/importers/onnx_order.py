"""Topological order of the nodes of a file that the outputs need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError

if TYPE_CHECKING:
    import onnx


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node and its branches read, without repetition."""
    names = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            names.update(dict.fromkeys(_free_names(graph)))
    return list(names)


def _free_names(graph: onnx.GraphProto) -> Iterable[str]:
    made = (
        {i.name for i in graph.input}
        | {t.name for t in graph.initializer}
        | {n for node in graph.node for n in node.output}
    )
    for node in graph.node:
        yield from (name for name in reads(node) if name not in made)
    yield from (o.name for o in graph.output if o.name not in made)


def order_nodes(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], known: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the outputs need, in topological order, which some files lack.

    known: names that need no node. Raises: MavcgError for a cycle, and for a tensor that is made twice.
    """
    maker: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name and (name in maker or name in known):
                raise MavcgError(
                    f"node '{node.name or name}' ({node.op_type}): it makes %{name}, which another node makes too"
                )
            if name:
                maker[name] = i
    needs: dict[int, list[int]] = {}
    state: dict[int, int] = {}  # 1: being visited, 2: done
    for required in outputs:
        stack = [maker[required]] if required in maker else []
        while stack:
            i = stack[-1]
            if state.get(i) is None:
                state[i] = 1
                needs[i] = [maker[name] for name in reads(nodes[i]) if name in maker]
                for j in needs[i]:
                    if state.get(j) == 1:
                        node = nodes[j]
                        raise MavcgError(
                            f"node '{node.name or node.output[0]}' ({node.op_type}): "
                            "it depends on its own result; the graph has a cycle"
                        )
                stack += [j for j in needs[i] if state.get(j) is None]
            else:
                state[i] = 2
                stack.pop()
    return _by_position(needs, nodes)


def _by_position(needs: Mapping[int, Sequence[int]], nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the needed nodes in topological order, as close to the file's order as possible."""
    done: set[int] = set()
    order: list[int] = []
    for start in sorted(needs):
        stack = [start]
        while stack:
            i = stack[-1]
            open_ones = [j for j in needs[i] if j not in done] if i not in done else []
            if open_ones:
                stack += open_ones
                continue
            stack.pop()
            if i not in done:
                done.add(i)
                order.append(i)
    return [nodes[i] for i in order]
