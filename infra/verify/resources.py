"""The resources that experiments need: what each is, for the plan, and how it is created.

Names begin with the name of the run, and are noted in the ledger before the request.
"""

import dataclasses
import io
import json
import pathlib
import time
import zipfile
from collections.abc import Callable

from botocore.exceptions import WaiterError

from verify import change_sets, code_zips, emulators, ledger, template
from verify.interrupt import say
from verify.unavailable import Unavailable, brief

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "python3.13"
# A new role cannot be assumed at once.
ROLE_SECONDS_MAX = 60
STACK_WAIT = {"Delay": 5, "MaxAttempts": 240}


@dataclasses.dataclass(frozen=True)
class Resource:
    what: str
    # (type, name) of everything that is created; `{name}` stands for the run.
    holds: tuple
    create: Callable
    # Parameters, if this is a stack of the template: its resources are listed in the plan.
    stack: Callable | None = None
    # Other resources that this one needs.
    needs: tuple = ()


def tags(world):
    return {ledger.TAG: world.name}


def listed_tags(world, key="Key", value="Value"):
    return [{key: name, value: content} for name, content in tags(world).items()]


# A bucket for code, objects of experiments, and delivered parts.


def make_bucket(world):
    name = f"{world.name}-data"
    s3 = world.client("s3")
    world.ledger.intend("S3 bucket", name)
    # us-east-1 is the one region that may not be named.
    place = {} if world.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": world.region}}
    s3.create_bucket(Bucket=name, **place)
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": listed_tags(world)})
    return {"bucket": name}


# Tables.

CLAIMS = {
    "AttributeDefinitions": [
        {"AttributeName": "messageId", "AttributeType": "S"},
        {"AttributeName": "batchId", "AttributeType": "S"},
        {"AttributeName": "seq", "AttributeType": "N"},
    ],
    "KeySchema": [{"AttributeName": "messageId", "KeyType": "HASH"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "batchId-index",
            "KeySchema": [{"AttributeName": "batchId", "KeyType": "HASH"}, {"AttributeName": "seq", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}
RECORDS = {
    "AttributeDefinitions": [
        {"AttributeName": "batchId", "AttributeType": "S"},
        {"AttributeName": "statusShard", "AttributeType": "S"},
        {"AttributeName": "dueAt", "AttributeType": "N"},
    ],
    "KeySchema": [{"AttributeName": "batchId", "KeyType": "HASH"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "status-index",
            "KeySchema": [{"AttributeName": "statusShard", "KeyType": "HASH"}, {"AttributeName": "dueAt", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["source"]},
        }
    ],
}


def make_table(suffix, form, keyed=False):
    def create(world):
        name = f"{world.name}-{suffix}"
        tables = world.client("dynamodb")
        world.ledger.intend("DynamoDB table", name)
        key = {"SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": world.need("key")["arn"]}} if keyed else {}
        tables.create_table(TableName=name, BillingMode="PAY_PER_REQUEST", Tags=listed_tags(world), **form, **key)
        tables.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 150})
        return {"table": name}

    return create


def make_key(world):
    kms = world.client("kms")
    alias = f"alias/{world.name}"
    world.ledger.intend("KMS key", alias)
    # The default policy lets the account's own policies decide.
    key = kms.create_key(Description=f"throw-away key of {world.name}", Tags=listed_tags(world, "TagKey", "TagValue"))["KeyMetadata"]
    kms.create_alias(AliasName=alias, TargetKeyId=key["KeyId"])
    return {"arn": key["Arn"]}


# Functions of this program, in Python.


def python_zip(file):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as out:
        entry = zipfile.ZipInfo("index.py")
        entry.external_attr = 0o100644 << 16
        out.writestr(entry, (HERE / "probe" / file).read_bytes())
    return content.getvalue()


def make_role(world, name, statements):
    iam = world.client("iam")
    world.ledger.intend("IAM role", name)
    assume = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}],
    }
    role = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps(assume), PermissionsBoundary=world.boundary, Tags=listed_tags(world)
    )["Role"]
    iam.put_role_policy(RoleName=name, PolicyName="verify", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": statements}))
    return role["Arn"]


def make_function(world, name, file, statements, memory, timeout, **configuration):
    logs, lambdas = world.client("logs"), world.client("lambda")
    world.ledger.intend("log group", name)
    logs.create_log_group(logGroupName=name, tags=tags(world))
    logs.put_retention_policy(logGroupName=name, retentionInDays=1)
    log = {
        "Effect": "Allow",
        "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "Resource": f"arn:{world.partition}:logs:*:*:log-group:{name}:*",
    }
    role = make_role(world, name, [*statements, log])
    world.ledger.intend("Lambda function", name)
    arguments = {
        "FunctionName": name, "Runtime": PYTHON, "Handler": "index.handler", "Role": role, "MemorySize": memory, "Timeout": timeout,
        "Code": {"ZipFile": python_zip(file)}, "LoggingConfig": {"LogGroup": name}, "Tags": tags(world), **configuration,
    }  # fmt: skip

    def created():
        try:
            return lambdas.create_function(**arguments)
        except lambdas.exceptions.InvalidParameterValueException as error:
            if "assume" not in str(error):
                raise
            return None

    if world.until(created, ROLE_SECONDS_MAX) is None:
        raise Unavailable(f"{name}: Lambda could not assume the new role within {ROLE_SECONDS_MAX} s")
    lambdas.get_waiter("function_active_v2").wait(FunctionName=name)
    return {"function": name, "group": name}


def make_probe(world):
    bucket = world.need("bucket")["bucket"]
    aws = world.partition
    own_key = {"StringEquals": {f"aws:ResourceTag/{ledger.TAG}": world.name}}
    statements = [
        {
            "Effect": "Allow",
            "Action": ["dynamodb:PartiQLInsert", "dynamodb:UpdateItem", "dynamodb:GetItem"],
            "Resource": f"arn:{aws}:dynamodb:*:*:table/{world.name}-*",
        },
        # As the template grants them for an S3 sink: objects, and the list below one prefix.
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"arn:{aws}:s3:::{bucket}/probe/*"},
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": f"arn:{aws}:s3:::{bucket}",
            "Condition": {"StringLike": {"s3:prefix": "probe/*"}},
        },
        {
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:Encrypt", "kms:DescribeKey", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            "Resource": "*",
            "Condition": own_key,
        },
    ]
    # One whole vCPU, as the functions of the template have.
    return make_function(world, f"{world.name}-probe", "index.py", statements, memory=1769, timeout=900)


