"""ONNX files, through the importer and all graph passes."""

import random

from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.importers", "mavcg.passes.graph", "mavcg.graph.ops", "mavcg.graph")


def run(data: bytes) -> None:
    """Import the file and optimise its graph."""
    from mavcg.importers.load import import_model
    from mavcg.passes.graph.pipeline import optimise

    path = file_with(data, "model.onnx")
    call_target(lambda: optimise(import_model(path, {})))


def mutate(data: bytes, limit: int, seed: int) -> bytes:
    """Change fields of the file's messages, or its bytes."""
    from bench.fuzz_mutations import mutated
    from bench.fuzz_seeds import Seed

    return mutated(random.Random(seed), Seed("corpus", data, ".onnx"))[:limit]
