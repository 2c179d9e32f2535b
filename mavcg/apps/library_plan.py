"""Plan of an application's library: each network as it will be built, and one memory for all.

`mavcg app build` builds what this module plans, and `mavcg app plan` reports it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.apps.application import ScheduleBlock, firings, sequential
from mavcg.apps.application_file import NO_COUNTS, NO_STATES, ApplicationFile, NetworkEntry
from mavcg.apps.buildable import arithmetic_of, check_buildable, check_precision, parallel_pairs
from mavcg.apps.given_schedule import with_schedules
from mavcg.apps.model_network import network_of
from mavcg.apps.shared_weights import share_weights
from mavcg.apps.stage_balance import StageBalance
from mavcg.apps.stage_plan import PipelinedModel, pipeline_of, steps_of_layer
from mavcg.apps.weight_paging import WeightPaging, plan_paging
from mavcg.choose.bands.banded_range import OFF
from mavcg.choose.limits.arena_limit import ArenaTooLargeError
from mavcg.choose.lowering.memory_plan import ConstantPool
from mavcg.choose.lowering.row_phases import plan_in_order
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC
from mavcg.importers.load import import_model
from mavcg.memory.shared_placement import place_together
from mavcg.model.model_request import ModelRequest
from mavcg.model.precision import F32
from mavcg.model.stages import plan_model
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.states import without_counts, without_states
from mavcg.runtime.application_text import ApplicationProgram, PlacedNetwork, check_names
from mavcg.runtime.companions import library_stem
from mavcg.runtime.model_text import SCRATCH_ALIGN
from mavcg.runtime.needs import base_extensions
from mavcg.specs.kernel import Machine
from mavcg.specs.model_program import Program

ARENA_ALIGN = 4096  # of csrc/engine.h


@dataclass(frozen=True)
class LibraryPlan:
    """The networks of a library, their pipelines' predicted times, and the memory that they share.

    memory: limit of weights and buffers together, in bytes; None for none. lower_bound_bytes: no placement of these
    steps' buffers takes less than this. weights: the packed weights of all networks, equal ones once. own_weights:
    bytes of each network's, also of those that others have too. paging: of weights, if their pages in memory have a
    limit.
    """

    networks: tuple[Plan, ...]
    balances: tuple[StageBalance | None, ...]
    application: ApplicationProgram
    memory: int | None
    lower_bound_bytes: int
    weights: ConstantPool
    own_weights: tuple[int, ...]
    paging: WeightPaging | None = None

    @property
    def machines(self) -> Mapping[str, Machine]:
        """The versions of kernels, by label; their generic one has arithmetic of f16 if a network was converted."""
        half = (network.machines for network in self.networks if is_converted(network))
        return next(half, self.networks[0].machines)

    @property
    def base_extensions(self) -> tuple[str, ...]:
        """Extensions that all versions need, as of EngineOptions."""
        half = any(is_converted(network) for network in self.networks)
        return base_extensions(self.machines[GENERIC]) if half else ()

    @property
    def weight_bytes(self) -> int:
        """Bytes of packed weights of all networks; equal ones are one copy."""
        return self.weights.end

    @property
    def excess_bytes(self) -> int:
        """Bytes of weights and buffers beyond the limit; at most 0 if it is met."""
        return 0 if self.memory is None else self.resident_weight_bytes + self.application.arena_bytes - self.memory

    @property
    def resident_weight_bytes(self) -> int:
        """Bytes of packed weights that are in memory at a time, at most: all of them without paging."""
        return self.weight_bytes if self.paging is None else self.paging.resident_bytes


def plan_library(
    file: ApplicationFile, request: ModelRequest, progress: Callable[[str], None] = lambda message: None
) -> LibraryPlan:
    """Plan the library of an application. Its memory may exceed the limit: then no smaller one was found.

    request: options of a model build; its model and shapes are ignored, its output is the library. Raises: MavcgError
    for bad models, names that collide in C, and settings with which no library can be built.
    """
    name = library_stem(request.output)
    check_buildable(file)
    check_names(name, [entry.name for entry in file.networks])
    pairs = parallel_pairs(file)
    pipelined = [_prepare_pipelined(file, entry, request, progress) for entry in file.networks]
    balances = tuple(model.balance for model in pipelined)

    def plan(networks: Sequence[Plan]) -> LibraryPlan:
        own_weights = tuple(network.program.constants_bytes for network in networks)
        shared, weights = share_weights(networks)
        programs = [network.program for network in shared]
        application = place_networks(name, programs, pairs)
        bounds = [program.arena_lower_bound_bytes for program in programs]
        placed = place_together(bounds, pairs)
        least = placed.extent if placed.optimal else max(bounds)
        limit = file.weights_resident
        paging = None if limit is None else plan_paging(file, shared, weights.end, limit)
        return LibraryPlan(shared, balances, application, file.memory, least, weights, own_weights, paging)

    planned = plan([model.prepared for model in pipelined])
    return planned if planned.excess_bytes <= 0 else plan(_by_parts(file, planned, request, pairs, progress))


def is_converted(network: Plan) -> bool:
    """Return True if a network is computed in another precision than that of its file."""
    return bool(network.precision.get("converted", F32) != F32)


def place_networks(name: str, programs: Sequence[Program], together: frozenset[frozenset[int]]) -> ApplicationProgram:
    """Place the networks' arenas and scratch in one memory. together: pairs that may run at the same time.

    Nothing is live between two runs, so networks that never run together start at the same byte.
    """
    arena = place_together([program.arena_bytes for program in programs], together, ARENA_ALIGN)
    scratch = place_together(
        [-(-program.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN for program in programs], together, SCRATCH_ALIGN
    )
    placed = (
        PlacedNetwork(
            program,
            arena.offsets[n],
            scratch.offsets[n],
            frozenset(m for m in range(len(programs)) if frozenset((n, m)) not in together),
        )
        for n, program in enumerate(programs)
    )
    return ApplicationProgram(name, tuple(placed), arena.extent, scratch.extent)


def check_memory(file: ApplicationFile, planned: LibraryPlan) -> None:
    """Check that a library keeps the limit in app.toml. Raises: MavcgError with the bytes that it takes."""
    if planned.excess_bytes > 0:
        weights, arena = planned.resident_weight_bytes, planned.application.arena_bytes
        raise MavcgError(
            f"{file.path}: memory = {file.memory} bytes: the library takes {weights + arena}: {weights} of packed "
            f"weights and {arena} of buffers, the least found with layers by parts of rows; raise memory, "
            "leave a network out, or pack fewer weights by --max-error 0"
        )


def _prepare(
    file: ApplicationFile, entry: NetworkEntry, request: ModelRequest, progress: Callable[[str], None]
) -> Plan:
    own = replace(request, model=entry.file, shapes=entry.shapes, bounds=entry.bounds)
    in_eight_bits = entry.weights == "int8" or (entry.precision == "mixed" and not entry.weights)
    stored = "i8" if in_eight_bits else entry.weights
    own = replace(own, stored_weights=stored, store_all=bool(stored), max_half_error=entry.max_error)
    if entry.partitions:  # stages do not divide steps
        own = replace(own, depth_first=OFF)
    try:
        made = plan_model(own, entry.name, lambda message: progress(f"{entry.name}: {message}"))
        quantised = {} if entry.quantised is None else {"quantised": entry.quantised}
        made = replace(made, precision={**made.precision, "converted": own.precision, **quantised})
        without_counts(without_states(made.graph, NO_STATES), NO_COUNTS)
        return made
    except ArenaTooLargeError:
        raise
    except MavcgError as error:
        if entry.bounds:
            remedy = "lists of lengths are for libraries of one model: in an application give such an axis one length"
            raise type(error)(f"{entry.shapes_place}: network '{entry.name}': {error}; {remedy}") from error
        raise type(error)(f"{_location(file, entry)}: {error}") from error


def _location(file: ApplicationFile, entry: NetworkEntry) -> str:
    return f"{file.path}: line {entry.line}: network '{entry.name}'"


def _prepare_pipelined(
    file: ApplicationFile, entry: NetworkEntry, request: ModelRequest, progress: Callable[[str], None]
) -> PipelinedModel:
    """Prepare a network, and cut it into the stages of a pipeline if it has partitions."""
    if entry.partitions or entry.schedules:  # stages run layer by layer, schedules in the given order
        request = replace(request, image_rows=bool(entry.schedules), depth_first="off")
    request = replace(request, precision=arithmetic_of(entry, request.cores, _location(file, entry)))
    prepared = _prepare(file, entry, request, progress)
    check_precision(entry, prepared.graph, _location(file, entry))
    if entry.schedules:
        prepared = scheduled_model(entry, prepared)
    if not entry.partitions:
        return PipelinedModel(prepared, None)
    if prepared.lowered.loops:
        begin, _, _ = prepared.lowered.loops[0]
        raise MavcgError(
            f"{file.path}: line {entry.line}: network '{entry.name}': partitions: node "
            f"'{prepared.lowered.steps[begin].name}' is in a loop, and the stages of a pipeline have none; leave "
            "partitions out"
        )
    return pipeline_of(file, entry, prepared, request, progress)


def _by_parts(
    file: ApplicationFile,
    planned: LibraryPlan,
    request: ModelRequest,
    pairs: frozenset[frozenset[int]],
    progress: Callable[[str], None],
) -> list[Plan]:
    """Return the networks; those whose arena exceeds the memory left beside all weights are computed by parts of rows.

    One that exceeds it by parts, too, is in the least arena that was found.

    Pipelines, networks with a schedule or a bounded dimension, and networks that run at the same time as others stay
    unchanged.
    """
    networks = list(planned.networks)
    room = max(1, (file.memory or 0) - planned.resident_weight_bytes)
    for number, entry in enumerate(file.networks):
        whole = entry.partitions or entry.schedules or entry.bounds or any(number in pair for pair in pairs)
        if not whole and networks[number].program.arena_bytes > room:
            precision = networks[number].precision.get("converted", F32)
            own = replace(request, max_arena_bytes=room, precision=precision)
            try:
                networks[number] = _prepare(file, entry, own, progress)
            except ArenaTooLargeError as error:
                networks[number] = _prepare(file, entry, replace(own, max_arena_bytes=error.least_bytes), progress)
    return networks


def scheduled_model(entry: NetworkEntry, prepared: Plan) -> Plan:
    """Return the network with its steps in the order of its schedule; buffers hold only the rows needed at once.

    prepared: with kernels that work by rows of the image. A layer that runs once per output row is computed row by row
    if its kernel can; others, such as Winograd's, are computed whole when their first row is due. Layers without steps,
    such as a concatenation in place, are left out; steps that belong to no layer, such as conversions of layouts, run
    just before their output is read. Raises: MavcgError as with_schedules.
    """
    cnn = network_of(optimise(import_model(entry.file, entry.shapes)), entry.name)
    (partition,) = with_schedules(cnn, [sequential(cnn)], entry.schedules, entry.schedule_place)
    return in_schedule_order(prepared, partition.schedule)


def in_schedule_order(planned: Plan, schedule: ScheduleBlock) -> Plan:
    """Return the program with the steps of each layer in the order of a schedule of all layers."""
    order = list(firings(schedule))
    parts, parts_done = Counter(order), Counter[str]()
    steps = {layer: steps_of_layer(planned.lowered.steps, layer) for layer in parts}
    ordered = []
    for layer in order:
        ordered += [(step, parts_done[layer], parts[layer]) for step in steps[layer]]
        parts_done[layer] += 1
    return plan_in_order(planned, ordered)
