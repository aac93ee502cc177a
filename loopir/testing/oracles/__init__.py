"""Oracles: independent ways to tell that a program does not mean what it did."""
