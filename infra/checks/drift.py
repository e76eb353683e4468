"""Names, defaults and bounds that stand in two places: the template's and the code's."""

import re

import cfn
import policy
import rust
from iam import CRATES


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


def number(text, source):
    """A number as the Rust sources write it: 3_600, 128 << 20, or the name of a limit."""
    limits = source.read("protocol/src/limits.rs")
    text = text.strip().removesuffix(".as_secs()")
    if re.fullmatch(r"[A-Z_]+", text):
        text = re.search(rf"const {text}: \w+(?:::\w+)* = ([^;]+);", limits).group(1)
        text = re.sub(r"^Duration::from_secs\((.*)\)$", r"\1", text)
    if text == "bytes_min":
        text = re.search(r"DYNAMODB_ITEM_BYTES_MAX: usize = ([^;]+);", limits).group(1)
    if not re.fullmatch(r"[0-9_ *<]+", text):
        raise ValueError(f"no number: {text}")
    return eval(text.replace("_", ""))  # noqa: S307: digits and operators alone


def check_all(text, source=None):
    source = source or rust.Source()
    found = {}
    try:
        generic = cfn._transform(text, None)
        parameters = generic["Parameters"]
        for chosen in cfn.worlds(generic):
            world = policy.World(text, chosen, generic)
            for problem in variables(world, source):
                found.setdefault(problem, chosen)
        for problem in bounds(parameters, source):
            found.setdefault(problem, {})
        for problem in used(generic):
            found.setdefault(problem, {})
        if rust.sink_schemes(source) - set(cfn.SINKS):
            found["a sink of the code is not looked at"] = {}
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


def variables(world, source):
    """Every variable that is set is read; every one that is read is set, by the parameter of its name or a resource."""
    for function, crate in CRATES.items():
        set_here = world.properties(function).get("Environment", {}).get("Variables", {})
        read = rust.variables(source, crate)
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


def bounds(parameters, source):
    """Numbers: the code's default, and bounds within the code's."""
    for crate in CRATES.values():
        for variable, (default, least, most) in rust.bounds(source, crate).items():
            spec = parameters.get(pascal(variable), {})
            default, least, most = (number(each, source) for each in (default, least, most))
            if int(spec.get("Default", -1)) != default:
                yield f"{pascal(variable)}: default is {spec.get('Default')}, the code's {default}"
            if int(spec.get("MinValue", -1)) < least or int(spec.get("MaxValue", 1 << 62)) > most:
                yield f"{pascal(variable)}: {spec.get('MinValue')} to {spec.get('MaxValue')} is beyond the code's {least} to {most}"
    for variable, (path, pattern) in DEFAULTS.items():
        default = re.search(pattern, source.read(path)).group(1)
        if parameters.get(pascal(variable), {}).get("Default") != default:
            yield f"{pascal(variable)}: default is {parameters.get(pascal(variable), {}).get('Default')}, the code's {default}"
    for variable, (path, pattern) in TEXTS.items():
        allowed = set(parameters.get(pascal(variable), {}).get("AllowedValues", []))
        (body,) = (each.body for each in rust.functions(source, path) if each.name == "read" and variable in each.body)
        here = body[body.index(variable) :]
        accepted = set(re.findall(pattern, here[: here.index("=> None")]))
        if allowed != accepted:
            yield f"{pascal(variable)}: allows {sorted(allowed)}, the code {sorted(accepted)}"


# Variables that are one of some words, and where the code says which.
TEXTS = {
    "WRITE_MODE": ("shared/src/config.rs", r'"(\w+)" => Some'),
    "ON_DUPLICATE": ("aggregator/src/config.rs", r'"(\w+)" => Some'),
    "SEAL_WHEN_DRAINED": ("aggregator/src/config.rs", r'"(\w+)" => Some'),
    "SINK_FORMAT": ("sinks/src/config.rs", r'"([\w-]+)" => Some'),
    "SINK_HEADER": ("sinks/src/config.rs", r'"(\w+)" => Some'),
    "SINK_COMPRESSION": ("sinks/src/config.rs", r'"(\w+)" => Some'),
}


# Variables that are texts, and where the code says what they are if nothing is said.
DEFAULTS = {
    "SINK_TABLE": ("sinks/src/postgres/names.rs", r'fn events\(\) -> TableName \{\s*TableName\(vec!\["(\w+)"'),
    "SINK_SECRET_HEADER": ("sinks/src/secret.rs", r'fn default\(\) -> SecretHeader \{\s*SecretHeader\("([\w-]+)"'),
}


def used(template):
    """Every parameter, mapping and condition is used."""
    import json

    text = json.dumps({key: template[key] for key in ("Conditions", "Resources")})
    for kind in ("Parameters", "Conditions", "Mappings"):
        for name in template.get(kind, {}):
            if f'"{name}"' not in text and f"${{{name}}}" not in text:
                yield f"{kind}: {name} is not used"


def self_test(text):
    """A variable that the code gains or loses is noticed. Returns how many changes were tried."""
    files = {path: (cfn.ROOT / path).read_text() for path in ("shared/src/config.rs", "aggregator/src/config.rs", "sinks/src/config.rs", "sinks/src/secret.rs")}
    shared, aggregator, sinks, secret = files
    changes = {
        "renamed": (shared, '"MAX_BATCH_SIZE"', '"BATCH_SIZE_MAX"'),
        "gained": (aggregator, "let batch_key = reader", 'let new = reader.optional(EVENT_ID_OLD, "x", x);\n let batch_key = reader'),
        "lost": (aggregator, "reader.optional(QUARANTINE_SQS_URL, QUEUE_URL, queue_url)", "None"),
        "another default": (shared, "50_000", "40_000"),
        "another bound": (aggregator, "10, 1, 100", "10, 1, 50"),
        "another word": (aggregator, '"requeue" =>', '"wait" =>'),
        "another bound in a function of its own": (sinks, "10_000, 0, 1_000_000", "10_000, 0, 500_000"),
        "lost by a function of its own": (sinks, "reader.optional_with(SINK_PAYLOADS,", "none(SINK_PAYLOADS,"),
        "another default of a text": (secret, '"authorization"', '"x-api-key"'),
    }
    for name, (path, old, new) in changes.items():
        after = files[path].replace(old, new).replace("pub const BATCH_KEY:", 'pub const EVENT_ID_OLD: &str = "EVENT_ID_OLD";\npub const BATCH_KEY:')
        assert old in files[path], f"`{name}` changes nothing any more"
        assert check_all(text, rust.Source({path: after})), f"unnoticed: a variable {name}"
    return len(changes)
