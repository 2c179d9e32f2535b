"""The check of docstrings that `make lint` runs finds what they leave out or say wrongly, and nothing else."""

import pytest

from scripts.docstring_check import ROOT, faults, read_sources

ERRORS = """
class MavcgError(Exception): ...
class ToolError(MavcgError): ...
class Internal(Exception): ...
"""


def faults_of(source: str) -> list[str]:
    """Messages of the check, without places."""
    return [fault.split(": ", 1)[1] for fault in faults({"errors.py": ERRORS, "module.py": source})]


def test_a_fault_names_file_line_and_function() -> None:
    source = 'class Tool:\n    def run(self):\n        """Run it."""\n        raise ToolError("x")\n'

    expected = ["module.py:2 Tool.run: raises ToolError; say when, as `Raises: ToolError where ...`"]
    assert faults({"errors.py": ERRORS, "module.py": source}) == expected


@pytest.mark.parametrize(
    "docstring",
    [
        "Run it.",
        "",
        "Run it.\n\n    Args:\n        x: Raises nothing.\n    ",
        "Run it. Raises: Internal where it is late.",
    ],
)
def test_an_error_that_the_docstring_leaves_out(docstring: str) -> None:
    assert any("raises ToolError" in fault for fault in faults_of(function(docstring, "raise ToolError(x)")))


@pytest.mark.parametrize(
    "docstring",
    [
        "Run it. Raises: ToolError where it fails.",
        "Run it.\n\n    Raises: ValueError for none; ToolError\n    where it fails.\n    ",
        "Run it. Raises: MavcgError where it fails.",
        "Run it. Raises: as walk.",
        "Raise ToolError where it fails.",
    ],
)
def test_an_error_that_the_docstring_names(docstring: str) -> None:
    assert not faults_of(function(docstring, "raise ToolError(x)"))


@pytest.mark.parametrize(
    "source",
    [
        'def _run(x):\n    """Run it."""\n    raise ToolError(x)',
        'class _Tool:\n    def run(self, x):\n        """Run it."""\n        raise ToolError(x)',
        'def verb(x: Annotated[str, typer.Option(help="X.")]):\n    """Run it."""\n    raise ToolError(x)',
        'def run(x):\n    """Run it."""\n    raise Internal(x)',
        'def run(x):\n    """Return a function."""\n    def later():\n        raise ToolError(x)\n    return later',
        'class Protocol:\n    def send(self, x):\n        """Send it. Raises: ToolError."""\n'
        'class Ssh:\n    def send(self, x):\n        """Implement `Protocol.send`."""\n        raise ToolError(x)',
    ],
    ids=["private", "private class", "verb", "internal error", "nested", "implementation"],
)
def test_functions_that_need_not_name_their_errors(source: str) -> None:
    assert not faults_of(source)


@pytest.mark.parametrize(
    ("folder", "is_verb"), [("mavcg/cli", True), ("mavcg/lab/commands", True), ("mavcg/files", False)]
)
def test_verbs_with_an_option_class_need_not_name_their_errors(folder: str, is_verb: bool) -> None:
    source = 'def run_tool(options: ToolOptions):\n    """Run it."""\n    raise ToolError(options)'
    assert (not faults({"errors.py": ERRORS, f"{folder}/tool.py": source})) == is_verb


@pytest.mark.parametrize(
    ("docstring", "body", "wrong"),
    [
        ("Run it. Raises: TolError.", "walk(x)", "'Raises: TolError' names no class of errors"),
        ("Run it. Raises: the error.", "walk(x)", "'Raises: the' names no class of errors"),
        ("Run it. Raises: ToolError.", "return x", "says 'Raises:' and neither raises nor calls anything"),
        ("Run it. x, width: of the image.", "return x", "explains no parameter 'width'"),
    ],
)
def test_what_a_docstring_says_wrongly(docstring: str, body: str, wrong: str) -> None:
    assert faults_of(function(docstring, body)) == [wrong]


@pytest.mark.parametrize(
    ("docstring", "body"),
    [
        ("Run it. Raises: KeyError for another.", "return x[0]"),
        ("Run it. Raises: what walk raises.", "walk(x)"),
        ("Run it. x, kind: of the image.", "return x"),
        ("Return a table. height, width: of the image.", "return x"),
    ],
)
def test_what_a_docstring_says_rightly(docstring: str, body: str) -> None:
    assert not faults_of(function(docstring, body))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('def pack(x: Array):\n    """Pack it."""', "'x' is an array; state its shape"),
        ('def pack(x: NDArray[np.int32] | None):\n    """Pack [] of it."""', "'x' is an array"),
        ('class Tool:\n    def pack(self, *, x: np.ndarray):\n        """Pack it."""', "'x' is an array"),
        ('def fill(capacity: int):\n    """Fill it up."""', "'capacity' has no unit in its name"),
        ('def wait(rest_time: float):\n    """Wait so long."""', "'rest_time' has no unit in its name"),
    ],
)
@pytest.mark.parametrize("folder", ["kernels", "mavcg/choose/tiles"])
def test_a_shape_or_unit_that_the_docstring_leaves_out(source: str, message: str, folder: str) -> None:
    assert any(message in fault for fault in faults({f"{folder}/module.py": source}))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("kernels/a.py", 'def pack(x: Array):\n    """Pack [rows, columns]."""'),
        ("kernels/a.py", 'def pack(x: Array):\n    """Pack an array of any shape."""'),
        ("kernels/a.py", 'def pack(x: Sequence[int], name: str):\n    """Pack it."""'),
        ("kernels/a.py", 'def _pack(x: Array):\n    """Pack it."""'),
        ("kernels/a.py", "def pack(x: Array): ..."),  # of a protocol, which says it
        ("kernels/a.py", 'def fill(capacity: int):\n    """Fill it. capacity: in bytes."""'),
        ("kernels/a.py", 'def fill(capacity_bytes: int):\n    """Fill it up."""'),
        ("kernels/a.py", 'def fill(bandwidth: Bandwidth):\n    """Fill it up."""'),
        ("mavcg/cli/a.py", 'def pack(x: Array, capacity: int):\n    """Pack it."""'),
    ],
)
def test_shapes_and_units_that_are_there_or_not_asked_for(file: str, source: str) -> None:
    assert not faults({file: source})


@pytest.mark.long
def test_the_projects_docstrings_hold() -> None:
    sources = read_sources(ROOT)

    assert len(sources) > 500
    assert not faults(sources)


def function(docstring: str, body: str) -> str:
    """The text of a public function; "": without a docstring."""
    return "def run(x, *, kind=None):\n" + (f'    """{docstring}"""\n' if docstring else "") + f"    {body}\n"
