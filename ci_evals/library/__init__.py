"""The public face for Python: suites, reports and events as objects."""
