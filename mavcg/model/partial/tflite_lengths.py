"""A TFLite file at lengths of its bounded dimensions: the support of its operators, and graphs of its parts."""

from dataclasses import dataclass, field, replace

from mavcg.choose.lengths.samples import Lengths, ReadGraph
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.tflite_support import TfliteSupport, graph_supports, part_graph
from mavcg.model.model_request import ModelRequest
from mavcg.model.partial.part_lengths import shapes_at, support_samples
from mavcg.model.partial.plan import Nodes
from mavcg.model.reading import NamedShapes


@dataclass(frozen=True)
class TfliteLengths:
    """A TFLite file with bounded dimensions. named: shapes of its inputs. supports: those that were read so far."""

    build: ModelRequest
    named: NamedShapes
    supports: dict[tuple[int, ...], dict[int, TfliteSupport]] = field(default_factory=dict)

    def at(self, lengths: Lengths) -> dict[int, TfliteSupport]:
        """Return the supports of the file's subgraphs at lengths of all dimensions, by number. Raises: as
        graph_supports."""
        key = tuple(lengths[dimension.name] for dimension in self.named.dimensions)
        if key not in self.supports:
            graphs = graph_supports(self.build.model, shapes_at(self.build, self.named, lengths))
            self.supports[key] = {graph.number: graph for graph in graphs}
        return self.supports[key]

    def longest_supports(self) -> tuple[TfliteSupport, ...]:
        """Return the supports at the longest lengths; an operator that is not supported at others has the reason.

        A subgraph of control flow is left out whose shapes are not known at some. Raises: as graph_supports.
        """
        longest, *others = support_samples(self.named.dimensions)
        at_others = [(lengths, self.at(lengths)) for lengths in others]
        found = []
        for number, support in self.at(longest).items():
            operators = list(support.operators)
            if any(number not in graphs for _, graphs in at_others):
                continue
            for lengths, graphs in at_others:
                for i, operator in enumerate(graphs[number].operators):
                    if operator.why and not operators[i].why:
                        operators[i] = replace(operators[i], why=f"{self.named.text(lengths)}: {operator.why}")
            found.append(replace(support, operators=tuple(operators)))
        return tuple(found)

    def reader(self, number: int, nodes: Nodes, name: str) -> ReadGraph:
        """Return the function that reads the graph of a part for lengths; it raises MavcgError naming an operator that
        is not supported at some lengths. number: of the subgraph in the file. name: of the graphs."""
        graphs: dict[tuple[int, ...], Graph] = {}

        def read(lengths: Lengths) -> Graph:
            key = tuple(lengths[dimension.name] for dimension in self.named.dimensions)
            if key not in graphs:
                support = self.at(lengths).get(number)
                if support is None:
                    raise MavcgError(f"subgraph {number}: its shapes are not known at {self.named.text(lengths)}")
                for operator in (support.operators[i] for i in nodes):
                    if operator.why:
                        label = support.model.label(operator.operator)
                        raise MavcgError(
                            f"node '{label}' ({operator.operator.op}): at {self.named.text(lengths)} {operator.why}"
                        )
                graph, _, _ = part_graph(support, nodes, name, loops=True)
                graphs[key] = replace(graph, name=name)
            return graphs[key]

        return read
