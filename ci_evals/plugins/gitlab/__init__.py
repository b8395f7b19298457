"""GitLab CI: the job, the API, earlier artifacts, and the note on the merge request."""
