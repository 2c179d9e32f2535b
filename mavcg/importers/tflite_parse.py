"""Parser of TFLite files to checked plain values (tflite_model.py): subgraphs, their operators and tensors.

The file is not trusted (tflite_tables.py). Contradictions between its parts become an error that names the location.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.bounded_read import read_bounded
from mavcg.importers.limits import MOST_FILE_BYTES
from mavcg.importers.tflite_model import TfliteModel, TfliteOperator, shorten_name
from mavcg.importers.tflite_tables import DAMAGE, TfliteTables
from mavcg.importers.tflite_tensors import read_blocks, read_tensor, with_blocks

CUSTOM_OPTIONS = "CustomOptions"
MARK = b"TFL3"  # a flatbuffer's file identifier, at bytes 4 to 8
WITHOUT_OUTPUTS = ("CALL_ONCE", "ASSIGN_VARIABLE")  # they change the state of the interpreter
RUNS: Mapping[str, tuple[str, ...]] = {  # options that are numbers of subgraphs, by operator
    "CALL_ONCE": ("InitSubgraphIndex",),
    "IF": ("ThenSubgraphIndex", "ElseSubgraphIndex"),
    "WHILE": ("CondSubgraphIndex", "BodySubgraphIndex"),
}
MOST_COMPARED = 1 << 18  # maximum tensors of the subgraphs beside the main one
MOST_IN_BODIES = 1 << 17  # maximum tensors and operators of the subgraphs that operators run


def parse_model(data: bytes) -> TfliteModel:
    """Parse a TFLite file. Raises: MavcgError if it is not one, is damaged, or has no subgraph."""
    if len(data) < 8 or data[4:8] != MARK:
        raise MavcgError(
            f"is not a TFLite file, or is cut short: {len(data)} bytes, with {data[4:8]!r} where {MARK!r} should stand"
        )
    return _ModelReader(data).model()


class _ModelReader(TfliteTables):
    """A reader of one file's subgraphs and operators."""

    def model(self) -> TfliteModel:
        try:
            return self._model()
        except DAMAGE as error:
            raise MavcgError(
                f"{self.location}: points beyond the end of the file, or cannot be read; the file is damaged"
            ) from error

    def _model(self) -> TfliteModel:
        model = self.tflite.Model.GetRootAs(self.data, 0)
        version = model.Version()
        if version != 3:
            raise MavcgError(f"the header: version {version} of the format is not supported; supported: 3")
        subgraphs = self.count(model.SubgraphsLength(), "subgraphs")
        if not subgraphs:
            raise MavcgError("the file has 0 subgraphs; nothing would be computed")
        codes = self.tables(model.OperatorCodes, model.OperatorCodesLength(), "operator code", self.code)
        buffers = self.tables(model.Buffers, model.BuffersLength(), "buffer", self.buffer)
        main = self.subgraph(model, 0, codes, buffers)  # the runtime starts with it
        bodies = self.bodies(model, main, lambda number: self.subgraph(model, number, codes, buffers))
        return replace(main, subgraphs=subgraphs, shared=self.shared_tensors(model, subgraphs), bodies=bodies)

    def bodies(self, model: Any, main: TfliteModel, read: Callable[[int], TfliteModel]) -> dict[int, TfliteModel]:
        """Return the subgraphs that operators of the main one run, and of these, by number; absent ones are left out.

        read: returns a subgraph.
        """
        bodies, left, waiting = dict[int, TfliteModel](), MOST_IN_BODIES, list(_runs(main))
        while waiting:
            number = waiting.pop()
            if number in bodies or not 0 < number < model.SubgraphsLength():
                continue
            table = model.Subgraphs(number)
            left -= table.TensorsLength() + table.OperatorsLength()
            if left < 0:  # subgraphs of a hostile file may all be one table
                raise self.fail(
                    f"the subgraphs that operators run have more than {MOST_IN_BODIES} tensors and operators"
                )
            body = read(number)
            waiting += _runs(body)
            bodies[number] = replace(body, bodies=bodies)
        for number, body in bodies.items():
            bodies[number] = replace(body, shared=self.shared_with_others(model, number, len(bodies)))
        return bodies

    def subgraph(self, model: Any, number: int, codes: list[str], buffers: list[memoryview]) -> TfliteModel:
        """Return one subgraph; the main one has number 0."""
        where = f"subgraph {number}" if number else "the subgraph"
        self.location = where
        graph = model.Subgraphs(number)
        name = self.text(graph.Name())
        self.location = f"{where}'s inputs and outputs"
        inputs, outputs = self.ints(graph, "Inputs"), self.ints(graph, "Outputs")
        tensors = self.tables(
            graph.Tensors, graph.TensorsLength(), "tensor", lambda table, i: read_tensor(self, table, i, buffers)
        )
        for i, read in enumerate(tensors):
            self.location = read.label
            if (blocks := read_blocks(graph.Tensors(i).Quantization())) is not None:
                tensors[i] = with_blocks(read, blocks, tensors, self.fail)
        operators = self.tables(
            graph.Operators, graph.OperatorsLength(), "operator", lambda table, i: self.operator(table, i, codes)
        )
        for operator in operators:
            self.location = f"operator {operator.index} ({operator.op})"
            if not operator.outputs and operator.op not in WITHOUT_OUTPUTS:
                raise self.fail("it has no outputs")
            self.check_indices(operator.inputs, -1, len(tensors))
            self.check_indices(operator.outputs, 0, len(tensors))
        self.location = f"{where}'s inputs and outputs"
        self.check_indices((*inputs, *outputs), 0, len(tensors))
        return TfliteModel(name, tuple(tensors), tuple(operators), inputs, outputs)

    def shared_tensors(self, model: Any, subgraphs: int) -> frozenset[int]:
        """Return the indices of tensors that have one buffer in the main subgraph and in another one."""
        shared: set[int] = set()
        compared = 0
        main = model.Subgraphs(0)
        for number in range(1, subgraphs):
            self.location = f"subgraph {number}"
            other = model.Subgraphs(number)
            both = min(main.TensorsLength(), self.count(other.TensorsLength(), "tensors"))
            compared += both
            if compared > MOST_COMPARED:  # subgraphs of a hostile file may all be one table
                raise self.fail(f"the subgraphs have more than {MOST_COMPARED} tensors")
            shared |= {i for i in range(both) if main.Tensors(i).Buffer() == other.Tensors(i).Buffer()}
        return frozenset(shared)

    def shared_with_others(self, model: Any, number: int, bodies: int) -> frozenset[int] | None:
        """Return the indices of tensors that have one buffer in a body and in any other subgraph of the file.

        bodies: number of bodies that are compared. The result is None if all together have too many tensors.
        """
        if bodies * model.SubgraphsLength() > MOST_COMPARED:  # of a hostile file, all without tensors
            return None
        own = [model.Subgraphs(number).Tensors(i).Buffer() for i in range(model.Subgraphs(number).TensorsLength())]
        others = [model.Subgraphs(other) for other in range(model.SubgraphsLength()) if other != number]
        if bodies * sum(min(len(own), other.TensorsLength()) for other in others) > MOST_COMPARED:
            return None
        return frozenset(
            i
            for other in others
            for i in range(min(len(own), other.TensorsLength()))
            if other.Tensors(i).Buffer() == own[i]
        )

    def check_indices(self, indices: tuple[int, ...], least: int, tensors: int) -> None:
        for index in indices:
            if not least <= index < tensors:
                raise self.fail(f"refers to tensor {index}, but there are {tensors}")

    def code(self, table: Any, i: int) -> str:
        """Return the name of an operator. Codes up to 127 may be in the older field only."""
        number = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        custom = table.CustomCode()
        name = self.tflite.utils.BUILTIN_OPCODE2NAME.get(number, f"operator code {number}")
        return f"CUSTOM {shorten_name(self.text(custom))}" if name == "CUSTOM" else str(name)

    def buffer(self, table: Any, i: int) -> memoryview:
        """Return the bytes of a buffer; large ones follow the flatbuffer, at an offset from the file's start."""
        start, length = table.Offset(), table.Size()
        if start > 1:
            if start + length > len(self.data):
                raise self.fail(f"{length} bytes at {start} end after the {len(self.data)} bytes of the file")
            return memoryview(self.data)[start : start + length]
        return memoryview(table.DataAsNumpy()) if table.DataLength() else memoryview(b"")

    def operator(self, table: Any, i: int, codes: list[str]) -> TfliteOperator:
        if table.OpcodeIndex() >= len(codes):
            raise self.fail(f"refers to operator code {table.OpcodeIndex()}, but there are {len(codes)}")
        op = codes[table.OpcodeIndex()]
        self.location = f"operator {i} ({op})"
        return TfliteOperator(i, op, self.ints(table, "Inputs"), self.ints(table, "Outputs"), self.options(table))

    def options(self, operator: Any) -> Mapping[str, Any]:
        """Return an operator's options by the accessor's name; a custom operator has its bytes as CustomOptions."""
        number = operator.BuiltinOptionsType()
        at = operator.BuiltinOptions()
        if not number or at is None:
            length = operator.CustomOptionsLength()
            if length > len(self.data):
                raise self.fail(f"its {length} bytes of options are more than the file's {len(self.data)}")
            self.take(length)
            return MappingProxyType({CUSTOM_OPTIONS: bytes(operator.CustomOptionsAsNumpy())} if length else {})
        kinds = {value: key for key, value in vars(self.tflite.BuiltinOptions).items() if not key.startswith("_")}
        if number not in kinds:
            raise self.fail(f"options of unknown kind {number} (update the tflite package if the file is newer)")
        kind = getattr(self.tflite, kinds[number])
        options = kind()
        options.Init(at.Bytes, at.Pos)
        names = [
            n for n in vars(kind) if n != "Init" and not n.startswith(("_", "GetRootAs")) and "BufferHasIdent" not in n
        ]
        lists = {n.removesuffix("Length") for n in names if n.endswith("Length")}
        plain = [n for n in names if not any(n.startswith(listed) for listed in lists)]
        scalars = {n: getattr(options, n)() for n in plain}
        return scalars | {n: self.ints(options, n) for n in lists}


def _runs(model: TfliteModel) -> Iterator[int]:
    """Yield the numbers of the subgraphs that a subgraph's operators run."""
    for operator in model.operators:
        for option in RUNS.get(operator.op, ()):
            yield operator.options.get(option, 0)


def read_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises: MavcgError if it cannot be read."""
    try:
        return read_bounded(path, MOST_FILE_BYTES)
    except OSError as error:
        raise MavcgError(f"cannot be read ({error.strerror}); name a TFLite file") from error
