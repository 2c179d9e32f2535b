"""The model pipeline: a network's file in, an engine library out, or its predicted time."""
