"""Random small applications of networks that run: graphs with seeded weights, as values and as programs."""

import random
from dataclasses import dataclass

from mavcg.accelerators.networks import with_seeded_weights
from mavcg.apps.application import Application, Cnn, DataEdge, Layer, Partition, firings, in_order, sequential
from mavcg.apps.buffers import EdgeData, StepSpan, reuse_buffers, total_size
from mavcg.apps.csdf import compress
from mavcg.apps.derivation import Derivation
from mavcg.apps.given_schedule import with_schedules
from mavcg.apps.library_plan import in_schedule_order
from mavcg.apps.model_network import network_of
from mavcg.apps.models import cut_network
from mavcg.apps.schedule_notation import parse_schedule, write_schedule
from mavcg.apps.stage_plan import cuts_at, steps_of_layer
from mavcg.choose.limits.arena_limit import ArenaTooLargeError, first_within
from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.row_phases import divide_rows
from mavcg.choose.lowering.stage_memory import buffer_uses, plan_stages
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder
from mavcg.memory.arena import align_size
from mavcg.memory.node_order import order_nodes
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Packing
from mavcg.specs.model_program import ProgramStage
from mavcg.toolchain.target import host_target

SIZES = ((5, 7), (7, 5), (8, 8), (12, 6), (16, 9))  # of images; few, so that networks share kernels
KINDS = ("layer by layer", "parts", "schedule", "pipeline", "pipeline")


@dataclass(frozen=True)
class RandomNetwork:
    """whole: layer by layer. planned: as the application has it, by its kind; partitions: of that, and the schedule."""

    kind: str
    cnn: Cnn
    whole: Plan
    planned: Plan
    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class RandomModels:
    """app: as the planner has it. parallel: sets of networks, by number, that run at the same time."""

    app: Application
    networks: tuple[RandomNetwork, ...]
    parallel: tuple[frozenset[int], ...]

    @property
    def pairs(self) -> frozenset[frozenset[int]]:
        """Pairs of networks that may run at the same time."""
        return frozenset(frozenset((a, b)) for group in self.parallel for a in group for b in group if a != b)


