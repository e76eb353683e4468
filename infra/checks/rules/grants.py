"""Roles and policies: what they grant, and to whom."""

import functools
import json
import re

import cfn
from rules import buckets, rule
from world import statements


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
        if properties.get("ManagedPolicyArns"):
            yield f"{role}: managed policies"
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


# The statements that allow s3:ListBucket below a prefix, and the parameters that name the prefix.
LISTS = {
    "MissInS3": "Sink",
    "MissRejectsInS3": "SinkRejects",
    "MissPayloadsInS3": "SinkPayloads",
    "MissChunks": "Bodies",
    "MissFormerChunks": "FormerBodies",
}


@rule
def lists_only_what_it_reads(world):
    """s3:ListBucket is there to tell a missing object from a forbidden one: below the prefix that is read, and nowhere else."""
    # In place of a name that is missing, S3 checks this with the name as the prefix.
    # Source: <https://github.com/ceph/ceph/pull/68577>, which does as S3 does.
    for sid, parameter in LISTS.items():
        value = world.parameter(parameter)
        bucket, _, prefix = value.removeprefix("s3://").partition("/")
        arn = f"arn:aws:s3:::{bucket}"
        if value == "s3":
            arn, prefix = "<ChunkBucket.Arn>", buckets.PREFIX.rstrip("/")
        for statement in statements(world.properties("BatchProcessorRole")):
            if statement["Sid"] == sid:
                wanted = {"StringLike": {"s3:prefix": f"{prefix}/*"}} if prefix else None
                if statement.get("Condition") != wanted or statement["Resource"] != arn:
                    yield f"{sid}: lists {statement['Resource']} with {statement.get('Condition')}"


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
    """The key is used only through the services whose resources it encrypts; through S3 only where a function uses the bucket."""
    for function, parameters in {"Aggregator": ["Bodies"], "BatchProcessor": ["Bodies", "FormerBodies"]}.items():
        services = ["sqs", "dynamodb", *(["s3"] if "s3" in map(world.parameter, parameters) else [])]
        wanted = {"StringEquals": {"kms:ViaService": [f"{each}.{cfn.PSEUDO['AWS::Region']}.amazonaws.com" for each in services]}}
        for statement in statements(world.properties(f"{function}Role")):
            if statement["Sid"] == "UseKey" and statement.get("Condition") != wanted:
                yield f"{function}: wrong condition of the key: got {statement.get('Condition')}, expected {wanted}"


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
