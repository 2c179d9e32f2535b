"""Find OpenMP regions in clang's IR: outlined functions whose addresses are passed to the runtime library.

    define void @f(...) { ... call void (ptr, i32, ptr, ...) @__kmpc_fork_call(..., ptr @f.omp_outlined, ...) }

Each thread of a team calls the outlined function, so that a dispatcher in its place chooses by the thread's core.
Source: clang/lib/CodeGen/CGOpenMPRuntime.cpp.
"""

import re

from mavcg.hardware.core import GENERIC
from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.hot_module import HotModule
from mavcg.passes.ir.module_text import ModuleText

_OUTLINED = re.compile(r"\.?omp_outlined\b")


def outlined_regions(module: ModuleText, function: str) -> tuple[str, ...]:
    """Return the outlined functions of the OpenMP regions in a function, nested regions included."""
    regions: dict[str, None] = {}
    pending = [function]
    while pending:
        caller = module.objects.functions.get(pending.pop())
        for name in [use.name for use in caller.body.uses] if caller else []:
            outlined = _OUTLINED.search(name) and module.entities[name].kind == "define" and module.is_local(name)
            if outlined and name not in regions:
                regions[name] = None
                pending.append(name)
    return tuple(regions)


def why_foreign(module: ModuleText, function: str) -> str | None:
    """Return the reason why a function cannot be versioned if the program links gcc's OpenMP library, or None."""
    if module.entities[function].kind != "define":
        return None
    version = make_version(HotModule(module, frozenset({function}), ""), function, GENERIC)
    if not any(name.startswith("__kmpc_") for name in version.needs):
        return None
    return "it has an OpenMP region, whose code clang makes for LLVM's OpenMP library, and the program links gcc's"
