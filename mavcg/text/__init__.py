"""Text that contains names from files: escaped for each language, and printed safely on terminals.

Where the next thing goes:

- Name from a file in text that is generated: goes through safe_text.py; its test: same tokens whatever the name.
- Message for people: goes through terminal.py or a table of mavcg/console/output.py; no other module prints.
"""
