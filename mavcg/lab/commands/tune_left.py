"""Tell the user which measurements `mavcg tune` did not make."""

from typing import Any

from mavcg.console.output import note


def note_measurements_left(document: dict[str, Any]) -> None:
    """Print a note if measurements are left, since the time was up or the user stopped them."""
    if document["left"] or document["undecided"]:
        note(
            f"{why_stopped(document)}: {document['left']} measurements are left, and {document['undecided']} "
            "convolutions to be measured by interleaved measurement; `mavcg tune` with --resume continues"
        )


def why_stopped(document: dict[str, Any]) -> str:
    """Return why a run of `mavcg tune` ended before all measurements were made."""
    return "stopped" if document["stopped"] == "interrupt" else "time is up"
