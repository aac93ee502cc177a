"""Walk, query, substitute in and rebuild trees of the IR."""
