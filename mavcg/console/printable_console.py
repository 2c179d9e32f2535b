"""A rich console that prints no control characters except those of rich itself."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from mavcg.text.safe_text import printable, printable_line


class PrintableConsole(Console):
    """A rich console that replaces control characters: in texts before rich measures them, in other objects later.

    A text is one line: a line end within it stands in a name, and is shown as \\n. Cells of several lines are rich's
    Text.
    """

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """Render a text as rich does, without its control characters."""
        return super().render_str(printable_line(text), *arguments, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does; line ends at the beginning and end of a single text are empty lines around it."""
        if len(objects) == 1 and isinstance(objects[0], str):
            text = objects[0]
            line = text.strip("\n")
            for _ in range(len(text) - len(text.lstrip("\n")) if line else 0):
                super().print()
            super().print(line, **options)
            for _ in range(len(text) - len(text.rstrip("\n"))):
                super().print()
        else:
            super().print(*objects, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object as rich does, without control characters in its texts; rich's own control segments stay."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
