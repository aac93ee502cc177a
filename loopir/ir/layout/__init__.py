"""Where the elements of a buffer lie: layouts, index maps, shared-memory descriptors."""
