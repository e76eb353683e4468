"""The variables that the functions read, from docs/configuration.md.

That file is generated from the declarations in the code, and a test of the workspace fails when it is not what they generate.
"""

import re
from collections import namedtuple

from cfn import ROOT

DOCUMENT = ROOT / "docs" / "configuration.md"

# Who reads the variables of a chapter.
CHAPTERS = {"Both functions": {"Aggregator", "BatchProcessor"}, "Aggregator": {"Aggregator"}, "Batch processor": {"BatchProcessor"}}

# `default` is a text, empty if nothing is chosen, None if the variable must be set. `bounds` is what a number may be, `words`
# what one of some words may be; both are None otherwise. `allowed` is either, or what a text may be, in words.
Variable = namedtuple("Variable", "name functions default bounds words allowed")


def number(allowed):
    found = re.fullmatch(r"a whole number of .+ from (\d+) to (\d+)", allowed)
    return tuple(map(int, found.groups())) if found else None


def words(allowed):
    return set(re.findall(r"`([a-z-]+)`", allowed)) if re.fullmatch(r"(`[a-z-]+`(, | or )?){2,}", allowed) else None


def variables(text):
    """Every variable of the document, by name."""
    found, functions = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            functions = CHAPTERS[line.removeprefix("## ")]
        row = re.fullmatch(r"\| `([A-Z_]+)` \| (required|none|`([^`]*)`) \| (.+?) \| .+ \|", line)
        if row:
            name, said, default, allowed = row.groups()
            default = {"required": None, "none": ""}.get(said, default)
            assert name not in found, f"{name} stands in {DOCUMENT.name} twice"
            found[name] = Variable(name, functions, default, number(allowed), words(allowed), allowed)
    return found


def sink_schemes(declared):
    """What `SINK` may begin with; of an ARN, its service."""
    allowed = declared["SINK"].allowed
    arns = {"Lambda function": "lambda", "state machine": "states"}
    return set(re.findall(r"`(\w+):", allowed)) | {service for thing, service in arns.items() if thing in allowed}
