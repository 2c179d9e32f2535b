"""Small JSON files: costs, measurements, facts of a host, problems of selection and of paths, graphs, launch logs."""

from fuzz.mutation.trees import json_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.choose.algorithms.costs.rows",
    "mavcg.program.measurements",
    "mavcg.program.launch_log",
    "mavcg.hosts.facts",
    "mavcg.choose.pbqp.text",
    "mavcg.choose.pbqp.instance",
    "mavcg.accelerators.fusion.json_files",
    "mavcg.accelerators.fusion.path_instance",
    "mavcg.accelerators.gpu.cuda_project",
    "mavcg.accelerators.rtl.verilog",
    "mavcg.choose.predict.spec_text",
    "mavcg.specs.serialize",
    "mavcg.files.decode",
)
mutate = json_mutator("format version mavcg costs conversion scenario warm inf from plan")


def run(data: bytes) -> None:
    """Read the file as each kind: every one but its own refuses it."""
    from mavcg.accelerators.fusion import json_files
    from mavcg.accelerators.gpu.cuda_project import INDEX, read_index
    from mavcg.accelerators.rtl.verilog import SIZES, VERILOG, read_verilog
    from mavcg.choose.algorithms.costs.rows import read_table
    from mavcg.choose.pbqp.text import parse_instance, print_instance, read_instance
    from mavcg.choose.predict.spec_text import read_spec
    from mavcg.files.decode import read_json
    from mavcg.hosts.facts import read_facts
    from mavcg.program.launch_log import read_log
    from mavcg.program.measurements import read_measurements

    path = file_with(data, INDEX)
    file_with(b"", VERILOG)

    def problem() -> None:
        text = print_instance(read_instance(path))
        assert print_instance(parse_instance(text)) == text, "printing and parsing changes a problem"

    for read in (
        read_table,
        read_measurements,
        read_facts,
        json_files.read_labelled,
        json_files.read_instance,
        read_log,
    ):
        call_target(lambda read=read: read(path))  # type: ignore[misc]
    call_target(lambda: read_index(path.parent))
    call_target(lambda: read_verilog(file_with(data, SIZES).parent))
    call_target(lambda: read_spec(read_json(path, "correct it").value))
    call_target(problem)
