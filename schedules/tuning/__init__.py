"""Measured choices: a tuner, how it measures, and the database of what it found."""
