"""Ordering of a prepared network's steps by the schedule in app.toml."""

from collections import Counter
from dataclasses import replace

from mavcg.apps.application import ScheduleBlock, firings, sequential
from mavcg.apps.application_file import NetworkEntry
from mavcg.apps.given_schedule import with_schedules
from mavcg.apps.model_network import network_of
from mavcg.apps.stage_cuts import steps_of_layer
from mavcg.choose.lowering.row_phases import plan_in_order
from mavcg.choose.lowering.step_list import PlannedModel
from mavcg.importers.load import import_model
from mavcg.model.prepare import PreparedModel
from mavcg.passes.graph.pipeline import optimise


def scheduled_model(entry: NetworkEntry, prepared: PreparedModel) -> PreparedModel:
    """Return the network with its steps in the order of its schedule; buffers hold only the rows needed at once.

    prepared: with kernels that work by rows of the image. A layer that runs once per output row is computed row by row
    if its kernel can; others, such as Winograd's, are computed whole when their first row is due. Layers without steps,
    such as a concatenation in place, are left out; steps that belong to no layer, such as conversions of layouts, run
    just before their output is read. Raises: MavcgError as with_schedules.
    """
    cnn = network_of(optimise(import_model(entry.file, entry.shapes)), entry.name)
    (partition,) = with_schedules(cnn, [sequential(cnn)], entry.schedules, entry.schedule_place)
    return replace(prepared, planned=in_schedule_order(prepared.planned, partition.schedule))


def in_schedule_order(planned: PlannedModel, schedule: ScheduleBlock) -> PlannedModel:
    """Return the program with the steps of each layer in the order of a schedule of all layers."""
    order = list(firings(schedule))
    parts, parts_done = Counter(order), Counter[str]()
    steps = {layer: steps_of_layer(planned.lowered.steps, layer) for layer in parts}
    ordered = []
    for layer in order:
        ordered += [(step, parts_done[layer], parts[layer]) for step in steps[layer]]
        parts_done[layer] += 1
    return plan_in_order(planned, ordered)
