"""Footprints and bounds: which part of a buffer a nest touches, and is it inside?"""
