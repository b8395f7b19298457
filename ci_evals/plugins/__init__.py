"""Plug-ins: only the registry leads here, and the core works without this folder."""
