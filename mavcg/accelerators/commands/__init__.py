"""Commands for accelerators: `mavcg plan` and `explore`, and in accel/ those of `mavcg accel`.

Where the next thing goes:

- Verb: a module here, its tests in tests/mavcg/accelerators/commands, its name in mavcg/cli/verbs.py; what several
  verbs share is in mavcg/console.
"""
