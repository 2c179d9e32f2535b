"""Build the shared selector, libmavcg_rt.so, which all libraries of a process built with --runtime shared use."""

import os
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.runtime.build import compile_runtime
from mavcg.runtime.coreset import RUNTIME_ABI
from mavcg.toolchain.target import Target

NAME = "libmavcg_rt.so"
SONAME = f"{NAME}.2"  # changes when a later selector no longer takes the sets of an earlier one
EXPORTS = ("mavcg_rt_entries", "mavcg_rt_finish", "mavcg_rt_select", "mavcg_rt_start")  # csrc/mavcg_rt.h


def build_shared_runtime(target: Target, folder: Path, abi: int = RUNTIME_ABI) -> Path:
    """Build the shared selector for a target, and return its path, folder/libmavcg_rt.so.2.

    Its symbols have the symbol version MAVCG_RT_<abi>: a loader refuses a library that was linked with a later
    version, and names the version. A later ABI keeps the versions of earlier ones, so that libraries stay loadable.
    abi: the ABI's number; only tests give another than the present one.
    Raises: ToolError if compilation fails; MavcgError if the file cannot be written.
    """
    with scratch_folder("mavcg-rt-") as scratch:
        made = compile_runtime("shared_selector", "", target, scratch / "mavcg_rt.o", (f"-DMAVCG_ABI={abi}", "-c"))
        script = scratch / "exports"
        script.write_text(
            "".join([f"MAVCG_RT_{abi} {{\n  global:\n", *(f"    {n};\n" for n in EXPORTS), "  local: *;\n};\n"])
        )
        options = LinkOptions(("-Wl,-z,nodelete",), script, soname=SONAME, strip=True)
        link_shared([made], folder / SONAME, target, options=options)
    return folder / SONAME


def install_shared_runtime(target: Target, folder: Path) -> tuple[Path, Path]:
    """Build the shared selector in a folder, with the link libmavcg_rt.so for linkers, and return both paths.

    Raises: as build_shared_runtime.
    """
    library = build_shared_runtime(target, folder)
    with scratch_folder(".mavcg-", beside=folder) as scratch:
        new = scratch / NAME
        new.symlink_to(SONAME)
        os.replace(new, folder / NAME)
    return library, folder / NAME
