"""JSON form of instances and solutions.

    {"nodes": {"a": [1, 2.5], "b": [0, "inf"]}, "edges": [{"from": "a", "to": "b", "costs": [[0, 1], ["inf", 0]]}]}
A matrix has a row for each alternative of `from`; "inf" forbids a choice.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mavcg.choose.pbqp.instance import Costs, Instance, make_instance
from mavcg.choose.pbqp.solver import Solution
from mavcg.errors import MavcgError
from mavcg.files.decode import Document, json_document, read_json

_REMEDY = 'give an instance as JSON, with "inf" for what is forbidden'


Name = Annotated[str, Meta(description="a name")]
Cost = Annotated[
    float | Literal["inf"], Meta(description="a cost", examples=['a number, or "inf" for what is forbidden'])
]
Row = Annotated[tuple[Cost, ...], Meta(description="a list of costs")]


class _Edge(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    source: Name
    target: Name
    costs: Annotated[
        tuple[Row, ...],
        Meta(min_length=1, description="a list of rows", examples=["a row for each alternative of `from`"]),
    ]


@dataclass(frozen=True)
class _InstanceFile:
    nodes: Annotated[Mapping[str, Row], Meta(description="an object with a list of costs by name of node")]
    edges: tuple[_Edge, ...] = ()


def read_instance(path: Path) -> Instance:
    """Read an instance from a file. Raises: MavcgError as parse_instance, and for a file that cannot be read."""
    return _instance(read_json(path, _REMEDY))


def parse_instance(text: str, file: str = "instance") -> Instance:
    """Parse an instance. file: name used in errors. Raises: MavcgError naming file, key, value and remedy."""
    return _instance(json_document(text, file, _REMEDY))


def _instance(document: Document) -> Instance:
    instance = document.decode(_InstanceFile)
    vectors = {name: _numbers(document, row, f"nodes.{name}") for name, row in instance.nodes.items()}
    matrices = []
    for number, edge in enumerate(instance.edges):
        key = f"edges[{number}].costs"
        rows = [_numbers(document, row, f"{key}[{i}]") for i, row in enumerate(edge.costs)]
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                wrong = f"{len(row)} costs, and {len(rows[0])} in the first row"
                raise document.fault(f"{key}[{i}]", wrong, "give all the same")
        matrices.append((edge.source, edge.target, rows))
    try:
        return make_instance(vectors, matrices)
    except MavcgError as error:
        raise MavcgError(f"{document.where}: {error}") from None


def _numbers(document: Document, row: Sequence[float | str], key: str) -> list[float]:
    numbers = list(map(float, row))  # "inf" too
    for i, (cost, number) in enumerate(zip(row, numbers, strict=True)):
        if cost != "inf" and math.isinf(number):
            raise document.fault(f"{key}[{i}]", "is too large for a number", 'write "inf" for what is forbidden')
    return numbers


def print_instance(instance: Instance) -> str:
    """Return the text of an instance; `parse_instance` restores it bit for bit. Each node and edge is one line."""
    nodes = [f"    {json.dumps(name)}: {_text(costs)}" for name, costs in instance.nodes.items()]
    edges = [
        f'    {{"from": {json.dumps(edge.source)}, "to": {json.dumps(edge.target)}, "costs": {_text(edge.costs)}}}'
        for edge in instance.edges
    ]
    return '{\n  "nodes": ' + _lines("{", nodes, "}") + ',\n  "edges": ' + _lines("[", edges, "]") + "\n}\n"


def _lines(begin: str, lines: list[str], end: str) -> str:
    return f"{begin}\n" + ",\n".join(lines) + f"\n  {end}" if lines else begin + end


def _text(costs: Costs) -> str:
    if costs.ndim > 1:
        return "[" + ", ".join(_text(row) for row in costs) + "]"
    return "[" + ", ".join('"inf"' if math.isinf(cost) else repr(cost) for cost in costs.tolist()) + "]"


def solution_json(solution: Solution) -> Mapping[str, Any]:
    """Return the JSON of `mavcg select --instance --json`."""
    return {
        "choice": dict(solution.choice),
        "cost": solution.cost,
        "optimal": solution.optimal,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "solver_seconds": solution.seconds,
        "counts": dict(solution.counts),
    }
