"""Versions of simulated times: digests of the simulator's code and of the facts of a core.

A time that is kept on disk is used only while both are the same. Docstrings, comments and formatting do not count.
"""

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import mavcg
from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.core import Core
from mavcg.profiles.timing import load_timing
from mavcg.text.source_digest import digest_of_code

# Folders and files whose code times instructions: the simulator, and what decodes instructions and their timing for it.
FOLDERS = ("lab/simulate", "cost/core_facts.py", "passes/asm/isa", "passes/asm/analysis", "passes/asm/models")
_SUFFIXES = (".py", ".c", ".h")
DIGITS = 12


@cache
def simulator_version() -> str:
    """Return the digest of the simulator's code."""
    root = Path(str(mavcg.__file__)).parent
    below = [path for name in FOLDERS for path in (root / name, *(root / name).rglob("*"))]
    paths = [path for path in below if path.suffix in _SUFFIXES]
    return digest_of_code(paths, root)[:DIGITS]


def core_version(core: Core) -> str:
    """Return the digest of a core's facts, without those of boards, and of the simulator's code.

    Raises: ProfileError for a core without timing facts.
    """
    facts = repr((replace(simulated_core(core), assumed=()), load_timing(core)))
    return hashlib.sha256(f"{simulator_version()} {facts}".encode()).hexdigest()[:DIGITS]
