"""ONNX files of a few hundred bytes that ask for much work."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

node = onnx.helper.make_node


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def filled(name: str, shape: str, value: float = 0.5) -> Any:
    """A constant of any size from its shape."""
    return node("ConstantOfShape", [shape], [name], value=onnx.numpy_helper.from_array(np.array([value], np.float32)))


def save(path: Path, nodes: Sequence[Any], constants: dict[str, Any], functions: Sequence[Any] = ()) -> Path:
    """A file whose nodes make a scalar %s, which is added to the input."""
    value = onnx.helper.make_tensor_value_info
    kept = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    nodes = [*nodes, node("Add", ["x", "s"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [4])], [value("y", 1, [4])], kept)
    imports = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("d", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, functions=functions), path)
    return path


def mean(name: str) -> Any:
    return node("ReduceMean", [name], ["s"], keepdims=0)


def on_filled(*nodes: Any, shape: Sequence[int], **constants: Any) -> tuple[list[Any], dict[str, Any]]:
    return [filled("c", "shape"), *nodes, mean("r")], {"shape": ints(*shape), **constants}


def many_sorts() -> tuple[list[Any], dict[str, Any]]:
    """Sorts of 16 million elements, one after the other."""
    sorts = [node("TopK", [f"t{i}", "k"], [f"t{i + 1}", f"i{i}"]) for i in range(40)]
    return [filled("t0", "shape"), *sorts, mean("t40")], {"shape": ints(1 << 24), "k": ints(1 << 24)}


def many_ranges() -> tuple[list[Any], dict[str, Any]]:
    """Ranges of half a gigabyte, all alive until the last."""
    ranges = [node("Range", ["zero", f"end{i}", "one"], [f"r{i}"]) for i in range(12)]
    ends = {f"end{i}": np.array(1 << 26) for i in range(12)}
    parts = [node("ReduceMax", [f"r{i}"], [f"p{i}"]) for i in range(12)]
    together = node("Concat", [f"p{i}" for i in range(12)], ["all"], axis=0)
    return [*ranges, *parts, together, node("Cast", ["all"], ["f"], to=1), mean("f")], {
        "zero": np.array(0),
        "one": np.array(1),
        **ends,
    }


def grown(count: int) -> tuple[list[Any], dict[str, Any]]:
    """Tiles of tiles, each of them 8 times as large."""
    tiles = [node("Tile", [f"t{i}", "eight"], [f"t{i + 1}"]) for i in range(count)]
    return [filled("t0", "shape"), *tiles, mean(f"t{count}")], {"shape": ints(16), "eight": ints(8)}


FILES: dict[str, Callable[[], tuple[list[Any], dict[str, Any]]]] = {
    "LRN": lambda: on_filled(node("LRN", ["c"], ["r"], size=4999), shape=(1, 4999, 28, 28)),
    "LpPool": lambda: on_filled(
        node("LpPool", ["c"], ["r"], kernel_shape=[20000, 20000], pads=[10000] * 4), shape=(1, 1, 4, 4)
    ),
    "AveragePool": lambda: on_filled(
        node("AveragePool", ["c"], ["r"], kernel_shape=[2000, 2000], pads=[1000] * 4), shape=(1, 1, 2000, 2000)
    ),
    "Erf": lambda: on_filled(
        *[node("Erf", ["r" + "0" * i if i else "c"], ["r" + "0" * (i + 1)]) for i in range(6)],
        node("Identity", ["r000000"], ["r"]),
        shape=(1 << 25,),
    ),
    "ScatterND": lambda: on_filled(
        node("Expand", ["row", "rows"], ["at"]),
        node("Expand", ["u", "n"], ["v"]),
        node("ScatterND", ["c", "at", "v"], ["r"]),
        shape=(1 << 24,),
        row=ints(0),
        rows=ints(1 << 24, 1),
        n=ints(1 << 24),
        u=np.zeros(1, np.float32),
    ),
    "Resize": lambda: on_filled(
        node("Resize", ["c", "", "", "to"], ["r"], mode="nearest"), shape=(1, 1, 1, 1), to=ints(1, 1, 1, 400_000_000)
    ),
    "Expand": lambda: on_filled(node("Expand", ["c", "to"], ["r"]), shape=(1,), to=ints(1 << 29)),
    "EyeLike": lambda: on_filled(node("EyeLike", ["c"], ["r"]), shape=(1 << 16, 1 << 16)),
    "OneHot": lambda: on_filled(
        node("Cast", ["c"], ["i"], to=7),
        node("OneHot", ["i", "depth", "values"], ["r"]),
        shape=(1 << 15,),
        depth=ints(1 << 14),
        values=np.array([0, 1], np.float32),
    ),
    "Pad": lambda: on_filled(node("Pad", ["c", "pads"], ["r"]), shape=(1, 1), pads=ints(0, 0, 1 << 16, 1 << 15)),
    "MatMul": lambda: on_filled(node("MatMul", ["c", "c"], ["r"]), shape=(5000, 5000)),
    "CumSum": lambda: on_filled(node("CumSum", ["c", "axis"], ["r"]), shape=(1 << 24,), axis=ints(0)),
    "sorts": many_sorts,
    "ranges": many_ranges,
    "tiles": lambda: grown(12),
}
ZERO = {"c": np.zeros((), np.float32)}


def doubled(count: int, calls: int = 2) -> list[Any]:
    """Functions that each call the one before several times; the first is relu."""
    functions = []
    for number in range(count):
        name, domain = (f"f{number - 1}", "d") if number else ("Relu", "")
        nodes = [node(name, [f"v{i}"], [f"v{i + 1}"], domain=domain) for i in range(calls)]
        imports = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("d", 1)]
        functions.append(onnx.helper.make_function("d", f"f{number}", ["v0"], [f"v{calls}"], nodes, imports))
    return functions


def in_branches(count: int, calls: int) -> list[Any]:
    """Functions that each call the one before several times, in a branch that is taken; the first is relu."""
    helper, imports = onnx.helper, [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("d", 1)]

    def branch(name: str, nodes: Sequence[Any]) -> Any:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(nodes[-1].output[0], 1, [])])

    functions = [helper.make_function("d", "f0", ["v0"], ["y"], [node("Relu", ["v0"], ["y"])], imports)]
    true = onnx.numpy_helper.from_array(np.array(True))
    for number in range(1, count):
        taken = [node(f"f{number - 1}", [f"v{i}"], [f"v{i + 1}"], domain="d") for i in range(calls)]
        branches = {"then_branch": branch("t", taken), "else_branch": branch("e", [node("Neg", ["v0"], ["w"])])}
        nodes = [node("Constant", [], ["c"], value=true), node("If", ["c"], ["y"], **branches)]
        functions.append(helper.make_function("d", f"f{number}", ["v0"], ["y"], nodes, imports))
    return functions
