"""Compare a program with the fixed-point reference, each tile bit by bit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.fixed_point import evaluate, integers_of
from mavcg.accelerators.host.library import MOST_OPERATIONS
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.simulator.functional import execute
from mavcg.accelerators.target import VTA
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array


@dataclass(frozen=True)
class LayerDifference:
    """A node with wrong elements.

    elements: number of elements that differ or were never computed. first: instruction and position of the first.
    """

    node: str
    elements: int
    first: str


@dataclass(frozen=True)
class Validation:
    """Result of a comparison. layers: number of nodes compared. differences: nodes that differ."""

    layers: int
    differences: tuple[LayerDifference, ...]


def validate_program(
    program: AccelProgram, graph: XGraph, images: Mapping[str, Array], most_operations: int = MOST_OPERATIONS
) -> Validation:
    """Execute a program and compare every tile that it computes with the reference.

    graph: the network at the program's radix positions. images: f32, in the graph's order of dimensions.
    most_operations: limit of each segment.
    Raises: MavcgError if the program cannot be executed, or belongs to another network.
    """
    expected = evaluate(graph, integer_images(graph, images), program.target.rounding)
    for tensor in program.tensors:
        reference = expected.get(tensor.name)
        if reference is None or reference.shape != tensor.shape:
            raise MavcgError(
                f"{program.network}: tensor {tensor.name} has no equal in the model; give the model of the file"
            )
    compared = _Compared(program, expected)
    outputs = execute(program, {name: expected[name] for name in program.inputs}, compared.take, most_operations)
    for name, values in outputs.items():
        compared.compare(name, (slice(None),) * 3, _as_one_map(values), "output")
    return compared.result(graph)


def _as_one_map(tensor: Array) -> Array:
    """Return the images of a tensor [N, H, W, C] one below the other, [N * H, W, C], as instructions' origins count."""
    return tensor.reshape(-1, *tensor.shape[2:])


class _Compared:
    """State of a comparison: the elements of each node that were computed so far, and those that were wrong."""

    def __init__(self, program: AccelProgram, expected: Mapping[str, Array]) -> None:
        self.program, self.expected = program, expected
        self.seen: dict[str, Array] = {}
        self.wrong: dict[str, int] = {}
        self.first: dict[str, str] = {}

    def take(self, index: int, instruction: AccelInstruction, computed: Array) -> None:
        """Compare the tile of an instruction."""
        origin = instruction.origin
        if origin is None:
            return
        at = tuple(
            slice(first, first + length)
            for first, length in zip((origin.row, origin.column, origin.channel), computed.shape, strict=True)
        )
        self.compare(self.program.nodes[origin.node], at, computed, f"instruction {index}")

    def compare(self, name: str, at: tuple[slice, ...], computed: Array, source: str) -> None:
        """Compare a part of a node's tensor with the reference.

        at: slices of the part, with rows as `_as_one_map` counts them. source: description of what computed it, for
        messages.
        """
        if name not in self.expected:
            raise MavcgError(f"{self.program.network}: node {name} is not in the model; give the model of the file")
        height, whole = self.expected[name].shape[1], _as_one_map(self.expected[name])
        if self.program.target.isa == VTA:  # the last vector has lanes beyond the channels
            computed = computed[..., : whole.shape[-1] - (at[2].start or 0)]
            at = (*at[:2], slice(at[2].start, (at[2].start or 0) + computed.shape[-1]))
        reference = whole[at]
        if reference.shape != computed.shape:
            raise MavcgError(
                f"{self.program.network}: {source} computes a part of {name} outside of its shape {whole.shape}"
            )
        self.seen.setdefault(name, np.zeros(whole.shape, bool))[at] = True
        different = np.argwhere(reference != computed)
        if len(different):
            row, column, channel = (int(i) + (s.start or 0) for i, s in zip(different[0], at, strict=True))
            image = f"image {row // height}, " if len(whole) > height else ""
            where = f"{source}, {image}row {row % height}, column {column}, channel {channel}"
            self.first.setdefault(name, where)
            self.wrong[name] = self.wrong.get(name, 0) + len(different)

    def result(self, graph: XGraph) -> Validation:
        """Return the nodes with differences; elements that no instruction computed count as differences.

        The instructions of a concat need not write all of it, because the nodes that make its inputs save them into it.
        For a tensor that stays on chip, only the pixels that its readers need are computed, because strides may skip
        some.
        """
        differences, layers, cpu = [], 0, set(self.program.cpu_nodes)
        stored = {tensor.name for tensor in self.program.tensors}
        for node in graph.nodes:
            if not node.on_accelerator or node.name in cpu:
                continue
            layers += 1
            seen = self.seen.get(node.name)
            size, lacking = self.expected[node.name].size, 0
            if node.kind != "concat" and (seen is None or node.name in stored):
                lacking = size - (0 if seen is None else int(seen.sum()))
            count = self.wrong.get(node.name, 0) + lacking
            if count:
                differences.append(LayerDifference(node.name, count, self.first.get(node.name, "never computed")))
        return Validation(layers, tuple(differences))


def integer_images(graph: XGraph, image: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a quantised graph for f32 inputs: int8, or f32 for those that the CPU alone reads.

    image: arrays in the graph's order of dimensions.
    """
    return {n.name: image[n.name] if n.radix is None else integers_of(n, image[n.name]) for n in graph.inputs()}
