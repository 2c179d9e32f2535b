"""Version of the kernels that a figure is of: a digest of the sources that make a primitive's code.

A family's module and all of `kernels/` that it imports, at any depth, and what every kernel is made with. A change
anywhere there makes another digest, whether the code that comes out differs or not.
"""

import hashlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from mavcg.cost_model.fits import fit_of_kind
from mavcg.hardware.cost_fit import KINDS
from mavcg.kernels.primitives.registry import module_of
from mavcg.selection.costs.rows import Conversion
from mavcg.specs.primitive import Scenario

# What is at work in every kernel beside its family: what emitters know of a core, and how their functions begin.
_COMMON = (
    "mavcg.specs.kernel", "mavcg.specs.primitive", "mavcg.cost_model.instruction_mix", "mavcg.lowering.kernel_code",
    "mavcg.lowering.machines",
)  # fmt: skip
# Families whose kernels are the engine's own: their modules name the specs, these make the code.
_ELSEWHERE = {"mavcg.kernels.primitives.implicit_gemm": ("mavcg.kernels.conv.conv2d", "mavcg.kernels.conv.depthwise")}
_CONVERSIONS = "mavcg.kernels.primitives.convert"
_PART = "mavcg.kernels."
_IMPORT = re.compile(
    rf"^[ \t]*(?:from +({re.escape(_PART)}[\w.]+|mavcg\.kernels) +import +(\([^)]*\)|[^\n#]*)"
    rf"|import +({re.escape(_PART)}[\w.]+))",
    re.MULTILINE,
)
DIGITS = 12


def kernel_version(what: tuple[Scenario, str] | Conversion) -> str:
    """Return the version of a scenario's primitive, or of conversions; "" for a primitive that does not exist."""
    module = _CONVERSIONS if isinstance(what, Conversion) else module_of(what[1])
    return version_of_module(module) if module else ""


@cache
def version_of_module(module: str) -> str:
    """Return the digest of the sources that make a module's kernels."""
    digest = hashlib.sha256()
    for name in sorted(sources_of(module)):
        digest.update(name.encode() + b"\0" + _text(name) + b"\0")
    digest.update(repr([fit_of_kind(kind).register_tile for kind in KINDS]).encode())  # it chooses register tiles
    return digest.hexdigest()[:DIGITS]


def sources_of(module: str) -> frozenset[str]:
    """Return the names of these modules."""
    found, to_do = set(_COMMON), [module, *_ELSEWHERE.get(module, ())]
    while to_do:
        name = to_do.pop()
        if name not in found:
            found.add(name)
            to_do += _imported_modules(name)
    return frozenset(found)


@cache
def _imported_modules(module: str) -> tuple[str, ...]:
    """Return the modules of kernels/ that a module names."""
    found = []
    for source, names, alone in _IMPORT.findall(_text(module).decode()):
        # What is imported from a package may be a module of it.
        words = re.findall(r"\w+", names)
        inside = [f"{source}.{word}" for word in words if source and _path(f"{source}.{word}") is not None]
        found += [name for name in (source, alone, *inside) if name.startswith(_PART)]
    return tuple(dict.fromkeys(found))


def _text(module: str) -> bytes:
    path = _path(module)
    return b"" if path is None else path.read_bytes()


@cache
def _path(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # of something that is no package
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)
