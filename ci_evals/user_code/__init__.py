"""The team's own code: its folders, finding it, calling it, and what it raises."""
