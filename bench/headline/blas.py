"""Some products of `mavcg blas build` beside OpenBLAS, one thread and two: `python -m bench.headline.blas`.

As bench.blas_peers does it, with f32 products and without BLIS and MKL, which are no packages of every machine.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.blas_libraries import openblas, openblas_core_types, our_library
from bench.blas_peers import SHAPES, Size, best_openblas, measure
from bench.headline import run

ROUNDS = 5


def measure_some() -> Mapping[str, Any]:
    """Measure the first three shapes of each kind, A as it is and transposed."""
    shapes = [(kind, shape) for kind, of_kind in SHAPES.items() for shape in of_kind[:3]]
    sizes = [Size(kind, "s", transa, *shape) for kind, shape in shapes for transa in (False, True)]
    with tempfile.TemporaryDirectory(prefix="mavcg-blas-") as folder:
        libraries = [our_library(Path(folder)), *map(openblas, openblas_core_types())]
        rows = measure(libraries, sizes, (1, 2), ROUNDS, "wall_s")
    peers = {library.name: library.version for library in libraries[1:]}
    return {"rounds": ROUNDS, "peers": peers, "best_openblas": best_openblas(rows), "rows": rows}


if __name__ == "__main__":
    run("blas", "measured", __doc__, measure_some)
