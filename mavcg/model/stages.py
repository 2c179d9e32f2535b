"""The stages of a model's build between its file and code generation: each takes a Plan and returns one.

STAGES lists them in order. What they decide is printed by MAVCG_DUMP (dump.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.strategies import ENGINE
from mavcg.choose.bands.banded_range import AUTO, OFF, ON
from mavcg.choose.bands.choose_bands import with_bands
from mavcg.choose.lengths.any_length import count_lengths, lower_any_length
from mavcg.choose.limits.arena_limit import first_within
from mavcg.choose.lowering.context_memory import hold_in_context, without_state_copies
from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.choose.lowering.row_phases import divide_rows
from mavcg.choose.lowering.step_list import make_step_list
from mavcg.choose.plan import Plan
from mavcg.choose.predict.predict import PredictedProgram, predict, thread_plans
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.stored_weights import stored_weight_bytes, stored_weight_gains
from mavcg.choose.tiles.core_shares import kernel_core_shares
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC
from mavcg.memory.node_order import order_nodes
from mavcg.model.calibration import calibration_sets
from mavcg.model.choose_algorithms import choose_algorithms
from mavcg.model.dump import dump
from mavcg.model.model_request import ModelRequest, PlanContext, Progress, plan_context
from mavcg.model.precision import (
    AUTO_PRECISION,
    BF16,
    F16,
    F32,
    optimised_graph,
    own_errors_json,
    products_of_lengths,
    set_precision,
)
from mavcg.model.precision_choice import HalfChoice, choose_half_layers
from mavcg.model.precision_error import MeasuredError, error_json, exact_runs
from mavcg.model.precision_selection import fastest_single, precision_times
from mavcg.model.reading import read_graph, read_sampled_graphs
from mavcg.model.weight_choice import choose_stored_weights
from mavcg.passes.graph.attention import fuse_attention
from mavcg.runtime.machines import packing_for


def optimise_graph(plan: Plan, context: PlanContext) -> Plan:
    """Rewrite the graph by all passes, whose result is the same for every core.

    Without a selection by costs, which attention has none of yet, it is computed by its own kernels.
    """
    context.progress("rewriting the graph")
    graph = plan.graph
    if context.question.strategy == ENGINE and context.precision == F32:
        graph = fuse_attention(graph)
        dump("fuse_attention", graph)
    graph = optimised_graph(graph, context.precision, dump)
    dump("optimise", graph)
    return replace(plan, graph=graph)


def choose_precision(plan: Plan, context: PlanContext) -> Plan:
    """Compute nodes in half precision, and store weights in it, where it is requested and pays; measure the error."""
    stored, single = context.stored_weights, context.precision == F32
    if single and not stored:
        return plan
    limited = context.precision == AUTO_PRECISION or stored == "i8"
    limit = context.max_half_error if limited else None
    sets = calibration_sets(plan.graph, context.calibration)
    if single:
        choice = HalfChoice(plan.graph, MeasuredError(None), {}, exact_runs(plan.graph, sets))
    elif context.precision == AUTO_PRECISION:
        times = precision_times(
            plan.graph, context.board, context.question.max_error, context.progress, context.workers
        )
        select = partial(fastest_single, plan.graph, times)
        choice = choose_half_layers(plan.graph, limit, sets, context.progress, select=select)
    else:
        dtype = BF16 if context.precision == BF16 else F16
        choice = choose_half_layers(plan.graph, limit, sets, context.progress, dtype)
    graph, error, weights = choice.graph, choice.error, None
    if stored:
        context.progress(f"choosing layers with weights in {stored}")
        gains: Mapping[str, float] = (
            stored_weight_bytes(graph, stored)
            if context.store_all
            else stored_weight_gains(graph, stored, context.board, context.progress, context.workers)
        )
        chosen = choose_stored_weights(graph, error, stored, gains, limit, choice.runs)
        graph, error, weights = chosen.graph, chosen.error, chosen.as_json(stored)
    dump("precision", graph)
    return replace(
        plan,
        graph=graph,
        precision={
            "max_error": limit,
            **error_json(error),
            "own_errors": own_errors_json(plan.graph, choice.own),
            "calibration": str(context.calibration),
            "input_sets": len(sets),
            "weights": weights,
        },
    )


def choose_and_lower(plan: Plan, context: PlanContext) -> Plan:
    """Choose how each node is computed, and lower it to kernels, within the limit on the arena.

    Raises: ArenaTooLargeError with the smallest arena found; MavcgError as choose_algorithms.
    """
    choices, limit = _lowered_choices(plan, context), context.max_arena_bytes
    return next(choices) if limit is None else first_within(choices, limit, context.progress)


def _lowered_choices(plan: Plan, context: PlanContext) -> Iterator[Plan]:
    """Yield the choices by preference: as requested, by rows, and with algorithms that all work by rows."""
    for question in dict.fromkeys((context.question, ModelQuestion(ENGINE, None, 0))):
        chosen = choose_algorithms(plan, replace(context, question=question), dump)
        chosen = replace(chosen, lowered=without_state_copies(chosen.lowered))
        dump("lower", chosen.lowered)
        if question == context.question and not context.image_rows:
            yield chosen
        yield replace(chosen, lowered=with_image_rows(chosen.lowered))


def lower_for_lengths(plan: Plan, context: PlanContext) -> Plan:
    """Rewrite the graphs of all sampled lengths, and lower them to kernels that take any length."""
    assert plan.lengths is not None
    # Attention between tokens has no other kernel, so a model that quantizes at run time has its roundings, too.
    graphs = [fuse_attention(graph, dynamic=True) for graph in plan.lengths.graphs]
    optimised = [optimise_graph(replace(plan, graph=graph), context) for graph in graphs]
    single = products_of_lengths([each.graph for each in optimised], context.precision)
    most, *others = (set_precision(each, context.precision, single).graph for each in optimised)
    most = order_nodes(most).graph
    packing = packing_for(context.board.target, context.board.machines.values())
    lowered = lower_any_length([most, *others], plan.lengths, packing)
    dump("lower", lowered)
    counted = replace(plan.lengths, graphs=())  # whose constants take memory
    return replace(plan, graph=most, lowered=lowered, selection={"strategy": ENGINE}, lengths=counted)


def choose_bands(plan: Plan, context: PlanContext) -> Plan:
    """Choose the ranges of steps that pay by bands of rows, on a board, within the limit on the arena."""
    if not context.board.named or context.depth_first == OFF or plan.lowered.loops:
        return plan
    banded = with_bands(plan, context.board, context.depth_first == AUTO, context.progress, context.workers)
    limit = context.max_arena_bytes
    return plan if limit is not None and banded.rows.arena_bytes > limit else banded


def tile_kernels(plan: Plan, context: PlanContext) -> Plan:
    """Give every kernel a macro-tile for each core's caches; it does not depend on the other kernels."""
    tiles = plan_tiles(plan.specs, context.board.versions, context.board.counts)
    dump("plan_tiles", tiles)
    return replace(plan, tiles=tiles)


