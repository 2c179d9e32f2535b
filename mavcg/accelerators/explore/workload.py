"""Networks as a design space sees them: their distinct layers, and how often each network has each layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.cost.layer import ConvLayer, ItemBytes
from mavcg.hardware.technology import ELEMENT_TYPES

_ITEMS = {"f32": ItemBytes(4, 4, 4, 4), "f16": ItemBytes(2, 2, 2, 4), "i8": ItemBytes(1, 1, 1, 4)}
_TYPE_OF_BYTES = {4: "f32", 2: "f16", 1: "i8"}


@dataclass(frozen=True)
class Workload:
    """Distinct layers of several networks.

    counts: for each network, by name, the number of times that each layer occurs.
    """

    layers: tuple[ConvLayer, ...]
    counts: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of the networks, in order."""
        return tuple(name for name, _ in self.counts)


def workload_of(networks: Mapping[str, Sequence[ConvLayer]]) -> Workload:
    """Return the distinct layers of networks, with their counts."""
    layers = tuple(dict.fromkeys(layer.key for of_network in networks.values() for layer in of_network))
    index_of = {layer: i for i, layer in enumerate(layers)}
    counts = []
    for name, of_network in networks.items():
        row = [0] * len(layers)
        for layer in of_network:
            row[index_of[layer.key]] += 1
        counts.append((name, tuple(row)))
    return Workload(layers, tuple(counts))


def at_precision(layer: ConvLayer, precision: str) -> ConvLayer:
    """Return a layer with all elements of one type and partial sums of four bytes; "" leaves it unchanged."""
    return replace(layer, items=_ITEMS[precision]) if precision else layer


def element_type(layer: ConvLayer) -> str:
    """Return the type of a layer's multiplications, that of the wider operand."""
    size = max(layer.items.input, layer.items.weight)
    return _TYPE_OF_BYTES.get(size, ELEMENT_TYPES[0])
