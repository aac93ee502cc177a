"""The interpreter, which defines the semantics: compile a Func to Python and run it on checked memory."""
