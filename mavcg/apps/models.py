"""An application read from model files: graphs, predicted times, partitions."""

from collections.abc import Callable, Sequence

from mavcg.apps.application import Application, Cnn, Partition, in_order, sequential
from mavcg.apps.application_file import NO_COUNTS, NO_STATES, ApplicationFile, NetworkEntry
from mavcg.apps.derivation import LayerId
from mavcg.apps.given_schedule import with_schedules
from mavcg.apps.model_network import layer_names, network_of
from mavcg.apps.search import Constraints
from mavcg.apps.service.periodic_keys import preempting_pairs
from mavcg.apps.throughput import LayerTime, balanced_cuts, phase_cost_ms
from mavcg.choose.predict.predict import Prediction, predict
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.hardware.board import Board
from mavcg.importers.load import import_model
from mavcg.memory.node_order import order_nodes
from mavcg.model.estimating import lower_for_board
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.states import without_counts, without_states


def read_application(
    file: ApplicationFile, board: Board, workers: int, progress: Callable[[str], None]
) -> tuple[Application, dict[LayerId, LayerTime], Constraints]:
    """Import all networks, predict their layers on the board, and cut them into partitions.

    Raises: MavcgError for models that cannot be read, and unknown names of layers, partitions and networks.
    """
    cnns, partitions, times = list[Cnn](), list[Partition](), dict[LayerId, LayerTime]()
    pipelined: list[frozenset[str]] = []
    graphs = []
    for entry in file.networks:
        progress(f"{entry.name}: reading {entry.file.name}")
        graph = without_states(import_model(entry.file, entry.shapes), f"{file.path}: line {entry.line}: {NO_STATES}")
        graph = without_counts(graph, f"{file.path}: line {entry.line}: {NO_COUNTS}")
        graphs.append(order_nodes(optimise(graph)).graph)
        cnns.append(network_of(graphs[-1], entry.name, "fp32" if entry.quantised else entry.precision))
    # Partitions are first made without times, so that wrong names are reported before the slow predictions.
    unbalanced = [
        p for entry, cnn in zip(file.networks, cnns, strict=True) for p in _partitions(file, entry, cnn, {}, board)
    ]
    preempting = [tuple(sorted(file.networks[n].name for n in pair)) for pair in preempting_pairs(file.periods)]
    parallel = [_parallel(file, group, unbalanced) for group in (*file.parallel, *sorted(preempting))]
    for entry, graph, cnn in zip(file.networks, graphs, cnns, strict=True):
        times |= predict_layers(cnn, graph, board, workers, progress)
        own = _partitions(file, entry, cnn, times, board)
        partitions += own
        if len(own) > 1:
            pipelined.append(frozenset(p.name for p in own))
    app = Application(tuple(cnns), tuple(partitions), (*pipelined, *parallel))
    least = {entry.name: entry.throughput for entry in file.networks if entry.throughput is not None}
    return app, times, Constraints(file.memory, least)


def predict_layers(
    cnn: Cnn, graph: Graph, board: Board, workers: int, progress: Callable[[str], None]
) -> dict[LayerId, LayerTime]:
    """Predict the layers of a CNN on one core of each of the board's clusters. graph: the CNN's optimised graph."""
    source = lower_for_board(cnn.name, graph, board, progress)
    progress(f"{cnn.name}: predicting on {board.name}")
    prediction = predict(source, 1, workers, progress)
    return _layer_times(cnn, graph, prediction)


