"""The engine: a suite becomes results in a journal."""
