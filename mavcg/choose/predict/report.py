"""Output of a prediction for users and for scripts, and its agreement with measured times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mavcg.choose.predict.latency import SIMULATED
from mavcg.choose.predict.predict import LayerPrediction, Prediction, ThreadPrediction, best_threads

if TYPE_CHECKING:
    from rich.console import Console

ARE = "modelled, not measured"
SOME_SIMULATED = "modelled or simulated, not measured"


def sources_of(prediction: Prediction) -> str:
    """Return how the figures of a prediction were obtained, for users."""
    simulated = any(cost.source == SIMULATED for layer in prediction.layers for cost in layer.on.values())
    return SOME_SIMULATED if simulated else ARE


def slower_sets(prediction: Prediction) -> list[str]:
    """Return a sentence for each set of whole clusters that is predicted to be slower than one with fewer of them."""
    sentences = []
    for index, larger in enumerate(prediction.sets):
        smaller = [s for s in prediction.sets[:index] if set(s.cores) < set(larger.cores)]
        faster = min(smaller, key=lambda s: s.ms, default=None)
        if faster is not None and faster.ms < larger.ms:
            cores = "all cores" if len(larger.cores) == len(prediction.clusters) else "these cores together"
            sentences.append(
                f"{cores} ({larger.words}) are predicted to take {larger.ms:.3f} ms, longer than {faster.words} alone: "
                f"{faster.ms:.3f} ms"
            )
    return sentences


def best_sentence(prediction: Prediction) -> str:
    """Return a sentence on the best number of threads."""
    best = best_threads(prediction)
    return f"fastest as predicted: --threads {best.threads} ({best.words}), {best.ms:.3f} ms"


def prediction_json(prediction: Prediction, measured: Sequence[float] | None = None) -> dict[str, Any]:
    """Return the document of `mavcg estimate MODEL --board B --json`; times in ms. measured: of each layer, here."""
    layers = [_layer(layer) for layer in prediction.layers]
    document: dict[str, Any] = {
        "model": prediction.model,
        "board": prediction.board,
        "predictions_are": sources_of(prediction),
        "threads": prediction.chosen.threads,
        "layers": layers,
        "total_ms": round(prediction.total_ms, 6),
        "by_threads": {str(row.threads): round(row.ms, 6) for row in prediction.by_threads},
        "cores_by_threads": {str(row.threads): row.cores for row in prediction.by_threads},
        "cluster_sets": [_threads(row) for row in prediction.sets],
        "best_threads": best_threads(prediction).threads,
        "slower_with_more": slower_sets(prediction),
        "clusters": [
            {"label": label, "cpus": len(core.cluster.cpus), "ghz": core.ghz}
            for label, core in prediction.clusters.items()
        ],
        "assumed": list(prediction.assumed),
    }
    if measured is not None:
        for layer, ms in zip(layers, measured, strict=True):
            layer["measured_ms"] = round(ms, 6)
        document["measured_total_ms"] = round(sum(measured), 6)
        document["correlation"] = correlation_json(agreement([layer.ms for layer in prediction.layers], measured))
    return document


@dataclass(frozen=True)
class Agreement:
    """Agreement of predicted and measured times.

    pearson: correlation of the times, dominated by large layers. of_logs: of their logarithms, in which all layers
    count equally. ratio: sum of predicted over sum of measured. None: fewer than two layers, or all equal.
    """

    layers: int
    pearson: float | None
    of_logs: float | None
    ratio: float


def agreement(predicted: Sequence[float], measured: Sequence[float]) -> Agreement:
    """Return the agreement of two lists of layer times in ms, without the layers of no measurable time."""
    pairs = np.array([(p, m) for p, m in zip(predicted, measured, strict=True) if p > 0 and m > 0], dtype=np.float64)
    if not len(pairs):
        return Agreement(0, None, None, 0.0)
    ratio = float(pairs[:, 0].sum() / pairs[:, 1].sum())
    return Agreement(len(pairs), _pearson(pairs), _pearson(np.log(pairs)), ratio)


def _pearson(pairs: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> float | None:
    if len(pairs) < 2 or not pairs.std(axis=0).all():
        return None
    return float(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1])


def correlation_json(agreement: Agreement) -> dict[str, Any]:
    """Return an agreement for JSON output."""
    return {
        "layers": agreement.layers,
        "pearson": None if agreement.pearson is None else round(agreement.pearson, 5),
        "pearson_of_logs": None if agreement.of_logs is None else round(agreement.of_logs, 5),
        "predicted_by_measured": round(agreement.ratio, 4),
    }


def _layer(layer: LayerPrediction) -> dict[str, Any]:
    work = layer.work
    return {
        "name": work.name,
        "op": work.op,
        "kernel": work.kernel,
        "predicted_ms": round(layer.ms, 6),
        "by_cluster": {
            label: {
                "ms": round(cost.ms, 6),
                "compute_ms": round(cost.compute_ms, 6),
                "memory_ms": round(cost.memory_ms, 6),
                "exposed_ms": round(cost.exposed_ms, 6),
                "overhead_ms": round(cost.overhead_ms, 6),
                "bound": cost.bound,
                "cycles_from": layer.how[label],
                "source": cost.source,
                "unsure": layer.unsure.get(label),
                **_refusal(layer, label),
            }
            for label, cost in layer.on.items()
        },
        "bound": layer.bound,
        "macs": work.macs,
        "bytes": {role: work.bytes_of(role) for role in ("input", "weight", "output")},
        "tasks": work.tasks,
    }


def _refusal(layer: LayerPrediction, label: str) -> dict[str, str]:
    return {"not_simulated": layer.not_simulated[label]} if label in layer.not_simulated else {}


def _threads(row: ThreadPrediction) -> dict[str, Any]:
    return {"cores": row.cores, "threads": row.threads, "ms": round(row.ms, 6)}


def show_prediction(prediction: Prediction, measured: Sequence[float] | None, to: "Console") -> None:
    """Print tables of layers, totals and threads, then the assumptions."""
    from rich.table import Table

    chosen = prediction.chosen
    several = chosen.threads > 1
    title = f"{prediction.model} on {prediction.board}: predicted ms of each step ({sources_of(prediction)})"
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("layer", "op", "kernel"):
        table.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=28)
    headings = [f"1 {label}" for label in prediction.clusters]
    headings += [f"{chosen.threads} threads"] * several + ["measured", "ratio"] * (measured is not None)
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    for number, layer in enumerate(prediction.layers):
        cells = [_shown_ms(layer, label) for label in prediction.clusters]
        cells += [f"{layer.ms:.4f}"] * several
        if measured is not None:
            cells += [f"{measured[number]:.4f}", f"{layer.ms / measured[number]:.2f}" if measured[number] else ""]
        table.add_row(layer.work.name, layer.work.op, layer.work.family, *cells, layer.bound)
    totals = [f"{sum(layer.on[label].ms for layer in prediction.layers):.3f}" for label in prediction.clusters]
    totals += [f"{prediction.total_ms:.3f}"] * several
    if measured is not None:
        totals += [f"{sum(measured):.3f}", f"{prediction.total_ms / sum(measured):.2f}" if sum(measured) else ""]
    table.add_row("all", "", "", *totals, "")
    to.print(table)
    _show_threads(prediction, to)
    if measured is not None:
        correlation = correlation_json(agreement([layer.ms for layer in prediction.layers], measured))
        to.print(
            f"predicted against measured, {correlation['layers']} steps: Pearson correlation {correlation['pearson']}, "
            f"of logarithms {correlation['pearson_of_logs']}"
        )
    for sentence in _unsure_sentences(prediction):
        to.print(sentence, soft_wrap=True)
    to.print("assumed:")
    for line in prediction.assumed:
        to.print(f"- {line}", soft_wrap=True)


def _shown_ms(layer: LayerPrediction, label: str) -> str:
    """Return a layer's ms, marked s if it was simulated, and ? if the model is unsure."""
    cost = layer.on[label]
    mark = "s" if cost.source == SIMULATED else "?" if label in layer.unsure else " "
    return f"{cost.ms:.4f}{mark}"


