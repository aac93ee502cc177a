"""Passes for GPUs: threads, fragments, reductions over threads, barriers, vectors."""
