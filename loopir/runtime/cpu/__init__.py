"""Programs on the CPU: thread pool, memory, calls in machine code."""
