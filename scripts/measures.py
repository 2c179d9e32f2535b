"""Measure how much a reader of the code has to hold in the head; `python -m scripts.measures` prints it.

Counted in the product, which is mavcg/, kernels/, passes/, profiles/ and runtime/, unless a measure says otherwise:
modules and lines, floors, arrows between folders, the longest chain of imports, functions of many parameters, tests of
types. With --built a small network and a program are built, and `mavcg --help` is timed.
"""

import argparse
import ast
import gc
import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mavcg.files.child_python import commands_folder, python_command
from mavcg.files.scratch import scratch_folder
from scripts.floors import PARTS, ROOT, arrows, deepest_chain, floors, modules, tree_of

MOST_PARAMETERS = 8  # of a function; more want a value
FEW_IMPORTS = 2  # an arrow that rests on no more may be a function on the wrong floor
SCRIPTS = ("mavcg", *PARTS, "tests", "bench", "examples", "fuzz", "scripts")
_SKIP = re.compile(r"# fmt: skip\s*$", re.MULTILINE)
# Runs `mavcg` with each list of arguments, then prints how many of its modules it has loaded.
_BUILD = """\
import json, os
from mavcg.cli.app import run
for folder, arguments in json.loads(sys.argv[1]):
    os.chdir(folder)
    if run(arguments):
        sys.exit(f"mavcg {' '.join(arguments)} failed")
print(sum(name.split(".")[0] == "mavcg" for name in sys.modules))
"""


def measures() -> dict[str, Any]:
    """Return the counts, by name."""
    return {
        "modules": len(modules()),
        "lines": sum(path.read_text().count("\n") for path in modules().values()),
        "floors": len(floors()),
        "arrows": len(arrows()),
        "arrows_of_few_imports": sum(count <= FEW_IMPORTS for count in arrows().values()),
        "deepest_chain": len(deepest_chain()),
        "functions_of_many_parameters": len(list(functions_of_many_parameters())),
        "isinstance_calls": sum(map(isinstance_calls, modules().values())),
        "format_skips": sum(
            len(_SKIP.findall(path.read_text())) for folder in SCRIPTS for path in (ROOT / folder).rglob("*.py")
        ),
        "json_lines_of_bench": sum(path.read_text().count("\n") for path in (ROOT / "bench").rglob("*.json")),
    }


def functions_of_many_parameters() -> Iterator[str]:
    """Yield "module.function: count" for each function of more than MOST_PARAMETERS, self and cls not counted."""
    for name, path in modules().items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                of = node.args
                given = [
                    arg.arg for arg in (*of.posonlyargs, *of.args, *of.kwonlyargs) if arg.arg not in ("self", "cls")
                ]
                if len(given) > MOST_PARAMETERS:
                    yield f"{name}.{node.name}: {len(given)}"


def isinstance_calls(path: Path) -> int:
    """Return how many times a module tests a type."""
    calls = (node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    return sum(isinstance(function, ast.Name) and function.id == "isinstance" for function in calls)


def measures_of_builds() -> dict[str, Any]:
    """Return how many modules of mavcg two builds load, and the time of `mavcg --help`: the least of five, in s."""
    from scripts.gate_networks import NETWORKS

    with scratch_folder("measures") as folder:
        network = NETWORKS["small_cnn"](folder / "small")
        builds: Sequence[tuple[str, Sequence[str]]] = (
            (str(folder), ("build", network.name, "--board", "exynos9820", "-o", "libsmall.so")),
            (
                str(ROOT / "examples/edge_app"),
                ("build", "--source", "ops/gemm_f32.c", "--hot", "gemm_f32", "--cores", "cortex-a55")
                + ("--flag=-std=c11", "-o", str(folder / "libops.so")),
            ),
        )
        done = subprocess.run(
            python_command("import sys\n" + _BUILD, json.dumps(builds)), capture_output=True, text=True, check=True
        )
    return {"modules_that_builds_load": int(done.stdout.split()[-1]), "help_s": min(_help_s() for _ in range(5))}


def _help_s() -> float:
    begin = time.perf_counter()
    subprocess.run([str(commands_folder() / "mavcg"), "--help"], stdout=subprocess.DEVNULL, check=True)
    return round(time.perf_counter() - begin, 3)


def main() -> None:
    """Print the measures, the longest chain, the functions of many parameters, and what each folder imports."""
    parser = argparse.ArgumentParser(prog="python -m scripts.measures", description="Measure the code's structure.")
    parser.add_argument("--json", action="store_true", help="print the measures alone, as one JSON object")
    parser.add_argument("--built", action="store_true", help="also build a network and a program, and time --help")
    options = parser.parse_args()
    counts = measures() | (measures_of_builds() if options.built else {})
    if options.json:
        print(json.dumps(counts))
        return
    for name, count in counts.items():
        print(f"{name.replace('_', ' ')}: {count}")
    print(" -> ".join(name.removeprefix("mavcg.") for name in deepest_chain()))
    for function in functions_of_many_parameters():
        print(function)
    for floor in reversed(floors()):
        print(f"{floor.name}:")
        for folder in floor.folders:
            below = (f"{there} ({count})" for (here, there), count in sorted(arrows().items()) if here == folder)
            print(f"    {folder} -> {', '.join(below) or 'nothing'}")


if __name__ == "__main__":
    gc.disable()  # all trees are kept
    main()
