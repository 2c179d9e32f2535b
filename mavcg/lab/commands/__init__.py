"""Commands of measuring and simulating: `mavcg simulate`, `mavcg calibrate`, `mavcg tune` and `mavcg farm`.

Where the next thing goes:

- Verb: a module here, its tests in tests/mavcg/lab/commands, its name in mavcg/cli/verbs.py; what several
  verbs share is in mavcg/console.
"""
