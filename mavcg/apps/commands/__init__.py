"""Commands of `mavcg app`: plan one memory for an application's networks, and build their library.

Where the next thing goes:

- Verb: a module here, its tests in tests/mavcg/apps/commands, its name in mavcg/cli/verbs.py; what several
  verbs share is in mavcg/console.
"""
