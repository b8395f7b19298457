"""A comment that several jobs of a pull request wrote."""

import comments

from ci_evals.plugins.ci.comment_body import Section, SectionId, Stamp, compose


def several_suites() -> str:
    """What three jobs have to say, in one comment."""
    named = (
        ("flight agent", comments.regression()),
        ("hotel agent", comments.passing()),
        ("support bot", comments.borderline()),
    )
    stamp = Stamp(100, 1, "a" * 40)
    sections = []
    for name, summary in named:
        text = comments.text_of(comments.with_suite_name(summary, name), 20_000)
        state = summary.verdict.status
        sections.append(Section(SectionId(name), stamp, text, state))
    return compose("", "0" * 32, sections)
