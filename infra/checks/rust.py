"""Finds names of metrics and attributes, and some limits, in the Rust sources."""

import functools
import re
from collections import namedtuple

from cfn import ROOT

Function = namedtuple("Function", "file name body owner")


class Source:
    """The Rust sources. `overlay` replaces or adds files, to test the checks."""

    def __init__(self, overlay=None):
        self.overlay = overlay or {}

    def read(self, path):
        text = self.overlay.get(path)
        if text is None:
            text = (ROOT / path).read_text()
        # Tests and comments are removed, because they are not part of the functions.
        text = re.split(r"\n#\[cfg\(test\)\]\n(?:pub\((?:crate|super)\) )?mod \w+ \{", text)[0]
        return re.sub(r"(?m)^\s*//.*$", "", text)

    def files(self, folder):
        found = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.rs")}
        found |= {path for path in self.overlay if path.startswith(folder + "/")}
        return sorted(path for path in found if not re.search(r"[_/](tests|props)(\.rs$|/)", path))


# Strings and characters, whose braces do not count, and single braces.
BRACES = re.compile(r'''r#"[\s\S]*?"#|'(?:[^'\\\n]|\\.)'|"(?:[^"\\]|\\[\s\S])*"|[{}]''')


def block(text, start):
    """Returns the text from the first `{` at or after `start` to its matching `}`."""
    opening = text.index("{", start)
    depth = 0
    for token in BRACES.finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return text[opening : token.end()]
    raise ValueError(f"unbalanced braces after position {opening}")


@functools.lru_cache(maxsize=512)
def functions(source, path):
    """Returns every function of a file, with the trait or type of its `impl`."""
    text = source.read(path)
    owners = []
    for match in re.finditer(r"(?m)^impl(?:<[^>]*>)? (?:(\w+)(?:<[^>]*>)? for )?(\w+)", text):
        owners.append((match.start(), match.start() + len(block(text, match.start())), match.group(1) or match.group(2)))
    found = []
    for match in re.finditer(r"\bfn (\w+)", text):
        signature = text[match.end() :]
        # The first brace or semicolon that is not in an array's type.
        end = re.match(r"(?:\[[^\]]*\]|[^\[{;])*([{;])", signature)
        if end.group(1) == ";":
            continue
        owner = next((name for start, stop, name in owners if start <= match.start() <= stop), None)
        found.append(Function(path, match.group(1), block(text, match.end() + end.start(1)), owner))
    return found


@functools.lru_cache(maxsize=4)
def words(source, folder):
    """Returns every word in the files of a folder."""
    return {word for path in source.files(folder) for word in re.findall(r"\b\w+\b", source.read(path))}


@functools.lru_cache(maxsize=4)
def metrics(source):
    """Returns the names of the metrics that the functions emit."""
    found = set()
    for crate in ("aggregator", "batch-processor"):
        for path in source.files(f"{crate}/src"):
            text = source.read(path)
            found |= set(re.findall(r'\.(?:count|milliseconds|then_some)\(\s*"([A-Z]\w+)"', text))
            # Functions of these names return names of metrics.
            for each in functions(source, path):
                if each.name in ("metric", "metrics"):
                    found |= set(re.findall(r'"([A-Z]\w+)"', each.body))
    return found


def namespace(source):
    return re.search(r'NAMESPACE: &str = "(\w+)"', source.read("shared/src/metrics.rs")).group(1)
