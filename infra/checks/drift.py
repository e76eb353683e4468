"""Compares the template's parameters with the code's variables, and looks at the parameters themselves."""

import re

import cfn
import declared
from rules.buckets import PREFIX
from world import World

FUNCTIONS = ("Aggregator", "BatchProcessor")


# Parameters that are not called as their variables.
PARAMETERS = {"ANSWERS_FROM": "Answers"}


def parameter_of(variable):
    """Returns the name of the parameter that sets a variable."""
    return PARAMETERS.get(variable) or "".join(part.capitalize() for part in variable.split("_"))


# Variables that the template sets to a resource, not to a parameter.
RESOURCES = {
    "DDB_LOCK_TABLE": "<LockTable>",
    "DDB_BATCH_TABLE": "<BatchTable>",
    "DDB_BATCH_INDEX": "batchId-index",
    "BATCH_QUEUE_URL": "<BatchQueue>",
    "QUARANTINE_SQS_URL": "<QuarantineQueue>",
}
# Variables that the template sets, because their parameters also grant or create something. The configuration file sets the others.
SET = {
    "Aggregator": {"CONFIG", "EVENT_ID", "ON_DUPLICATE", "BODIES"},
    "BatchProcessor": {"ANSWERS_FROM", "CONFIG", "SINK", "SINK_SECRET"},
}
# Variables that no default of the code may contradict, because the template always sets them.
ALWAYS_SET = ("ON_DUPLICATE",)


def value_of(world, name):
    """Returns the value that a variable must have in a world."""
    if name in RESOURCES:
        return RESOURCES[name]
    if name == "BODIES" and world.parameter("Bodies") == "log:s3":
        return f"log:s3://<ChunkBucket>/{PREFIX}".rstrip("/")
    if name == "SINK_SECRET":
        arn = world.parameter("SinkSecretArn")
        return f"{arn.split(':')[2]}:{arn}" if arn else ""
    return world.parameter(parameter_of(name))


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
        for problem in [*used(generic), *interface(generic)]:
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


def patterns():
    """Returns values that the patterns of parameters must allow, and values that they must refuse. In values that are granted,
    wildcards and variables of IAM must be refused, because they would widen the grant."""
    sinks = [*cfn.SINKS.values(), *cfn.QUALIFIED.values(), cfn.SINKS["states"] + ":3"]
    granted = [uri for uri in sinks if not uri.startswith(("file", "http", "postgres", "sftp"))]
    on_servers = [cfn.ANSWERS["file"], cfn.ANSWERS["sftp"], "sftp:/in/.hidden/", "file:///mnt/x"]
    secrets = [each["SinkSecretArn"] for each in cfn.SECRETS.values()]
    configs = [cfn.CONFIGS["s3"], cfn.CONFIGS["ssm"]]

    def widened(values):
        return [value + end for value in values for end in ("*", "?", "/*", "${x}")]

    return {
        # Everybody who may read the stack would see a password in the URL.
        "Sink": (sinks, ["", "ftp://x", "*", "file:///tmp/batches", "file:///mnt/../tmp", "file:///mnt/a/..", "file:///", "postgres://user:word@host/database", "sftp://user:word@host/path", *widened(granted), *(uri + "/" for uri in granted)]),
        "Answers": (
            ["", cfn.ANSWERS["s3"], "s3://legacy/answers", "s3://legacy/1/2/3/4/5/6", *on_servers],
            # Without a prefix, everything in a bucket would be an answer. A server and its user are those of the sink.
            ["s3://legacy", "s3://legacy/", "s3://legacy/1/2/3/4/5/6/7", "file:///tmp/answers", "file:///mnt/../tmp", "sftp:answers", "sftp:/", "sftp:/a/../b", "sftp:/a//b", "sftp://user@host/in", "https://x", *widened([cfn.ANSWERS["s3"]])],
        ),
        "EventId": (["json:id", "json:[a, b]", "attribute:id", "body-hash", "message-id"], ["", "json:", "id"]),
        "Config": (["", *cfn.CONFIGS.values()], ["service.toml", "s3://configuration", "ssm:name", "https://x", *widened(configs)]),
        "SinkSecretArn": (["", *secrets], ["*", cfn.SINKS["lambda"], *widened(secrets)]),
        "PolicyArns": (["", cfn.POLICIES, ",".join([cfn.BOUNDARY] * 9)], ["*", "rejects", cfn.POLICIES + ",", ",".join([cfn.BOUNDARY] * 10)]),
        "PermissionsBoundaryArn": (["", cfn.BOUNDARY], ["*", "boundary", cfn.POLICIES]),
        "VpcSubnetIds": (["", cfn.VPC["VpcSubnetIds"]], ["subnet-1,", "sg-1", "subnet-1 subnet-2"]),
        "VpcSecurityGroupIds": (["", cfn.VPC["VpcSecurityGroupIds"], "sg-1,sg-2"], ["sg-1,", "subnet-1"]),
        # AWS refuses to warm a table for less than a new one takes.
        "LockTableCapacity": (
            [*cfn.CAPACITIES, "warm:4000", "warm:10000", "at-most:1", "provisioned:1-1"],
            ["", "warm", "warm:3999", "warm:0", "at-most:0", "at-most:", "provisioned:5", "provisioned:0-5", "provisioned:5-"],
        ),
    }


