"""Takes the branch stack off a line of `perf script`: what `-F +brstack`, `+brstacksym` and `+brstackoff` append.

Each entry is FROM/TO/PREDICTION/TRANSACTION/ABORT/CYCLES; newer versions add /TYPE and /SPECULATION. The prediction
and these two may be empty. FROM and TO are addresses or symbols with an offset, each with its file in parentheses if
dso is printed.
Source: perf-script(1), and output that is quoted with the changes of perf that made these forms.
"""

import re

# The four fields that every version prints in the middle of an entry; N: the branch was not taken.
_FLAGS = re.compile(r"/(?:[MP-]?N?)/[X-]/[A-]/\d+(?=[/\s]|$)")
_FILE = r"(?: ?\(.*\))?"
_ADDRESSES = re.compile(rf"(?:^|(?<=[\s)]))0x[0-9a-f]+{_FILE}/0x[0-9a-f]+{_FILE}$")
_OFFSET_WITHOUT_FILE = re.compile(r"\+0x[0-9a-f]+(?=\s+[^\s(])")


def has_branches(line: str) -> bool:
    """True if a line has entries of a branch stack."""
    return _FLAGS.search(line) is not None


def without_branches(text: str) -> str:
    """Return `symbol+0xoffset (object)` of a frame without the branch stack after it; "" if there is only the stack."""
    flags = _FLAGS.search(text)
    if not flags:
        return text
    before = text[: flags.start()]  # the frame, and FROM/TO of the first entry
    addresses = _ADDRESSES.search(before)
    if addresses:
        return before[: addresses.start()].rstrip()
    offset = _OFFSET_WITHOUT_FILE.search(before)
    end = offset.end() if offset else _object_end(before)
    if end:
        return before[:end]
    frame, space, _ = before.rpartition("  ")  # a symbol of a branch may contain single spaces
    return frame.rstrip() if space else before.rpartition(" ")[0].rstrip()


def _object_end(text: str) -> int:
    """Return the index after a frame's file: the first parentheses after a space that no `/`, `+` or name follows.

    A path or a kernel module is preferred to other words, which may be part of a C++ symbol. 0 if there is none.
    """
    ends = []
    for start in (match.end() for match in re.finditer(r"\s(?=\()", text)):
        depth = 0
        for at in range(start, len(text)):
            depth += (text[at] == "(") - (text[at] == ")")
            if depth == 0:
                is_file = text[start + 1] in "/[" or text[at + 1 : at + 2].isspace()
                if is_file and text[at + 1 : at + 2] not in ("/", "+"):
                    ends.append((text[start + 1] not in "/[", at + 1))
                break
    return min(ends, default=(False, 0))[1]
