"""What `ci-evals --help` prints, so that it need not load click. `pytest --renew-golden` writes it anew."""

HELP = """\
Usage: ci-evals [OPTIONS] COMMAND [ARGS]...

  The merge gate for the behaviour of LLM apps and agents.

  Runs every case of a suite on every provider and prompt, several times,
  judges the answers, and says by its exit code whether they are good enough
  to merge.

  Start here:
    ci-evals init        write a commented evals.yaml and a workflow
    ci-evals validate    check the suite; calls nothing, costs nothing
    ci-evals run         run it

  Exit codes: 0 passed · 1 failed · 2 the config or the command line is wrong,
  nothing was run · 3 no verdict (too many runs errored, results could not be
  written) · 130/143 interrupted

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
  run          Run a suite, judge it, and exit with its verdict.
  merge        Put the results of shards together, and judge them.
  validate     Check a suite without calling anything.
  init         Write a commented evals.yaml and a GitHub workflow.
  compare      Compare a report with those of its base, offline.
  explain      Tell all that is known of one CASE.
  comment      Post the comment on a pull request from a report.json.
  power        Say what a suite can detect, and what more runs would buy.
  grade        Grade traces that are there, without running anything.
  judge        Measure models that judge.
  pairwise     Ask which of two variants is preferred, case by case.
  schema       Print the JSON Schema of evals.yaml.
  mock-server  Serve an OpenAI-compatible endpoint on loopback.
"""
