"""Text form of schedules, in the paper's notation: {l1}, {l2}, [{l3}, {l4}, {l5}] x 32.

Braces enclose a layer's name; a name without blanks, commas, brackets and braces needs none. Brackets enclose repeated
steps, and may be nested. Commas may be omitted, and a pair of braces may enclose the enclosed sequence.
"""

import re

from mavcg.apps.application import ScheduleBlock
from mavcg.errors import MavcgError

MOST_FIRINGS = 1_000_000
_DEEPEST = 50
_TOKEN = re.compile(r"\s*(?:\{(?P<braced>[^{}]*)\}|(?P<sign>[\[\],])|(?P<word>[^\s,\[\]{}]+)|(?P<other>.))", re.DOTALL)
_WHOLE = re.compile(r"\s*\{(.*)\}\s*", re.DOTALL)
_COUNT = re.compile(r"[x×]?(\d+)", re.ASCII)
_BARE = re.compile(r"[^\s,\[\]{}]+")


class ScheduleTextError(MavcgError):
    """Raised for a text that is not a schedule."""


def parse_schedule(text: str) -> ScheduleBlock:
    """Parse a schedule. Raises: ScheduleTextError naming the column and the remedy."""
    enclosed = _WHOLE.fullmatch(text)
    start, inner = 0, text
    if enclosed and "{" in enclosed[1] and _is_balanced(enclosed[1]):
        start, inner = enclosed.start(1), enclosed[1]
    reader = _ScheduleReader(text, start, start + len(inner))
    return reader.schedule()


def write_schedule(schedule: ScheduleBlock) -> str:
    """Return the text of a schedule, for parse_schedule. Raises: ScheduleTextError for a name with braces."""
    return _write_node(schedule)


def _write_node(entry: str | ScheduleBlock) -> str:
    if isinstance(entry, ScheduleBlock):
        inside = ", ".join(_write_node(nested) for nested in entry.entries)
        return f"[{inside}] x {entry.times}" if entry.times > 1 else inside
    if _BARE.fullmatch(entry) and not _is_count(entry):
        return entry
    if "{" in entry or "}" in entry or entry != entry.strip() or not entry:
        raise ScheduleTextError(f"layer '{entry}': its name cannot be written in a schedule; rename it")
    return f"{{{entry}}}"


def _is_count(word: str) -> bool:
    """True if a word could be read as a repetition count."""
    return word in ("x", "×") or _COUNT.fullmatch(word) is not None


def _is_balanced(text: str) -> bool:
    """True if all braces in a text enclose names without braces."""
    return re.fullmatch(r"(?:[^{}]|\{[^{}]*\})*", text) is not None


class _ScheduleReader:
    """Reader of the tokens from position `at` to before `end` of a text."""

    def __init__(self, text: str, at: int, end: int) -> None:
        self.text, self.at, self.end = text, at, end
        self.firings = 0

    def schedule(self) -> ScheduleBlock:
        entries, count = self.entries(0)
        if not count:
            raise self.error('is empty; write steps, as in "a, [b, c] x 8"')
        return ScheduleBlock(entries)

    def entries(self, depth: int) -> tuple[tuple[str | ScheduleBlock, ...], int]:
        """Return the steps up to the end, or past the closing bracket, and the number of their firings."""
        steps: list[str | ScheduleBlock] = []
        firings = 0
        while (token := self.token()) is not None:
            if token["sign"] == "]":
                if not depth:
                    raise self.error('does not close a bracket; write "["', token)
                return tuple(steps), firings
            if token["sign"] == "[":
                if depth == _DEEPEST:
                    raise self.error(f"is in more than {_DEEPEST} brackets; write it flatter", token)
                inside, count = self.entries(depth + 1)
                if not inside:
                    raise self.error("holds no steps; write layers in it", token)
                times = self.times()
                firings += count * times
                steps.append(ScheduleBlock(inside, times))
            elif token["sign"] != ",":
                steps.append(self.name(token))
                firings += 1
            if firings > MOST_FIRINGS:
                raise self.error(f"more than {MOST_FIRINGS:,} steps; repeat less", token)
        if depth:
            raise self.error('a bracket is open; close it with "]"')
        return tuple(steps), firings

    def name(self, token: re.Match[str]) -> str:
        if token["other"]:
            raise self.error("is not a step; write a layer's name, or {name}", token)
        name = token["word"] or (token["braced"] or "").strip()
        if not name:
            raise self.error("is not the name of a layer; write {name}", token)
        if token["word"] and _is_count(name):
            raise self.error("repeats nothing: it follows no bracket; write {" + name + "} for a layer", token)
        return name

    def times(self) -> int:
        """Return the count after a closing bracket: "x 32", "× 32", "x32" or "32"; 1 without one."""
        start = self.at
        token = self.token()
        if token is None or not token["word"] or not _is_count(token["word"]):
            self.at = start
            return 1
        if token["word"] in ("x", "×"):
            token = self.token()
        match = None if token is None or not token["word"] else _COUNT.fullmatch(token["word"])
        if match is None or not 1 <= int(match[1][:9]) <= MOST_FIRINGS:
            raise self.error(f'is not a number of repetitions from 1 to {MOST_FIRINGS:,}; write "] x 32"', token)
        return int(match[1])

    def token(self) -> re.Match[str] | None:
        """Return the next token; None at the end."""
        match = _TOKEN.match(self.text, self.at, self.end)
        if match is None or match.lastgroup is None:
            self.at = self.end
            return None
        self.at = match.end()
        return match

    def error(self, message: str, token: re.Match[str] | None = None) -> ScheduleTextError:
        if token is None or token.lastgroup is None:
            return ScheduleTextError(f"column {self.end + 1}: {message}")
        return ScheduleTextError(
            f"column {token.start(token.lastgroup) + 1}: '{token[token.lastgroup][:40]}': {message}"
        )
