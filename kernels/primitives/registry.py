"""Registry of the primitives of all families, and of the emitters of their specs."""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernels.primitives import border, convert, eight_bit
from mavcg.kernels.primitives import implicit_gemm as implicit
from mavcg.kernels.primitives.direct import blocked as direct_blocked
from mavcg.kernels.primitives.direct import plain as direct
from mavcg.kernels.primitives.direct import sum2d
from mavcg.kernels.primitives.fft import family as fft
from mavcg.kernels.primitives.foreign import family as foreign
from mavcg.kernels.primitives.im2 import family as im2
from mavcg.kernels.primitives.kn2 import family as kn2
from mavcg.kernels.primitives.sparse import family as sparse
from mavcg.kernels.primitives.winograd import family as winograd
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.primitive import Primitive

Emit = Callable[[ir.Module, KernelSpec, Machine], ir.Function]

# All modules with PRIMITIVES and EMIT, in the order in which primitives are listed.
_FAMILIES: tuple[ModuleType, ...] = (
    sum2d,
    direct,
    direct_blocked,
    implicit,
    im2,
    kn2,
    fft,
    winograd,
    sparse,
    foreign,
)


@cache
def all_primitives() -> tuple[Primitive, ...]:
    """Return the f32 primitives of every family, in the order of the families."""
    primitives = tuple(primitive for family in _FAMILIES for primitive in family.PRIMITIVES)
    names = [primitive.name for primitive in primitives]
    assert len(set(names)) == len(names), "two primitives of one name"
    return primitives


def eight_bit_primitives() -> tuple[Primitive, ...]:
    """Return the primitives of quantised convolutions, the engine's defaults first."""
    return eight_bit.PRIMITIVES


def find_primitive(name: str) -> Primitive:
    """Return the primitive of a name. Raises: MavcgError for an unknown name, with similar names."""
    import difflib

    known = {primitive.name: primitive for primitive in (*all_primitives(), *eight_bit_primitives())}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise MavcgError(f"primitive '{name}': unknown name; {hint}`mavcg primitives` lists them")


@cache
def _modules() -> Mapping[str, str]:
    return {primitive.name: family.__name__ for family in (*_FAMILIES, eight_bit) for primitive in family.PRIMITIVES}


def module_of(name: str) -> str:
    """Return the module of a primitive's family; "" for an unknown primitive."""
    return _modules().get(name, foreign.__name__ if name.startswith(f"{foreign.FAMILY}_") else "")


@cache
def primitive_emitters() -> Mapping[type[KernelSpec], Emit]:
    """Return the emitter of each class of primitives' specs."""
    emitters: dict[type[KernelSpec], Emit] = {}
    for family in (border, convert, *_FAMILIES):
        emitters.update(family.EMIT)
    return emitters
