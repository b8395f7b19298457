"""The sentences of a verdict, by what they are about."""
