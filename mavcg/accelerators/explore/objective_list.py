"""Parser of lists of objectives, such as "latency:vgg16,energy", for all kinds of design spaces."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError


@dataclass(frozen=True)
class ObjectiveNames:
    """Names of the objectives of a design space.

    of_networks: figures of each network, and of all networks together. of_points: figures of a point itself. points:
    plural noun for the points in messages.
    """

    of_networks: tuple[str, ...]
    of_points: tuple[str, ...]
    points: str

    @property
    def all(self) -> tuple[str, ...]:
        return self.of_networks + self.of_points


@dataclass(frozen=True)
class NamedObjective:
    """An objective of a list. text: as written. network: whose figure it is; None for all networks."""

    text: str
    name: str
    network: str | None = None


def read_objective_list(text: str, networks: Sequence[str], names: ObjectiveNames) -> tuple[NamedObjective, ...]:
    """Parse a list whose entries are NAME or NAME:NETWORK.

    Raises: MavcgError for an unknown name, a network that is not explored, a network with a point's own figure, or a
    duplicate.
    """
    objectives: list[NamedObjective] = []
    for word in (entry.strip() for entry in text.split(",")):
        name, colon, network = word.partition(":")
        if name not in names.all:
            near = difflib.get_close_matches(name, names.all, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names.all)}"
            raise MavcgError(f"--objective {text}: {name!r} is not an objective of {names.points}; {hint}")
        if colon and name in names.of_points:
            raise MavcgError(f"--objective {text}: {name} is the same for all networks; leave out :{network}")
        if colon and network not in networks:
            raise MavcgError(
                f"--objective {text}: network {network!r} is not explored; choose one of {', '.join(networks)}"
            )
        objective = NamedObjective(word, name, network if colon else None)
        if objective in objectives:
            raise MavcgError(f"--objective {text}: {word} appears twice; leave one out")
        objectives.append(objective)
    return tuple(objectives)
