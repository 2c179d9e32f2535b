"""JSON form of instances and solutions.

    {"nodes": {"a": [1, 2.5], "b": [0, "inf"]}, "edges": [{"from": "a", "to": "b", "costs": [[0, 1], ["inf", 0]]}]}
A matrix has a row for each alternative of `from`; "inf" forbids a choice.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mavcg.choose.pbqp.instance import Costs, Instance, make_instance
from mavcg.choose.pbqp.solver import Solution
from mavcg.errors import MavcgError

_SHOWN = 40  # characters of a wrong value


def read_instance(path: Path) -> Instance:
    """Read an instance from a file. Raises: MavcgError as parse_instance; OSError if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MavcgError(f"{path}: is not UTF-8 text (byte {error.start}); give an instance as JSON") from None
    return parse_instance(text, str(path))


def parse_instance(text: str, file: str = "instance") -> Instance:
    """Parse an instance. file: name used in errors. Raises: MavcgError naming file, key, value and remedy."""
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        return _instance(document)
    except json.JSONDecodeError as error:
        raise MavcgError(
            f"{file}: line {error.lineno}, column {error.colno}: {error.msg}; give an instance as JSON"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deeply nested brackets
        raise MavcgError(f"{file}: {error}; give an instance as JSON") from None
    except MavcgError as error:
        raise MavcgError(f"{file}: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MavcgError(f"{_short(twice)}: appears twice in one object; keep one of them")
    return entries


def _constant(name: str) -> Any:
    raise MavcgError(f'{name}: is not JSON; write "inf" for what is forbidden')


def _instance(document: Any) -> Instance:
    _keys(document, "the document", ("nodes",), ("edges",))
    nodes, edges = document["nodes"], document.get("edges", [])
    if not isinstance(nodes, dict):
        raise MavcgError(f"nodes: {_short(nodes)} is not an object; give a list of costs by name of node")
    if not isinstance(edges, list):
        raise MavcgError(f'edges: {_short(edges)} is not a list; give a list of objects with "from", "to" and "costs"')
    vectors = {name: _row(costs, f"nodes.{name}") for name, costs in nodes.items()}
    matrices = []
    for number, edge in enumerate(edges):
        key_path = f"edges[{number}]"
        _keys(edge, key_path, ("from", "to", "costs"), ())
        for end in ("from", "to"):
            if not isinstance(edge[end], str):
                raise MavcgError(f"{key_path}.{end}: {_short(edge[end])} is not a name; give a node's name as a string")
        matrices.append((edge["from"], edge["to"], _matrix(edge["costs"], f"{key_path}.costs")))
    return make_instance(vectors, matrices)


def _keys(value: Any, key_path: str, required: tuple[str, ...], free: tuple[str, ...]) -> None:
    known = ", ".join(required + free)
    if not isinstance(value, dict):
        raise MavcgError(f"{key_path}: {_short(value)} is not an object; give one with {known}")
    for key in required:
        if key not in value:
            raise MavcgError(f"{key_path}: has no {key!r}; it takes {known}")
    for key in value:
        if key not in required + free:
            raise MavcgError(f"{key_path}: {_short(key)} is not a key here; it takes {known}")


def _matrix(value: Any, key_path: str) -> list[list[float]]:
    if not isinstance(value, list) or not value:
        raise MavcgError(
            f"{key_path}: {_short(value)} is not a list of rows; give a row for each alternative of `from`"
        )
    rows = [_row(row, f"{key_path}[{i}]") for i, row in enumerate(value)]
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise MavcgError(
                f"{key_path}[{i}]: {len(row)} costs, and {len(rows[0])} in the first row; give all the same"
            )
    return rows


def _row(value: Any, key_path: str) -> list[float]:
    if not isinstance(value, list):
        raise MavcgError(f"{key_path}: {_short(value)} is not a list; give a list of costs")
    return [_number(number, f"{key_path}[{i}]") for i, number in enumerate(value)]


def _number(value: Any, key_path: str) -> float:
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MavcgError(f'{key_path}: {_short(value)} is not a cost; give a number, or "inf" for what is forbidden')
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise MavcgError(f'{key_path}: is too large for a number; write "inf" for what is forbidden')
    return number


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + ".."


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
