"""Read the option --family: the convolution primitives of one family."""

from typing import TYPE_CHECKING

from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.specs.primitive import Primitive


def primitives_of_family(family: str | None) -> "list[Primitive]":
    """Return the primitives of a family, or all of them for None. Raises: MavcgError for an unknown family."""
    from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives

    known = (*all_primitives(), *eight_bit_primitives())
    families = list(dict.fromkeys(primitive.family for primitive in known))
    if family is not None and family not in families:
        raise MavcgError(f"--family {family}: there is no such family; the families are {', '.join(families)}")
    return [primitive for primitive in known if family in (None, primitive.family)]
