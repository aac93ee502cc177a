"""The commands of `python -m loopir`."""
