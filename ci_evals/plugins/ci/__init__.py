"""Shared by the plug-ins of CI systems: the comment, the baseline, archives and requests."""
