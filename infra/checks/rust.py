"""What the Rust sources say about AWS: the actions each function calls, its metrics.

Read from the code, not from a list: SDK calls are recognised by the names of the operations in botocore's models, and
followed from the ports' methods that a function calls down to the adapters.
"""

import functools
import re
from collections import namedtuple

import botocore.session
from botocore import xform_name

from cfn import ROOT

# Which actions an operation needs, where it is not the one of its own name.
# Sources: <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html>,
# <https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html>.
ACTION_OF = {
    "SendMessageBatch": "SendMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "HeadObject": "GetObject",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "Invoke": "InvokeFunction",
}
SERVICES = {"dynamodb": "dynamodb", "sqs": "sqs", "s3": "s3", "stepfunctions": "states", "lambda": "lambda"}
# Which resource each port is about. The names are the template's.
RESOURCE_OF = {
    "LockStore": "LockTable",
    "BatchStore": "BatchTable",
    "BatchQueue": "BatchQueue",
    "Quarantine": "QuarantineQueue",
    "SourceQueues": "InputQueue",
    "OverflowStore": "OverflowBucket",
}
# Functions of the adapters that are no port's, and what each is about.
FREE_FUNCTIONS = {"tell_overflow_retention": "OverflowBucket"}
# How a handler gets at each port.
ACCESSOR_OF = {"LockStore": "locks", "BatchStore": "batches", "BatchQueue": "tickets", "Quarantine": "quarantine", "SourceQueues": "sources", "OverflowStore": "overflow"}
# Index of the table, by what is put in `index_name`.
INDEX_OF = {"&self.index": "batchId-index", "STATUS_INDEX": "status-index"}

Function = namedtuple("Function", "file name body owner")


class Source:
    """The Rust sources; `overlay` replaces or adds files, so that the checks can be tested."""

    def __init__(self, overlay=None):
        self.overlay = overlay or {}

    def read(self, path):
        text = self.overlay.get(path)
        if text is None:
            text = (ROOT / path).read_text()
        # Neither tests nor comments call anything.
        text = re.split(r"\n#\[cfg\(test\)\]\n(?:pub\((?:crate|super)\) )?mod \w+ \{", text)[0]
        return re.sub(r"(?m)^\s*//.*$", "", text)

    def files(self, folder):
        found = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.rs")}
        found |= {path for path in self.overlay if path.startswith(folder + "/")}
        return sorted(path for path in found if not path.endswith(("_tests.rs", "_props.rs")))


@functools.lru_cache(maxsize=1)
def operations():
    """Snake-case method of the SDK to (service prefix, operation)."""
    session = botocore.session.get_session()
    found = {}
    for service, prefix in SERVICES.items():
        for operation in session.get_service_model(service).operation_names:
            found.setdefault(xform_name(operation), (prefix, operation))
    return found


# Strings and characters, of which no brace counts; and braces.
BRACES = re.compile(r'''r#"[\s\S]*?"#|'(?:[^'\\\n]|\\.)'|"(?:[^"\\]|\\[\s\S])*"|[{}]''')


def block(text, start):
    """From the first `{` at or after `start` to its `}`."""
    opening = text.index("{", start)
    depth = 0
    for token in BRACES.finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return text[opening : token.end()]
    raise ValueError("unbalanced braces")


@functools.lru_cache(maxsize=512)
def functions(source, path):
    """Every function of a file with the trait or type whose `impl` it is in."""
    text = source.read(path)
    owners = []
    for match in re.finditer(r"(?m)^impl(?:<[^>]*>)? (?:(\w+)(?:<[^>]*>)? for )?(\w+)", text):
        owners.append((match.start(), match.start() + len(block(text, match.start())), match.group(1) or match.group(2)))
    found = []
    for match in re.finditer(r"\bfn (\w+)", text):
        signature = text[match.end() :]
        end = re.search(r"[{;]", signature)
        if signature[end.start()] == ";":
            continue
        owner = next((name for start, stop, name in owners if start <= match.start() <= stop), None)
        found.append(Function(path, match.group(1), block(text, match.end() + end.start()), owner))
    return found


def ports(source):
    """Methods of each port."""
    text = source.read("shared/src/ports.rs")
    found = {}
    for port in RESOURCE_OF:
        body = block(text, re.search(rf"pub trait {port}\b", text).start())
        found[port] = set(re.findall(r"\bfn (\w+)", body))
    return found


