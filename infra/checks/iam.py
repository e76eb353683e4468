"""Compares the actions that the functions call with the actions that they are granted, both ways, for every set of parameters.

calls.txt lists the calls: the test `calls` of tests/e2e runs both functions with every kind of sink, records each request to a
service, and fails if the file differs. `UNSEEN` lists the calls that this test does not make, with the reason.
"""

import json
import pathlib
import re
from collections import namedtuple

import cfn
from drift import FUNCTIONS, parameter_of
from rules.buckets import PREFIX
from world import World, statements

CALLS = pathlib.Path(__file__).resolve().parent / "calls.txt"
# A line of calls.txt. `resource` is the template's name of a table or queue, or the variable that names the resource, with `/*`
# for objects below it. `conditions` are values of variables without which the function does not make the call.
Call = namedtuple("Call", "function action resource conditions")

# Calls of Lambda with a function's role for a queue that is mapped to the function.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>.
MAPPING = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
# Calls of Lambda that write the log.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html>.
LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}
# Calls of SQS, DynamoDB and S3 to the KMS key, on the caller's behalf.
# Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html>,
# <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html>.
KEY = {"kms:Decrypt", "kms:Encrypt", "kms:DescribeKey", "kms:GenerateDataKey*", "kms:ReEncrypt*"}

# The call of Lambda, with the function's role, that reports a failed asynchronous invocation, which is a sweep.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>.
DESTINATION = ("sqs:SendMessage", "SweepDeadLetterQueue")
# Without this action, S3 returns 403 for a missing object instead of 404. It is needed where read objects may be missing.
# Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html>.
MISS = "s3:ListBucket"

# Calls of the AWS Parameters and Secrets Lambda Extension with the function's role, by the service that keeps the secret.
# Sources: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/retrieving-secrets_lambda.html>,
# <https://docs.aws.amazon.com/systems-manager/latest/userguide/ps-integration-lambda-extensions.html>.
EXTENSION = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}


# Calls that the test does not make, because they need a batch of another environment, of an earlier configuration, many batches, or an
# attempt whose reply was lost.
UNSEEN = {
    # The aggregator reads the record of a batch when it finds a claim of another environment.
    Call("Aggregator", "dynamodb:GetItem", "BatchTable", frozenset()),
    # A sweep that finds more than 500 batches to wake asks how many tickets wait.
    Call("BatchProcessor", "sqs:GetQueueAttributes", "BatchQueue", frozenset()),
    # The sink reads an existing object to compare it, after an attempt wrote the object and lost the reply.
    Call("BatchProcessor", "s3:GetObject", "SINK_REJECTS/*", frozenset()),
    Call("BatchProcessor", "s3:GetObject", "SINK_PAYLOADS/*", frozenset()),
    # The test reports no duplicates: tests/e2e/duplicates.rs does.
    Call("Aggregator", "sqs:SendMessage", "DUPLICATES_SQS_URL", frozenset()),
    Call("BatchProcessor", "sqs:SendMessage", "DUPLICATES_SQS_URL", frozenset()),
    # The test sends no notices: tests/e2e/notices.rs does.
    Call("BatchProcessor", "sqs:SendMessage", "COMPLETION", frozenset()),
    Call("BatchProcessor", "events:PutEvents", "COMPLETION", frozenset()),
    # The test reads no answers: tests/e2e/answers.rs does. That they are listed needs the grant of `MISS`.
    Call("BatchProcessor", "s3:GetObject", "ANSWERS_FROM/*", frozenset()),
    # An answer marks the tombstone of an event that it rejects, in each write mode.
    Call("BatchProcessor", "dynamodb:UpdateItem", "LockTable", frozenset()),
}

# Settings of the configuration file that name resources of the user's. Their calls are granted by PolicyArns, by the policy that
# docs/deploying.md shows: see `documented_policy`.
BY_POLICY = {"COMPLETION", "DUPLICATES_SQS_URL", "OVERFLOW_BUCKET", "SINK_COLUMNS", "SINK_PAYLOADS", "SINK_REJECTS"}
DEPLOYING = cfn.ROOT / "docs" / "deploying.md"


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
    """Returns the resource that IAM checks for a sink."""
    scheme = cfn.scheme_of(sink)
    if scheme == "s3":
        return f"arn:aws:s3:::{sink.removeprefix('s3://')}/*"
    if scheme == "states":
        # For a version or an alias, the resource is the state machine.
        # Source: <https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html>.
        return ":".join(sink.split(":")[:7])
    return sink


def with_miss(actions, resource):
    """Returns (action, resource) for each action; with s3:GetObject also the grant that tells a missing object from a forbidden one."""
    found = {(action, resource) for action in actions}
    if "s3:GetObject" in actions:
        found.add((MISS, resource.split("/")[0]))
    return found


def calls(text):
    """Returns the calls in the text of calls.txt, and those in UNSEEN."""
    found = set(UNSEEN)
    for line in text.splitlines():
        if not line.startswith("#"):
            function, action, resource, *conditions = line.split()
            found.add(Call(function, action, resource, frozenset(tuple(each.split("=")) for each in conditions)))
    return found


def place(world, call):
    """Returns the ARN that a call's variable names in a world; None if it names nothing of the call's service."""
    variable, _, below = call.resource.partition("/")
    if variable == "BODIES":
        # The bucket of the stack, as `granted` writes it. The functions may use it whatever Bodies says.
        return f"ChunkBucket/{PREFIX}{below}"
    value = world.parameter(parameter_of(variable))
    service = call.action.split(":")[0]
    if variable == "SINK" and service in ("states", "lambda"):
        return sink_resource(value) if cfn.scheme_of(value) == service else None
    if not value.startswith("s3://"):
        return None
    return f"arn:aws:s3:::{value.removeprefix('s3://')}{'/' + below if below else ''}"


