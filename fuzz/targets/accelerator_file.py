"""Accelerators' JSON files."""

from fuzz.mutation.trees import json_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.profiles.accelerators", "mavcg.hardware.accelerator")
mutate = json_mutator("levels mem_size IC OC OH OW KH pe_len name bandwidth")


def run(data: bytes) -> None:
    """Read the file of an accelerator that is described by its array and memories."""
    from mavcg.profiles.accelerators import read_accelerator

    path = file_with(data, "fuzzed.json")
    call_target(lambda: read_accelerator(path))
