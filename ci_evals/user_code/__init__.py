"""The team's own code: its folders, targets, threads and exceptions."""
