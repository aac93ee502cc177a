"""Instructions of NVIDIA GPUs: asynchronous copies, tensor cores, shuffles."""
