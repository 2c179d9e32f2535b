"""Parse the first line of a function into the parts that dispatchers and declarations reuse."""

import re
from dataclasses import dataclass

from mavcg.passes.ir.grammar import NAME, find_closing, own_symbol, quote, split_commas, split_type, type_start, unquote
from mavcg.passes.ir.module_text import LINKAGES, Entity

_PREEMPTION = ("dso_local", "dso_preemptable")
_VISIBILITY = ("default", "hidden", "protected")


@dataclass(frozen=True)
class Signature:
    """The parts of `define ... {` or `declare ...`, each as text.

    linkage, preemption, visibility: "" if absent. convention: such as "fastcc"; "" for C. returns: return attributes
    and type, as a call repeats them. return_type: the type alone. parameters: the text between the parentheses. after:
    the text between the closing parenthesis and the brace: unnamed_addr, attribute groups, section, comdat, alignment,
    personality, metadata.
    """

    name: str
    linkage: str
    preemption: str
    visibility: str
    convention: str
    returns: str
    return_type: str
    parameters: str
    after: str

    @property
    def variadic(self) -> bool:
        """True if the parameter list ends in an ellipsis."""
        return split_commas(self.parameters)[-1:] == ["..."]

    @property
    def parameter_types(self) -> str:
        """The parameter list with types and attributes but without names, as in a declaration."""
        return ", ".join(re.sub(rf" %{NAME}$", "", p) for p in split_commas(self.parameters))


def parse_signature(entity: Entity) -> Signature:
    """Return the signature of a function, declared or defined."""
    text = entity.header.partition(" ")[2].removesuffix(" {")
    text = re.sub(r"^(?:!\w+ !\d+ )+", "", text)  # a declaration's metadata comes first
    at = own_symbol(text)
    words = text[: at.start()].rstrip(" ")
    end = find_closing(text, at.end())
    linkage, words = _take_keywords(words, LINKAGES)
    preemption, words = _take_keywords(words, _PREEMPTION)
    visibility, words = _take_keywords(words, _VISIBILITY)
    _, words = _take_keywords(words, ("dllimport", "dllexport"))
    convention, words = _take_convention(words)
    return Signature(
        name=unquote(at["name"]),
        linkage=linkage,
        preemption=preemption,
        visibility=visibility,
        convention=convention,
        returns=words,
        return_type=split_type(words[type_start(words) :])[0],
        parameters=text[at.end() + 1 : end - 1],
        after=text[end:].strip(),
    )


def function_type(signature: Signature) -> str:
    """Return the function type as an alias spells it: float (ptr, i32)."""
    return f"{signature.return_type} ({', '.join(_type_alone(p) for p in split_commas(signature.parameters))})"


def _type_alone(parameter: str) -> str:
    return parameter if parameter == "..." else split_type(parameter)[0]


def declaration(entity: Entity, name: str | None = None, visibility: str | None = None, linkage: str = "") -> Entity:
    """Return a declaration of the function that `entity` defines or declares, with the attributes that the ABI needs.

    name, visibility: None for the function's own. linkage: a keyword, or "".
    """
    sig = parse_signature(entity)
    groups = " ".join(re.findall(r"(?<![\w.])#\d+", re.sub(r'"[^"]*"', "", sig.after)))
    shown = sig.visibility if visibility is None else visibility
    preemption = "" if shown in ("hidden", "protected") else sig.preemption
    new = name or entity.name
    head = [w for w in ("declare", linkage, preemption, shown, sig.convention, sig.returns) if w]
    text = f"{' '.join(head)} @{quote(new)}({sig.parameter_types}) {groups}".rstrip()
    return Entity(new, "declare", text)


def _take_keywords(text: str, words: tuple[str, ...]) -> tuple[str, str]:
    first, _, rest = text.partition(" ")
    return (first, rest) if first in words else ("", text)


def _take_convention(text: str) -> tuple[str, str]:
    match = re.match(r"(cc ?\d+|\w*cc|aarch64_\w+|x86_(?!fp80|amx)\w+|(?:amdgpu|spir|ptx)_\w+) ", text)
    return (match[1], text[match.end() :]) if match else ("", text)
