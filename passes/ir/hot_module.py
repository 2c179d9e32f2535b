"""A module whose hot functions get versions, and the names of all that comes of it."""

from dataclasses import dataclass

from mavcg.passes.ir.module_text import ModuleText

# Definitions of which the linker keeps one.
MERGEABLE = {"linkonce_odr", "weak_odr"}


@dataclass(frozen=True)
class HotModule:
    """A module whose hot functions are to be versioned.

    hot: names of the functions that get versions; all are defined in the module and can be cloned.
    tag: distinguishes this module's local symbols from those of every other module they may be linked with.
    """

    module: ModuleText
    hot: frozenset[str]
    tag: str

    def attributes(self, name: str) -> str:
        """Return all attributes of a function as text."""
        return self.module.objects.functions[name].attributes


def version_stem(hot: HotModule, name: str) -> str:
    """Return the stem of a hot function's version symbols:

    its name, tagged where another module may have its own function of that name (static functions, and definitions that
    the linker may replace).
    """
    keeps_name = hot.module.linkage(name) in {"external", *MERGEABLE}
    return name if keeps_name else f"{name}.{hot.tag}"


def version_symbol(hot: HotModule, name: str, label: str) -> str:
    """Return the symbol of a version: f.cortex-a55."""
    return f"{version_stem(hot, name)}.{label}"


def shared_name(hot: HotModule, name: str) -> str:
    """Return the name under which version modules reach a symbol that stays single: local ones are promoted, as ThinLTO
    does, to hidden ones with a name of their own."""
    if not hot.module.is_local(name):
        return name
    # LLVM numbers what has no name (@1, a source location of OpenMP); assemblers take a leading digit for a number.
    return f"unnamed.{name}.{hot.tag}" if name[:1].isdigit() else f"{name}.{hot.tag}"
