"""Finds where a program is cut into the stages that app.toml names."""

import difflib
import re
from collections.abc import Sequence

from mavcg.errors import MavcgError
from mavcg.lowering.lower import LoweredStep

_NAME = re.compile(r"(?P<origin>.*?)(?::(?P<op>\w+))?(?:#(?P<number>\d+))?")

_BEFORE = ("pad", "convert_layout")  # what is done to a layer's input, as a part of the layer


def cuts_at(steps: Sequence[LoweredStep], layers: Sequence[str], location: str) -> tuple[int, ...]:
    """Return the number of the first step of each stage after the first.

    layers: the first layers of these stages, as `mavcg app plan` and `mavcg inspect` name them. location: for messages.
    Raises: MavcgError for a layer that is not there, or layers that are not in the order of the steps.
    """
    cuts: list[int] = []
    for layer in layers:
        cut = _first_step(steps, layer)
        if cut is None:
            names = list(dict.fromkeys(step.name for step in steps))
            near = ", ".join(difflib.get_close_matches(layer, names, n=3) or names[:3])
            raise MavcgError(f"{location}: '{layer}' is no layer that is computed; there are {near}, ..")
        if cut <= (cuts[-1] if cuts else 0):
            raise MavcgError(
                f"{location}: '{layer}' is not behind the first layer of the partition before; name the first layers "
                "of later partitions, in the network's order"
            )
        cuts.append(cut)
    return tuple(cuts)


def steps_of_layer(steps: Sequence[LoweredStep], layer: str) -> list[int]:
    """Return the numbers of the steps that compute a layer, as `mavcg app plan` names it; none where nothing runs."""
    match = _NAME.fullmatch(layer)
    own = [number for number, step in enumerate(steps) if step.name == layer]
    if not own and match is not None:
        op = match["op"]
        own = [
            number
            for number, step in enumerate(steps)
            if step.name == match["origin"] and (op is None or step.node.op in (op, f"primitive_{op}"))
        ]
        if match["number"]:
            outputs = list(dict.fromkeys(steps[number].node.output for number in own))[int(match["number"]) - 1 :][:1]
            own = [number for number in own if steps[number].node.output in outputs]
    return own


def _first_step(steps: Sequence[LoweredStep], layer: str) -> int | None:
    """Return the first step of a layer, with those just before it that come from the same node of the file."""
    own = steps_of_layer(steps, layer)
    if not own:
        return None
    first, begin = own[0], own[0]
    while begin and steps[begin - 1].name == steps[first].name and steps[begin - 1].node.op in _BEFORE:
        begin -= 1
    return begin
