"""Footprints, bounds and subscripts: which part of a buffer a nest touches, is it inside, and how is it viewed?"""
