"""`ci-evals pairwise`: which of two variants is preferred, case by case."""
