"""Compares names, defaults and bounds of the template's parameters with those of the code's variables."""

import re

import cfn
import declared
from rules.buckets import PREFIX
from world import World

FUNCTIONS = ("Aggregator", "BatchProcessor")


def pascal(variable):
    return "".join(part.capitalize() for part in variable.split("_"))


# Variables whose value is a resource of the template, not a parameter.
RESOURCES = {
    "DDB_LOCK_TABLE": "<LockTable>",
    "DDB_BATCH_TABLE": "<BatchTable>",
    "DDB_BATCH_INDEX": "batchId-index",
    "BATCH_QUEUE_URL": "<BatchQueue>",
    "QUARANTINE_SQS_URL": "<QuarantineQueue>",
}
# The variable belongs to the extension. The templates do not set it, because they do not change the port.
NOT_SET = {"PARAMETERS_SECRETS_EXTENSION_HTTP_PORT"}
# The template leaves the first variable empty if the second is empty: the code refuses it alone, and its parameter has a default.
ONLY_WITH = {"SINK_SECRET_HEADER": "SINK_SECRET"}
# For one value of the parameter, the template sets the variable to a place in a bucket of the stack: the value, the place, and how
# the template writes it.
OWN_PLACE = {"BODIES": ("s3", f"s3://<ChunkBucket>/{PREFIX}".rstrip("/"), {"Fn::Sub": f"s3://${{ChunkBucket}}/{PREFIX}".rstrip("/")})}


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
            found[f"SINK: the code allows {sorted(declared.sink_schemes(known))}, expected the sinks of cfn.py: {sorted(cfn.SINKS)}"] = {}
        for name, (right, wrong) in patterns().items():
            for value in right:
                if not re.search(parameters[name].get("AllowedPattern", "(?!)"), value):
                    found[f"{name}: AllowedPattern refuses {value!r}, expected it to be allowed"] = {}
            for value in wrong:
                if re.search(parameters[name].get("AllowedPattern", ""), value):
                    found[f"{name}: AllowedPattern allows {value!r}, expected it to be refused"] = {}
    except Exception as error:  # noqa: BLE001: a wrong template may break anything
        found[f"the template cannot be checked: {error!r}"] = {}
    return [("variables", f"{problem}{f' (with {chosen})' if chosen else ''}") for problem, chosen in found.items()]


# Places of chunks in a bucket that is given, and texts that are none.
CHUNKS = ["s3://chunks", "s3://chunks/some/prefix", "s3://chunks/1/2/3/4/5/6"]
NO_CHUNKS = ["s3:", "s3://", "s3://b", "s3:///prefix", "s3://Chunks", "s3://chunks/", "s3://chunks//a", "s3://chunks/1/2/3/4/5/6/7", "S3", "file:///mnt"]
NO_CHUNKS += [place + end for place in CHUNKS for end in ("*", "?", "/*", "${x}")]


def patterns():
    """Returns values that the patterns of parameters must allow, and values that they must refuse. In values that are granted,
    wildcards and variables of IAM must be refused, because they would widen the grant."""
    sinks = [*cfn.SINKS.values(), *cfn.QUALIFIED.values(), cfn.SINKS["states"] + ":3"]
    granted = [uri for uri in sinks if not uri.startswith(("file", "http", "postgres", "sftp"))]
    secrets = [each["SinkSecretArn"] for each in cfn.SECRETS.values()]

    def widened(values):
        return [value + end for value in values for end in ("*", "?", "/*", "${x}")]

    return {
        # Everybody who may read the stack would see a password in the URL.
        "Sink": (sinks, ["", "ftp://x", "*", "postgres://user:word@host/database", "sftp://user:word@host/path", *widened(granted), *(uri + "/" for uri in granted)]),
        "SinkColumns": (["", *cfn.COLUMNS.values()], ["columns.json", "s3://columns", "https://x", "file:columns.json", *widened([cfn.COLUMNS["s3"]])]),
        "SinkRejects": (["", cfn.REJECTS, "file:///mnt/rejects"], ["*", "log:", *widened([cfn.REJECTS])]),
        "SinkPayloads": (["", cfn.PAYLOADS], ["*", "log:", "file:///mnt/payloads", *widened([cfn.PAYLOADS])]),
        "DuplicatesSqsUrl": (["", cfn.COMPLETIONS["sqs"]], ["*", "duplicates", cfn.COMPLETIONS["events"], cfn.COMPLETIONS["sqs"] + ".fifo", *widened([cfn.COMPLETIONS["sqs"]])]),
        "DeliveryHours": (["", "Mon-Fri 20:00-05:00, Sat 10:00-12:00 Europe/Berlin", "00:00-24:00 Etc/GMT+1"], ["20:00-05:00", "Mon;Tue 20:00-05:00 UTC"]),
        "CloseAt": (["", "00:00 UTC", "00:00, 12:30 Europe/Berlin", "06:00,18:00 Etc/GMT+1"], ["00:00", "00:00;12:00 UTC"]),
        "QuotaPeriod": (["minute", "hour", "day", "day Europe/Berlin"], ["", "week", "hour UTC", "day "]),
        "Completion": (["", *cfn.COMPLETIONS.values()], ["*", "default", cfn.COMPLETIONS["sqs"] + ".fifo", *widened(cfn.COMPLETIONS.values())]),
        # The function would refuse `s3`, which the template replaces, and places that IAM or S3 reads in another way.
        "Bodies": (["items", "table", "s3", *CHUNKS], [*NO_CHUNKS, "", "items ", "tables"]),
        "FormerBodies": (["", "s3", *CHUNKS], [*NO_CHUNKS, "items", "table"]),
        "SinkSecret": (["", *(each["SinkSecret"] for each in cfn.SECRETS.values()), f"secretsmanager:{secrets[0]}"], ["hunter2", "ssm:"]),
        "SinkHostKey": (["", cfn.HOST_KEYS], ["legacy.example", "-----BEGIN", "MD5:aa", 'SHA256:"']),
        "SinkSecretArn": (["", *secrets], ["*", cfn.SINKS["lambda"], *widened(secrets)]),
    }


