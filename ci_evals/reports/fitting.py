"""Markdown in a given room: whole entries are left out, the least important first, and counted."""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from ci_evals.verdict.words import number_of


class Entry(Struct, frozen=True):
    """One thing to be told: briefly, and with all that unfolds, where there is more and room for it."""

    brief: str
    full: str = ""


class Section(Struct, frozen=True):
    """Things of a kind. Its text is `opening`, the entries, how many more there are, `closing`.

    Args:
        noun: what one of them is called where the whole section is left out: `fixed case`. Sections may share one.
        entries: those that can be shown, the most important first.
        total: how many there are.
        rank: the sections with the lowest are the last to lose entries.
        separator: what stands between two entries.
        more: what says how many are not shown; `{number}` is replaced.
    """

    noun: str
    opening: str
    entries: Sequence[Entry]
    total: int
    rank: int
    closing: str = ""
    separator: str = "\n"
    more: str = "\n- … and {number} more"

    def text(self, shown: Sequence[str]) -> str:
        """The section with some of its entries."""
        left_out = self.total - len(shown)
        more = self.more.format(number=f"{left_out:,}") if left_out else ""
        return f"{self.opening}{self.separator.join(shown)}{more}{self.closing}"


class Document(Struct, frozen=True):
    """Paragraphs and sections in the order of reading.

    Args:
        head: what comes first.
        sections: what may be cut; none is empty.
        foot: what comes last.
        shortest: what is left when not even head and foot have room, the longest first.
    """

    head: str
    sections: Sequence[Section]
    foot: str
    shortest: Sequence[str]

    def fitted(self, max_bytes: int) -> str:
        """The most of it that has at most so many bytes in UTF-8; the last of `shortest` if nothing has."""
        order = self._by_importance()
        count = _most(len(order), lambda number: _size(self._text(self._briefly(order[:number]))) <= max_bytes)
        if count is None:
            return next((text for text in self.shortest if _size(text) <= max_bytes), self.shortest[-1])
        shown = self._briefly(order[:count])
        left = max_bytes - _size(self._text(shown))
        for number, place in order[:count]:
            entry = self.sections[number].entries[place]
            growth = _size(entry.full) - _size(entry.brief)
            if entry.full and growth <= left:
                shown[number][place] = entry.full
                left -= growth
        return self._text(shown)

    def _by_importance(self) -> list[tuple[int, int]]:
        """Section and place in it of every entry."""
        ranked = sorted(range(len(self.sections)), key=lambda number: self.sections[number].rank)
        return [(number, place) for number in ranked for place in range(len(self.sections[number].entries))]

    def _briefly(self, chosen: Sequence[tuple[int, int]]) -> list[list[str]]:
        shown: list[list[str]] = [[] for _ in self.sections]
        for number, place in chosen:
            shown[number].append(self.sections[number].entries[place].brief)
        return shown

    def _text(self, shown: Sequence[Sequence[str]]) -> str:
        parts = [section.text(entries) for section, entries in zip(self.sections, shown, strict=True) if entries]
        left_out: Counter[str] = Counter()
        for section, entries in zip(self.sections, shown, strict=True):
            left_out[section.noun] += 0 if entries else section.total
        if told := [number_of(count, noun) for noun, count in left_out.items() if count]:
            parts.append(f"*No room here for {', '.join(told)}.*")
        return "\n\n".join(filter(None, (self.head, *parts, self.foot)))


def _most(limit: int, fits: Callable[[int], bool]) -> int | None:
    """The most that fit, if what fits has no gaps worth a search; None if not even nothing fits."""
    if fits(limit):
        return limit
    low, high = -1, limit  # low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low if low >= 0 else None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
