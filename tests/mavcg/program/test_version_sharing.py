"""Nearly equal versions: a core runs another's if it has the instructions, and its model cannot tell them apart."""

from dataclasses import replace

from mavcg.assembly.tuning import modelled_rate
from mavcg.cost.model_error import model_error
from mavcg.profiles.load import load_core
from mavcg.program.version_choice import FunctionChoice, Gain, ModelVerdict, VersionChoice
from mavcg.program.version_sharing import share_nearly_equal
from mavcg.program.version_values import CompiledVersion

CORES = {name: load_core(name) for name in ("cortex-a53", "cortex-a55", "cortex-a75", "cortex-a76")}
PLAIN = "fmla v0.4s, v30.4s, v31.4s\n\tfmla v1.4s, v30.4s, v31.4s"
MORE = PLAIN + "\n\tfmla v2.4s, v30.4s, v31.4s\n\tfmla v3.4s, v30.4s, v31.4s"
SLOW = PLAIN.replace("v1", "v0")  # each waits for the one before


def version_text(symbol: str, body: str) -> str:
    lines = f"{symbol}:\n.L0:\n\t{body}\n\tsubs x0, x0, #1\n\tb.ne .L0\n\tret\n"
    return f"\t.text\n\t.type {symbol},@function\n{lines}\t.size {symbol}, .-{symbol}\n"


def compiled(**bodies: str) -> list[CompiledVersion]:
    """Versions of f, by the core's name with a _ for the hyphen; the key is the body."""
    made = []
    for name, body in bodies.items():
        label = name.replace("_", "-")
        symbol = f"f.{name}"
        made.append(CompiledVersion("f", label, symbol, version_text(symbol, body), body, frozenset()))
    return made


def choice_of(versions: list[CompiledVersion]) -> FunctionChoice:
    """A choice in which each version gains 40 % over generic on its core, in the version's own figures."""
    choices = [VersionChoice("generic", "generic", 100)]
    for version in versions:
        core = CORES[version.label]
        own = modelled_rate(core, version.asm, version.symbol, "FLOP")
        assert own is not None
        error = model_error(core)
        verdict = ModelVerdict(own * 0.6, own, "FLOP", error.fraction, error.is_assumed, False, False, "")
        choices.append(VersionChoice(version.label, version.label, len(version.asm), verdict=verdict))
    return FunctionChoice("f", tuple(choices))


def bodies(versions: list[CompiledVersion], gains: dict[tuple[str, str], Gain] | None = None) -> dict[str, str]:
    shared = share_nearly_equal(choice_of(versions), versions, CORES, gains or {})
    return {version.label: version.body for version in shared.versions[1:]}


def test_of_versions_that_the_models_cannot_tell_apart_the_smallest_is_shared() -> None:
    assert CORES["cortex-a75"].extensions == CORES["cortex-a76"].extensions
    versions = compiled(cortex_a75=MORE + "\n\tnop", cortex_a76=MORE)
    _, a75, a76 = share_nearly_equal(choice_of(versions), versions, CORES, {}).versions
    assert (a75.body, a76.body, a75.shares_body_with) == ("cortex-a76", "cortex-a76", "cortex-a76")
    assert a75.nearly_equal == f"its own is faster by less than {model_error(CORES['cortex-a75'])} (model)"
    assert a75.bytes == a76.bytes and not a76.nearly_equal


def test_a_version_that_is_slower_on_another_core_is_not_shared() -> None:
    assert bodies(compiled(cortex_a75=SLOW, cortex_a76=MORE))["cortex-a76"] == "cortex-a76"


def test_a_core_never_runs_a_version_of_one_with_further_instructions() -> None:
    """An A53 has no dot products, an A55 has: the A55 may run the A53's version, never the other way."""
    assert not set(CORES["cortex-a55"].extensions) <= set(CORES["cortex-a53"].extensions)
    made = bodies(compiled(cortex_a53=MORE, cortex_a55=PLAIN))
    assert made["cortex-a53"] == "cortex-a53"


def test_what_was_measured_stays() -> None:
    versions = compiled(cortex_a75=MORE, cortex_a76=MORE + "\n\tnop")
    assert bodies(versions, {("f", "cortex-a76"): Gain(0.3, "measured")})["cortex-a76"] == "cortex-a76"


def test_versions_that_call_versions_of_others_are_not_shared() -> None:
    versions = compiled(cortex_a75=MORE + "\n\tnop", cortex_a76=MORE)
    calling = [replace(v, calls=frozenset({"g"})) for v in versions]
    shared = share_nearly_equal(choice_of(versions), calling, CORES, {})
    assert [v.body for v in shared.versions[1:]] == ["cortex-a75", "cortex-a76"]
