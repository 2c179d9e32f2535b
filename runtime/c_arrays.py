"""Writer of the arrays of generated C: tables of steps, kernels, cores, networks and parts, a line for each element."""

from collections.abc import Iterable


def static_array(declaration: str, lines: Iterable[str], zero: str = "{0},") -> str:
    """Return the C text of a static array; without lines it has one unused element, because C has no empty arrays.

    declaration: type and name, as in "const int32_t nodes[]". zero: the line of the unused element.
    """
    body = "".join(f"    {line}\n" for line in list(lines) or [zero])
    return f"static {declaration} = {{\n{body}}};\n"