def called(known, function, world):
    """Returns (action, resource) of the calls that a function makes in a world."""
    found = set()
    for call in known:
        if call.function != function or call.resource.split("/")[0] in BY_POLICY:
            continue
        # The conditions of a call are settings of the configuration file, so the call is always granted.
        if call.resource.split("/")[0] in world.resources:
            found.add((call.action, call.resource))
        elif (resource := place(world, call)) is not None:
            found |= with_miss({call.action}, resource)
    return found


def needed(known, function, world):
    """Returns (action, resource) of all grants that a function needs in a world."""
    need = called(known, function, world)
    for _, name, queue in world.mappings():
        if name == function:
            need |= {(action, queue) for action in MAPPING}
    need |= {(action, f"{function}LogGroup") for action in LOG}
    scheme, _, rest = world.parameter("Config").partition(":")
    if scheme == "s3":
        need.add(("s3:GetObject", f"arn:aws:s3:::{rest.removeprefix('//')}"))
    if scheme == "ssm":
        need.add((EXTENSION["ssm"], f"arn:aws:ssm:{cfn.PSEUDO['AWS::Region']}:{cfn.PSEUDO['AWS::AccountId']}:parameter{rest}"))
    key = world.parameter("KmsKeyArn")
    if key:
        need |= {(action, key) for action in KEY}
    if function == "BatchProcessor":
        need.add(DESTINATION)
        secret = world.parameter("SinkSecretArn")
        if secret:
            need.add((EXTENSION[secret.split(":")[2]], secret))
    return need


def check_all(text, known=None):
    """Returns the problems, as (check, problem)."""
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
                    found.setdefault(("iam", f"{function}: {action} on {resource} is called, but not granted"), chosen)
                for action, resource in sorted(grants - need):
                    found.setdefault(("iam", f"{function}: {action} on {resource} is granted, but not called"), chosen)
    except Exception as error:  # noqa: BLE001: a wrong template may break anything
        found[("iam", f"the template cannot be checked: {error!r}")] = {}
    return [(name, f"{problem}{f' (with {chosen})' if chosen else ''}") for (name, problem), chosen in found.items()]


def granted_by(policies):
    """Returns (action, resource) of what policies grant."""
    return {
        (action, resource)
        for policy in policies
        for statement in policy["Statement"]
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }


def documented_policies(page=None):
    """Returns the policies that docs/deploying.md shows."""
    blocks = re.findall(r"(?s)```json\n(.*?)```", page or DEPLOYING.read_text())
    return [json.loads(each) for each in blocks if '"Statement"' in each]


def documented_policy(page=None, known=None):
    """Yields differences between the calls that PolicyArns must grant and the policy that docs/deploying.md shows. There a resource has
    the name of the variable that names it."""
    known = known or calls(CALLS.read_text())
    shown = {(action, re.sub(r"^arn:aws:.*:", "", resource)) for action, resource in granted_by(documented_policies(page))}
    wanted = set()
    for call in known:
        if call.resource.split("/")[0] in BY_POLICY | {"BODIES"}:
            # A read object may be missing, except the list of columns.
            wanted |= {(call.action, call.resource)} if call.resource == "SINK_COLUMNS" else with_miss({call.action}, call.resource)
    for action, resource in sorted(wanted - shown):
        yield "iam", f"docs/deploying.md: no policy grants {action} on {resource}, which is called"
    for action, resource in sorted(shown - wanted):
        yield "iam", f"docs/deploying.md: a policy grants {action} on {resource}, which is not called"


def self_test(text):
    """Asserts that the comparison notices each removed, added or widened grant, and each changed call. Returns how many were tried."""
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
                    assert need - granted(less), f"{function}: {action} can be removed unnoticed"
                    more = copy.deepcopy(role)
                    one = statements(more)[at]
                    one["Action"] = [*as_list(one["Action"]), action.split(":")[0] + ":Another"]
                    assert granted(more) - need, f"{function}: an action beside {action} can be added unnoticed"
                    wide = copy.deepcopy(role)
                    one = statements(wide)[at]
                    one["Resource"] = [*as_list(one["Resource"]), "*"] if one["Resource"] != "*" else ["*", "<LockTable.Arn>"]
                    assert granted(wide) - need, f"{function}: the resource of {action} can be widened unnoticed"
                    tried += 3
    # Changes of each call: it is removed, another action on the same resource is added, the other function makes it too.
    grants = [(world, function, granted(world.properties(f"{function}Role"))) for world in worlds for function in FUNCTIONS]
    for call in known:
        if call.resource.split("/")[0] in BY_POLICY:
            continue
        other = FUNCTIONS[call.function == FUNCTIONS[0]]
        changes = {
            # The same call with other settings would stand in for this one.
            "is removed": {each for each in known if each[:3] != call[:3]},
            "has another action beside it": known | {call._replace(action=call.action + "Another")},
            "is also made by the other function": known | {call._replace(function=other, action=call.action + "Another")},
        }
        if call.action in MAPPING and call.resource in ("InputQueue", "BatchQueue"):
            # The mapping needs this grant as well, so it stays right.
            del changes["is removed"]
        for what, others in changes.items():
            noticed = any(needed(others, function, world) != granted_here for world, function, granted_here in grants)
            assert noticed, f"not noticed: {call.function} {call.action} on {call.resource} {what}"
            tried += 1
    page = DEPLOYING.read_text()
    for call in (each for each in known if each.resource.split("/")[0] in BY_POLICY):
        others = {each for each in known if each[1:3] != call[1:3]}
        assert list(documented_policy(page, others)), f"not noticed in docs/deploying.md: {call.action} on {call.resource}"
        tried += 1
    return tried
