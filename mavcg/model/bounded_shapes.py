"""The bounded dimensions of a model's inputs, with their names, and the shapes at given lengths."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mavcg.choose.lengths.samples import Lengths
from mavcg.errors import MavcgError
from mavcg.importers.load import dimension_name
from mavcg.model.sizes import BoundedShapes, Range, Shape
from mavcg.specs.dimension import Dimension


@dataclass(frozen=True)
class NamedShapes:
    """Shapes of inputs with bounded dimensions. shapes: by input; a name stands for the length of the dimension."""

    shapes: Mapping[str, tuple[int | str, ...]]
    dimensions: tuple[Dimension, ...]

    def at(self, lengths: Lengths) -> dict[str, Shape]:
        """Return the shapes at lengths of the dimensions, by name."""
        return {
            name: tuple(lengths[d] if isinstance(d, str) else d for d in shape) for name, shape in self.shapes.items()
        }


def named_shapes(model: Path, bounds: BoundedShapes) -> NamedShapes:
    """Return the shapes with the names of their dimensions: the file's, or else <input>.<axis>.

    A range whose axis has no name in the file is the first dimension of the same bounds that its input does not have
    yet, as ranges of several inputs are; else it is a dimension of its own. Raises: MavcgError for a name with several
    bounds, and as import_model.
    """
    places = {
        (name, axis): length
        for name, shape in bounds.shapes.items()
        for axis, length in enumerate(shape)
        if isinstance(length, tuple)
    }
    names = {place: dimension_name(model, *place) for place in places}
    names = {place: name for place, name in names.items() if name != f"{place[0]}.{place[1]}"}
    ranges = dict[str, Range]()
    for place, name in names.items():
        if ranges.setdefault(name, places[place]) != places[place]:
            both = " and ".join(f"{least}..{most}" for least, most in (ranges[name], places[place]))
            raise MavcgError(f"--shape {bounds}: {both} are bounds of the dimension {name}; give it one range")
    for place, length in places.items():
        if place not in names:
            taken = {names[other] for other in names if other[0] == place[0]}
            free = [name for name, bound in ranges.items() if bound == length and name not in taken]
            names[place] = free[0] if free else f"{place[0]}.{place[1]}"
            ranges[names[place]] = length
    shapes = {
        name: tuple(names[name, axis] if isinstance(length, tuple) else length for axis, length in enumerate(shape))
        for name, shape in bounds.shapes.items()
    }
    ordered = dict.fromkeys(names[place] for place in places)
    return NamedShapes(shapes, tuple(Dimension(name, *ranges[name]) for name in ordered))
