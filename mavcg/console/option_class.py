"""Make commands: of a dataclass, for verbs with more options than a signature can show, and groups of commands."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

Options = TypeVar("Options")


class Command(TyperCommand):
    """A command that calls the function given as the command line's object before it does its work.

    That function confines the process. Inside a program that uses mavcg there is none, and nothing is confined.
    """

    def invoke(self, context: Any) -> Any:
        """Call `context.obj`, if there is one, with the command's words and its options by name; then do the work."""
        if context.obj is not None:
            context.obj(context.command_path.partition(" ")[2], context.params)
        return super().invoke(context)


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


def group_of(help_text: str, **commands: Callable[..., Any]) -> typer.Typer:
    """Return a group of commands, such as `mavcg farm serve` and `mavcg farm join`. commands: by their names."""
    group = typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)  # without a callback, typer takes an only command as the whole group
    for name, command in commands.items():
        group.command(name, cls=Command)(command)
    return group
