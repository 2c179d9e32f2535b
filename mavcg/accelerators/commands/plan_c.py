"""Write the files of `mavcg plan --emit-ir` and --emit-c: plans as text, and as C of one layer or a whole network."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.console.output import note
from mavcg.files.whole_file import write_whole

if TYPE_CHECKING:
    from mavcg.accelerators.plans.request import NetworkPlan
    from mavcg.accelerators.plans.text.plan import TextPlan
    from mavcg.graph import Graph

BLAS_HEADER = "plan_blas.h"


def emit_files(plan: "NetworkPlan", text: Path | None, c: Path | None, graph: "Callable[[], Graph] | None") -> None:
    """Write the plans as text to one file, and as C to another.

    Args:
        text, c: the files; None for no such file.
        graph: reads the network that the plans belong to; None for the plan of one layer.
    Raises: MavcgError for a wrong plan, a network that cannot be written as C, or a file that cannot be written.
    """
    from mavcg.accelerators.plans.text.c_backend import plan_c
    from mavcg.accelerators.plans.text.emit import emit_plan
    from mavcg.accelerators.plans.text.printer import print_plans
    from mavcg.accelerators.plans.text.verify import verify_plan

    plans = [emit_plan(planned.layer, planned.tiling, plan.accelerator) for planned in plan.planned]
    for text_plan in plans:
        verify_plan(text_plan)
    network = _network(plans, graph(), c) if c is not None and graph is not None else {}
    if text is not None:
        write_whole(text, print_plans(plans), "--emit-ir")
    if c is not None and not network:
        write_whole(c, plan_c(plans[0]), "--emit-c")
    for path, content in network.items():
        write_whole(path, content, "--emit-c")
    if network:
        note(f"wrote {', '.join(path.name for path in network)}")


def _network(plans: "list[TextPlan]", graph: "Graph", c: Path) -> dict[Path, str | bytes]:
    """Return the contents of the C file, of its weights, and of the header that replaces the loops by a BLAS."""
    from mavcg.accelerators.plans.text.network_c import network_c
    from mavcg.accelerators.plans.text.network_c_library import BLAS_RUNTIME
    from mavcg.accelerators.plans.text.network_plan_text import network_text
    from mavcg.graph.networks.builder import drawn_constants

    network = network_text(graph, plans)
    # Built-in networks have no weights: their constants are drawn at random.
    drawn = drawn_constants(graph, [name for name in graph.inputs if name != network.image])
    source, weights = network_c(network, c.stem, drawn)
    return {c: source, c.with_suffix(".weights.bin"): weights, c.with_name(BLAS_HEADER): BLAS_RUNTIME}
