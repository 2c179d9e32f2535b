"""Cores' TOML files: identities, facts, policies, and the timing of instructions."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.profiles.load",
    "mavcg.profiles.load_policy",
    "mavcg.profiles.timing_rows",
    "mavcg.profiles.model_facts",
    "mavcg.profiles.source_abbreviations",
    "mavcg.profiles.schema",
)
mutate = toml_mutator("value source unit latency per_cycle units timing_of same_as aarch64 in out fma")


def run(data: bytes) -> None:
    """Read the core, and its own rows of timing, which other cores inherit."""
    from mavcg.profiles.load import read_core
    from mavcg.profiles.renamed_tables import with_present_names
    from mavcg.profiles.schema import read_toml
    from mavcg.profiles.source_abbreviations import spell_out_sources
    from mavcg.profiles.timing_rows import read_own_timing

    path = file_with(data, "fuzzed.toml")

    def read() -> None:
        core = read_core(path)
        read_own_timing(path, with_present_names(path, spell_out_sources(path, read_toml(path))), core.order)

    call_target(read)