def make_receiver(world):
    return make_function(
        world, f"{world.name}-receiver", "receiver.py", [], memory=256, timeout=30, Environment={"Variables": {"CLOSED_UNTIL": "0"}}
    )


# Stacks of the template.


def main_parameters(name):
    # So many that an overshoot shows (18).
    return {"EventId": "json:id", "Sink": f"s3://{name}-data/parts", "Architecture": "x86_64", "AggregatorConcurrency": "50"}


def arm_parameters(name):
    return {"EventId": "json:id", "Sink": "log:", "Architecture": "arm64"}


def outage_parameters(name):
    sink = f"arn:aws:lambda:us-east-1:123456789012:function:{name}-receiver"
    return {"EventId": "json:id", "Sink": sink, "Architecture": "x86_64", "BatchProcessorTimeout": "60"}


# Variables of the functions in this stack.
OUTAGE_SETTINGS = {"MAX_SECONDARY_BATCHING_WINDOW": "5", "VERIFY_DELAY": "120"}


def update_parameters(name):
    return {"EventId": "json:id", "Sink": "log:", "Architecture": "x86_64"}


def make_stack(suffix, parameters, arch="x86_64", settings=None):
    def create(world):
        chosen = parameters(world.name) | {"PermissionsBoundaryArn": world.boundary}
        if chosen.get("Sink", "").startswith("arn:"):
            chosen["Sink"] = world.client("lambda").get_function_configuration(FunctionName=world.need("receiver")["function"])[
                "FunctionArn"
            ]
        return Stack(world, f"{world.name}-{suffix}", arch, chosen, settings or {})

    return create


