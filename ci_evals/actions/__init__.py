"""What a run does beside running when it is a job of GitHub Actions."""
