"""Two guests. Given the waiter's last words, each says its next line, or that it is satisfied."""

DONE = "<goal-reached>"


def hesitant(told: str) -> str:
    """Give away as little as possible."""
    if "Booked" in told:
        return DONE
    if "how many" in told:
        return "For three."
    return "At seven." if "time" in told else "I'd like a table."


def pushy(told: str) -> str:
    """Ask again and again."""
    return DONE if "Smith" in told else "Who else is coming tonight?"
