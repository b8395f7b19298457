"""What GitHub tells a job, and what is told to GitHub: event, API, comment, baseline, outputs, annotations."""