def only_mode(body, mode):
    """The body without the arm of the other write mode."""
    batch, put = body.find("WriteMode::Batch =>"), body.find("WriteMode::Put =>")
    if batch < 0 and put < 0:
        return body
    if not 0 <= batch < put:
        raise ValueError("the arms of a match on the write mode are not where they are looked for")
    return body[:put] if mode == "batch" else body[:batch] + body[put:]


def verbs(source):
    """PartiQL verb of each field of `Statements`."""
    text = next(each.body for each in functions(source, "shared/src/aws/partiql.rs") if each.name == "new")
    found = {}
    for match in re.finditer(r'"(INSERT INTO|UPDATE|DELETE FROM|SELECT) ', text):
        name = re.findall(r"(?:let (\w+) =|\b(\w+): as_json\(&format!)", text[: match.start()])[-1]
        found[name[0] or name[1]] = "PartiQL" + match.group(1).split()[0].capitalize()
    return found


class Adapters:
    """shared/src/aws, as a graph of calls."""

    FOLDER = "shared/src/aws"

    def __init__(self, source, mode):
        self.verbs = verbs(source)
        self.functions = [
            each._replace(body=only_mode(each.body, mode))
            for path in source.files(self.FOLDER)
            for each in functions(source, path)
        ]

    def called(self, function):
        """Functions of the adapters that this one calls."""
        module = function.file.rsplit("/", 1)[1][:-3]
        for other in self.functions:
            other_module = other.file.rsplit("/", 1)[1][:-3]
            name = re.escape(other.name)
            # A port's own methods are called through the port alone.
            if other.owner in RESOURCE_OF:
                continue
            same = other_module == module and re.search(rf"(?<![\w.:]){name}\(|(?:self\s*\.|Self::|statements\.){name}\(", function.body)
            if same or re.search(rf"\b{other_module}::{name}\(", function.body):
                if other != function:
                    yield other

    def reached(self, function):
        seen, todo = [], [function]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.append(one)
                todo += self.called(one)
        return seen

    def actions(self, port, method):
        """(action, resource) of a port's method, with the indexes."""
        starts = [each for each in self.functions if each.owner == port and each.name == method]
        if not starts:
            raise ValueError(f"no adapter has {port}::{method}")
        return self.actions_of(starts, RESOURCE_OF[port])

    def actions_of(self, starts, about):
        """(action, resource) of functions that are about a resource, and of all that they call."""
        # A cargo feature may choose between adapters: what any of them calls. The templates know no features.
        reached = [each for start in starts for each in self.reached(start)]
        found = set()
        for function in reached:
            for name, (service, operation) in operations().items():
                for call in re.finditer(rf"\.{name}\(\)", function.body):
                    rest = function.body[call.end() :]
                    index = re.search(r"\.index_name\(([^)]*)\)|\bindex_name: ([^,]*),", re.split(r"\.send\(\)|\.await", rest)[0])
                    resource = about + (f"/index/{INDEX_OF[index.group(1) or index.group(2)]}" if index else "")
                    if operation == "BatchExecuteStatement":
                        found |= {(f"dynamodb:{verb}", resource) for verb in self.partiql(reached)}
                    else:
                        found.add((f"{service}:{ACTION_OF.get(operation, operation)}", resource))
        return found

    def partiql(self, reached):
        found = {
            verb
            for field, verb in self.verbs.items()
            for each in reached
            if each.owner == "Statements" and each.name != "new" and f"self.{field}" in each.body
        }
        if not found:
            raise ValueError("no statement found behind BatchExecuteStatement")
        return found


def methods_called(source, folder):
    """(port, method) pairs that a function's own sources call."""
    methods = ports(source)
    found = set()
    # The loops over a port that both functions share: `budget.write(batches, ..)` calls methods of the store it is given.
    writes = {("BatchStore", each) for each in re.findall(r"\bstore\.(\w+)\(", source.read("shared/src/calls.rs"))}
    sends = {("Quarantine", each) for each in re.findall(r"\bquarantine\.(\w+)\(", source.read("shared/src/quarantine.rs"))}
    for path in source.files(folder):
        text = source.read(path)
        for port, accessor in ACCESSOR_OF.items():
            for method in methods[port]:
                if re.search(rf"\b{accessor}(?:\(\))?\s*\.{method}\(", text):
                    found.add((port, method))
        if re.search(r"\.write\(\s*(?:\w+\.)*(?:ports\(\)\.)?(?:self\.handler\.ports\(\)\.)?batches", text):
            found |= writes
        if re.search(r"\bsend_to_quarantine\(", text):
            found |= sends
    return found


