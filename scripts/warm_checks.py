"""Fill the caches of mypy and pytest as a part of set-up: `python -m scripts.warm_checks`.

mypy's first run reads the types of NumPy, pandas, matplotlib and other packages; the types of this project are left to
`make types`. pytest writes the byte code of all test files when it first collects them, and each worker of a first run
would compile them for itself.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.text.terminal import say

ROOT = Path(__file__).resolve().parent.parent
OURS = frozenset({"mavcg", "tests", "bench", "scripts", "examples", "fuzz", "kernels", "passes", "profiles", "runtime"})


def imported_elsewhere(sources: Iterable[str]) -> list[str]:
    """Return the modules of other projects that Python sources import, sorted; not those of Python itself."""
    known = OURS | sys.stdlib_module_names
    modules = {name for source in sources for name in _imports(ast.parse(source))}
    return sorted(name for name in modules if name.partition(".")[0] not in known)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def main() -> int:
    """Run mypy on the imports alone, and collect the tests; return 0: what fails is said, and `make test` shows why."""
    sources = [path.read_text() for folder in ("mavcg", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    with scratch_folder("mavcg-types-") as folder:
        imports = Path(folder, "imports.py")
        imports.write_text("".join(f"import {name}\n" for name in imported_elsewhere(sources)))
        for name, *words in (["mypy", str(imports)], ["pytest", "--collect-only", "-qq", "-m", "not long"]):
            done = subprocess.run([sys.executable, "-m", name, *words], cwd=ROOT, capture_output=True)
            if done.returncode > 1:  # 1: mypy misses the types of a module, whose imports in our code say so
                say(f"setup: {name}'s cache is not filled: it ended with exit status {done.returncode}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
