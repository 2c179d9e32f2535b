"""Plans for accelerators: searches for tilings, plans of whole networks and their text, reports and pictures."""
