"""The interpreter, which is the semantics: a Func compiled to Python, run on checked memory."""
