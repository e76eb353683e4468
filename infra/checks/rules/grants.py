"""Roles and policies: what they grant, and to whom."""

import functools
import json
import re

import cfn
from rules import buckets, rule
from world import World, accepts, statements


@functools.lru_cache(maxsize=4)
def lines_above(text):
    """Returns the line above each statement of a template, by the statement's Sid."""
    found = {}
    for above, sid in re.findall(r"(?m)^(.*)\n[ \t]*- Sid: (.*?)[ \t]*$", text):
        found.setdefault(sid, []).append(above)
    return found


@rule
def wildcards_are_argued_for(world):
    """A `*` in a policy has a comment before its statement that says why; nothing is excepted or denied instead."""
    for role, properties in world.kind("AWS::IAM::Role").items():
        # The check of a deployment uses nothing that the configuration file names.
        policies = [each for each in world.parameter("PolicyArns").split(",") if each and role != "DeploymentCheckRole"]
        if role == "BatchProcessorRole" and world.parameter("VpcSubnetIds"):
            policies.insert(0, f"arn:{cfn.PSEUDO['AWS::Partition']}:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole")
        if properties.get("ManagedPolicyArns", []) != policies:
            yield f"{role}: wrong managed policies: got {properties.get('ManagedPolicyArns')}, expected {policies}"
        if properties.get("PermissionsBoundary", "") != world.parameter("PermissionsBoundaryArn"):
            yield f"{role}: wrong permissions boundary: got {properties.get('PermissionsBoundary')}, expected PermissionsBoundaryArn"
        for statement in statements(properties):
            if {"NotAction", "NotResource", "NotPrincipal"} & set(statement) or statement["Effect"] != "Allow":
                yield f"{role}: {statement.get('Sid')} is not a plain grant"
            text = json.dumps([statement.get("Action"), statement.get("Resource")])
            if ("*" in text or "LogGroup.Arn" in text) and world.text:
                above = lines_above(world.text).get(str(statement.get("Sid")), [])
                argued = [re.match(r"\s*#.*(wildcard|no resources)", line) for line in above]
                if not argued or not all(argued):
                    yield f"{role}: {statement.get('Sid')} has a wildcard without a word on it"
        trust = properties["AssumeRolePolicyDocument"]["Statement"]
        if [(each["Action"], each["Principal"]) for each in trust] != [("sts:AssumeRole", {"Service": "lambda.amazonaws.com"})]:
            yield f"{role}: who may assume it"


@rule
def lists_only_what_it_reads(world):
    """s3:ListBucket is there to tell a missing object from a forbidden one, and to find answers: below the prefix that is read, and nowhere
    else."""
    # In place of a name that is missing, S3 checks this with the name as the prefix.
    # Source: <https://github.com/ceph/ceph/pull/68577>, which does as S3 does.
    wanted = {"MissLoads": ("<ChunkBucket.Arn>", buckets.PREFIX.rstrip("/"))}
    for sid, parameter in (("MissInS3", "Sink"), ("ListAnswers", "Answers")):
        bucket, _, prefix = world.parameter(parameter).removeprefix("s3://").partition("/")
        wanted[sid] = (f"arn:aws:s3:::{bucket}", prefix)
    for statement in statements(world.properties("BatchProcessorRole")):
        if statement["Sid"] in wanted:
            arn, prefix = wanted[statement["Sid"]]
            below = {"StringLike": {"s3:prefix": f"{prefix}/*"}} if prefix else None
            if statement.get("Condition") != below or statement["Resource"] != arn:
                yield f"{statement['Sid']}: lists {statement['Resource']} with {statement.get('Condition')}"


@rule
def starts_only_what_is_chosen(world):
    """A version or an alias of a state machine is granted as IAM sees it: the machine, and what is behind it as a condition."""
    # Source: <https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html>.
    fields = world.parameter("Sink").split(":")
    for statement in statements(world.properties("BatchProcessorRole")):
        if statement["Sid"] == "DeliverToStateMachine":
            wanted = {"ForAnyValue:StringEquals": {"states:StateMachineQualifier": fields[7]}} if len(fields) > 7 else None
            if statement.get("Condition") != wanted or statement["Resource"] != ":".join(fields[:7]):
                yield f"{statement['Resource']} with {statement.get('Condition')}"


