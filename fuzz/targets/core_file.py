"""Cores' TOML files: identities, facts, policies, and the timing of instructions."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.profiles.core_files",
    "mavcg.profiles.core_table",
    "mavcg.profiles.timing_rows",
    "mavcg.profiles.schema",
)
mutate = toml_mutator("value source unit latency per_cycle units timing_of same_as aarch64 in out fma")


def run(data: bytes) -> None:
    """Read the core, and its own rows of timing, which other cores inherit."""
    from mavcg.profiles.core_files import read_core
    from mavcg.profiles.core_table import core_table
    from mavcg.profiles.schema import read_text
    from mavcg.profiles.timing_rows import read_own_timing

    path = file_with(data, "fuzzed.toml")

    def read() -> None:
        core = read_core(path)
        read_own_timing(path, core_table(path, read_text(path)), core.order)

    call_target(read)
