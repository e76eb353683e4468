"""Names, defaults and bounds that stand in two places: the template's and the code's."""

import re

import cfn
import declared
from world import World

FUNCTIONS = ("Aggregator", "BatchProcessor")


def pascal(variable):
    return "".join(part.capitalize() for part in variable.split("_"))


# Parameters that are variables under another name than the rule above makes, and variables that are resources.
RESOURCES = {
    "DDB_LOCK_TABLE": "<LockTable>",
    "DDB_BATCH_TABLE": "<BatchTable>",
    "DDB_BATCH_INDEX": "batchId-index",
    "BATCH_QUEUE_URL": "<BatchQueue>",
    "QUARANTINE_SQS_URL": "<QuarantineQueue>",
}
# The extension's own: who moves its port sets it for both, and the templates do not.
NOT_SET = {"PARAMETERS_SECRETS_EXTENSION_HTTP_PORT"}
# Empty without the variable that it goes with: the code refuses it alone, and the parameter has a default.
ONLY_WITH = {"SINK_SECRET_HEADER": "SINK_SECRET"}


def check_all(text, document=None):
    found = {}
    try:
        known = declared.variables(document or declared.DOCUMENT.read_text())
        generic = cfn._transform(text, None)
        parameters = generic["Parameters"]
        for chosen in cfn.worlds(generic):
            world = World(text, chosen, generic)
            for problem in variables(world, known):
                found.setdefault(problem, chosen)
        for problem in bounds(parameters, known):
            found.setdefault(problem, {})
        for problem in used(generic):
            found.setdefault(problem, {})
        if declared.sink_schemes(known) != set(cfn.SINKS):
            found["the sinks of the code are others than those looked at"] = {}
        for name, (right, wrong) in patterns().items():
            for value in right:
                if not re.search(parameters[name].get("AllowedPattern", "(?!)"), value):
                    found[f"{name} does not allow {value}"] = {}
            for value in wrong:
                if re.search(parameters[name].get("AllowedPattern", ""), value):
                    found[f"{name} allows {value!r}"] = {}
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        found[f"cannot be looked at: {error!r}"] = {}
    return [("variables", f"{problem}{f' (with {chosen})' if chosen else ''}") for problem, chosen in found.items()]


def patterns():
    """What parameters must allow, and what not: of those that are granted, nothing that IAM would take for a wildcard or a
    variable, which would widen the grant."""
    sinks = [*cfn.SINKS.values(), *cfn.QUALIFIED.values(), cfn.SINKS["states"] + ":3"]
    granted = [uri for uri in sinks if not uri.startswith(("file", "http", "postgres"))]
    secrets = [each["SinkSecretArn"] for each in cfn.SECRETS.values()]

    def widened(values):
        return [value + end for value in values for end in ("*", "?", "/*", "${x}")]

    return {
        # A password in the URL would be seen by all who may read the stack.
        "Sink": (sinks, ["", "ftp://x", "*", "postgres://user:word@host/database", *widened(granted), *(uri + "/" for uri in granted)]),
        "SinkColumns": (["", *cfn.COLUMNS.values()], ["columns.json", "s3://columns", "https://x", "file:columns.json", *widened([cfn.COLUMNS["s3"]])]),
        "SinkRejects": (["", cfn.REJECTS, "file:///mnt/rejects"], ["*", "log:", *widened([cfn.REJECTS])]),
        "SinkPayloads": (["", cfn.PAYLOADS], ["*", "log:", "file:///mnt/payloads", *widened([cfn.PAYLOADS])]),
        "SinkSecret": (["", *(each["SinkSecret"] for each in cfn.SECRETS.values()), f"secretsmanager:{secrets[0]}"], ["hunter2", "ssm:"]),
        "SinkSecretArn": (["", *secrets], ["*", cfn.SINKS["lambda"], *widened(secrets)]),
    }


