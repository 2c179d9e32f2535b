"""What reaches a terminal: nothing but printable text, whoever wrote it; one module prints, and JSON stays exact."""

import ast
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from rich.table import Table
from rich.text import Text

from mavcg.console.output import Progress, console, print_json
from mavcg.console.printable_console import PrintableConsole
from mavcg.errors import MavcgError, ToolError
from mavcg.text.terminal import say, say_error, show, show_line
from tests.mavcg.foreign_names import NAMES

ROOT = Path(__file__).parents[3]
HOSTILE = "a\x1b[2J\x1b]0;owned\x07b\r\x9b1mc\u202ed"
SHOWN = "a\\x1b[2J\\x1b]0;owned\\x07b\\r\\x9b1mc\\u202ed"


def _harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def test_notes_errors_and_dumps(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"{HOSTILE}\nmavcg: done")
    say_error(MavcgError(f"{HOSTILE}\nmavcg: done"), "stays:\n")
    say_error(ToolError(f"{HOSTILE}\nmavcg: done"))
    show(f"{HOSTILE}\nx")
    show_line(f"{HOSTILE}\nx")
    show(HOSTILE, to_stderr=True)

    out, err = capsys.readouterr()
    assert out == f"{SHOWN}\nx\n{SHOWN}\\nx\n"
    line = f"{SHOWN}\\nmavcg: done\n"
    assert err == f"mavcg: {line}mavcg: stays:\\n{line}mavcg: {SHOWN}\n  mavcg: done\n{SHOWN}\n"


@given(NAMES)
def test_names_in_tables_print_no_control_characters(name: str) -> None:
    written = io.StringIO()
    out = PrintableConsole(file=written, highlight=False, markup=False, width=100)
    table = Table("a", "b", title=name)
    table.add_row(name, Text(name))
    for shown in (table, name, Text(name)):
        out.print(shown)

    assert _harmless(written.getvalue().replace("\t", ""))


def test_a_line_end_in_a_cell_makes_no_line() -> None:
    written = io.StringIO()
    out = PrintableConsole(file=written, highlight=False, markup=False, width=60)
    table = Table("a", "b", box=None)
    table.add_row("x\nFAKE: done", "y\n")
    out.print(table)
    out.print("\nbefore x\nFAKE\n")

    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    assert lines[1:] == [" x\\nFAKE: done  y\\n", "", "before x\\nFAKE", ""]


def test_a_terminal_with_colours() -> None:
    """Rich's own escapes are there, those of the name are not."""
    written = io.StringIO()
    out = PrintableConsole(file=written, force_terminal=True, color_system="standard", width=100)
    out.print(Text("a\x1b[2Jb", "red"))

    assert written.getvalue() == "\x1b[31ma\\x1b[2Jb\x1b[0m\n"


def test_tables_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(f"[red]{HOSTILE}[/red]")

    assert capsys.readouterr().out == f"[red]{SHOWN}[/red]\n"  # no markup either


def test_json_stays_exact(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": HOSTILE})

    assert json.loads(capsys.readouterr().out) == {"name": HOSTILE}


def test_progress_stays_on_its_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        progress(f"{HOSTILE}\nx")

    assert capsys.readouterr().err == f"\r\x1b[K[1] {SHOWN} x\r\x1b[K"


# Programs of their own whose output another process of mavcg's reads, and not a terminal.
CHILDREN = {"mavcg/program/sources/parse_child.py"}
CALLS_OF_PRINT = re.compile(r"\bprint\b|\bsys\b|Console\b")


def test_one_module_prints() -> None:
    """Elsewhere nothing is printed by print or written to stdout or stderr, but by a table or a note."""
    printing = set()
    for part in ("mavcg", "kernels", "passes", "profiles", "runtime"):
        for path in (ROOT / part).rglob("*.py"):
            text = path.read_text()
            calls = CALLS_OF_PRINT.search(text)  # most modules have none: they need no parsing
            for node in ast.walk(ast.parse(text)) if calls else ():
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    if called == "print" or re.fullmatch(r"sys\.(stdout|stderr)(\.buffer)?\.write(lines)?", called):
                        printing.add(path.relative_to(ROOT).as_posix())
                    assert not called.endswith("Console") or path.name in ("output.py", "printable_console.py"), path

    own = {"mavcg/text/terminal.py", "mavcg/console/output.py", "mavcg/cli/explain.py"}
    own |= {"mavcg/cli/launch.py"}  # a kept message, as terminal.py wrote it, without the time of its imports
    assert {name for name in printing if "/kernels/" not in name} - CHILDREN == own
