"""Checks of app.toml before a library is built from it."""

from collections.abc import Sequence
from itertools import combinations

from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.apps.service.periodic_keys import AcceleratorStage, preempting_pairs
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.hardware.core import Core
from mavcg.importers.load import import_model
from mavcg.model.precision import AUTO_PRECISION, F16, F32
from mavcg.runtime.machines import cores_without_half


def check_buildable(file: ApplicationFile) -> None:
    """Raise MavcgError naming the line of a setting with which no library can be built."""
    if file.weights_resident is not None:
        _check_paging(file)
    for entry in file.networks:
        location = f"{file.path}: line {entry.line}: network '{entry.name}'"
        if entry.schedules and entry.partitions:
            raise MavcgError(
                f"{entry.schedule_place}: a pipeline of a library runs each partition layer by layer; leave schedule "
                "or partitions out"
            )
        if entry.schedules and entry.bounds:
            raise MavcgError(
                f"{entry.schedule_place}: a schedule orders the rows of one length, and {entry.bounds} has a bounded "
                "dimension; leave schedule out, or give each axis one length"
            )
        chosen = {"weights": entry.weights, "precision": entry.precision if entry.precision == "mixed" else ""}
        for key, value in chosen.items():
            if value and entry.bounds:
                raise MavcgError(
                    f"{location}: {key} = '{value}': which layers have them is chosen for one length, and "
                    f"{entry.bounds} has a bounded dimension; leave {key} out, or give each axis one length"
                )
        if any(isinstance(stage, AcceleratorStage) for stage in entry.stages):
            raise MavcgError(
                f"{location}: stages: a library computes on CPUs alone, and has no stages on accelerators, which "
                "are for mavcg app plan and simulate; leave stages out"
            )


def _check_paging(file: ApplicationFile) -> None:
    """Check that the networks run one after the other. Raises: MavcgError otherwise."""
    together = {
        "parallel": bool(file.parallel),
        "partitions": any(entry.partitions for entry in file.networks),
        "period_ms": bool(file.periods),
    }
    if keys := [key for key, there in together.items() if there]:
        raise MavcgError(
            f"{file.path}: weights_resident: weights are paged in the order of networks that run one after the other, "
            f"and {' and '.join(keys)} lets some run at the same time; leave one of them out"
        )


def check_precision(entry: NetworkEntry, graph: Graph, location: str) -> None:
    """Check that a network has the precision in app.toml, to which a build converts from fp32.

    graph: optimised. int8: every convolution and matrix product with constant weights must be 8-bit, unless samples
    converted the network. fp16: some data
    must be f16, of the file or by arithmetic_of. fp32, the default, accepts any file. Raises: MavcgError naming the
    node and the remedy.
    """
    if entry.precision == "int8" and not entry.quantised:
        for node in graph.nodes:
            if node.op in ("conv2d", "primitive_conv2d", "matmul") and node.inputs[1] in graph.constants:
                raise MavcgError(
                    f"{location}: precision = 'int8': node '{node.origin or node.output}' of {entry.file.name} is "
                    f"computed in {graph.types[node.inputs[0]].dtype}; give samples, a folder of inputs, or a file "
                    "in 8 bits (ONNX: mavcg quantise, with --max-error as large as all layers need; TFLite: a "
                    "converter with representative_dataset), or leave precision out"
                )
    if entry.precision == "fp16" and not any(kind.dtype == "f16" for kind in graph.types.values()):
        raise MavcgError(
            f"{location}: precision = 'fp16': no layer of {entry.file.name} has a kernel for f16; leave precision out"
        )


def arithmetic_of(entry: NetworkEntry, cores: Sequence[Core], location: str) -> str:
    """Return the precision in which a network is built: that of its file, as F32, F16 if `fp16` converts it, or
    AUTO_PRECISION for `mixed`.

    Raises: MavcgError for a conversion to f16 where a core has no arithmetic of f16.
    """
    if entry.precision == "mixed":
        return AUTO_PRECISION
    if entry.precision != "fp16":
        return F32
    if any(kind.dtype == "f16" for kind in import_model(entry.file, entry.shapes).types.values()):
        return F32
    if without := cores_without_half(cores):
        raise MavcgError(
            f"{location}: precision = 'fp16': {', '.join(without)} {'has' if len(without) == 1 else 'have'} no "
            "arithmetic of half precision (FEAT_FP16, AVX512-FP16); name other --cores, or halve the weights alone by "
            "weights = 'f16'"
        )
    return F16


def parallel_pairs(file: ApplicationFile) -> frozenset[frozenset[int]]:
    """Return the pairs of networks, by number, that may run at the same time.

    A partition, NETWORK.0 and so on, stands for its network, because nothing synchronises the partitions of a pipeline
    with it. So do networks of which one may preempt the other. Raises: MavcgError for unknown names.
    """
    numbers = [{_number(file, name) for name in group} for group in file.parallel]
    given = frozenset(frozenset(pair) for group in numbers for pair in combinations(sorted(group), 2))
    return given | preempting_pairs(file.periods)


def _number(file: ApplicationFile, name: str) -> int:
    """Return the number of the network with this name, or with a partition of this name."""
    for number, entry in enumerate(file.networks):
        if name == entry.name or (entry.partitions and _is_partition(name, entry)):
            return number
    names = ", ".join(entry.name for entry in file.networks)
    raise MavcgError(f"{file.path}: parallel: '{name}' is not a network; choose one of {names}")


def _is_partition(name: str, entry: NetworkEntry) -> bool:
    network, _, number = name.rpartition(".")
    return network == entry.name and number.isascii() and number.isdigit()
