"""Text from and for people: names from files, escaped for each language; sizes with units; messages on terminals.

Where the next thing goes:

- Name from a file in text that is generated: goes through safe_text.py; its test: same tokens whatever the name.
- Quantity that users write with a unit: read by byte_sizes.py.
- Message for people: goes through terminal.py or a table of mavcg/console/output.py; no other module prints.
"""
