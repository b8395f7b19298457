"""The command line in this process alone: `python -m ci_evals.cli`, for debuggers and profilers."""

from ci_evals.cli.main import main

if __name__ == "__main__":
    main()
