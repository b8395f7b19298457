"""Runs the team's own code on a Ray cluster."""
