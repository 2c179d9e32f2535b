"""Commands of measuring and simulating: `mavcg simulate`, `mavcg tune` and `mavcg farm`."""