def _unsure_sentences(prediction: Prediction) -> list[str]:
    """Return for each cluster the number of layers that the model is unsure of, and the number that was simulated."""
    sentences = []
    for label in prediction.clusters:
        unsure = [layer for layer in prediction.layers if label in layer.unsure]
        if not unsure:
            continue
        simulated = [layer for layer in unsure if layer.on[label].source == SIMULATED]
        part = sum(layer.on[label].ms for layer in unsure) / sum(layer.on[label].ms for layer in prediction.layers)
        sentences.append(
            f"{label}: the model is unsure of {len(unsure)} of {len(prediction.layers)} steps, {part:.0%} of the time "
            f"(?); {len(simulated)} simulated (s)" + ("" if simulated else ": --simulate-unsure")
        )
        sentences += dict.fromkeys(
            f"{label}: {layer.work.name}: not simulated: {layer.not_simulated[label]}"
            for layer in unsure
            if label in layer.not_simulated
        )
    return sentences


def _show_threads(prediction: Prediction, to: "Console") -> None:
    from rich.table import Table

    table = Table(title=f"by cores ({sources_of(prediction)})", title_justify="left", box=None)
    for heading in ("threads", "ms"):
        table.add_column(heading, justify="right")
    table.add_column("cores")
    rows = [*prediction.by_threads]
    rows += [row for row in prediction.sets if row.cores not in [r.cores for r in rows]]
    for row in rows:
        table.add_row(str(row.threads), f"{row.ms:.3f}", row.words)
    to.print(table)
    for sentence in (*slower_sets(prediction), best_sentence(prediction)):
        to.print(sentence, soft_wrap=True)
