"""Collects the functions of which versions cannot be made: each is refused with a reason, the others keep theirs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mavcg.errors import CannotRun, MavcgError, fault_text
from mavcg.passes.ir.module_text import ModuleText
from mavcg.passes.ir.refuse import outlined_regions
from mavcg.passes.ir.source_lines import enclosing_function, line_of_code
from mavcg.toolchain.codegen import CodegenJob, Failure, IrError


class FunctionFailures(MavcgError):
    """Functions whose versions failed after they were compiled. reasons: function -> reason."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
        self.reasons = reasons


@contextmanager
def failing_alone(function: str, what: str) -> Iterator[None]:
    """Run a step of one function, such as "the choice of its versions".

    Raises: FunctionFailures of this function where the step raises anything but CannotRun, which is the system's.
    """
    try:
        yield
    except CannotRun:
        raise
    except MavcgError as error:
        raise FunctionFailures({function: f"{what} fails: {first_error(error)}"}) from error
    except Exception as error:
        raise FunctionFailures({function: f"{what} fails, {fault_text(error)}"}) from error


def first_error(error: MavcgError) -> str:
    """Return a message as one line: the first error of a tool that prints several, or the last line."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line.partition("error: ")[2] for line in lines if "error: " in line), lines[-1])


@dataclass
class VersionFailures:
    """The functions of a module that have failed so far.

    reasons: function -> reason. placed: those whose reason names a line of the source.
    """

    reasons: dict[str, str] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)

    def add(self, name: str, reason: str, place: str = "") -> None:
        """Refuse a function, unless it is already. place: "FILE:LINE" of the source, if it is known."""
        if name not in self.reasons:
            self.reasons[name] = f"{place}: {reason}" if place else reason
            self.placed |= {name} if place else set()

    def add_failure(self, name: str, what: str, failure: Failure, job: CodegenJob) -> None:
        """Refuse a function whose code LLVM did not compile."""
        place = line_of_code(job.text, failure.line) if failure.line else ""
        self.add(name, f"{what} does not compile: {failure.message}", place)

    @contextmanager
    def refusing(self, name: str, what: str) -> Iterator[None]:
        """Turn an error that is met while a function's code is made into the reason why the function is refused.

        A fault of mavcg too costs only this function its versions; the report names it. Raises: CannotRun.
        """
        try:
            yield
        except CannotRun:
            raise
        except IrError as error:
            place = line_of_code(error.text, error.line) if error.line else ""
            self.add(name, f"{what} cannot be made: {error}", place)
        except MavcgError as error:
            self.add(name, f"{what} cannot be made: {error}")
        except Exception as error:
            self.add(name, f"{what} cannot be made, {fault_text(error)}")

    def add_hosts(self, module: ModuleText, functions: Sequence[str]) -> None:
        """Refuse those of these functions whose OpenMP regions have failed: these have versions together."""
        for name in functions:
            for region in self.reasons.keys() & set(outlined_regions(module, name)):
                self.add(name, f"its OpenMP region cannot have versions: {self.reasons[region]}")


def parse_error(source: str, error: IrError) -> MavcgError:
    """Return the error for a file whose IR does not parse, with the function and the line of the source, if known."""
    function = enclosing_function(error.text, error.line) if error.line else ""
    place = line_of_code(error.text, error.line) if error.line else ""
    where = f"{place or source}: {function}: " if function else f"{place or source}: "
    return MavcgError(f"{where}{error}")
