"""The report of a build of many libraries."""

from typing import TYPE_CHECKING, Any

from mavcg.lab.farm.build_farm import FarmResult
from mavcg.lab.farm.library_tasks import LinkedFiles, Refusal
from mavcg.model.model_request import ModelRequest

if TYPE_CHECKING:
    from rich.console import Console


def farm_json(result: FarmResult) -> dict[str, Any]:
    """Return the JSON document of `mavcg build --boards`: libraries as from `mavcg build MODEL`, and refusals."""
    pairs = list(zip(result.requests, result.results, strict=True))
    built = [(request, outcome.document) for request, outcome in pairs if isinstance(outcome, LinkedFiles)]
    return {
        "libraries": [_report_names(request) | dict(document) for request, document in built],
        "refused": [
            _report_names(request) | {"reason": outcome.reason}
            for request, outcome in pairs
            if isinstance(outcome, Refusal)
        ],
        "modules": {
            "all": result.modules,
            "distinct": result.distinct,
            "kept": result.kept,
            "compiled": result.distinct - result.kept,
        },
        "kernels": {"all": result.kernels, "compiled": result.compiled_kernels},
        "seconds": round(result.seconds, 3),
    }


def _report_names(request: ModelRequest) -> dict[str, Any]:
    return {"model": str(request.model), "board": request.board.name if request.board else None}


def show_farm(result: FarmResult, out: "Console") -> None:
    """Print a row for each library, then the numbers of compiled modules and kernels."""
    from rich.table import Table

    table = Table("model", "board", "library")
    for heading in ("MB", "code kB", "kernels", "versions"):
        table.add_column(heading, justify="right")
    for request, outcome in zip(result.requests, result.results, strict=True):
        name = request.board.name if request.board else ""
        if isinstance(outcome, Refusal):
            table.add_row(request.model.name, name, f"not built: {outcome.reason}", "", "", "", "")
            continue
        facts = outcome.document
        table.add_row(
            request.model.name,
            name,
            str(facts["output"]),
            f"{facts['library_bytes'] / 1e6:.2f}",
            f"{facts['code_bytes'] / 1e3:.1f}",
            str(facts["kernels"]),
            str(len(facts["versions"])),
        )
    out.print(table)
    out.print(
        f"{result.kernels} versions of kernels in {result.modules} modules, {result.distinct} of them distinct: "
        f"{result.kept} kept from earlier builds, {result.distinct - result.kept} compiled, with "
        f"{result.compiled_kernels} versions; {result.seconds:.1f} s"
    )
