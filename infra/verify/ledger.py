"""The notes of a run: what it creates, written down before it is created, so that a later run can delete it after a crash."""

import json
import pathlib
import secrets

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Git ignores it.
RUNS = ROOT / "target" / "verify-aws"
PREFIX = "verify-aws-"
# The tag of everything that can have one. Its value is the name of the run.
TAG = "verify-aws"


def new_name():
    """Returns the name of a run. The names of everything that a run creates begin with it."""
    return PREFIX + secrets.token_hex(4)


def is_name(name):
    digits = name.removeprefix(PREFIX)
    return name.startswith(PREFIX) and len(digits) == 8 and all(each in "0123456789abcdef" for each in digits)


class Ledger:
    def __init__(self, name, folder=None, **about):
        self.name = name
        self.folder = folder or RUNS / name
        self.about = about
        # (kind, name) in the order of creation.
        self.intended = []
        self.deleted = set()

    @property
    def path(self):
        return self.folder / "ledger.json"

    def intend(self, kind, name):
        """Notes that something is about to be created."""
        if (kind, name) not in self.intended:
            self.intended.append((kind, name))
        self.deleted.discard((kind, name))
        self.write()

    def gone(self, kind, name):
        self.deleted.add((kind, name))
        self.write()

    def remaining(self):
        return [each for each in self.intended if each not in self.deleted]

    def write(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {"name": self.name, "about": self.about, "intended": self.intended, "deleted": sorted(self.deleted)}
        # Replaced as a whole, so that a crash leaves the former notes and not half of the new ones.
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1))
        partial.replace(self.path)

    def store(self, file, content):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / file).write_text(json.dumps(content, indent=1, default=str) + "\n")


def read(name, folder=None):
    """Returns the ledger of an earlier run; an empty one if this machine has none."""
    ledger = Ledger(name, folder)
    if ledger.path.exists():
        content = json.loads(ledger.path.read_text())
        ledger.about = content["about"]
        ledger.intended = [tuple(each) for each in content["intended"]]
        ledger.deleted = {tuple(each) for each in content["deleted"]}
    return ledger
