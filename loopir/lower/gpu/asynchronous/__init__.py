"""Passes for asynchronous copies and products: waits, mbarriers, warp roles."""
