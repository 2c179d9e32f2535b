"""Versions of x86-64 of which neither a measurement nor a model says that they gain.

No model times x86-64 code. An out-of-order core hides the order of instructions, so a version for it that has none that
the generic version may not have, too, differs in nothing that is known to gain: it is dropped, as the paper drops
versions that do not help. One with further instructions (wider vectors, popcnt) may gain several times: it stays.

Source: uarch-codegen paper, chapter 3.2.3 ("removes the versions that do not exhibit performance improvement").
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mavcg.hardware.core import GENERIC, Core
from mavcg.program.version_choice import FunctionChoice, VersionChoice, to_generic

NOTHING_MORE = "neither measured nor modelled, and it has no instruction that generic's code may not have"


def is_unknown(version: VersionChoice) -> bool:
    """True if a version has code of its own of which neither a measurement nor a model says anything."""
    return version.body != GENERIC and not version.dropped and version.gain is None and version.verdict is None


def drop_without_instructions(
    choice: FunctionChoice, cores: Mapping[str, Core], needs: Mapping[tuple[str, str], Sequence[str]]
) -> FunctionChoice:
    """Drop x86-64 cores' versions without a known gain that need no extension beyond the function's base.

    needs: extensions that each version's own instructions need beyond the base.
    """

    def decide(version: VersionChoice) -> VersionChoice:
        if not is_unknown(version) or cores[version.label].arch != "x86_64":
            return version
        has_more = needs[choice.function, version.body]
        return version if has_more else to_generic(choice, version, NOTHING_MORE)

    return replace(choice, versions=tuple(decide(k) for k in choice.versions))


def unmodelled_remark(version: VersionChoice, extensions: Sequence[str]) -> str:
    """Return why a version is kept of which nothing is known; "" for one that was measured or modelled, or is dropped.

    extensions: those that its instructions need beyond the base.
    """
    reason = f" for its instructions of {', '.join(extensions)}" if extensions else ""
    return f"neither measured nor modelled, kept{reason}" if is_unknown(version) else ""
