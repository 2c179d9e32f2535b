"""Print the shares by class of function, for `mavcg profile --classes`, as JSON, table and picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.cli.profile_report import NAME_CHARS, percent, printable_name
from mavcg.console.output import console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.program.profiling.function_classes import ClassShares
    from mavcg.program.profiling.profile import Profile


def check_classes(classes: bool, of_file: str | None, files: Sequence[Path]) -> None:
    """Check the options of --classes. files: values of --import.

    Raises: MavcgError for --of and for several files without --classes, and for files of the same name.
    """
    if not classes and of_file is not None:
        raise MavcgError(f"--of {of_file}: is for --classes; add it, or leave --of out")
    if not classes and len(files) > 1:
        raise MavcgError(
            f"--import {files[1]}: a ranking is of one profile; give one file, or add --classes for several"
        )
    names = [path.stem for path in files]
    for path in files:
        if names.count(path.stem) > 1:
            raise MavcgError(
                f"--import {path}: {names.count(path.stem)} files have the name {path.stem}; rename one of them"
            )


def show_classes(
    profiles: "Mapping[str, Profile]", of_file: str, binaries: Sequence[Path], plot: Path | None, as_json: bool
) -> None:
    """Print the shares by class, a row for each profile, and draw them.

    Args:
        profiles: by label of the row.
        of_file: count only functions of this file; "" for all.
        binaries: values of --binary, whose code is read for objects of their names.
        plot: file for the picture; None for no picture.
    """
    from mavcg.program.profiling.code_class import code_classifier
    from mavcg.program.profiling.function_classes import class_shares

    class_by_code = code_classifier(binaries)
    rows = [class_shares(profile, label, of_file, class_by_code) for label, profile in profiles.items()]
    if plot is not None:
        from mavcg.program.profiling.class_chart import plot_classes

        plot_classes(rows, plot)
        note(f"wrote {plot}")
    if as_json:
        print_json(classes_json(rows))
    else:
        print_classes(rows)


def classes_json(rows: "Sequence[ClassShares]") -> dict[str, Any]:
    """Return the document of `mavcg profile --classes --json`: shares as fractions, and the mean of GEMM/conv."""
    from mavcg.program.profiling.function_classes import GEMM, mean_share

    return {
        "classes": [
            {
                "label": row.label,
                "total": row.total,
                "shares": dict(row.shares),
                "hottest": row.hottest,
                "hottest_share": row.hottest_share,
                "functions": [
                    {
                        "function": f.function,
                        "object": f.object,
                        "share": f.share,
                        "class": f.name,
                        "classified_by": f.by,
                    }
                    for f in row.functions
                ],
            }
            for row in rows
        ],
        "gemm_mean": mean_share(rows, GEMM),
        "classified_by": classified_by(rows),
    }


def classified_by(rows: "Sequence[ClassShares]") -> str:
    """Return what decided the classes of all functions: "code", "names" or "code and names"."""
    kinds = {function.by for row in rows for function in row.functions}
    return "code and names" if len(kinds) > 1 else "code" if kinds == {"code"} else "names"


def print_classes(rows: "Sequence[ClassShares]") -> None:
    """Print the shares by class as a table with a row for each profile, without classes that have no samples."""
    from rich.table import Table
    from rich.text import Text

    from mavcg.program.profiling.function_classes import CLASSES, GEMM, mean_share

    shown = [name for name in CLASSES if any(row.shares[name] > 0 for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("profile")
    for name in (*shown, "by code", "hottest"):
        table.add_column(name, justify="right")
    table.add_column("function", overflow="fold", ratio=1)
    for row in rows:
        shares = [*(row.shares[name] for name in shown), row.by_code, row.hottest_share]
        cells = [*(percent(share) for share in shares), row.hottest[:NAME_CHARS]]
        table.add_row(*(Text(printable_name(cell)) for cell in (row.label, *cells)))
    console().print(table)
    console().print(
        Text("by code: share of functions classed by their machine code; the others go by their names", "dim")
    )
    if len(rows) > 1:
        console().print(Text(f"{GEMM}: {percent(mean_share(rows, GEMM))} in the mean of {len(rows)} profiles", "dim"))
