"""The one way to run a task elsewhere: an engine, of this process, of forked ones, or of a farm of other machines.

`Engine.run` spreads items over workers and repeats what a dead one left; `Engine.call` runs one task where a board is
reached. A task for other machines is a function of remote_tasks.TASKS with an argument that messages.py can write.
Builds need none of this: their tasks are closures in forked processes (mavcg/files/worker_processes.py).
"""
