"""Tables: keys, indexes, TTL, capacity, and what outlives the stack."""

import re

import rust
from rules import rule
from world import SOURCE

TABLES = {
    "LockTable": (
        {"messageId": "S", "batchId": "S", "seq": "N"},
        ["messageId"],
        "batchId-index",
        ["batchId", "seq"],
        {"ProjectionType": "KEYS_ONLY"},
    ),
    # The status alone would be one key for all open batches; and of what is projected, every change is a write of the index.
    # Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/gsi-throttling.html>.
    "BatchTable": (
        {"batchId": "S", "statusShard": "S", "dueAt": "N"},
        ["batchId"],
        "status-index",
        ["statusShard", "dueAt"],
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["source"]},
    ),
}


@rule
def tables_as_designed(world):
    """Keys, index and projection are what the adapters' expressions are written for."""
    for name, (attributes, keys, index, index_keys, projection) in TABLES.items():
        table = world.properties(name)
        if {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]} != attributes:
            yield f"{name}: attributes"
        if [each["AttributeName"] for each in table["KeySchema"]] != keys:
            yield f"{name}: keys"
        indexes = table.get("GlobalSecondaryIndexes", [])
        if [each["IndexName"] for each in indexes] != [index]:
            yield f"{name}: indexes"
            continue
        if [(each["AttributeName"], each["KeyType"]) for each in indexes[0]["KeySchema"]] != list(zip(index_keys, ["HASH", "RANGE"])):
            yield f"{name}: keys of {index}"
        if indexes[0]["Projection"] != projection:
            yield f"{name}: projection of {index}"


@rule
def keys_are_written(world):
    """Every attribute of a key, and what an index carries, is one that the adapters name."""
    written = rust.words(SOURCE, "shared/aws/src")
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        carried = [each for index in table["GlobalSecondaryIndexes"] for each in index["Projection"].get("NonKeyAttributes", [])]
        for attribute in [each["AttributeName"] for each in table["AttributeDefinitions"]] + carried:
            if attribute not in written:
                yield f"{name}: no adapter writes {attribute}"


@rule
def tables_forget_by_expires_at(world):
    """The TTL attribute is `expiresAt`: a live claim has none; tombstones and objects have one."""
    attribute = re.search(r'EXPIRES_AT: &str = "(\w+)"', SOURCE.read("shared/aws/src/lock_items.rs")).group(1)
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        ttl = table.get("TimeToLiveSpecification", {})
        if ttl.get("AttributeName") != attribute or str(ttl.get("Enabled")).lower() != "true":
            yield f"{name}: TTL is {ttl}"


@rule
def tables_can_be_restored(world):
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        if str(table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled")).lower() != "true":
            yield f"{name}: no point-in-time recovery"


def scaled(world):
    """Returns what is scaled, by what: {(resource, dimension): (least, most, metric, target)}."""
    policies = {each["ScalingTargetId"]: each["TargetTrackingScalingPolicyConfiguration"] for each in world.kind("AWS::ApplicationAutoScaling::ScalingPolicy").values()}
    found = {}
    for name, target in world.kind("AWS::ApplicationAutoScaling::ScalableTarget").items():
        policy = policies.get(f"<{name}>", {})
        metric = policy.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
        key = (target["ResourceId"], target["ScalableDimension"])
        found[key] = (str(target["MinCapacity"]), str(target["MaxCapacity"]), metric, str(policy.get("TargetValue")))
    return found


@rule
def tables_have_the_chosen_capacity(world):
    """On demand, nothing costs while dormant. The index must take as much as its table, or it throttles it."""
    kind, _, units = world.parameter("LockTableCapacity").partition(":")
    low, _, high = units.partition("-")
    none = {"BillingMode": "PAY_PER_REQUEST"}
    wanted = {
        "on-demand": {},
        "at-most": {"OnDemandThroughput": {"MaxWriteRequestUnits": units}},
        "warm": {"WarmThroughput": {"WriteUnitsPerSecond": units}},
        "provisioned": {"ProvisionedThroughput": {"ReadCapacityUnits": low, "WriteCapacityUnits": low}},
    }[kind]
    names = ("OnDemandThroughput", "WarmThroughput", "ProvisionedThroughput")
    lock, batch = world.properties("LockTable"), world.properties("BatchTable")
    (index,) = lock.get("GlobalSecondaryIndexes", [{}])
    mode = {"BillingMode": "PROVISIONED"} if kind == "provisioned" else none
    for what, each, expected in (("LockTable", lock, wanted | mode), ("index of LockTable", index, wanted), ("BatchTable", batch, none)):
        found = {name: {key: str(value) for key, value in each[name].items()} for name in names if name in each}
        found |= {"BillingMode": each["BillingMode"]} if "BillingMode" in each else {}
        if found != expected:
            yield f"{what}: wrong capacity: got {found}, expected {expected}"
    expected = {
        (f"table/<LockTable>{index}", f"dynamodb:{part}:{what}CapacityUnits"): (low, high, f"DynamoDB{what}CapacityUtilization", "70")
        for part, index in (("table", ""), ("index", "/index/batchId-index"))
        for what in ("Read", "Write")
        if kind == "provisioned"
    }
    if scaled(world) != expected:
        yield f"LockTable: wrong scaling: got {scaled(world)}, expected {expected}"


@rule
def tables_cannot_be_deleted_by_mistake(world):
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        if str(table.get("DeletionProtectionEnabled")).lower() != "true":
            yield f"{name}: no deletion protection"


@rule
def data_is_kept(world):
    """Deleting the stack, or a change that replaces a resource, deletes no message, no claim and no load."""
    for name, resource in world.resources.items():
        if resource["Type"] in ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::S3::Bucket"):
            # What a first deployment made that failed goes, but for tables, which are protected.
            deleted = "Retain" if resource["Type"] == "AWS::DynamoDB::Table" else "RetainExceptOnCreate"
            if (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")) != (deleted, "Retain"):
                yield f"{name}: is not kept, or left behind by a deployment that failed"
            if {"QueueName", "TableName", "BucketName"} & set(resource["Properties"]):
                yield f"{name}: has a name, so a second stack could not be created beside what was kept"
