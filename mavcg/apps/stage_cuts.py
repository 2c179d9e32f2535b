"""Positions at which a program is cut into the stages named in app.toml."""

import difflib
import re
from collections.abc import Sequence

from mavcg.choose.lowering.lower import LoweredStep
from mavcg.errors import MavcgError

_NAME = re.compile(r"(?P<origin>.*?)(?::(?P<op>\w+))?(?:#(?P<number>\d+))?")

_BEFORE = ("pad", "convert_layout")  # operations on a layer's input that belong to the layer


def cuts_at(steps: Sequence[LoweredStep], layers: Sequence[str], location: str) -> tuple[int, ...]:
    """Return the number of the first step of each stage after the first.

    layers: first layers of these stages, as `mavcg app plan` and `mavcg inspect` name them. location: for messages.
    Raises: MavcgError for an unknown layer, or layers that are not in the order of the steps.
    """
    cuts: list[int] = []
    for layer in layers:
        cut = _first_step(steps, layer)
        if cut is None:
            names = list(dict.fromkeys(step.name for step in steps))
            near = ", ".join(difflib.get_close_matches(layer, names, n=3) or names[:3])
            raise MavcgError(f"{location}: '{layer}' is not a computed layer; did you mean {near}?")
        if cut <= (cuts[-1] if cuts else 0):
            raise MavcgError(
                f"{location}: '{layer}' does not come after the first layer of the previous partition; name the "
                "first layers "
                "of later partitions, in the network's order"
            )
        cuts.append(cut)
    return tuple(cuts)


def steps_of_layer(steps: Sequence[LoweredStep], layer: str) -> list[int]:
    """Return the numbers of the steps that compute a layer, named as by `mavcg app plan`; empty if it has no steps."""
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
    """Return the first step of a layer, or of the preceding operations on its input; None if it has no steps."""
    own = steps_of_layer(steps, layer)
    if not own:
        return None
    first, begin = own[0], own[0]
    while begin and steps[begin - 1].name == steps[first].name and steps[begin - 1].node.op in _BEFORE:
        begin -= 1
    return begin
