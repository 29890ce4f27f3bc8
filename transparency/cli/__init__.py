"""The ``transparency`` command line: one file a command."""
