"""Programs on a GPU: NVRTC, the driver, launches, memory, machine code."""
