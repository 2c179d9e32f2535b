"""Verification of graphs, which runs between passes."""

from mavcg.errors import MavcgError
from mavcg.graph import Graph, type_of
from mavcg.ops.nodes import infer
from mavcg.ops.op import check_type, node_location


def verify(graph: Graph) -> None:
    """Check that each tensor is made once and before it is read, that types are right and attributes complete.

    Raises: MavcgError that names the first node or tensor that breaks a rule.
    """
    where = f"graph {graph.name}"
    made: set[str] = set()

    def make(name: str, by: str) -> None:
        if not name:
            raise MavcgError(f"{by}: a tensor without a name")
        if name in made:
            raise MavcgError(f"{by}: %{name} is made twice; every tensor must be made once")
        if name not in graph.types:
            raise MavcgError(f"{by}: %{name} has no type")
        check_type(by, name, graph.types[name])
        made.add(name)

    for name in graph.inputs:
        make(name, f"{where}, its inputs")
    for name, array in graph.constants.items():
        make(name, f"{where}, its constants")
        if type_of(array) != graph.types[name]:
            raise MavcgError(f"{where}: constant %{name} is declared as {graph.types[name]} and is {type_of(array)}")
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in made:
                raise MavcgError(f"{node_location(node)}: it reads %{name}, which no earlier node makes")
        inferred = infer(node, graph.types, graph.constants)
        if len(inferred) != len(node.outputs):
            count = len(node.outputs)
            raise MavcgError(f"{node_location(node)}: {count} outputs where the operator has {len(inferred)}")
        for name, tensor in zip(node.outputs, inferred, strict=True):
            make(name, node_location(node))
            if graph.types[name] != tensor:
                raise MavcgError(f"{node_location(node)}: %{name} is declared as {graph.types[name]} and is {tensor}")
    if not graph.outputs:
        raise MavcgError(f"{where}: it has no outputs; nothing would be computed")
    for name in graph.outputs:
        if name not in made:
            raise MavcgError(f"{where}: no node makes its output %{name}")