def variables(world, known):
    """Every variable that is set is read; every one that is read is set, by the parameter of its name or a resource."""
    for function in FUNCTIONS:
        set_here = world.properties(function).get("Environment", {}).get("Variables", {})
        read = {name for name, each in known.items() if function in each.functions}
        for name in sorted(set(set_here) - read):
            yield f"{function} is given {name}, which it does not read"
        for name in sorted(read - set(set_here) - NOT_SET):
            yield f"{function} reads {name}, which cannot be set"
        for name in sorted(read & set(set_here)):
            wanted = RESOURCES.get(name)
            if wanted is None:
                if pascal(name) not in world.template["Parameters"]:
                    yield f"{name} has no parameter {pascal(name)}"
                    continue
                wanted = world.parameter(pascal(name))
                node = world.template["Resources"][function]["Properties"]["Environment"]["Variables"][name]
                if name in ONLY_WITH:
                    wanted = wanted if world.parameter(pascal(ONLY_WITH[name])) else ""
                    node = node.get("Fn::If", [None, None])[1]
                if node != {"Ref": pascal(name)}:
                    yield f"{function}: {name} is not the parameter {pascal(name)}"
            if str(set_here[name]) != wanted:
                yield f"{function}: {name} is {set_here[name]}, not {wanted}"


def bounds(parameters, known):
    """The code's defaults; of numbers, bounds within the code's; of words, the same ones."""
    for variable, (_, _, default, limits, words, _) in known.items():
        if variable in RESOURCES or variable in NOT_SET:
            continue
        name = pascal(variable)
        spec = parameters.get(name, {})
        if str(spec.get("Default")) != default:
            yield f"{name}: default is {spec.get('Default')}, the code's {default}"
        if limits and (int(spec.get("MinValue", -1)) < limits[0] or int(spec.get("MaxValue", 1 << 62)) > limits[1]):
            yield f"{name}: {spec.get('MinValue')} to {spec.get('MaxValue')} is beyond the code's {limits[0]} to {limits[1]}"
        if words and set(spec.get("AllowedValues", [])) != words:
            yield f"{name}: allows {sorted(spec.get('AllowedValues', []))}, the code {sorted(words)}"


def used(template):
    """Every parameter, mapping and condition is used."""
    import json

    text = json.dumps({key: template[key] for key in ("Conditions", "Resources")})
    for kind in ("Parameters", "Conditions", "Mappings"):
        for name in template.get(kind, {}):
            if f'"{name}"' not in text and f"${{{name}}}" not in text:
                yield f"{kind}: {name} is not used"


def self_test(text):
    """A variable that the code gains or loses, or reads otherwise, is noticed. Returns how many changes were tried."""
    document = declared.DOCUMENT.read_text()

    def row(name):
        (found,) = (line for line in document.splitlines() if line.startswith(f"| `{name}` |"))
        return found

    changes = {
        "renamed": ("`MAX_BATCH_SIZE` |", "`BATCH_SIZE_MAX` |"),
        "gained": (row("BATCH_KEY"), row("BATCH_KEY") + "\n" + row("BATCH_KEY").replace("BATCH_KEY", "EVENT_ID_OLD")),
        "lost": (row("QUARANTINE_SQS_URL") + "\n", ""),
        "read by the other function too": ("## Aggregator", "## Both functions"),
        "with another default": ("| `50000` |", "| `40000` |"),
        "with another bound": ("from 1 to 100 |", "from 1 to 50 |"),
        "with another word": ("`drop` or `requeue` |", "`drop` or `wait` |"),
        "with another default of a text": ("| `authorization` |", "| `x-api-key` |"),
        "with a default of a word": ("| `batch` |", "| `put` |"),
        "for another sink": ("or of a state machine |", "or of a topic, or `ftp://x` |"),
    }
    for name, (old, new) in changes.items():
        assert document.count(old) == 1, f"`{name}` changes {document.count(old)} places, not one"
        assert check_all(text, document.replace(old, new)), f"unnoticed: a variable {name}"
    return len(changes)