@rule
def uses_the_key_through_services(world):
    """The key is used only through the services whose resources it encrypts."""
    services = [f"{each}.{cfn.PSEUDO['AWS::Region']}.amazonaws.com" for each in ("sqs", "dynamodb", "s3")]
    wanted = {"StringEquals": {"kms:ViaService": services}}
    for function in ("Aggregator", "BatchProcessor"):
        for statement in statements(world.properties(f"{function}Role")):
            if statement["Sid"] == "UseKey" and statement.get("Condition") != wanted:
                yield f"{function}: wrong condition of the key: got {statement.get('Condition')}, expected {wanted}"


# IAM counts all inline policies of a role together, without white space.
# Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html>.
INLINE_CHARACTERS_MAX = 10_240
# The longest ARNs of resources with generated names: a table of 255 characters, a queue of 80, a bucket of 63, a log group of 512.
LONGEST_ARNS = {
    "AWS::DynamoDB::Table": "arn:aws-us-gov:dynamodb:ap-southeast-1:123456789012:table/" + "t" * 255,
    "AWS::SQS::Queue": "arn:aws-us-gov:sqs:ap-southeast-1:123456789012:" + "q" * 80,
    "AWS::S3::Bucket": "arn:aws-us-gov:s3:::" + "b" * 63,
    "AWS::Logs::LogGroup": "arn:aws-us-gov:logs:ap-southeast-1:123456789012:log-group:" + "l" * 512 + ":*",
}
# Values of the parameters that appear in grants, each the longest of its kind. A sink in S3 and answers appear twice, a sink in AWS once.
LONGEST_SINKS = (
    "s3://" + "b" * 63 + "/" + "p" * 251,
    "arn:aws-us-gov:states:ap-southeast-1:123456789012:stateMachine:" + "m" * 176 + ":" + "v" * 80,
    "arn:aws-us-gov:lambda:ap-southeast-1:123456789012:function:" + "f" * 132 + ":" + "v" * 128,
)
LONGEST = {
    "Answers": "s3://" + "b" * 63 + "/" + "p" * 187,
    "Config": "s3://" + "b" * 63 + "/" + "k" * 187,
    "SinkSecretArn": "arn:aws-us-gov:secretsmanager:ap-southeast-1:123456789012:secret:" + "s" * 447,
    "SecretsLayerArn": cfn.LAYER,
    "KmsKeyArn": "arn:aws-us-gov:kms:ap-southeast-1:123456789012:key/" + "k" * 77,
}


def inline_characters(world, role):
    """Returns how many characters IAM counts of a role's policies, with the longest names of resources."""
    kinds = {name: resource["Type"] for name, resource in world.resources.items()}
    documents = "".join(json.dumps(each["PolicyDocument"], separators=(",", ":")) for each in world.properties(role)["Policies"])
    return len(re.sub(r"<(\w+)\.Arn>", lambda match: LONGEST_ARNS[kinds[match.group(1)]], documents))


@rule
def policies_fit(world):
    """The inline policies of a role fit IAM's limit, whatever is chosen."""
    if world.chosen:
        return
    for sink in LONGEST_SINKS:
        chosen = LONGEST | {"Sink": sink}
        for name, value in chosen.items():
            if len(value) < int(world.spec(name).get("MaxLength", len(value))) - 1 and name != "Sink":
                yield f"LONGEST: {name} has {len(value)} characters, expected the longest that the parameter takes, {world.spec(name).get('MaxLength')}"
            if not accepts(world.spec(name), value):
                yield f"LONGEST: {name}: the parameter refuses {value}"
        largest = World(world.text, chosen, world.template)
        for role in ("AggregatorRole", "BatchProcessorRole"):
            characters = inline_characters(largest, role)
            if characters > INLINE_CHARACTERS_MAX:
                yield f"{role}: inline policies may have {characters} characters, IAM takes {INLINE_CHARACTERS_MAX}"


@rule
def outside_policies(world):
    """Nothing else grants anything: no policies beside the roles, and of resources the one that EventBridge needs. What the policy
    of a bucket may say, `buckets_take_tls_only` checks."""
    for name, resource in world.resources.items():
        kind = resource["Type"]
        other = kind == "AWS::SQS::QueuePolicy" and resource["Properties"]["Queues"] != ["<SweepDeadLetterQueue>"]
        other = other or (kind == "AWS::S3::BucketPolicy" and any(each["Effect"] != "Deny" for each in resource["Properties"]["PolicyDocument"]["Statement"]))
        if other or kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
            yield f"{name}: grants beside the roles"
