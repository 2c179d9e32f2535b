"""The model road: a network's file in, an engine library out; or what it is predicted to take."""
