"""The program pipeline: from sources and a profile to a multi-versioned library."""
