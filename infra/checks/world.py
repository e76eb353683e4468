"""What a rule looks at: the resources of a template, worked out for one set of parameters."""

import re

import cfn
import rust

# One for all worlds: the code is the same in each.
SOURCE = rust.Source()


class World:
    def __init__(self, text, chosen=None, generic=None, rename=None):
        self.text = text
        self.template = generic or cfn._transform(text, None)
        self.resolver = cfn.Resolver(self.template, chosen, rename)
        self.resources = self.resolver.resources()
        self.chosen = chosen or {}

    def kind(self, kind):
        return cfn.by_type(self.resources, kind)

    def properties(self, name):
        return self.resources[name]["Properties"]

    def parameter(self, name):
        return self.resolver.values[name]

    def spec(self, name):
        return self.template["Parameters"][name]

    def mappings(self):
        """(mapping, its function, its queue), by what they point at."""
        for mapping in self.kind("AWS::Lambda::EventSourceMapping").values():
            name = mapping["FunctionName"].strip("<>").split(".")[0]
            queue = mapping["EventSourceArn"].strip("<>").split(".")[0]
            yield mapping, name, queue

    def mapping_of(self, function):
        return next(mapping for mapping, name, _ in self.mappings() if name == function)

    def extremes(self, name):
        spec = self.spec(name)
        values = [int(each) for each in spec.get("AllowedValues", [])] or [int(spec["MinValue"]), int(spec["MaxValue"])]
        return min(values), max(values)


def retention(queue):
    return int(queue.get("MessageRetentionPeriod", 345600))


def accepts(spec, value):
    """Whether CloudFormation takes a value for a parameter."""
    if "AllowedValues" in spec:
        return value in [str(each) for each in spec["AllowedValues"]]
    if spec["Type"] == "Number":
        if not re.fullmatch(r"-?[0-9]+", value):
            return False
        return int(spec.get("MinValue", value)) <= int(value) <= int(spec.get("MaxValue", value))
    return len(value) <= int(spec.get("MaxLength", len(value))) and bool(re.fullmatch(spec.get("AllowedPattern", "[\\s\\S]*"), value))


def statements(role):
    return [each for policy in role.get("Policies", []) for each in policy["PolicyDocument"]["Statement"]]
