"""A build of versions imports no package that takes longer to import than a small file to compile."""

import subprocess
import sys

# Of these, a build that schedules no loop needs none; each costs 0.1 to 0.4 s of CPU time.
HEAVY = ("numpy", "networkx", "pandas", "ortools", "onnx", "rich", "typer", "elftools")
# Nor the machine passes, which no build for x86-64 runs, assembly files, bitcode, forks, and the parser of e-mails.
RARE = (
    "mavcg.passes.asm.tune",
    "mavcg.passes.asm.models.main_loop",
    "mavcg.program.asm_objects",
    "mavcg.program.bitcode",
    "mavcg.cost.core_facts",
    "multiprocessing",
    "importlib.metadata",
)


def test_the_modules_of_mavcg_launch_import_no_heavy_package() -> None:
    modules = ("launching", "launched_object", "request", "report", "compiler_object", "program", "level_versions")
    script = "import sys, " + ", ".join(f"mavcg.program.{name}" for name in modules)
    run = [sys.executable, "-c", f"{script}\nprint(*[name for name in {(*HEAVY, *RARE)!r} if name in sys.modules])"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() == []
