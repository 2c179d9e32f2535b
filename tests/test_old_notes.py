"""What reads the notes of libraries that were built before stays as it is, however names change."""

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tables_of_old_names_and_recorded_notes_are_unchanged() -> None:
    """A renaming of words over all files must not rename these: they say what libraries out there say."""
    source = (ROOT / "mavcg/choose/predict/spec_text.py").read_text()
    table = source[source.index("_OLD_FIELDS = {") : source.index("_OLD_NUMBERS =")]
    recorded = (ROOT / "tests/mavcg/specs/old_reprs.json").read_bytes()
    digests = [hashlib.sha256(content).hexdigest()[:16] for content in (table.encode(), recorded)]
    assert digests == ["3a9c2c3be3749066", "c5ef41aacb098d82"]