def variables(world, known):
    """Yields variables that the template sets but the function does not read, that it must set but does not, and that have another value
    than their parameter or resource."""
    for function in FUNCTIONS:
        set_here = world.properties(function).get("Environment", {}).get("Variables", {})
        read = {name for name, each in known.items() if function in each.functions}
        for name in sorted(set(set_here) - read):
            yield f"{function}: {name} is set, but the function does not read it"
        # A parameter sets its variable in every function that reads it.
        expected = set().union(*SET.values(), RESOURCES) & (read | SET[function])
        for name in sorted(set(set_here) ^ expected):
            yield f"{function}: {name} is {'set' if name in set_here else 'not set'}, expected {'a setting of the file' if name in set_here else 'its parameter or resource'}"
        for name in sorted(expected & set(set_here)):
            if str(set_here[name]) != value_of(world, name):
                yield f"{function}: {name}: wrong value: got {set_here[name]}, expected {value_of(world, name)}"


def bounds(parameters, known):
    """Yields parameters of variables whose default is not the code's, or whose words are not among the code's."""
    for name in sorted(set().union(*SET.values())):
        spec, variable = parameters.get(parameter_of(name), {}), known.get(name)
        if name in ALWAYS_SET and str(spec.get("Default")) != variable.default:
            yield f"{parameter_of(name)}: wrong default: got {spec.get('Default')}, expected the code's {variable.default}"
        if name in ALWAYS_SET and set(spec.get("AllowedValues", [])) != variable.words:
            yield f"{parameter_of(name)}: wrong words: got {sorted(spec.get('AllowedValues', []))}, expected the code's {sorted(variable.words or [])}"
    for word in set(parameters["Bodies"]["AllowedValues"]) - {""}:
        # The template adds its bucket to a word that ends in `s3`.
        value = f"{word}://BUCKET/PREFIX" if word.endswith("s3") else word
        if f"`{value}`" not in known["BODIES"].allowed:
            yield f"Bodies: wrong word: got {word}, expected one of the code: {known['BODIES'].allowed}"
    # Who deploys must say where batches go, and what an event is. Every other parameter has a default, so that
    # `sam deploy --guided` can be answered with Enter; one with NoEcho would be asked for again and again.
    missing = {name for name, spec in parameters.items() if "Default" not in spec}
    if missing != set(cfn.REQUIRED):
        yield f"parameters without a default: got {sorted(missing)}, expected {sorted(cfn.REQUIRED)}"
    for name, spec in parameters.items():
        if "NoEcho" in spec:
            yield f"{name}: has NoEcho, expected a reference to a secret"
    if len(parameters) > 21:
        yield f"parameters: got {len(parameters)}, expected at most 21: the configuration file has settings that create and grant nothing"


def interface(template):
    """Yields parameters that are not in exactly one group, or have no label."""
    shown = template.get("Metadata", {}).get("AWS::CloudFormation::Interface", {})
    grouped = [name for group in shown.get("ParameterGroups", []) for name in group["Parameters"]]
    if sorted(grouped) != sorted(template["Parameters"]):
        yield f"ParameterGroups: got {sorted(grouped)}, expected every parameter once: {sorted(template['Parameters'])}"
    if set(shown.get("ParameterLabels", {})) != set(template["Parameters"]):
        yield f"ParameterLabels: got {sorted(shown.get('ParameterLabels', {}))}, expected every parameter"


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
        "renamed": ("`BODIES` |", "`BODY_PLACE` |"),
        "lost": (row("QUARANTINE_SQS_URL") + "\n", ""),
        "read by the other function too": ("## Aggregator", "## Both functions"),
        "with another default": (row("ON_DUPLICATE"), row("ON_DUPLICATE").replace("| `drop` |", "| `requeue` |")),
        "with another word": ("`drop` or `requeue` |", "`drop` or `wait` |"),
        "with another word of bodies": (row("BODIES"), row("BODIES").replace("`log:table`", "`log:chunks`")),
        "with another word of the log": (row("BODIES"), row("BODIES").replace("`log:s3://", "`log:s4://")),
        "for another sink": ("or of a state machine, or `log:`", "or of a topic, `ftp://x`, or `log:`"),
    }
    for name, (old, new) in changes.items():
        assert document.count(old) == 1, f"self_test: the change `{name}` fits {document.count(old)} places of docs/configuration.md, expected one"
        assert check_all(text, document.replace(old, new)), f"self_test: not noticed: a variable {name}"
    return len(changes)
