"""Read lists of objectives, such as "latency:vgg16,energy": the same rules for every kind of design space."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError


@dataclass(frozen=True)
class ObjectiveNames:
    """Names of the objectives of a design space.

    of_networks: figures that each network has, and all of them together; of_points: figures of a point itself; points:
    what the points are, in the plural, as messages call them.
    """

    of_networks: tuple[str, ...]
    of_points: tuple[str, ...]
    points: str

    @property
    def all(self) -> tuple[str, ...]:
        return self.of_networks + self.of_points


@dataclass(frozen=True)
class NamedObjective:
    """An objective of a list. text: as it was written; network: whose figure it is, or None for all networks'."""

    text: str
    name: str
    network: str | None = None


def read_objective_list(text: str, networks: Sequence[str], names: ObjectiveNames) -> tuple[NamedObjective, ...]:
    """Return the objectives of a list whose entries are NAME or NAME:NETWORK.

    Raises: MavcgError where a name is no objective, a network is not explored, a point's own figure has a network, or
    an entry is there twice.
    """
    objectives: list[NamedObjective] = []
    for word in (entry.strip() for entry in text.split(",")):
        name, colon, network = word.partition(":")
        if name not in names.all:
            near = difflib.get_close_matches(name, names.all, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names.all)}"
            raise MavcgError(f"--objective {text}: {name!r} is no objective of {names.points}; {hint}")
        if colon and name in names.of_points:
            raise MavcgError(f"--objective {text}: {name} is the same for all networks; leave out :{network}")
        if colon and network not in networks:
            raise MavcgError(f"--objective {text}: no network {network!r} is explored; there are {', '.join(networks)}")
        objective = NamedObjective(word, name, network if colon else None)
        if objective in objectives:
            raise MavcgError(f"--objective {text}: {word} is there twice; leave one out")
        objectives.append(objective)
    return tuple(objectives)