def random_graph(generator: random.Random, name: str) -> Graph:
    """Convolutions, depthwise ones, pools, sums and joins over a small image, with a branch here and there."""
    net = NetworkBuilder(name, *generator.choice(SIZES))
    tensors = [net.conv(net.image, "first", generator.choice((4, 8)), 3, pad=1)]
    for number in range(generator.randint(1, 4)):
        x = tensors[-1] if generator.random() < 0.7 else generator.choice(tensors)
        _, height, width, channels = net.shape(x)
        alike = [other for other in tensors if net.shape(other)[:3] == net.shape(x)[:3] and other != x]
        kind = generator.choice(("conv", "point", "depthwise", "pool", "add", "concat"))
        if kind == "add" and [other for other in alike if net.shape(other) == net.shape(x)]:
            x = net.add(x, next(other for other in alike if net.shape(other) == net.shape(x)), f"add{number}", "relu")
        elif kind == "concat" and alike:
            x = net.concat(x, alike[0])
        elif kind == "pool" and min(height, width) > 3:
            x = net.max_pool(x, 2, generator.randint(1, 2))
        elif kind == "depthwise":
            x = net.conv(x, f"layer{number}", channels, 3, generator.randint(1, 2), pad=1, groups=channels)
        else:
            size = 1 if kind == "point" else 3
            x = net.conv(x, f"layer{number}", generator.choice((4, 8, 16)), size, pad=size // 2)
        tensors.append(x)
    return order_nodes(optimise(with_seeded_weights(net.finish(tensors[-1])))).graph


def planned_graph(graph: Graph) -> Plan:
    """Plan a graph layer by layer, with kernels that go by rows of the image."""
    return plan_lowered(with_image_rows(lower_graph(graph, Packing(16 if host_target().arch == "x86_64" else 8))))


def random_models(seed: int) -> RandomModels:
    """Return one to three networks, some of which run at the same time. Each is computed layer by layer, by parts of
    rows within a limit, in the order of a schedule, or as a pipeline of two or three stages."""
    generator = random.Random(seed)
    names = [f"n{number}" for number in range(generator.randint(1, 3))]
    networks = tuple(_random_network(generator, name) for name in names)
    parallel = []
    if len(networks) > 1 and generator.random() < 0.6:
        parallel = [frozenset(generator.sample(range(len(networks)), 2))]
        if len(networks) > 2 and generator.random() < 0.5:
            parallel.append(frozenset(generator.sample(range(3), generator.randint(2, 3))))
    groups = [frozenset(p.name for n in group for p in networks[n].partitions) for group in parallel]
    pipelines = [frozenset(p.name for p in each.partitions) for each in networks if len(each.partitions) > 1]
    app = Application(
        tuple(each.cnn for each in networks),
        tuple(p for each in networks for p in each.partitions),
        (*pipelines, *groups),
    )
    return RandomModels(app, networks, tuple(parallel))


def _random_network(generator: random.Random, name: str) -> RandomNetwork:
    graph = random_graph(generator, name)
    cnn, whole = network_of(graph, name), planned_graph(graph)
    kind = generator.choice(KINDS)
    if kind == "pipeline" and (cuts := _random_cuts(generator, cnn, whole)):
        partitions = cut_network(cnn, [number for number, _ in cuts])
        bounds = [0, *(step for _, step in cuts), len(whole.program.steps)]
        stages = [ProgramStage(a, b) for a, b in zip(bounds, bounds[1:], strict=False)]
        return RandomNetwork(kind, cnn, whole, plan_stages(whole, stages), tuple(partitions))
    if kind == "schedule":
        partition = _random_schedule(generator, cnn)
        return RandomNetwork(kind, cnn, whole, in_schedule_order(whole, partition.schedule), (partition,))
    if kind == "parts":
        return RandomNetwork(kind, cnn, whole, _by_parts(generator, whole), (sequential(cnn),))
    return RandomNetwork("layer by layer", cnn, whole, whole, (sequential(cnn),))


def _random_cuts(generator: random.Random, cnn: Cnn, whole: Plan) -> list[tuple[int, int]]:
    """Return cuts of a network, as numbers of layers and of steps; none where it has one step."""
    steps = whole.lowered.steps
    layers = [n for n, layer in enumerate(cnn.layers) if n and steps_of_layer(steps, layer.name)]
    for count in (generator.randint(1, 2), 1):
        chosen = sorted(generator.sample(layers, min(count, len(layers))))
        try:
            cuts = cuts_at(steps, [cnn.layers[n].name for n in chosen], "")
        except MavcgError:  # a cut before the first step, or two at one
            continue
        return list(zip(chosen, cuts, strict=True))
    return []


def _random_schedule(generator: random.Random, cnn: Cnn) -> Partition:
    """Return a partition with the schedule for random layers by parts, written and read as in app.toml."""
    own = sequential(cnn)
    genes = frozenset((cnn.name, layer.name) for layer in cnn.layers if layer.by_parts and generator.random() < 0.7)
    (derived,) = Derivation(Application((cnn,), (own,))).derive(genes, lambda app, data: ()).app.partitions
    text = write_schedule(compress(tuple(firings(derived.schedule))))
    (partition,) = with_schedules(cnn, [own], [parse_schedule(text)], "")
    return partition


def _by_parts(generator: random.Random, planned: Plan) -> Plan:
    """Plan within a random limit between the least arena and layer by layer."""
    try:
        return divide_rows(first_within([planned], 1))
    except ArenaTooLargeError as error:
        least = error.least_bytes
    limit = generator.randint(least, max(least, planned.program.arena_bytes))
    made = divide_rows(first_within([planned], limit))
    assert made.program.arena_bytes <= limit
    return made


def greedy_bytes(models: RandomModels) -> int:
    """Return the bytes that Algorithm 8 takes for the buffers of the networks layer by layer, without pipelines."""
    cnns, partitions, data = list[Cnn](), list[Partition](), list[EdgeData]()
    for network in models.networks:
        name, steps = network.cnn.name, len(network.whole.program.steps)
        names = tuple(f"step{number}" for number in range(steps))
        cnns.append(Cnn(name, tuple(Layer(step) for step in names), ()))
        partitions.append(Partition(name, name, names, in_order(names)))
        for use in buffer_uses(network.whole.lowered):
            edge = DataEdge(names[use.first], names[use.last], align_size(use.bytes))
            data.append(EdgeData(name, edge, 0, align_size(use.bytes), (StepSpan(name, use.first, use.last),)))
    groups = tuple(frozenset(cnns[number].name for number in group) for group in models.parallel)
    return total_size(reuse_buffers(Application(tuple(cnns), tuple(partitions), groups), data))
