"""Primitives for GPUs: bind, tensorize, pipeline, warp specialization, multicast."""