@functools.lru_cache(maxsize=64)
def called(source, folder, mode):
    """(action, resource) of everything a function calls through its ports, with a write mode."""
    adapters = Adapters(source, mode)
    found = set()
    for port, method in methods_called(source, folder):
        if method != "items_per_request":
            found |= adapters.actions(port, method)
    for name, about in FREE_FUNCTIONS.items():
        if any(re.search(rf"\b{name}\(", source.read(path)) for path in source.files(folder)):
            found |= adapters.actions_of([each for each in adapters.functions if each.name == name], about)
    return found


@functools.lru_cache(maxsize=64)
def stray_calls(source):
    """SDK calls elsewhere than in adapters and sinks: nothing here would see what they need."""
    found = []
    for folder in ("aggregator/src", "batch-processor/src", "shared/src"):
        for path in source.files(folder):
            if not path.startswith(Adapters.FOLDER):
                text = source.read(path)
                if "send()" not in text:
                    continue
                # A call of the SDK is a method without arguments, and in the end `send()`.
                found += [
                    f"{path}: {name}"
                    for name in operations()
                    if f".{name}()" in text and re.search(rf"\.{name}\(\)(?:\s*\.\w+\((?:[^()]|\([^()]*\))*\))*\s*\.send\(\)", text)
                ]
    return found


@functools.lru_cache(maxsize=64)
def sink_actions(source):
    """Actions that the sinks call, by file name. What has `Objects` of its own calls what those call."""
    found, with_objects = {}, []
    for path in source.files("sinks/src"):
        text = source.read(path)
        for name, (service, operation) in operations().items():
            if f".{name}()" in text and re.search(rf"\.{name}\(\)", text):
                scheme = path.rsplit("/", 1)[1][:-3]
                found.setdefault(scheme, set()).add(f"{service}:{ACTION_OF.get(operation, operation)}")
        if "Objects::new(" in text:
            with_objects.append(path.rsplit("/", 1)[1][:-3])
    for file in with_objects:
        found.setdefault(file, set()).update(found["s3"])
    return found


def sink_uri_file(source):
    """The file that says what `SINK` may be."""
    found = [path for path in source.files("sinks/src") if "impl FromStr for SinkUri " in source.read(path)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} files parse SinkUri")
    return found[0]


def sink_schemes(source):
    """What `SINK` may begin with; of an ARN, its service."""
    (body,) = (each.body for each in functions(source, sink_uri_file(source)) if each.name == "from_str")
    arns = re.findall(r'Some\(\("arn", rest\)\) if rest\.split\(\':\'\)\.nth\(1\) == Some\("(\w+)"\)', body)
    others = re.sub(r'Some\(\("arn", rest\)\) if', "", body)
    return set(arns) | set(re.findall(r'Some\(\("(\w+)"', others))


# What the AWS Parameters and Secrets Lambda Extension calls, with the function's role, when it is asked for a path.
# Sources: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/retrieving-secrets_lambda.html>,
# <https://docs.aws.amazon.com/systems-manager/latest/userguide/ps-integration-lambda-extensions.html>.
EXTENSION = {"/secretsmanager/get": "secretsmanager:GetSecretValue", "/systemsmanager/parameters/get": "ssm:GetParameter"}


def secret_actions(source):
    """Actions behind `SINK_SECRET`, by what it begins with."""
    paths = re.findall(r'"((?:/\w+)+)\?', source.read("sinks/src/secret.rs"))
    return {EXTENSION[path].split(":")[0]: EXTENSION[path] for path in paths}


@functools.lru_cache(maxsize=4)
def metrics(source):
    """Names of the metrics that the functions emit."""
    found = set()
    for crate in ("aggregator", "batch-processor"):
        for path in source.files(f"{crate}/src"):
            text = source.read(path)
            found |= set(re.findall(r'\.(?:count|milliseconds)\(\s*"(\w+)"', text))
            # What a verdict counts as is in a function of this name.
            for each in functions(source, path):
                if each.name == "metrics":
                    found |= set(re.findall(r'"([A-Z]\w+)"', each.body))
    return found


def namespace(source):
    return re.search(r'NAMESPACE: &str = "(\w+)"', source.read("shared/src/metrics.rs")).group(1)
