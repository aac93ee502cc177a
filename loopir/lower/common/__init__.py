"""Passes for every target."""
