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
    written = rust.words(SOURCE, "shared/src/aws")
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        carried = [each for index in table["GlobalSecondaryIndexes"] for each in index["Projection"].get("NonKeyAttributes", [])]
        for attribute in [each["AttributeName"] for each in table["AttributeDefinitions"]] + carried:
            if attribute not in written:
                yield f"{name}: no adapter writes {attribute}"


@rule
def tables_forget_by_expires_at(world):
    """The TTL attribute is `expiresAt`: a live claim has none if it has its body; tombstones, chunk claims and chunks have one."""
    attribute = re.search(r'EXPIRES_AT: &str = "(\w+)"', SOURCE.read("shared/src/aws/lock_items.rs")).group(1)
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        ttl = table.get("TimeToLiveSpecification", {})
        if ttl.get("AttributeName") != attribute or str(ttl.get("Enabled")).lower() != "true":
            yield f"{name}: TTL is {ttl}"


@rule
def tables_can_be_restored(world):
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        if str(table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled")).lower() != "true":
            yield f"{name}: no point-in-time recovery"


@rule
def tables_are_on_demand_and_warm(world):
    """Nothing costs while dormant; the index must be as warm as its table, or it throttles it."""
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        if table.get("BillingMode") != "PAY_PER_REQUEST" or "ProvisionedThroughput" in table:
            yield f"{name}: not on demand"
    table = world.properties("LockTable")
    writes = int(world.parameter("LockTableWarmWrites"))
    for what, each in (("table", table), ("index", table.get("GlobalSecondaryIndexes", [{}])[0])):
        if int(each.get("WarmThroughput", {}).get("WriteUnitsPerSecond", 0)) != writes:
            yield f"LockTable: {what} is not as warm as LockTableWarmWrites"


@rule
def data_is_kept(world):
    """Deleting the stack, or a change that replaces a resource, deletes no message, no claim and no chunk."""
    for name, resource in world.resources.items():
        if resource["Type"] in ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::S3::Bucket"):
            if {resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")} != {"Retain"}:
                yield f"{name}: is not kept"
            if {"QueueName", "TableName", "BucketName"} & set(resource["Properties"]):
                yield f"{name}: has a name, so a second stack could not be created beside what was kept"