def variables(world, known):
    """Yields variables that the template sets but the function does not read, that the function reads but the template does not set,
    and that are not set by the parameter of their name or by a resource."""
    for function in FUNCTIONS:
        set_here = world.properties(function).get("Environment", {}).get("Variables", {})
        read = {name for name, each in known.items() if function in each.functions}
        for name in sorted(set(set_here) - read):
            yield f"{function}: {name} is set, but the function does not read it"
        for name in sorted(read - set(set_here) - NOT_SET):
            yield f"{function}: {name} is not set, but the function reads it"
        for name in sorted(read & set(set_here)):
            wanted = RESOURCES.get(name)
            if wanted is None:
                if pascal(name) not in world.template["Parameters"]:
                    yield f"{name}: no parameter: expected {pascal(name)}"
                    continue
                wanted = world.parameter(pascal(name))
                node = world.template["Resources"][function]["Properties"]["Environment"]["Variables"][name]
                if name in ONLY_WITH:
                    wanted = wanted if world.parameter(pascal(ONLY_WITH[name])) else ""
                    node = node.get("Fn::If", [None, None])[1]
                if name in OWN_PLACE:
                    chosen, place, written = OWN_PLACE[name]
                    wanted = place if wanted == chosen else wanted
                    _, met, unmet = node.get("Fn::If", [None, None, node])
                    node = unmet if met == written else node
                if node != {"Ref": pascal(name)}:
                    yield f"{function}: {name}: wrong value: got {node}, expected the parameter {pascal(name)}"
            if str(set_here[name]) != wanted:
                yield f"{function}: {name}: wrong value: got {set_here[name]}, expected {wanted}"


def bounds(parameters, known):
    """Yields parameters whose default is not the code's, whose bounds exceed the code's, or whose words are not the code's."""
    for variable, (_, _, default, limits, words, _) in known.items():
        if variable in RESOURCES or variable in NOT_SET:
            continue
        name = pascal(variable)
        spec = parameters.get(name, {})
        if str(spec.get("Default")) != default:
            yield f"{name}: wrong default: got {spec.get('Default')}, expected the code's {default}"
        if limits and (int(spec.get("MinValue", -1)) < limits[0] or int(spec.get("MaxValue", 1 << 62)) > limits[1]):
            yield f"{name}: wrong bounds: got {spec.get('MinValue')} to {spec.get('MaxValue')}, expected at most the code's {limits[0]} to {limits[1]}"
        if words and set(spec.get("AllowedValues", [])) != words:
            yield f"{name}: wrong words: got {sorted(spec.get('AllowedValues', []))}, expected the code's {sorted(words)}"


def used(template):
    """Yields parameters, mappings and conditions that are not used."""
    import json

    text = json.dumps({key: template[key] for key in ("Conditions", "Resources")})
    for kind in ("Parameters", "Conditions", "Mappings"):
        for name in template.get(kind, {}):
            if f'"{name}"' not in text and f"${{{name}}}" not in text:
                yield f"{kind}: {name} is not used, expected a reference to it"


def self_test(text):
    """Asserts that each of some changes of the code's variables is noticed. Returns how many changes were tried."""
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
        "with another default of bodies": ("| `items` | `items`, `table`", "| `table` | `items`, `table`"),
        "with another default of a text": ("| `authorization` |", "| `x-api-key` |"),
        "with a default of a word": ("| `batch` |", "| `put` |"),
        "for another sink": ("or of a state machine |", "or of a topic, or `ftp://x` |"),
    }
    for name, (old, new) in changes.items():
        assert document.count(old) == 1, f"self_test: the change `{name}` fits {document.count(old)} places of docs/configuration.md, expected one"
        assert check_all(text, document.replace(old, new)), f"self_test: not noticed: a variable {name}"
    return len(changes)
