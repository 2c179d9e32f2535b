"""Read which machine passes of loads a core's profile enables."""

from pathlib import Path

from mavcg.hardware.core import LoadPolicy
from mavcg.profiles import schema
from mavcg.profiles.schema import Table, refuse, value_text


def read_policy(path: Path, table: Table) -> LoadPolicy:
    """Return the passes that [loads] enables; none if the file has no such table.

    Raises: ProfileError naming file, key and remedy.
    """
    loads = table.get("loads", {})
    if not isinstance(loads, dict):
        raise refuse(path, "loads", "not a table", "write [loads] and below it split, unpair, schedule or split_in_ir")
    names = ("split", "unpair", "schedule", "split_in_ir")
    schema.only(path, loads, names, "loads.")
    flags: dict[str, bool] = {}
    sources: list[tuple[str, str]] = []
    for name in names:
        enabled = schema.value_and_source(path, loads, name, f"loads.{name}")
        if enabled is None:
            continue
        if not isinstance(enabled[0], bool):
            raise refuse(
                path,
                f"loads.{name}",
                f"{value_text(enabled[0])} is neither true nor false",
                "give value = true or false",
            )
        flags[name] = enabled[0]
        sources.append((name, enabled[1]))
    return LoadPolicy(**flags, sources=tuple(sources))
