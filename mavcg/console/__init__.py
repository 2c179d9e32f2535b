"""Modules that the commands of all folders share: options, tables and JSON, exit status, limits of builds.

It lies above the product's own code, so that only commands print tables.

Where the next thing goes:

- Option that several verbs have: an annotated type in shared_options.py; a verb with many options: a dataclass, made a
  command by option_class.py.
- Output for people, or for scripts: output.py; a line on stderr of code below the commands: mavcg/text/terminal.py.
"""
