"""A TFLite file at lengths of its bounded dimensions: the support of its operators, and graphs of its parts."""

from dataclasses import dataclass, field, replace

from mavcg.choose.lengths.samples import Lengths, ReadGraph, lengths_text
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.tflite_support import TfliteSupport, part_graph, tflite_support
from mavcg.model.model_request import ModelRequest
from mavcg.model.partial.part_lengths import shapes_at, support_samples
from mavcg.model.partial.plan import Nodes
from mavcg.model.reading import NamedShapes


@dataclass(frozen=True)
class TfliteLengths:
    """A TFLite file with bounded dimensions. named: shapes of its inputs. supports: those that were read so far."""

    build: ModelRequest
    named: NamedShapes
    supports: dict[tuple[int, ...], TfliteSupport] = field(default_factory=dict)

    def support(self, lengths: Lengths) -> TfliteSupport:
        """Return the support of the file at lengths of all dimensions. Raises: as tflite_support."""
        key = tuple(lengths[dimension.name] for dimension in self.named.dimensions)
        if key not in self.supports:
            self.supports[key] = tflite_support(self.build.model, shapes_at(self.build, self.named, lengths))
        return self.supports[key]

    def longest_support(self) -> TfliteSupport:
        """Return the support at the longest lengths, in which an operator that is not supported at some has the reason.

        Raises: as tflite_support.
        """
        longest, *others = support_samples(self.named.dimensions)
        support = self.support(longest)
        operators = list(support.operators)
        for lengths in others:
            for i, operator in enumerate(self.support(lengths).operators):
                if operator.why and not operators[i].why:
                    operators[i] = replace(operators[i], why=f"{lengths_text(lengths)}: {operator.why}")
        return replace(support, operators=tuple(operators))

    def reader(self, nodes: Nodes, name: str) -> ReadGraph:
        """Return the function that reads the graph of a part for lengths; it raises MavcgError naming an operator that
        is not supported at some lengths. name: of the graphs."""
        graphs: dict[tuple[int, ...], Graph] = {}

        def read(lengths: Lengths) -> Graph:
            key = tuple(lengths[dimension.name] for dimension in self.named.dimensions)
            if key not in graphs:
                support = self.support(lengths)
                for operator in (support.operators[i] for i in nodes):
                    if operator.why:
                        label = support.model.label(operator.operator)
                        raise MavcgError(
                            f"node '{label}' ({operator.operator.op}): at {lengths_text(lengths)} {operator.why}"
                        )
                graph, _, _ = part_graph(support, nodes, name, loops=True)
                graphs[key] = replace(graph, name=name)
            return graphs[key]

        return read
