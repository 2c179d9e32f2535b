"""A module whose hot functions get versions, and the names of versions and promoted symbols."""

from dataclasses import dataclass

from mavcg.passes.ir.module_text import ModuleText

# Linkages of definitions that several objects may have; the linker keeps one of them.
MERGEABLE = {"linkonce_odr", "weak_odr"}


@dataclass(frozen=True)
class HotModule:
    """A module whose hot functions are to be versioned.

    hot: names of the functions that get versions; all are defined in the module and clonable. tag: suffix of promoted
    local symbols, different for each module of a program.
    """

    module: ModuleText
    hot: frozenset[str]
    tag: str

    def attributes(self, name: str) -> str:
        """Return all attributes of a function as text."""
        return self.module.objects.functions[name].attributes


def version_stem(hot: HotModule, name: str) -> str:
    """Return the stem of a hot function's version symbols: its name, with the module's tag if it may not be unique.

    Another module may define its own function of the same name if this one is static or replaceable.
    """
    keeps_name = hot.module.linkage(name) in {"external", *MERGEABLE}
    return name if keeps_name else f"{name}.{hot.tag}"


def version_symbol(hot: HotModule, name: str, label: str) -> str:
    """Return the symbol of a version: f.cortex-a55."""
    return f"{version_stem(hot, name)}.{label}"


def shared_name(hot: HotModule, name: str) -> str:
    """Return the name by which version modules refer to a symbol that stays single.

    Local symbols are promoted to hidden ones with a unique name, as in ThinLTO.
    """
    if not hot.module.is_local(name):
        return name
    # LLVM numbers unnamed globals (@1, a source location of OpenMP); assemblers parse a leading digit as a number.
    return f"unnamed.{name}.{hot.tag}" if name[:1].isdigit() else f"{name}.{hot.tag}"
