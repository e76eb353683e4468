"""What an experiment says about its assumption."""

import dataclasses

CONFIRMED, REFUTED, UNCLEAR = "confirmed", "refuted", "unclear"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`seen` is one sentence about what was observed, with its numbers."""

    word: str
    seen: str


def confirmed(seen):
    return Verdict(CONFIRMED, seen)


def refuted(seen):
    return Verdict(REFUTED, seen)


def unclear(seen):
    return Verdict(UNCLEAR, seen)


def of_checks(checks, good):
    """Returns the verdict of a list of (holds, what is wrong otherwise); `holds` is None where it could not be seen."""
    wrong = [text for holds, text in checks if holds is False]
    unseen = [text for holds, text in checks if holds is None]
    if wrong:
        return refuted("; ".join(wrong))
    return unclear("; ".join(unseen)) if unseen else confirmed(good)
