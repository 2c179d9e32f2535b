"""Runs programs on a machine through its shell, in a temporary folder, which is removed at the end."""

import contextlib
import os
import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mavcg.files.scratch import interrupts_on_signals
from mavcg.lab.runners.client import run_client
from mavcg.lab.runners.facts import MachineFacts, facts_of, facts_script, with_own_cores
from mavcg.lab.runners.transport import Finished, RunnerError, Silent, Transport, last_line
from mavcg.text.terminal import say

FOLDER_VARIABLE = "MAVCG_RUNNER_FOLDER"  # folder on the machine for the temporary folder
SILENCE_S = 300.0  # time without output after which a program is stopped
SCRIPT_S = 60.0  # time without output after which a short script is stopped
CLOSE_S = 20.0
_STATUS = re.compile(rb"\r?\n?mavcg-status (\d+)\s*\Z")
_CANNOT_RUN = 126  # a shell's status for a file that it cannot execute


class ShellRunner:
    """A machine that programs run on; a context manager that removes everything of ours at its end.

    wrapper: command before each program, such as an emulator and its options.
    """

    def __init__(self, transport: Transport, wrapper: Sequence[str] = ()) -> None:
        self.transport = transport
        self.wrapper = tuple(wrapper)
        self._folder = ""
        self._sent: tuple[str, int, int] | None = None
        self._program = 0
        self._lost = False  # True after the connection was lost

    @property
    def name(self) -> str:
        """The machine's name, as for --runner and in messages."""
        return self.transport.name

    def __enter__(self) -> "ShellRunner":
        # SIGTERM and SIGHUP act as Ctrl-C does, so that the temporary folder is removed.
        self._signals = contextlib.ExitStack()
        self._signals.enter_context(interrupts_on_signals())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            self._signals.close()

    def facts(self, root: str = "/") -> MachineFacts:
        """Read the machine's facts. root: folder on the machine with the proc/ and sys/ to read.

        Raises: RunnerError if the machine cannot be reached.
        """
        done = self.script(facts_script(root, self._parent()))
        if done.status:
            raise RunnerError(f"{self.name}: its facts cannot be read ({last_line(done.words)}); it must run Linux")
        facts = facts_of(done.stdout.decode("utf-8", "replace"))
        return with_own_cores(facts) if self.transport.is_this_machine and root == "/" else facts

    def run(
        self,
        program: Path,
        arguments: Sequence[str],
        *,
        files_in: Mapping[str, Path] | None = None,
        files_out: Mapping[str, Path] | None = None,
        on_line: Callable[[str], None] | None = None,
        silence_s: float = SILENCE_S,
    ) -> Finished:
        """Copy a program to the machine, if it is not there yet, and run it in the temporary folder without input.

        files_in, files_out: name in that folder -> local file, copied before and after the run. on_line: called with
        each line of output; an exception from it ends the program. A status other than 0 is not an error here.
        Raises: ConnectionLost; Silent after silence_s without output; RunnerError for other faults.
        """
        if self._lost:
            self._find_again()
        folder = self._make_folder()
        there = self._send_program(program)
        for name, file in (files_in or {}).items():
            self.transport.send(file, f"{folder}/{name}")
        words = " ".join(shlex.quote(word) for word in (*self.wrapper, f"./{there}", *arguments))
        # The process number, so that a program that outlives the connection can be stopped.
        noted = f"sh -c 'echo $$ > pid; exec \"$@\"' sh {words} < /dev/null; s=$?; rm -f pid; (exit $s)"
        done = self.script(f"cd {shlex.quote(folder)} && chmod 700 {there} && {{ {noted}; }}", on_line, silence_s)
        if done.status == _CANNOT_RUN:
            raise RunnerError(
                f"{self.name}: {folder}: programs cannot be run there ({last_line(done.words)}); name another folder "
                f"by {FOLDER_VARIABLE}"
            )
        for name, file in (files_out or {}).items():
            self.transport.fetch(f"{folder}/{name}", file)
        return done

    def fetch(self, name: str, to: Path) -> None:
        """Copy a file from the temporary folder to this machine. Raises: RunnerError."""
        self.transport.fetch(f"{self._make_folder()}/{name}", to)

    def script(
        self, script: str, on_line: Callable[[str], None] | None = None, silence_s: float = SCRIPT_S
    ) -> Finished:
        """Run a script on the machine; it prints its status itself, because transports may not return it.

        Raises: RunnerError if the machine is not reached; ConnectionLost if the connection is lost; Silent.
        """
        transport = self.transport

        def pass_on(line: str) -> None:
            if on_line is not None and line and not line.startswith("mavcg-status "):
                on_line(line)

        argv = transport.argv(f"{script}; s=$?; echo; echo mavcg-status $s")
        try:
            client = run_client(argv, self.name, transport.install, silence_s=silence_s, on_line=pass_on)
        except Silent:
            self._end_program()
            raise
        ending = _STATUS.search(client.stdout)
        if ending is None:
            message = (
                f"{client.words}\n{client.stdout.decode('utf-8', 'replace')}" if not client.words else client.words
            )
            self._lost = bool(self._folder)
            raise transport.fault(client.status, message, running=self._lost)
        return Finished(int(ending[1]), client.stdout[: ending.start()], client.words)

    def close(self) -> None:
        """Stop our programs and remove the temporary folder; print what is left if the machine cannot be reached."""
        try:
            if self._folder:
                self._clean()
        finally:
            self.transport.close()

    def _clean(self) -> None:
        folder, self._folder, self._sent = self._folder, "", None
        there = shlex.quote(folder)
        try:
            self.script(f"{_kill(there)}; rm -rf {there}", silence_s=CLOSE_S)
        except RunnerError as error:
            say(f"{error}; {folder} was left behind")

    def _find_again(self) -> None:
        """Stop a program that still runs in the folder; forget the folder if it is gone, as after a restart."""
        there = shlex.quote(self._folder)
        if self.script(f"{_kill(there)}; [ -d {there} ]").status:
            self._folder, self._sent = "", None
        self._lost = False

    def _parent(self) -> str:
        return os.environ.get(FOLDER_VARIABLE, "") or self.transport.folder

    def _make_folder(self) -> str:
        if not self._folder:
            folder = f"{self._parent().rstrip('/')}/mavcg-{secrets.token_hex(8)}"
            done = self.script(f"umask 077; mkdir {shlex.quote(folder)}")
            if done.status:
                message = last_line(done.words or done.stdout.decode("utf-8", "replace"))  # an old adb has one stream
                raise RunnerError(
                    f"{self.name}: {folder}: cannot be made ({message}); name a folder that can be written to by "
                    f"{FOLDER_VARIABLE}"
                )
            self._folder = folder
        return self._folder

    def _send_program(self, program: Path) -> str:
        """Copy a program to the machine in place of the last one; return its name there."""
        stat = program.stat()
        state = (str(program), stat.st_size, stat.st_mtime_ns)
        if self._sent != state:
            before, self._sent = f"program-{self._program}", None
            self._program += 1
            there = f"{self._folder}/program-{self._program}"
            if self._program > 1:
                self.script(f"rm -f {shlex.quote(self._folder)}/{before}")
            self.transport.send(program, there)
            self._sent = state
        return f"program-{self._program}"

    def _end_program(self) -> None:
        """Stop the programs that still run on the machine, if it can be reached."""
        if self._folder:
            there = shlex.quote(self._folder)
            argv = self.transport.argv(_kill(there))
            try:
                run_client(argv, self.name, self.transport.install, silence_s=CLOSE_S)
            except RunnerError:
                return  # `close` reports what is left


def _kill(folder: str) -> str:
    return f"if [ -f {folder}/pid ]; then kill -9 $(cat {folder}/pid) 2> /dev/null; rm -f {folder}/pid; fi"
