"""A fleet of boards: jobs of a tuning shared by boards of a type, repeated where one is slow, hot or gone.

From the ground up: fleet_file, board_task  <  hosts, verdicts  <  board_pool  <  figures_store  <  fleet_tuning  <
tune_fleet  <  report.
"""
