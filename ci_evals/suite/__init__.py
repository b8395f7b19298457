"""The suite: files or Python objects become a checked suite."""