def _layer_times(cnn: Cnn, graph: Graph, prediction: Prediction) -> dict[LayerId, LayerTime]:
    """Return each layer's time: that of the steps that come from its node in the user's file.

    If several layers come from one node, those of the same operator share its time evenly. Steps of no layer count for
    the first layer.
    """
    labels = list(prediction.clusters)
    keys: dict[tuple[str, str], list[str]] = {}
    own = {layer.name for layer in cnn.layers}
    for node, name in zip(graph.nodes, layer_names(graph), strict=True):
        if name in own:
            keys.setdefault((node.origin, node.op), []).append(name)
    by_origin = {origin: names for (origin, _), names in keys.items()}
    ms = {layer.name: [0.0] * len(labels) for layer in cnn.layers}
    tasks = {layer.name: 1 for layer in cnn.layers}
    first = cnn.layers[0].name
    for layer in prediction.layers:
        names = keys.get((layer.work.name, layer.work.op)) or by_origin.get(layer.work.name) or [first]
        for name in names:
            tasks[name] = max(tasks[name], layer.work.tasks // len(names))
            for number, label in enumerate(labels):
                ms[name][number] += layer.on[label].ms / len(names)
    layer_times = {}
    for cnn_layer in cnn.layers:
        cost = []
        for core in prediction.clusters.values():
            sizes, rates = zip(*((v.shared_bytes, v.bandwidth_gb_per_s) for v in core.levels), strict=True)
            cost.append(phase_cost_ms(cnn_layer.weights, sizes, rates, core.ghz, core.fit.steps))
        layer_times[(cnn.name, cnn_layer.name)] = LayerTime(
            tuple(ms[cnn_layer.name]), tasks[cnn_layer.name], tuple(cost)
        )
    return layer_times


def _partitions(
    file: ApplicationFile, entry: NetworkEntry, cnn: Cnn, times: dict[LayerId, LayerTime], board: Board
) -> list[Partition]:
    partitions = _cut_partitions(file, entry, cnn, times, board)
    if not entry.schedules:
        return partitions
    if isinstance(entry.partitions, str) and entry.partitions:
        raise MavcgError(
            f"{entry.schedule_place}: partitions = '{entry.partitions}' is not known before the plan; "
            "name the first layers of the partitions, or leave schedule out"
        )
    return with_schedules(cnn, partitions, entry.schedules, entry.schedule_place)


def _cut_partitions(
    file: ApplicationFile, entry: NetworkEntry, cnn: Cnn, times: dict[LayerId, LayerTime], board: Board
) -> list[Partition]:
    if not entry.partitions:
        return [sequential(cnn)]
    names = [layer.name for layer in cnn.layers]
    if isinstance(entry.partitions, str):
        count = int(entry.partitions.partition(":")[2] or len(board.clusters))
        if count > len(names):
            raise MavcgError(
                _partitions_message(file, entry, f"has {len(names)} layers, too few for {count} partitions")
            )
        cuts = balanced_cuts(cnn, times, count)
    else:
        for name in entry.partitions:
            if name not in names:
                import difflib

                near = difflib.get_close_matches(name, names, n=3) or names[:3]
                raise MavcgError(
                    _partitions_message(file, entry, f"'{name}' is not a layer; did you mean {', '.join(near)}?")
                )
        cuts = [names.index(name) for name in entry.partitions]
        if cuts != sorted(set(cuts)) or 0 in cuts:
            raise MavcgError(
                _partitions_message(file, entry, "name the first layers of later partitions, in the network's order")
            )
    return cut_network(cnn, cuts)


def cut_network(cnn: Cnn, cuts: Sequence[int]) -> list[Partition]:
    """Return a CNN's partitions, NAME.0 and so on.

    cuts: number of the first layer of each partition after the first.
    """
    names = [layer.name for layer in cnn.layers]
    bounds = zip([0, *cuts], [*cuts, len(names)], strict=True)
    return [
        Partition(f"{cnn.name}.{number}", cnn.name, tuple(names[a:b]), in_order(names[a:b]))
        for number, (a, b) in enumerate(bounds)
    ]


def _partitions_message(file: ApplicationFile, entry: NetworkEntry, message: str) -> str:
    return f"{file.path}: line {entry.line}: network '{entry.name}': partitions: {message}"


def _parallel(file: ApplicationFile, group: tuple[str, ...], partitions: list[Partition]) -> frozenset[str]:
    """Return the partitions of a set of names of networks and partitions that run at the same time."""
    names: list[str] = []
    for name in group:
        own = [p.name for p in partitions if name in (p.name, p.cnn)]
        if not own:
            known = ", ".join(dict.fromkeys([*(p.cnn for p in partitions), *(p.name for p in partitions)]))
            raise MavcgError(f"{file.path}: parallel: '{name}' is not a network or partition; choose one of {known}")
        names += own
    return frozenset(names)
