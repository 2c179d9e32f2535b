"""Versions of costs that are kept: digests of what they were measured or simulated with.

That of a measured cost is a digest of the sources that generate a primitive's code. It covers the module of the
primitive's family, all modules of `kernels/` that it imports, directly or not, and the modules that generate every
kernel. A change of their code changes the digest, whether the generated kernels differ or not; a change of docstrings,
comments or formatting does not. A simulated cost also depends on the facts of its core and on the simulator:
`cost_version` has both.
"""

import hashlib
import re
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import mavcg
from mavcg.choose.algorithms.costs.provider import SIMULATED
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.cost.core_facts import simulated_core
from mavcg.errors import ProfileError
from mavcg.hardware.core import Core
from mavcg.hardware.cost_fit import KINDS
from mavcg.kernels.primitives.registry import module_of
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.profiles.load import load_cores
from mavcg.profiles.timing import load_timing
from mavcg.specs.primitive import Scenario
from mavcg.text.source_digest import code_without_words, digest_of_code

# Modules that take part in generating every kernel of any family: facts of cores, function prologues.
_COMMON = (
    "mavcg.specs.kernel",
    "mavcg.specs.primitive",
    "mavcg.hardware.issue_rates",
    "mavcg.choose.lowering.kernel_code",
    "mavcg.runtime.machines",
)
# Families whose kernels are the engine's own: their modules name the specs, the modules here generate the code.
_ENGINE_KERNELS = {
    "mavcg.kernels.primitives.implicit_gemm": ("mavcg.kernels.conv.conv2d", "mavcg.kernels.conv.depthwise")
}
_CONVERSIONS = "mavcg.kernels.primitives.convert"
_PART = "mavcg.kernels."
_IMPORT = re.compile(
    rf"^[ \t]*(?:from +({re.escape(_PART)}[\w.]+|mavcg\.kernels) +import +(\([^)]*\)|[^\n#]*)"
    rf"|import +({re.escape(_PART)}[\w.]+))",
    re.MULTILINE,
)
# Folders and files whose code times instructions: the simulator, and what decodes instructions and their timing for it.
FOLDERS = ("lab/simulate", "cost/core_facts.py", "passes/asm/isa", "passes/asm/analysis", "passes/asm/models")
_SUFFIXES = (".py", ".c", ".h")
DIGITS = 12


def kernel_version(routine: tuple[Scenario, str] | Conversion) -> str:
    """Return the version of a scenario's primitive or of layout conversions; "" for an unknown primitive."""
    module = _CONVERSIONS if isinstance(routine, Conversion) else module_of(routine[1])
    return version_of_module(module) if module else ""


@cache
def version_of_module(module: str) -> str:
    """Return the digest of the sources that generate a family's kernels. module: the family's module."""
    digest = hashlib.sha256()
    for name in sorted(sources_of(module)):
        digest.update(f"{name}\0{_code(name)}\0".encode())
    # The fits of the cost model choose register tiles.
    digest.update(repr([fit_of_kind(kind).register_tile for kind in KINDS]).encode())
    return digest.hexdigest()[:DIGITS]


def sources_of(module: str) -> frozenset[str]:
    """Return the names of the modules that generate a family's kernels. module: the family's module."""
    sources, to_do = set(_COMMON), [module, *_ENGINE_KERNELS.get(module, ())]
    while to_do:
        name = to_do.pop()
        if name not in sources:
            sources.add(name)
            to_do += _imported_modules(name)
    return frozenset(sources)


def _imported_modules(module: str) -> tuple[str, ...]:
    """Return the modules of kernels/ that a module imports."""
    imported: list[str] = []
    for package, names, plain_import in _IMPORT.findall(_code(module)):
        # A name that is imported from a package may be a module of that package.
        candidates = [f"{package}.{name}" for name in re.findall(r"\w+", names)] if package else []
        submodules = [name for name in candidates if _path(name) is not None]
        imported += [name for name in (package, plain_import, *submodules) if name.startswith(_PART)]
    return tuple(dict.fromkeys(imported))


@cache
def _code(module: str) -> str:
    """Return the code of a module without docstrings, comments and formatting."""
    return code_without_words(_source(module))


def _source(module: str) -> str:
    path = _path(module)
    return "" if path is None else path.read_text(encoding="utf-8")


@cache
def _path(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # the parent of the name is a module, not a package
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def cost_version(operation: tuple[Scenario, str] | Conversion, kind: str, core: str) -> str:
    """Return the version of today's cost of a scenario's primitive or of a conversion on the core of this name."""
    kernels = kernel_version(operation)
    return f"{kernels} {_facts_version(core)}".strip() if kind == SIMULATED else kernels


@cache
def _facts_version(name: str) -> str:
    """Return the version of a core's facts; "" for a core that cannot be simulated."""
    core = load_cores().get(name)
    if core is None or core.arch != "aarch64":
        return ""
    try:
        return core_version(core)
    except ProfileError:
        return ""


@cache
def simulator_version() -> str:
    """Return the digest of the simulator's code."""
    root = Path(str(mavcg.__file__)).parent
    below = [path for name in FOLDERS for path in (root / name, *(root / name).rglob("*"))]
    paths = [path for path in below if path.suffix in _SUFFIXES]
    return digest_of_code(paths, root)[:DIGITS]


def core_version(core: Core) -> str:
    """Return the digest of a core's facts, without those of boards, and of the simulator's code.

    Raises: ProfileError for a core without timing facts.
    """
    facts = repr((replace(simulated_core(core), assumed=()), load_timing(core)))
    return hashlib.sha256(f"{simulator_version()} {facts}".encode()).hexdigest()[:DIGITS]