class Stack:
    """A stack of the template; created with the object."""

    def __init__(self, world, name, arch, chosen, settings):
        self.world, self.name, self.chosen = world, name, emulators.parameters(world.emulator, dict(chosen))
        self.settings = emulators.settings(world.emulator, settings)
        self.bucket = world.need("bucket")["bucket"]
        self.folder = f"code/{arch}"
        for function in code_zips.FUNCTIONS:
            content = code_zips.read(world, arch, function)
            world.client("s3").put_object(Bucket=self.bucket, Key=f"{self.folder}/{function}.zip", Body=content)
        world.ledger.intend("CloudFormation stack", name)
        self.created_at = time.time()
        stacks = world.client("cloudformation")
        arguments = self.arguments()
        say(f"  deploying {name}")
        stacks.create_stack(**arguments, OnFailure="DO_NOTHING", Tags=listed_tags(world))
        try:
            stacks.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig=self.wait())
        except WaiterError as error:
            raise Unavailable(f"{name}: {(self.failures('CREATE_FAILED') or [brief(error)])[0]}") from error
        self.look()

    def wait(self):
        return self.world.scaled(STACK_WAIT, {"Delay": 1, "MaxAttempts": 90})

    def template(self, change=None):
        made = emulators.adapted(self.world.emulator, template.transformed(), self.chosen)
        made = template.with_settings(template.throw_away(made, self.bucket, self.folder), self.settings)
        return change(made) if change else made

    def arguments(self, change=None):
        """Stores the template and returns the arguments of a request to create or update the stack."""
        url = template.stored(self.world, self.name, self.template(change))
        parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in self.chosen.items()]
        return {"StackName": self.name, "TemplateURL": url, "Parameters": parameters, "Capabilities": ["CAPABILITY_IAM"]}

    def update(self, change=None, **chosen):
        """Updates the stack; returns its status afterwards, and the reason of a failure."""
        self.chosen.update(chosen)
        stacks = self.world.client("cloudformation")
        stacks.update_stack(**self.arguments(change))
        self.world.pause(5)
        status = self.world.until(self.settled, 1_200)
        self.look()
        return status or "still in progress", self.failures("UPDATE_FAILED")[:1] if status != "UPDATE_COMPLETE" else []

    def failures(self, status):
        """Returns why resources have this status in the last creation or update, the first one first."""
        found = []
        # The newest event comes first.
        for event in self.world.client("cloudformation").describe_stack_events(StackName=self.name)["StackEvents"]:
            if event["LogicalResourceId"] == self.name and event["ResourceStatus"] in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"):
                break
            if event["ResourceStatus"] == status and event["LogicalResourceId"] != self.name:
                found.append(f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}")
        return found[::-1]

    def settled(self):
        status = self.world.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"]
        return status if not status.endswith("_IN_PROGRESS") else None

    def look(self):
        stacks = self.world.client("cloudformation")
        summaries = stacks.get_paginator("list_stack_resources").paginate(StackName=self.name)
        self.physical = {
            each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for page in summaries for each in page["StackResourceSummaries"]
        }

    def mappings(self, function="Aggregator"):
        """Returns the event source mappings of a function."""
        return self.world.client("lambda").list_event_source_mappings(FunctionName=self.physical[function])["EventSourceMappings"]

    def queue_arn(self, queue):
        return self.world.client("sqs").get_queue_attributes(QueueUrl=self.physical[queue], AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]

    def messages(self, *queues):
        """Returns the number of messages in queues: visible, in flight and delayed."""
        sqs, names = self.world.client("sqs"), [f"ApproximateNumberOfMessages{each}" for each in ("", "NotVisible", "Delayed")]
        return {queue: [int(value) for value in self.attributes(sqs, queue, names)] for queue in queues}

    def attributes(self, sqs, queue, names):
        found = sqs.get_queue_attributes(QueueUrl=self.physical[queue], AttributeNames=names)["Attributes"]
        return [found.get(name, 0) for name in names]


def function_resources(suffix):
    return (
        ("AWS::Lambda::Function", f"{{name}}-{suffix}"),
        ("AWS::IAM::Role", f"{{name}}-{suffix}"),
        ("AWS::Logs::LogGroup", f"{{name}}-{suffix}"),
    )


RESOURCES = {
    "bucket": Resource("bucket for code, test objects and delivered parts", (("AWS::S3::Bucket", "{name}-data"),), make_bucket),
    "sam-changes": Resource(
        "change set of infra/sam, never executed: a stack without resources",
        (("AWS::CloudFormation::Stack", "{name}-c"),),
        change_sets.sam,
        needs=("bucket",),
    ),
    "cdk-changes": Resource(
        "change set of infra/cdk, never executed: a stack without resources",
        (("AWS::CloudFormation::Stack", "{name}-d"),),
        change_sets.cdk,
        needs=("bucket",),
    ),
    "claims": Resource("table like the lock table", (("AWS::DynamoDB::Table", "{name}-claims"),), make_table("claims", CLAIMS)),
    "key": Resource("KMS key", (("AWS::KMS::Key", "alias/{name}"), ("AWS::KMS::Alias", "alias/{name}")), make_key),
    "keyed-claims": Resource(
        "table like the lock table, encrypted by the key",
        (("AWS::DynamoDB::Table", "{name}-keyed"),),
        make_table("keyed", CLAIMS, keyed=True),
        needs=("key",),
    ),
    "records": Resource("table like the batch table", (("AWS::DynamoDB::Table", "{name}-records"),), make_table("records", RECORDS)),
    "probe": Resource("function that measures from inside Lambda", function_resources("probe"), make_probe, needs=("bucket",)),
    "receiver": Resource("function that is a sink, and can be closed", function_resources("receiver"), make_receiver),
    "main": Resource(
        "stack of infra/sam, x86_64",
        (("AWS::CloudFormation::Stack", "{name}-s"),),
        make_stack("s", main_parameters),
        main_parameters,
        ("bucket",),
    ),
    "arm": Resource(
        "stack of infra/sam, arm64",
        (("AWS::CloudFormation::Stack", "{name}-a"),),
        make_stack("a", arm_parameters, "arm64"),
        arm_parameters,
        ("bucket",),
    ),
    "outage": Resource(
        "stack of infra/sam whose sink is the receiver",
        (("AWS::CloudFormation::Stack", "{name}-o"),),
        make_stack("o", outage_parameters, settings=OUTAGE_SETTINGS),
        outage_parameters,
        ("bucket", "receiver"),
    ),
    "updates": Resource(
        "stack of infra/sam that is updated",
        (("AWS::CloudFormation::Stack", "{name}-u"),),
        make_stack("u", update_parameters),
        update_parameters,
        ("bucket", "key"),
    ),
}


def all_needed(names):
    """Returns resources and what they need themselves, in the order of RESOURCES."""
    wanted = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += RESOURCES[name].needs
    return [name for name in RESOURCES if name in wanted]
