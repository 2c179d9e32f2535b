"""All primitives of all families, and which function emits which of their specs."""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.primitives import border, convert, direct, direct_blocked, fft, im2, implicit, kn2, sum2d, winograd
from mavcg.primitive import Primitive

Emit = Callable[[ir.Module, KernelSpec, Machine], ir.Function]

# Every module with PRIMITIVES and EMIT, in the order in which primitives are listed.
_FAMILIES: tuple[ModuleType, ...] = (
    sum2d,
    direct,
    direct_blocked,
    implicit,
    im2,
    kn2,
    fft,
    winograd,
)  # fmt: skip


@cache
def all_primitives() -> tuple[Primitive, ...]:
    """Of every family, in the order of the families."""
    found = tuple(primitive for family in _FAMILIES for primitive in family.PRIMITIVES)
    names = [primitive.name for primitive in found]
    assert len(set(names)) == len(names), "two primitives of one name"
    return found


def find_primitive(name: str) -> Primitive:
    """By name. Raises: MavcgError for an unknown one, with the near ones."""
    import difflib

    known = {primitive.name: primitive for primitive in all_primitives()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise MavcgError(f"primitive '{name}': there is none of this name; {hint}`mavcg primitives` lists them")


@cache
def _modules() -> Mapping[str, str]:
    return {primitive.name: family.__name__ for family in _FAMILIES for primitive in family.PRIMITIVES}


def module_of(name: str) -> str:
    """The module of the family that has the primitive of this name; "" where there is none."""
    return _modules().get(name, "")


@cache
def primitive_emitters() -> Mapping[type[KernelSpec], Emit]:
    """By the spec's class."""
    found: dict[type[KernelSpec], Emit] = {}
    for family in (border, convert, *_FAMILIES):
        found.update(family.EMIT)
    return found
