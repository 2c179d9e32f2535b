"""TOML files of accelerators with instructions, technologies, GPUs, power of cores, facts for simulations."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.accelerators.target",
    "mavcg.profiles.technologies",
    "mavcg.profiles.gpus",
    "mavcg.profiles.core_power",
    "mavcg.lab.calibrate.altered_core",
    "mavcg.accelerators.fusion.templates",
)
mutate = toml_mutator("value source dense rounding khz_mw unit cpu accelerator conv instr")


def run(data: bytes) -> None:
    """Read the file as each kind: every one but its own refuses it, most of them by a key."""
    from mavcg.accelerators.fusion.templates import read_templates
    from mavcg.accelerators.target import read_target
    from mavcg.lab.calibrate.altered_core import read_facts
    from mavcg.profiles.core_power import read_core_power
    from mavcg.profiles.gpus import read_gpu
    from mavcg.profiles.technologies import read_technology

    path = file_with(data, "fuzzed.toml")
    for read in (read_target, read_technology, read_gpu, read_core_power, read_facts, read_templates):
        call_target(lambda read=read: read(path))  # type: ignore[misc]
