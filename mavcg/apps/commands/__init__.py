"""Commands of `mavcg app`: plan one memory for an application's networks, and build their library."""
