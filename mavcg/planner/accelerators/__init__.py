"""Plans for accelerators: searches for tilings, whole networks, plans as text, reports and pictures."""
