"""Match nests against the meanings of instructions."""
