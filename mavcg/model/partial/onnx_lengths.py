"""An ONNX model at lengths of its bounded dimensions: the support of its nodes, and graphs of its parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mavcg.choose.lengths.samples import Lengths, ReadGraph, kernel_samples
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.importers.onnx_file import import_model
from mavcg.importers.onnx_support import ModelSupport
from mavcg.model.model_request import ModelRequest
from mavcg.model.partial.onnx_nodes import nodes_of_sizes, read_support
from mavcg.model.partial.onnx_subgraphs import Subgraph, make_subgraph, subgraph_model
from mavcg.model.partial.part_lengths import shapes_at, support_samples
from mavcg.model.partial.plan import Nodes, PlanNode
from mavcg.model.reading import NamedShapes

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class OnnxLengths:
    """An ONNX model with bounded dimensions. named: shapes of its inputs. supports: those that were read so far."""

    build: ModelRequest
    named: NamedShapes
    supports: dict[tuple[int, ...], ModelSupport] = field(default_factory=dict)

    def support(self, lengths: Lengths) -> ModelSupport:
        """Return the support of the model at lengths of all dimensions. Raises: as read_support."""
        key = tuple(lengths[dimension.name] for dimension in self.named.dimensions)
        if key not in self.supports:
            self.supports[key] = read_support(self.build.model, shapes_at(self.build, self.named, lengths))
        return self.supports[key]

    def longest_support(self) -> ModelSupport:
        """Return the support at the longest lengths."""
        return self.support({dimension.name: dimension.most for dimension in self.named.dimensions})

    def written_support(self) -> ModelSupport:
        """Return the support of the model as it is written, whose inputs with bounded dimensions stay free."""
        fixed = {
            name: tuple(length for length in shape if isinstance(length, int))
            for name, shape in self.named.shapes.items()
            if all(isinstance(length, int) for length in shape)
        }
        return read_support(self.build.model, GivenShapes(fixed, ignore_declared=True))

    def nodes(self) -> list[PlanNode]:
        """Return the nodes of the model, of which one is supported if it is so at all sampled lengths."""
        samples = support_samples(self.named.dimensions)
        return nodes_of_sizes([self.support(each) for each in samples], list(map(self.named.text, samples)))

    def part_graphs(self, chosen: Nodes, staying: frozenset[int], name: str) -> tuple[ReadGraph, str]:
        """Return the function that reads the graph of a part for lengths, and the part's digest.

        chosen, staying: as for make_subgraph. name: of the graphs. Raises: MavcgError, as the function does, naming a
        node that is not supported at some lengths.
        """
        border = make_subgraph(self.longest_support(), chosen, staying)
        graphs: dict[tuple[int, ...], Graph] = {}

        def model(lengths: Lengths) -> bytes:
            return self._part(border, staying, lengths, name).SerializeToString(deterministic=True)  # type: ignore[no-any-return]

        def read(lengths: Lengths) -> Graph:
            key = tuple(lengths[dimension.name] for dimension in self.named.dimensions)
            if key not in graphs:
                part = self._part(border, staying, lengths, name)
                # A loop of any number of iterations, so that graphs of all lengths have it.
                graphs[key] = replace(import_model(part, self.build.model, loops=True, least_trips=1), name=name)
            return graphs[key]

        digest = hashlib.sha256(b"".join(map(model, kernel_samples(self.named.dimensions)))).hexdigest()[:32]
        return read, digest

    def _part(self, border: Subgraph, staying: frozenset[int], lengths: Lengths, name: str) -> onnx.ModelProto:
        """Return the model of a part at lengths. Raises: MavcgError for a node that is not supported there."""
        support = self.support(lengths)
        for i in border.nodes:
            node = support.nodes[i]
            if node.why or node.known:
                why = node.why or "its result is known when the model is read"
                raise MavcgError(
                    f"node '{_label(support, i)}' ({node.node.op_type}): at {self.named.text(lengths)} {why}"
                )
        here = make_subgraph(support, border.nodes, staying)
        if (here.inputs, here.outputs) != (border.inputs, border.outputs):
            i = border.nodes[0]
            raise MavcgError(
                f"node '{_label(support, i)}' ({support.nodes[i].node.op_type}): its part reads or makes other tensors "
                f"at {self.named.text(lengths)}"
            )
        return subgraph_model(support, here, name)


def _label(support: ModelSupport, i: int) -> str:
    """Return the name of a node in errors, as PlanNode has it."""
    node = support.nodes[i].node
    return str(node.name or next((name for name in node.output if name), node.op_type))
