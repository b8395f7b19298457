"""Reports: a summary becomes text and pages, and saved reports are read back."""
