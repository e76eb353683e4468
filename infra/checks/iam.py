"""The actions the functions called against the actions granted, both ways, for every choice that changes either.

What they called is in calls.txt: the test `calls` of tests/e2e runs both functions with every kind of sink, notes each request
in front of the services, and fails when the file says anything else. What is not seen there is listed here, with the reason.
"""

import pathlib
from collections import namedtuple

import cfn
from drift import FUNCTIONS, pascal
from world import World, statements

CALLS = pathlib.Path(__file__).resolve().parent / "calls.txt"
# A line of it. A resource is the template's name of a table or queue; or the variable that leads there, with `/*` for what is
# below. `conditions` are the values of variables with which alone the call is made.
Call = namedtuple("Call", "function action resource conditions")

# What Lambda does with a function's role for a queue that is mapped to it.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>.
MAPPING = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
# What it writes a log with.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html>.
LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}
# What tracing needs; X-Ray has no resources.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html>.
TRACE = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
# What SQS and DynamoDB ask of the key on the caller's behalf.
# Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html>,
# <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html>.
KEY = {"kms:Decrypt", "kms:Encrypt", "kms:DescribeKey", "kms:GenerateDataKey*", "kms:ReEncrypt*"}

# How Lambda reports with the function's role what failed of its asynchronous calls, which are the sweeps.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>.
DESTINATION = ("sqs:SendMessage", "SweepDeadLetterQueue")
# Without it, S3 says of a missing object that it is forbidden. Needed wherever objects are read that may be missing.
# Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html>.
MISS = "s3:ListBucket"

# What the AWS Parameters and Secrets Lambda Extension calls with the function's role, by what SINK_SECRET begins with.
# Sources: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/retrieving-secrets_lambda.html>,
# <https://docs.aws.amazon.com/systems-manager/latest/userguide/ps-integration-lambda-extensions.html>.
EXTENSION = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}


# What the test does not lead to: it takes another environment's batch, or an attempt whose reply was lost.
UNSEEN = {
    # What became of a batch is read when a claim of another environment is met.
    Call("Aggregator", "dynamodb:GetItem", "BatchTable", frozenset()),
    # And when a lease is refused.
    Call("BatchProcessor", "dynamodb:GetItem", "BatchTable", frozenset()),
    # An object that is there already is compared: the attempt before wrote it, and its reply was lost.
    Call("BatchProcessor", "s3:GetObject", "SINK_REJECTS/*", frozenset()),
    Call("BatchProcessor", "s3:GetObject", "SINK_PAYLOADS/*", frozenset()),
}


def as_list(value):
    return value if isinstance(value, list) else [value]


def granted(role):
    return {
        (action, resource.strip("<>").removesuffix(".Arn") if resource.startswith("<") and resource.endswith(">") else resource)
        for statement in statements(role)
        for action in as_list(statement["Action"])
        for resource in (each.replace(".Arn>/", "/").lstrip("<") if ".Arn>/" in each else each for each in as_list(statement["Resource"]))
    }


def sink_resource(sink):
    """What is acted on in the place of a sink, in terms of `SINK`."""
    scheme = cfn.scheme_of(sink)
    if scheme == "s3":
        return f"arn:aws:s3:::{sink.removeprefix('s3://')}/*"
    if scheme == "states":
        # Of a version or an alias, IAM sees the state machine.
        # Source: <https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html>.
        return ":".join(sink.split(":")[:7])
    return sink


def in_place(actions, resource):
    """(action, resource) of what is called in a place. Who reads objects of a bucket must be able to miss one."""
    found = {(action, resource) for action in actions}
    if "s3:GetObject" in actions:
        found.add((MISS, resource.split("/")[0]))
    return found


def calls(text):
    """What the file lists, and what nobody saw."""
    found = set(UNSEEN)
    for line in text.splitlines():
        if not line.startswith("#"):
            function, action, resource, *conditions = line.split()
            found.add(Call(function, action, resource, frozenset(tuple(each.split("=")) for each in conditions)))
    return found


def place(world, call):
    """What a variable leads to in a world, as IAM names it; None if it leads to nothing of the service."""
    variable, _, below = call.resource.partition("/")
    value = world.parameter(pascal(variable))
    service = call.action.split(":")[0]
    if variable == "SINK" and service in cfn.CALLED:
        return sink_resource(value) if cfn.scheme_of(value) == service else None
    if variable == "OVERFLOW_BUCKET":
        value = value and f"s3://{value}"
    # Payloads are of what is called alone.
    unused = variable == "SINK_PAYLOADS" and cfn.scheme_of(world.parameter("Sink")) not in cfn.CALLED
    if not value.startswith("s3://") or unused:
        return None
    return f"arn:aws:s3:::{value.removeprefix('s3://')}{'/' + below if below else ''}"


