"""The model pipeline: from a network's file to an engine library, or to its predicted time."""
