"""A fleet of boards: jobs of a tuning shared by boards of a type, repeated where one is slow, hot or gone.

From the ground up: fleet_file, board_task  <  hosts, verdicts  <  board_pool  <  figures_store  <  fleet_tuning  <
tune_fleet  <  report.

Where the next thing goes:

- What a board does for a fleet: board_task.py, a task of mavcg/lab/jobs. How boards are reached: hosts.py.
- When a figure counts, and which board is used next: verdicts.py, board_pool.py (docs/measuring-on-boards.md).
"""
