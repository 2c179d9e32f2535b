"""Objectives of all kinds of design spaces, and Pareto fronts: the points that no other point dominates."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError

Floats = NDArray[np.float64]


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


def read_objective_words(text: str, networks: Sequence[str], names: ObjectiveNames) -> tuple[str, ...]:
    """Return the entries of a list as they are written. Raises: MavcgError as read_objective_list."""
    return tuple(objective.text for objective in read_objective_list(text, networks, names))


def pareto_front(values: Floats) -> NDArray[np.int64]:
    """Return the indices of the rows that no other row dominates, ascending; equal rows are undominated together.

    values: [point, objective], all minimised.
    """
    # Rows are sorted, so only an earlier row can dominate a row.
    rows, row_of_point = np.unique(values, axis=0, return_inverse=True)
    front = np.empty_like(rows)
    undominated = np.zeros(len(rows), np.bool_)
    count = 0
    for number, row in enumerate(rows):
        if not (front[:count] <= row).all(axis=1).any():
            front[count] = row
            undominated[number] = True
            count += 1
    return np.flatnonzero(undominated[row_of_point.ravel()])


def all_dominated(values: Floats, front: Floats) -> bool:
    """True if each row of `values` is dominated by a row of `front`: no worse in any objective and better in one."""
    no_worse = np.logical_and.reduce(front[None, :, :] <= values[:, None, :], axis=2)
    better = np.logical_or.reduce(front[None, :, :] < values[:, None, :], axis=2)
    return bool(np.logical_or.reduce(no_worse & better, axis=1).all())
