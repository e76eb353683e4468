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


def number(text, source):
    """A number as the Rust sources write it: 3_600, 128 << 20, or the name of a limit."""
    limits = source.read("shared/src/limits.rs")
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
        if set(rust.sink_schemes(source)) - {each.split(":")[0] for each in cfn.SINKS.values()}:
            found["a sink of the code is not looked at"] = {}
        for uri in cfn.SINKS.values():
            if not re.search(parameters["Sink"].get("AllowedPattern", "(?!)"), uri):
                found[f"Sink does not allow {uri}"] = {}
        # Also nothing that IAM would take for a wildcard or a variable: it would widen the grant.
        for wrong in ("", "ftp://x", "*", *(uri + end for uri in cfn.SINKS.values() for end in ("*", "?", "/*", "${x}", "/") if not uri.startswith(("file", "http", "postgres")))):
            if re.search(parameters["Sink"].get("AllowedPattern", ""), wrong):
                found[f"Sink allows {wrong!r}"] = {}
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        found[f"cannot be looked at: {error!r}"] = {}
    return [("variables", f"{problem}{f' (with {chosen})' if chosen else ''}") for problem, chosen in found.items()]


def variables(world, source):
    """Every variable that is set is read; every one that is read is set, by the parameter of its name or a resource."""
    for function, crate in CRATES.items():
        set_here = world.properties(function).get("Environment", {}).get("Variables", {})
        read = rust.variables(source, crate)
        for name in sorted(set(set_here) - read):
            yield f"{function} is given {name}, which it does not read"
        for name in sorted(read - set(set_here)):
            yield f"{function} reads {name}, which cannot be set"
        for name in sorted(read & set(set_here)):
            wanted = RESOURCES.get(name)
            if wanted is None:
                if pascal(name) not in world.template["Parameters"]:
                    yield f"{name} has no parameter {pascal(name)}"
                    continue
                wanted = world.parameter(pascal(name))
                node = world.template["Resources"][function]["Properties"]["Environment"]["Variables"][name]
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
    for variable, (path, pattern) in TEXTS.items():
        allowed = set(parameters.get(pascal(variable), {}).get("AllowedValues", []))
        body = next(each.body for each in rust.functions(source, path) if each.name == "read")
        here = body[body.index(variable) :]
        accepted = set(re.findall(pattern, here[: here.index("=> None")]))
        if allowed != accepted:
            yield f"{pascal(variable)}: allows {sorted(allowed)}, the code {sorted(accepted)}"


# Variables that are one of some words, and where the code says which.
TEXTS = {
    "WRITE_MODE": ("shared/src/config.rs", r'"(\w+)" => Some'),
    "ON_DUPLICATE": ("aggregator/src/config.rs", r'"(\w+)" => Some'),
    "SEAL_WHEN_DRAINED": ("aggregator/src/config.rs", r'"(\w+)" => Some'),
    "SINK_FORMAT": ("batch-processor/src/config.rs", r'"([\w-]+)" => Some'),
    "SINK_HEADER": ("batch-processor/src/config.rs", r'"(\w+)" => Some'),
    "SINK_COMPRESSION": ("batch-processor/src/config.rs", r'"(\w+)" => Some'),
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
    path = "aggregator/src/config.rs"
    before = (cfn.ROOT / path).read_text()
    changes = {
        "renamed": before.replace('"MAX_BATCH_SIZE"', '"BATCH_SIZE_MAX"'),
        "gained": before.replace("let batch_key = reader", 'let new = reader.optional(NEW, "x", x);\n let batch_key = reader').replace(
            "pub const BATCH_KEY:", 'pub const NEW: &str = "NEW";\npub const BATCH_KEY:'
        ),
        "lost": before.replace("reader.optional(QUARANTINE_SQS_URL, QUEUE_URL, queue_url)", "None"),
        "another default": before.replace("50_000", "40_000"),
        "another bound": before.replace("10, 1, 100", "10, 1, 50"),
        "another word": before.replace('"requeue" =>', '"wait" =>'),
    }
    for name, after in changes.items():
        assert after != before, f"`{name}` changes nothing any more"
        assert check_all(text, rust.Source({path: after})), f"unnoticed: a variable {name}"
    return len(changes)
