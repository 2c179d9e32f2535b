"""Check the table [model] of a core's file: the confidence in its timing, and the model's errors against silicon."""

from collections.abc import Iterable
from pathlib import Path

from mavcg.hardware.core import CONFIDENCE, GRADES, SILICON_UNITS, Fact
from mavcg.profiles import schema
from mavcg.profiles.schema import refuse


def check_model_facts(path: Path, facts: Iterable[Fact]) -> None:
    """Check the facts below [model]. Raises: ProfileError for an unknown key, grade, unit or number."""
    for fact in facts:
        if not fact.key.startswith("model."):
            continue
        if fact.key == CONFIDENCE:
            if fact.value not in GRADES or fact.unit != "grade":
                wrong = f"value {schema.value_text(fact.value)} with unit {fact.unit} is not a grade"
                raise refuse(path, fact.key, wrong, f'give one of {", ".join(GRADES)} with unit = "grade"')
            continue
        if fact.key not in SILICON_UNITS:
            known = (
                "confidence, blind_error, blind_figures, error, figures, held_out_error, held_out_figures, and the "
                "last four after changes_, instructions_"
            )
            raise refuse(path, fact.key, "no such key", f"[model] has {known}; rename or remove it")
        number = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
        unit = SILICON_UNITS[fact.key]
        if not number or not 0 <= float(fact.value) < float("inf") or fact.unit != unit:
            expected = "an error in percent" if unit == "percent" else "a number of figures"
            wrong = f"{schema.value_text(fact.value)} {fact.unit} is not {expected}"
            raise refuse(path, fact.key, wrong, f'give a number of 0 or more with unit = "{unit}", or remove the fact')
