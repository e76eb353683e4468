"""Every experiment, in the order in which they run."""

from verify.experiments import (
    account,
    burst_run,
    dry,
    latency,
    log,
    mapping,
    objects,
    outage,
    partiql,
    thaw,
    updates,
    watch,
)

# What leaves the main stack alone runs before its alarms are looked at (15). The burst (7) is the first to write its tables, and
# nothing else may be delivered before its audit.
ORDER = (1, 21, 22, 2, 3, 4, 17, 8, 5, 19, 23, 24, 15, 7, 9, 18, 20, 16, 6, 10, 14, 13, 12, "12-warm", 11)
MODULES = (account, dry, partiql, objects, latency, log, watch, burst_run, mapping, thaw, outage, updates)
EXPERIMENTS = {each.number: each for module in MODULES for each in module.EXPERIMENTS}


class Unknown(Exception):
    pass


def select(only=None, level=1):
    """Returns the experiments to run: those that are named, or all up to a level."""
    by_text = {str(number): number for number in ORDER}
    if only is None:
        return [EXPERIMENTS[number] for number in ORDER if EXPERIMENTS[number].level <= level]
    names = [each.strip() for each in only.split(",")]
    unknown = [each for each in names if each not in by_text]
    if unknown:
        raise Unknown(f"--only: unknown experiment: got {', '.join(unknown)}, expected some of {', '.join(by_text)}")
    wanted = {by_text[each] for each in names}
    # An experiment that is observed with another brings the other along.
    wanted |= {before for number in wanted for before in EXPERIMENTS[number].after}
    return [EXPERIMENTS[number] for number in ORDER if number in wanted]
