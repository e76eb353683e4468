"""Reads the variables of the functions from docs/configuration.md, and their metrics from docs/metrics.md.

These files are generated from the declarations in the code, and tests of the workspace fail if they are out of date.
"""

import re
from collections import namedtuple

from cfn import ROOT

DOCUMENT = ROOT / "docs" / "configuration.md"
METRICS = ROOT / "docs" / "metrics.md"

# The functions that read the variables of each chapter.
CHAPTERS = {"Both functions": {"Aggregator", "BatchProcessor"}, "Aggregator": {"Aggregator"}, "Batch processor": {"BatchProcessor"}}

# `default` is a text: empty if there is no default, None if the variable must be set. `bounds` is the allowed range of a number,
# `words` the set of allowed words; both are None for other variables. `allowed` is the whole text of the column `allowed`.
Variable = namedtuple("Variable", "name functions default bounds words allowed")


def number(allowed):
    found = re.fullmatch(r"a whole number of .+ from (\d+) to (\d+)", allowed)
    return tuple(map(int, found.groups())) if found else None


def words(allowed):
    return set(re.findall(r"`([a-z-]+)`", allowed)) if re.fullmatch(r"(`[a-z-]+`(, | or )?){2,}", allowed) else None


def variables(text):
    """Returns every variable of the document, by name."""
    found, functions, columns = {}, None, []
    for line in text.splitlines():
        if line.startswith("## "):
            functions = CHAPTERS[line.removeprefix("## ")]
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if cells[0] == "variable":
            columns = cells
        elif re.fullmatch("`[A-Z_]+`", cells[0]):
            row = dict(zip(columns, cells))
            name, allowed = row["variable"].strip("`"), row["allowed"]
            default = {"required": None, "none": ""}.get(row["default"], row["default"].strip("`"))
            assert name not in found, f"{DOCUMENT.name}: {name} has two rows, expected one"
            found[name] = Variable(name, functions, default, number(allowed), words(allowed), allowed)
    return found


def metrics(text):
    """Returns the names of the metrics of the document."""
    return set(re.findall(r"(?m)^\| `([A-Z]\w+)` \|", text))


def sink_schemes(declared):
    """Returns the schemes that `SINK` allows; for an ARN, its service."""
    allowed = declared["SINK"].allowed
    arns = {"Lambda function": "lambda", "state machine": "states"}
    return set(re.findall(r"`(\w+):", allowed)) | {service for thing, service in arns.items() if thing in allowed}
