"""The console script, and `python -m ci_evals`."""

from ci_evals.cli.main import main

if __name__ == "__main__":
    main()
