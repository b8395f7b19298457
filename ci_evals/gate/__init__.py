"""The gate: a report and a baseline become a comparison and a verdict."""
