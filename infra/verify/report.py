"""The result of a run as a table and as JSON."""

import textwrap

from verify import verdict

COLUMNS = (("#", 3), ("assumption", 44), ("seen", 60), ("verdict", 9))


def row(cells):
    """Returns the lines of one row; long cells are wrapped."""
    wrapped = [textwrap.wrap(str(cell), width) or [""] for cell, (_, width) in zip(cells, COLUMNS, strict=True)]
    height = max(map(len, wrapped))
    padded = [lines + [""] * (height - len(lines)) for lines in wrapped]
    return [
        "  ".join(text.ljust(width) for text, (_, width) in zip(line, COLUMNS, strict=True)).rstrip() for line in zip(*padded, strict=True)
    ]


def table(results):
    """Returns the table of (experiment, verdict)."""
    lines = [*row([name for name, _ in COLUMNS]), "  ".join("-" * width for _, width in COLUMNS)]
    for experiment, given in results:
        lines += row([experiment.number, experiment.assumption, given.seen, given.word])
        lines.append("")
    counts = {word: sum(given.word == word for _, given in results) for word in (verdict.CONFIRMED, verdict.REFUTED, verdict.UNCLEAR)}
    lines.append(", ".join(f"{count} {word}" for word, count in counts.items()))
    return "\n".join(lines)


def as_json(about, results, observed, remains):
    return {
        "about": about,
        "results": [
            {
                "number": experiment.number,
                "assumption": experiment.assumption,
                "relied_on_in": experiment.relied_on_in,
                "seen": given.seen,
                "verdict": given.word,
                "observation": observed.get(experiment.number),
            }
            for experiment, given in results
        ],
        "not_deleted": remains,
    }
