"""GitHub Actions: the job, the API, earlier artifacts, and the comment on the pull request."""
