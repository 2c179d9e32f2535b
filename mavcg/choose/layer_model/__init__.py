"""The model that all planners share: layers, tilings, off-chip traffic, the roofline."""
