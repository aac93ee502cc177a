"""Parse the text form of the language, which is Python's own syntax."""
