"""Creates the stack on the emulator moto from the transformed template, and reads its queues, tables and mappings back.

moto does not create alarms, queue policies, destinations, TTL or point-in-time recovery, and makes every function x86-64. The
rules in policy.py check those. A success on an emulator does not prove a success on AWS.
"""

import io
import json
import logging
import zipfile

import boto3
from moto import mock_aws

import cfn

logging.getLogger("moto").setLevel(logging.ERROR)

NOT_CREATED = ("AWS::CloudWatch::Alarm", "AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::Lambda::EventInvokeConfig", "Custom::DeploymentCheck")
CHOSEN = cfn.REQUIRED | {"BatchProcessorTimeout": "120", "OnDuplicate": "requeue"}


def archive(content=""):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("bootstrap", content)
    return file.getvalue()


def looked_up(node, resolver):
    """Returns a node with its `Fn::FindInMap` resolved. moto cannot: it uses a parameter of type Number as a number, and the keys are texts."""
    if isinstance(node, dict):
        if set(node) == {"Fn::FindInMap"}:
            return resolver.value(node)
        return {key: looked_up(each, resolver) for key, each in node.items()}
    if isinstance(node, list):
        return [looked_up(each, resolver) for each in node]
    return node


def adapted(template, chosen):
    """Returns a transformed template without the resources that moto does not create, and with resolved mappings."""
    template["Resources"] = {name: each for name, each in template["Resources"].items() if each["Type"] not in NOT_CREATED}
    template["Resources"] = looked_up(template["Resources"], cfn.Resolver(template, chosen))
    return template


def creatable(text):
    return adapted(cfn.transform(text), CHOSEN)


def deployed(deploy, template, chosen, name="stack"):
    """Creates or updates the stack."""
    deploy(
        StackName=name,
        TemplateBody=json.dumps(template),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in chosen.items()],
        Capabilities=["CAPABILITY_IAM"],
    )


def packaged():
    s3 = boto3.client("s3", region_name="eu-west-1")
    s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for function in ("aggregator", "batch-processor"):
        s3.put_object(Bucket="code", Key=f"{function}.zip", Body=archive())


def created(template, chosen):
    """Creates the stack; returns its physical resources, and what the services return about them."""
    with mock_aws():
        packaged()
        stacks = boto3.client("cloudformation")
        deployed(stacks.create_stack, template, chosen)
        status = stacks.describe_stacks(StackName="stack")["Stacks"][0]["StackStatus"]
        physical = {
            each["LogicalResourceId"]: each.get("PhysicalResourceId", "")
            for each in stacks.list_stack_resources(StackName="stack")["StackResourceSummaries"]
        }
        sqs, dynamodb, lambdas = boto3.client("sqs"), boto3.client("dynamodb"), boto3.client("lambda")
        queues = {
            name: sqs.get_queue_attributes(QueueUrl=physical[name], AttributeNames=["All"])["Attributes"]
            for name in physical
            if name.endswith("Queue")
        }
        tables = {name: dynamodb.describe_table(TableName=physical[name])["Table"] for name in ("LockTable", "BatchTable")}
        functions = {name: lambdas.get_function_configuration(FunctionName=physical[name]) for name in ("Aggregator", "BatchProcessor")}
        mappings = lambdas.list_event_source_mappings()["EventSourceMappings"]
        return status, physical, queues, tables, functions, mappings


