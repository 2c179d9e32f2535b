"""Turn a dataclass of options into a command: for verbs with more options than a function's signature can show."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Options = TypeVar("Options")


def command_of(name: str, options_class: type[Options], run: Callable[[Options], None]) -> Callable[..., None]:
    """Return a command for typer whose parameters are the fields of a dataclass.

    Args:
        name: name of the command.
        options_class: dataclass whose fields are annotated as typer expects parameters to be.
        run: does the work, given the options; its docstring becomes the command's help.
    """

    def command(*arguments: Any, **options: Any) -> None:
        run(options_class(*arguments, **options))

    signature = inspect.signature(options_class)
    command.__name__, command.__doc__, command.__module__ = name, run.__doc__, run.__module__
    command.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    command.__signature__ = signature.replace(return_annotation=None)  # type: ignore[attr-defined]
    return command
