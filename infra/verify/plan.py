"""What a run would create and cost. It makes no request and needs no credentials."""

import textwrap

from verify import resources, template
from verify.costs import PRICES_OF, Cost, by_price, dollars

# For retries, and for what a service rounds up.
MARGIN = 1.25

# The words for what is left after the clean-up. Backups:
# <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/pointintimerecovery_beforeyoubegin.html> (2026-11).
LEAVES = (
    ("key", "a KMS key that waits 7 days for its deletion, which AWS demands; it costs nothing meanwhile"),
    (
        "main",
        "metrics in CloudWatch, which nobody can delete; they end 15 months after their last value, and cost nothing without new ones",
    ),
    ("main", "DynamoDB's own backups of deleted tables with point-in-time recovery: 35 days, at no cost"),
)


class Plan:
    def __init__(self, experiments, name="NAME"):
        self.experiments = experiments
        self.name = name
        self.resources = resources.all_needed(need for each in experiments for need in each.needs)
        self.minutes = sum(each.minutes for each in experiments) + 4 * len(self.stacks())

    def stacks(self):
        return [each for each in self.resources if resources.RESOURCES[each].stack]

    def has_roles(self):
        return any(kind == "AWS::IAM::Role" for name in self.resources for kind, _ in self.contents(name))

    def standing(self):
        """Returns what costs by the hour while it stands, for the time of the whole run."""
        hours = self.minutes / 60
        costs = [Cost("watch-hour", hours)] * len(self.stacks())
        return costs + [Cost("key-hour", hours)] * ("key" in self.resources)

    @property
    def dollars(self):
        """Returns the estimate, with the margin."""
        return MARGIN * (sum(dollars(each.costs()) for each in self.experiments) + dollars(self.standing()))

    def contents(self, name):
        """Returns the (type, names) of what a resource is made of."""
        resource = resources.RESOURCES[name]
        found = [(kind, [one.replace("{name}", self.name)]) for kind, one in resource.holds]
        return found + (list(template.resources(resource.stack(self.name)).items()) if resource.stack else [])

    def text(self):
        lines = [f"Experiments, {duration(self.minutes)} in all:", ""]
        for each in self.experiments:
            lines.append(f"{each.number!s:>8}  ${dollars(each.costs()):6.2f}  {duration(each.minutes):>7}  {each.does}")
        shown = {}
        head = f"Resources, all with names that begin with {self.name}, tagged verify-aws={self.name}:"
        lines += ["", head if self.resources else "Resources: none", ""]
        for name in self.resources:
            resource = resources.RESOURCES[name]
            lines.append(f"  {name}: {resource.what}")
            own, parts = self.contents(name)[: len(resource.holds)], self.contents(name)[len(resource.holds) :]
            lines += [line_of(*each) for each in own]
            # The stacks have the same resources, which are listed once.
            if (known := shown.setdefault(str(parts), name)) != name and parts:
                lines.append(f"      the same {sum(len(names) for _, names in parts)} resources as `{known}`")
            else:
                lines += [line_of(*each) for each in parts]
        lines += ["", f"Estimated cost ({PRICES_OF}; some other regions cost half as much again):", ""]
        for cost in by_price([cost for each in self.experiments for cost in each.costs()] + self.standing()):
            lines.append(f"  ${cost.dollars:6.2f}  {cost}")
        lines += [f"  ${self.dollars:6.2f}  in all, with {MARGIN - 1:.0%} for retries; the free tier is not counted"]
        left = [text for name, text in LEAVES if name in self.resources]
        lines += ["", "Everything is deleted at the end, also after Ctrl-C. What is left:", *(f"  {each}" for each in left or ["nothing"])]
        return "\n".join(lines)

    def as_json(self):
        return {
            "name": self.name,
            "minutes": self.minutes,
            "dollars": round(self.dollars, 2),
            "prices": PRICES_OF,
            "experiments": [
                {
                    "number": each.number,
                    "assumption": each.assumption,
                    "does": each.does,
                    "dollars": round(dollars(each.costs()), 4),
                    "minutes": each.minutes,
                    "needs": list(each.needs),
                }
                for each in self.experiments
            ],
            "resources": [{"name": name, "type": kind, "names": names} for name in self.resources for kind, names in self.contents(name)],
        }


def line_of(kind, names):
    """Returns the line of a type: its names, wrapped if they are many."""
    text = f"      {kind}: {names[0]}" if len(names) == 1 else f"      {kind} x {len(names)}: {', '.join(names)}"
    return textwrap.fill(text, 140, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False)


def duration(minutes):
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min" if minutes >= 1 else "< 1 min"