def place_memory(plan: Plan, context: PlanContext) -> Plan:
    """Give buffers and constants their addresses."""
    memory = plan_memory(plan.lowered, pool=context.pool, any_length=plan.lengths is not None)
    dump("plan_memory", memory)
    return replace(plan, memory=memory)


def list_steps(plan: Plan, context: PlanContext) -> Plan:
    """Make the engine's step list."""
    shares = kernel_core_shares(plan.specs, context.board.versions, plan.tiles)
    return replace(plan, program=make_step_list(plan.lowered, plan.memory, plan.tiles, shares))


def order_phases(plan: Plan, context: PlanContext) -> Plan:
    """Compute the program by parts of rows: those that keep the limit on the arena, or bands that are faster."""
    plan = divide_rows(plan)
    dump("plan_phases", f"{len(plan.program.phases)} phases, arena {plan.program.arena_bytes} bytes\n")
    return plan


def choose_threads(plan: Plan, context: PlanContext) -> Plan:
    """Add the thread plans among which the engine chooses, if it does. Raises: MavcgError without a board."""
    board = context.board
    if context.threads:
        return plan
    if not board.named:
        raise MavcgError("--threads auto: needs a board to predict for; name a --board, or a number of threads")
    context.progress(f"predicting on {board.board.name} with each number of threads")
    available = [label for label in board.versions if label != GENERIC]
    program = PredictedProgram(plan.graph.name, board, step_works(plan), plan.specs, plan.tiles, available=available)
    prediction = predict(program, 0, context.workers, context.progress)
    return replace(plan, program=replace(plan.program, thread_plans=thread_plans(prediction)))


def place_states(plan: Plan, context: PlanContext) -> Plan:
    """Move the states and the lengths that a run decides from the signature to the context, last, because it depends on
    the order of all steps."""
    held = hold_in_context(plan)
    if held.program.states:
        dump("place_states", "".join(f"{state}\n" for state in held.program.states))
    return held


def count_lengths_of(plan: Plan, context: PlanContext) -> Plan:
    """Name the bounded dimensions of the program, and of which its inputs, outputs and so states have axes."""
    assert plan.lengths is not None
    return replace(plan, program=count_lengths(plan.program, plan.lengths))


Stage = Callable[[Plan, PlanContext], Plan]
# Of one graph; its kernels and constants may then be shared with other graphs of the same library.
CHOOSE: tuple[Stage, ...] = (optimise_graph, choose_precision, choose_and_lower)
_ORDER: tuple[Stage, ...] = (tile_kernels, place_memory, list_steps, order_phases, choose_threads)
LAY_OUT: tuple[Stage, ...] = (*_ORDER, place_states)
STAGES = (*CHOOSE, choose_bands, *LAY_OUT)
# Of a library of any length: no bands, whose rows would lie in another order than indices.
LAY_OUT_LENGTHS: tuple[Stage, ...] = (*_ORDER, count_lengths_of, place_states)
ANY_LENGTH = (lower_for_lengths, *LAY_OUT_LENGTHS)


def run_stages(plan: Plan, context: PlanContext, stages: Sequence[Stage] = STAGES) -> Plan:
    """Return the plan after these stages. Raises: MavcgError for a node without a kernel, and as the stages."""
    for stage in stages:
        plan = stage(plan, context)
    return plan


def keeps_loops(context: PlanContext) -> bool:
    """Return True if loops of the file are loops of the program: not where its layers are computed by parts of rows, or
    where a precision is chosen for each layer, whose error a run of the graph measures."""
    by_rows = context.max_arena_bytes is not None or context.image_rows or context.depth_first == ON
    return not by_rows and context.precision == F32 and not context.stored_weights


def plan_model(request: ModelRequest, name: str, progress: Progress) -> Plan:
    """Read a model and plan its library. name: of the graph. Raises: as build_model."""
    context = plan_context(request, progress)
    if request.bounds is not None:
        progress(f"reading {request.model.name}, {request.bounds}")
        sampled = request.sampled or read_sampled_graphs(request, request.bounds, name)
        plan = Plan(sampled.graphs[0], context.board.machines, lengths=sampled)
        return run_stages(plan, context, ANY_LENGTH)
    progress(f"reading {request.model.name}")
    graph = read_graph(request, name, keeps_loops(context))
    return run_stages(Plan(graph, context.board.machines), context)
