"""A rich console that prints no control characters except those of rich itself."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from mavcg.text.safe_text import printable


class PrintableConsole(Console):
    """A rich console that replaces control characters: in texts before rich measures them, in other objects later."""

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """Render a text as rich does, without its control characters."""
        return super().render_str(printable(text), *arguments, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object as rich does, without control characters in its texts; rich's own control segments stay."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
