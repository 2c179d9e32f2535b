"""Tensors that lie in other tensors' buffers: a tree of containers, and the locations that follow from it."""

from collections.abc import Mapping

from mavcg.graph import Node, TensorType
from mavcg.graph.layout import dense_strides
from mavcg.memory.locations import Inside, Location
from mavcg.specs.kernel import View


def row_of(container: str, node: Node) -> Inside:
    """Return the place of a row of a loop's input or stack. node: loop_slice or loop_stack."""
    return Inside(container, row=-1 if node.attr("reverse") else 1, loop=node.attr("loop"))


class Containers:
    """A tree of tensors, each in the one that holds it, as far as that is decided; only a root is placed in another.

    types: of all tensors, to which copies may be added. inside: the place of each tensor that lies in another one.
    """

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self.types = types
        self.inside: dict[str, Inside] = {}
        self.located: dict[str, Location] = {}
        self.around: dict[str, str] = {}  # outermost known container of a tensor

    def dense(self, name: str) -> bool:
        """True if the tensor is dense whatever happens; a container that is not decided yet counts as not dense."""
        while name in self.inside:
            within = self.inside[name]
            if within.step is not None and not self.is_contiguous(name, within.container):
                return False
            name = within.container
        return True

    def is_contiguous(self, name: str, container: str) -> bool:
        """True if a part is one contiguous range of its container: whole except along the first axis longer than 1."""
        part, whole = self.types[name].shape, self.types[container].shape
        differs = [i for i, (a, b) in enumerate(zip(part, whole, strict=True)) if a != b]
        steps = self.inside[name].step or ()
        return all(step == 1 for step in steps) and all(length == 1 for length in part[: max(differs, default=0)])

    def fills(self, name: str, root: str) -> bool:
        """True if a tensor fills its whole buffer."""
        if self.types[name].elements != self.types[root].elements:
            return False
        while name != root:
            if self.inside[name].step is not None:
                return False
            name = self.inside[name].container
        return True

    def root(self, name: str) -> str:
        """Return the tensor whose buffer contains this one."""
        path = []
        while name in self.inside:
            path.append(name)
            name = self.around.get(name) or self.inside[name].container
        self.around.update(
            dict.fromkeys(path, name)
        )  # containers do not change: only a root is placed in another tensor
        return name

    def locate(self, name: str) -> Location:
        """Return a tensor's location; its containers are located first."""
        path = [name]
        while path[-1] not in self.located and path[-1] in self.inside:
            path.append(self.inside[path[-1]].container)
        for inner in reversed(path):
            self._locate(inner)
        return self.located[name]

    def _locate(self, name: str) -> None:
        if name not in self.located:
            kind = self.types[name]
            within = self.inside.get(name)
            if within is None:
                self.located[name] = Location(name, 0, View(kind.dtype, kind.shape, dense_strides(kind.shape)))
            else:
                around = self.located[within.container]
                strides, offset, advance = dense_strides(kind.shape), around.offset, around.advance
                if within.row:
                    advance = (*advance, (within.loop, within.row * kind.elements))
                    offset += (self.types[within.container].shape[0] - 1) * kind.elements if within.row < 0 else 0
                if within.step is not None:
                    offset += sum(s * i for s, i in zip(around.view.strides, within.start, strict=True))
                    strides = tuple(s * k for s, k in zip(around.view.strides, within.step, strict=True))
                self.located[name] = Location(around.root, offset, View(kind.dtype, kind.shape, strides), advance)
