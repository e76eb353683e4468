"""What no linter knows: runs every rule of `rules` on a template, under every choice of parameters."""

import cfn
from rules import RULES, alarms, buckets, functions, grants, mappings, queues, tables
from world import World

# Each module adds its rules to `RULES` when it is imported.
MODULES = (mappings, queues, tables, buckets, functions, alarms, grants)


def check(world):
    """(rule, what is wrong) of one world."""
    found = []
    for each in RULES:
        try:
            found += [(each.__name__, problem) for problem in each(world)]
        except (KeyError, StopIteration, ValueError, TypeError, IndexError) as error:
            found.append((each.__name__, f"cannot be looked at: {error!r}"))
    return found


def check_all(text):
    """The same in every world; each problem once, with the first world that has it."""
    try:
        generic = cfn._transform(text, None)
        worlds = cfn.worlds(generic)
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        return [("transform", f"{type(error).__name__}: {error}")]
    found = {}
    for chosen in worlds:
        try:
            world = World(text, chosen, generic)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            found.setdefault(("resolves", repr(error)), chosen)
            continue
        for problem in check(world):
            found.setdefault(problem, chosen)
    return [(name, f"{problem}{f' (with {chosen})' if chosen else ''}") for (name, problem), chosen in found.items()]
