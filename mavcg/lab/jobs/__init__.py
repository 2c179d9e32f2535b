"""The one way to run a task elsewhere: an engine, of this process, of forked ones, or of workers on other machines.

`Engine.run` spreads items over workers and repeats what a dead one left; `Engine.call` runs one task where a board is
reached. A task for other machines is a function that remote_tasks.TASKS names, with an argument that messages.py can
write; it is loaded by its name alone, so that nothing here imports the tenants whose tasks it runs. Builds need none of
this: their tasks are closures in forked processes (mavcg/files/worker_processes.py).
"""
