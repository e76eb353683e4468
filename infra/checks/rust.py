"""Finds names of attributes, the namespace of metrics, and some limits, in the Rust sources."""

import functools
import re

from cfn import ROOT


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


@functools.lru_cache(maxsize=4)
def words(source, folder):
    """Returns every word in the files of a folder."""
    return {word for path in source.files(folder) for word in re.findall(r"\b\w+\b", source.read(path))}


def namespace(source):
    return re.search(r'NAMESPACE: &str = "(\w+)"', source.read("shared/src/metrics.rs")).group(1)
