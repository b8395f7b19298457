"""Answers side by side."""

from ci_evals.reports.comment_diff import difference


def test_what_changed_is_marked_and_the_rest_stays() -> None:
    assert difference("one\ntwo\nthree", "one\n2\nthree") == "```diff\n one\n-two\n+2\n three\n```"


def test_without_an_earlier_answer_or_a_difference_there_is_only_the_answer() -> None:
    assert difference(None, "one\n") == difference("one", "one") == "```text\none\n```"


def test_fences_in_an_answer_do_not_end_it() -> None:
    assert difference("```\n@@ -1 +1 @@\n--- a", "````") == "`````diff\n-```\n-@@ -1 +1 @@\n---- a\n+````\n`````"


def test_long_answers_are_cut_by_lines_and_say_so() -> None:
    shown = difference(None, "\n".join(["x" * 1_000, *"y" * 99])).splitlines()
    assert shown[1] == "x" * 300 + "…"
    assert shown[-2] == "… (40 more lines)"
