"""`python -m ci_evals`."""

from ci_evals.cli import main

if __name__ == "__main__":
    main()