def check_all(text, meant=None):
    """Returns the differences between the created resources and the template `meant`, by default `text`; and the number of comparisons."""
    status, physical, queues, tables, functions, mappings = created(creatable(text), CHOSEN)
    wanted = cfn.resolve(meant or text, CHOSEN)
    found = []
    count = 0

    def same(what, found_value, expected):
        nonlocal count
        count += 1
        if str(found_value) != str(expected):
            found.append(f"{what}: got {found_value}, expected {expected}")

    same("status", status, "CREATE_COMPLETE")
    kept = {name for name, each in wanted.items() if each["Type"] not in NOT_CREATED}
    same("resources", sorted(name for name in physical if name), sorted(kept))
    arns = {attributes["QueueArn"]: name for name, attributes in queues.items()}
    for name, properties in cfn.by_type(wanted, "AWS::SQS::Queue").items():
        attributes = queues[name]
        same(f"{name}: visibility", attributes["VisibilityTimeout"], properties.get("VisibilityTimeout", 30))
        same(f"{name}: retention", attributes["MessageRetentionPeriod"], properties["MessageRetentionPeriod"])
        redrive = json.loads(attributes.get("RedrivePolicy", "{}"))
        wanted_redrive = properties.get("RedrivePolicy", {})
        same(f"{name}: receives", redrive.get("maxReceiveCount"), wanted_redrive.get("maxReceiveCount"))
        dead = arns.get(redrive.get("deadLetterTargetArn"))
        same(f"{name}: dead letters", dead and f"<{dead}.Arn>", wanted_redrive.get("deadLetterTargetArn"))
    for name, properties in cfn.by_type(wanted, "AWS::DynamoDB::Table").items():
        table = tables[name]
        same(f"{name}: keys", table["KeySchema"], properties["KeySchema"])
        by_name = lambda each: each["AttributeName"]  # noqa: E731
        same(f"{name}: attributes", sorted(table["AttributeDefinitions"], key=by_name), sorted(properties["AttributeDefinitions"], key=by_name))
        same(f"{name}: billing", table["BillingModeSummary"]["BillingMode"], properties["BillingMode"])
        for index, other in zip(table["GlobalSecondaryIndexes"], properties["GlobalSecondaryIndexes"], strict=True):
            for key in ("IndexName", "KeySchema", "Projection"):
                same(f"{name}: index {key}", index[key], other[key])
    for name, function in functions.items():
        properties = wanted[name]["Properties"]
        for key in ("Runtime", "Timeout", "MemorySize"):
            same(f"{name}: {key}", function[key], properties[key])
        given = function["Environment"]["Variables"]
        same(f"{name}: variables", sorted(given), sorted(properties["Environment"]["Variables"]))
        same(f"{name}: batch queue", given["BATCH_QUEUE_URL"], physical["BatchQueue"])
        same(f"{name}: lock table", given["DDB_LOCK_TABLE"], physical["LockTable"])
    made = {arns[each["EventSourceArn"]]: each for each in mappings}
    for properties in cfn.by_type(wanted, "AWS::Lambda::EventSourceMapping").values():
        queue = properties["EventSourceArn"].strip("<>").split(".")[0]
        mapping = made.get(queue, {})
        same(f"{queue}: batch size", mapping.get("BatchSize"), properties["BatchSize"])
        function = functions[properties["FunctionName"].strip("<>")]["FunctionArn"]
        same(f"{queue}: function", mapping.get("FunctionArn"), function)
        same(f"{queue}: answers", mapping.get("FunctionResponseTypes"), properties["FunctionResponseTypes"])
        same(f"{queue}: scaling", scaling(mapping), scaling(properties))
    return found, count


def scaling(mapping):
    """Returns how a mapping scales, with numbers as texts."""
    ways = {key: mapping[key] for key in ("ScalingConfig", "ProvisionedPollerConfig") if mapping.get(key)}
    return {key: {name: str(value) for name, value in way.items()} for key, way in ways.items()}


def self_test(text):
    """Asserts that `check_all` notices each of some wrong templates. Returns how many were tried."""
    changes = (
        ("            BatchSize: 1\n", "            BatchSize: 2\n"),
        ("Visibility: 720,", "Visibility: 721,"),
        ("!If [Requeues, 1000,", "!If [Requeues, 999,"),
        ("        maxReceiveCount: 50\n", "        maxReceiveCount: 5\n"),
        ("{ AttributeName: statusShard, KeyType: HASH }", "{ AttributeName: dueAt, KeyType: HASH }"),
        ("{ ProjectionType: KEYS_ONLY }", "{ ProjectionType: ALL }"),
        ("          BATCH_QUEUE_URL: !Ref BatchQueue\n", "          BATCH_QUEUE_URL: !Ref InputQueue\n"),
    )
    for old, new in changes:
        assert old in text, f"self_test: the template has no text {old!r}"
        assert check_all(text.replace(old, new), text)[0], f"self_test: check_all does not notice {new!r}"
    return len(changes)


if __name__ == "__main__":
    print(check_all(cfn.SAM.read_text()))
