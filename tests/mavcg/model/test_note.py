"""Macro-tiles through a library's note."""

import json

from mavcg.model.note import macro_from_note, macro_json
from mavcg.specs.tile_plan import MacroTile, Order

# As libraries have it that were built before a field was renamed.
OLD = {
    "rows": 4,
    "out_channels": 0,
    "k_block": 128,
    "order": "channels-outer",
    "pack_lanes": 8,
    "prefetch_bytes": 4096,
    "task_rows": 2,
    "tile_channels": 16,
    "parts": 3,
    "claim_rows": 5,
}


def test_macro_tiles_of_notes_keep_their_keys() -> None:
    macro = macro_from_note(OLD)

    assert macro.order is Order.CHANNELS and macro.parts == 3
    assert json.loads(json.dumps(macro_json(macro))) == {"macro": OLD}
    assert macro_from_note(macro_json(MacroTile())["macro"]) == MacroTile()
    assert macro_json(None) == {} and macro_from_note({}) == MacroTile()
