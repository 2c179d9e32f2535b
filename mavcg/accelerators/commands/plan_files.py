"""Write the files of `mavcg plan`: plans as text, as C of one layer or a whole network, and as CUDA C++."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.console.output import console, note, print_json
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole

if TYPE_CHECKING:
    from mavcg.accelerators.plans.request import NetworkPlan
    from mavcg.accelerators.plans.text.plan import TextPlan
    from mavcg.cost.layer import ConvLayer
    from mavcg.graph import Graph


BLAS_HEADER = "plan_blas.h"
PLAN_ARCH = "sm_62"  # the paper's Jetson TX2; CMake's -DGPU names another
_TYPE_OF_BYTES = {1: "i8", 2: "f16", 4: "f32"}


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


def emit_folder(
    model: str,
    layers: "Sequence[ConvLayer]",
    gpu_name: str | None,
    graph: "Callable[[], Graph] | None",
    plan: "Callable[[], NetworkPlan]",
    folder: Path,
    type_name: str | None,
    as_json: bool,
) -> None:
    """Write CUDA C++ of layers: kernels for a GPU, or an accelerator's plans with its memories as device buffers.

    Args:
        gpu_name: the GPU; None for an accelerator.
        graph: reads the whole network, to write a host program too; None for layers only.
        plan: plans the layers, for an accelerator.
        type_name: value of --cuda-type.
    Raises: MavcgError for an unknown type, a layer without a kernel, or a folder that cannot be written.
    """
    from mavcg.accelerators.gpu.gpu_layer import TYPES, typed_layer

    if type_name is not None and type_name not in TYPES:
        raise MavcgError(f"--cuda-type {type_name}: there is no such type; the types are {', '.join(TYPES)}")
    if gpu_name is None:
        _emit_plans(model, plan(), folder, type_name, as_json)
        return
    from mavcg.accelerators.gpu.cuda_project import emit_cuda, emit_network
    from mavcg.accelerators.gpu.network_steps import network_steps
    from mavcg.profiles.gpus import load_gpu

    def type_of(layer: "ConvLayer") -> str:
        size = layer.items.input
        if type_name is None and size not in _TYPE_OF_BYTES:
            raise MavcgError(f"{model}: layer {layer.name} has elements of {size} bytes; give --cuda-type")
        return type_name or _TYPE_OF_BYTES[size]

    gpu = load_gpu(gpu_name)
    emitted = None
    if graph is not None and (element_type := type_of(layers[0])) != "i8":
        network = graph()
        try:
            network_steps(network, element_type)
        except MavcgError as error:
            note(f"only layers are written, no host program: {error}")
        else:
            emitted = emit_network(network, element_type, gpu, folder)
    elif graph is not None:
        note("only layers are written: host programs are f32 or f16, since int8 needs scales between layers")
    if emitted is None:
        emitted = emit_cuda([typed_layer(layer, type_of(layer)) for layer in layers], gpu, folder)
    rows = [kernel.as_json() for kernel in emitted]
    if as_json:
        print_json({"model": model, "gpu": gpu_name, "folder": str(folder), "kernels": rows})
        return
    _show(rows, folder)


def _emit_plans(model: str, plan: "NetworkPlan", folder: Path, type_name: str | None, as_json: bool) -> None:
    """Write an accelerator's plans as CUDA, with its memories as device buffers (e-PlaNNer, 7.2)."""
    from mavcg.accelerators.gpu.cuda_project import emit_plans
    from mavcg.accelerators.plans.text.emit import emit_plan

    if type_name is not None:
        raise MavcgError(
            f"--cuda-type {type_name}: is for GPUs; the plans of an accelerator have the model's types, so leave it out"
        )
    plans = [emit_plan(planned.layer, planned.tiling, plan.accelerator) for planned in plan.planned]
    rows = emit_plans(plans, PLAN_ARCH, folder)
    if as_json:
        print_json({"model": model, "accelerator": plan.accelerator.name, "folder": str(folder), "kernels": list(rows)})
        return
    moved = sum(row["moved_bytes"] for row in rows)
    console().print(f"{folder}: {len(rows)} plans as CUDA, which move {moved / 2**20:.1f} MiB")


def check_folder(folder: Path, other_options: dict[str, object], as_json: bool) -> None:
    """Run the kernels of a folder by emulation and compare their results with the plan interpreter's.

    other_options: values by option. Raises: MavcgError if another option is given, and if a kernel is wrong.
    """
    from mavcg.accelerators.gpu.check_project import check_project

    for option, value in other_options.items():
        if value is not None:
            raise MavcgError(f"--check-cuda {folder}: the folder contains the kernels; leave out {option}")
    checked = check_project(folder, lambda done, count, name: note(f"{done + 1} of {count}: {name}"))
    if as_json:
        faults = [{"layer": fault.layer, "message": fault.message} for fault in checked.faults]
        print_json({"kernels": checked.kernels, "mismatches": checked.mismatches, "faults": faults})
    if checked.faults:
        first = checked.faults[0]
        raise MavcgError(f"{folder}: {first.layer}: {first.message}; {len(checked.faults)} kernels are wrong")
    if not as_json:
        console().print(f"{folder}: {checked.kernels} kernels give the results of the plan interpreter")


def _show(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    from rich.table import Table

    table = Table("layer", "tile", "stationary", title=f"CUDA kernels in {folder}", title_justify="left")
    for heading in ("threads", "blocks", "shared bytes", "registers", "predicted ms"):
        table.add_column(heading, justify="right")
    for row in rows:
        tile = " ".join(f"{name}{factor}" for name, factor in row["tile"].items())
        table.add_row(
            row["layer"] or "-",
            tile,
            row["dataflow"].split("-")[0],
            str(row["threads"]),
            str(row["blocks"]),
            f"{row['shared_bytes']:,}",
            str(row["registers"]),
            f"{row['predicted_ms']:.4f}",
        )
    console().print(table)