def called(known, function, world):
    """(action, resource) of what a function called, as far as a world has it."""
    found = set()
    for call in known:
        if call.function != function or any(world.parameter(pascal(name)) != value for name, value in call.conditions):
            continue
        if call.resource.split("/")[0] in world.resources:
            found.add((call.action, call.resource))
        elif (resource := place(world, call)) is not None:
            # Who reads objects that may be missing must be able to miss one. Columns are there.
            may_miss = call.resource != "SINK_COLUMNS"
            found |= in_place({call.action}, resource) if may_miss else {(call.action, resource)}
    return found


def needed(known, function, world):
    """(action, resource) that a function needs in a world."""
    need = called(known, function, world)
    for _, name, queue in world.mappings():
        if name == function:
            need |= {(action, queue) for action in MAPPING}
    need |= {(action, f"{function}LogGroup") for action in LOG}
    if world.parameter("Tracing") == "Active":
        need |= {(action, "*") for action in TRACE}
    key = world.parameter("KmsKeyArn")
    if key:
        need |= {(action, key) for action in KEY}
    if function == "BatchProcessor":
        need.add(DESTINATION)
        secret = world.parameter("SinkSecret").split(":")[0]
        if secret:
            need.add((EXTENSION[secret], world.parameter("SinkSecretArn")))
    return need


def check_all(text, known=None):
    """(check, what is wrong)."""
    found = {}
    try:
        known = known or calls(CALLS.read_text())
        generic = cfn._transform(text, None)
        for chosen in cfn.worlds(generic):
            world = World(text, chosen, generic)
            for function in FUNCTIONS:
                grants = granted(world.properties(f"{function}Role"))
                need = needed(known, function, world)
                for action, resource in sorted(need - grants):
                    found.setdefault(("iam", f"{function} calls {action} on {resource}: not granted"), chosen)
                for action, resource in sorted(grants - need):
                    found.setdefault(("iam", f"{function} is granted {action} on {resource}: not called"), chosen)
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        found[("iam", f"cannot be looked at: {error!r}")] = {}
    return [(name, f"{problem}{f' (with {chosen})' if chosen else ''}") for (name, problem), chosen in found.items()]


def self_test(text):
    """The comparison fails for every grant that is taken away or added, and for every call. Returns how many."""
    import copy

    generic = cfn._transform(text, None)
    known = calls(CALLS.read_text())
    tried = 0
    worlds = [World(text, chosen, generic) for chosen in cfn.worlds(generic)]
    for world in worlds:
        for function in FUNCTIONS:
            role = world.properties(f"{function}Role")
            need = needed(known, function, world)
            for at, statement in enumerate(statements(role)):
                for action in as_list(statement["Action"]):
                    less = copy.deepcopy(role)
                    one = statements(less)[at]
                    one["Action"] = [each for each in as_list(one["Action"]) if each != action]
                    assert need - granted(less), f"{function}: {action} can be taken away unnoticed"
                    more = copy.deepcopy(role)
                    one = statements(more)[at]
                    one["Action"] = [*as_list(one["Action"]), action.split(":")[0] + ":Another"]
                    assert granted(more) - need, f"{function}: an action beside {action} can be added unnoticed"
                    wide = copy.deepcopy(role)
                    one = statements(wide)[at]
                    one["Resource"] = [*as_list(one["Resource"]), "*"] if one["Resource"] != "*" else ["*", "<LockTable.Arn>"]
                    assert granted(wide) - need, f"{function}: the resource of {action} can be widened unnoticed"
                    tried += 3
    # Of the calls: one that is gone, one that is new in the same place, one that the other function makes.
    grants = [(world, function, granted(world.properties(f"{function}Role"))) for world in worlds for function in FUNCTIONS]
    for call in known:
        other = FUNCTIONS[call.function == FUNCTIONS[0]]
        changes = {
            "is gone": known - {call},
            "is joined by another": known | {call._replace(action=call.action + "Another")},
            "is also made by the other function": known | {call._replace(function=other, action=call.action + "Another")},
        }
        if call.action in MAPPING and call.resource in ("InputQueue", "BatchQueue"):
            # The mapping needs it as well.
            del changes["is gone"]
        for what, others in changes.items():
            noticed = any(needed(others, function, world) != granted_here for world, function, granted_here in grants)
            assert noticed, f"unnoticed: {call.function} {call.action} on {call.resource} {what}"
            tried += 1
    return tried
