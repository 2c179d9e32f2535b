"""A console of rich's that prints no control characters but its own."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from mavcg.text.safe_text import printable


class PrintableConsole(Console):
    """A rich console in which texts become printable before they are measured, and other objects when they are
    drawn.
    """

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """Render a text as rich does, made printable."""
        return super().render_str(printable(text), *arguments, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object as rich does; control segments are rich's own."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
