"""app.toml: networks, limits, partitions, and schedules in their notation."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.apps.application_file", "mavcg.apps.schedule_notation", "mavcg.files.decode")
mutate = toml_mutator("a.onnx auto:3 fp16 mixed 2 MB a, [b, c] x 8 [[a] 2, b] [a 0 schedule shapes")


def run(data: bytes) -> None:
    """Read the file, beside which there is a file of the name a.onnx."""
    from mavcg.apps.application_file import read_application_file

    file_with(b"", "a.onnx")
    path = file_with(data, "app.toml")
    call_target(lambda: read_application_file(path))
