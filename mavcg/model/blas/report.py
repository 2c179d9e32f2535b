"""Report of a BLAS library's contents."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from mavcg.objects.inspection import versions_text


def show_blas_note(note: Mapping[str, Any], out: Console) -> None:
    """Print the routines, versions and blocks in a library's note."""
    blas = note["blas"]
    bits = blas["integer_bits"]
    out.print(f"BLAS library, made by mavcg {note['mavcg']}; integers of names without a suffix: {bits} bits")
    out.print(f"  versions: {versions_text(blas)}")
    if blas["next"]:
        out.print(f"  other routines: of {blas['next']}")
    for dtype, block in blas["blocks"].items():
        out.print(
            f"  {dtype}: register tile {block['rows']} x {block['columns']}, blocks of {block['kc']} terms, "
            f"{block['mc']} rows, {block['nc']} columns"
        )
    out.print(f"  {len(blas['routines'])} names: {', '.join(blas['routines'])}")
