"""Caffe networks, through the importer and all graph passes: a prototxt, a NUL byte, its caffemodel."""

import random

from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.importers", "mavcg.passes.graph", "mavcg.graph.ops", "mavcg.graph")
_WORDS = (
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ":",
    '"',
    "#",
    "-1",
    "0",
    "1",
    "3",
    "99999999999",
    "0x7",
    "1e30",
    "nan",
    "true",
    "dim: 0",
    "axis: -1",
    "axis: 7",
    "bias_term: false",
    "global_pooling: true",
    "kernel_h: 2",
    "group: 2",
    "x",
    "\n",
)


def run(data: bytes) -> None:
    """Import the network and optimise its graph."""
    from mavcg.importers.load import import_model
    from mavcg.passes.graph.pipeline import optimise

    text, _, weights = data.partition(b"\0")
    path = file_with(text, "model.prototxt")
    file_with(weights, "model.caffemodel")
    call_target(lambda: optimise(import_model(path, {})))


def mutate(data: bytes, limit: int, seed: int) -> bytes:
    """Put words into the prototxt, take lines from it or double them; or change bytes of the caffemodel."""
    from bench.fuzz_mutations import cut, doubled, flipped, removed

    source = random.Random(seed)
    text, _, weights = data.partition(b"\0")
    if source.random() < 0.3:
        return (text + b"\0" + source.choice((flipped, cut, doubled, removed))(source, weights))[:limit]
    lines = text.split(b"\n")
    at, action = source.randrange(len(lines)), source.randrange(4)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines.insert(source.randrange(len(lines)), lines[at])
    else:
        words = lines[at].split(b" ")
        word = source.choice(_WORDS).encode()
        words[source.randrange(len(words))] = word if action == 2 else source.choice(source.choice(lines).split(b" "))
        lines[at] = b" ".join(words)
    return (b"\n".join(lines) + b"\0" + weights)[:limit]
