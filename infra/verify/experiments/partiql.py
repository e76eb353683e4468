"""3: the semantics of PartiQL batches. 4: a request with 25 large items. Both use a table of their own."""

import secrets

from botocore.exceptions import ClientError

from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks, refuted, unclear

THROTTLED = ("ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded")


def parameters(*values):
    return [{"N": str(each)} if isinstance(each, int) else {"S": each} for each in values]


class Statements:
    """Requests to a table, and what is kept of their replies."""

    def __init__(self, world, table):
        self.client, self.table = world.client("dynamodb"), table

    def insert(self, key, text="x", **more):
        statement = f"INSERT INTO \"{self.table}\" VALUE {{'messageId': ?, 'batchId': ?, 'seq': ?, 'message': ?}}"
        return {"Statement": statement, "Parameters": parameters(key, "batch#0", 1, text), **more}

    def tombstone(self, key, batch):
        """The statement by which a claim is released; `setAside` and `attributes` are attributes that the item does not have."""
        removed = " ".join(f'REMOVE "{each}"' for each in ("batchId", "seq", "message", "attributes", "setAside"))
        statement = f'UPDATE "{self.table}" SET "expiresAt" = ? {removed} WHERE "messageId" = ? AND "batchId" = ?'
        return {"Statement": statement, "Parameters": parameters(4_000_000_000, key, batch)}

    def execute(self, *statements):
        try:
            reply = self.client.batch_execute_statement(Statements=list(statements), ReturnConsumedCapacity="INDEXES")
        except ClientError as error:
            return {"request": error.response["Error"]["Code"], "message": error.response["Error"].get("Message", "")[:200]}
        members = [
            {"code": each.get("Error", {}).get("Code"), "item": "Item" in each or "Item" in each.get("Error", {})}
            for each in reply["Responses"]
        ]
        return {"request": None, "members": members, "units": units(reply.get("ConsumedCapacity", []))}


def units(consumed):
    """Returns the units of a request, of the table and of its indexes; None if the reply has none."""
    if not consumed:
        return None
    table = sum(each.get("Table", {}).get("CapacityUnits", 0) for each in consumed)
    index = sum(one.get("CapacityUnits", 0) for each in consumed for one in each.get("GlobalSecondaryIndexes", {}).values())
    return {"total": sum(each["CapacityUnits"] for each in consumed), "table": table, "index": index}


class Semantics(Experiment):
    number = 3
    assumption = "A PartiQL batch runs its statements independently, returns results in their order, and refuses one key twice"
    relied_on_in = "shared/aws/src/partiql.rs"
    does = "Sends nine small batches to a table of its own"
    needs = ("claims",)
    minutes = 1

    def costs(self):
        return [Cost("write", 60)]

    def run(self, world):
        statements = Statements(world, world.need("claims")["table"])
        run = secrets.token_hex(4)
        key = lambda name: f"{run}-{name}"  # noqa: E731
        insert, tombstone, execute = statements.insert, statements.tombstone, statements.execute
        seen = {"first": execute(insert(key("a")))}
        seen["order"] = execute(insert(key("b")), insert(key("a")), insert(key("c")))
        seen["same_key"] = execute(insert(key("d")), insert(key("d")))
        seen["old_item"] = execute(insert(key("a"), ReturnValuesOnConditionCheckFailure="ALL_OLD"), insert(key("e")))
        seen["all_refused"] = execute(insert(key("a")), insert(key("b")))
        seen["false_where"] = execute(tombstone(key("a"), "batch#0"), tombstone(key("b"), "other#0"), tombstone(key("none"), "batch#0"))
        seen["malformed"] = execute(
            insert(key("f")), {"Statement": f"INSERT INTO \"{statements.table}\" VALUE {{'batchId': ?}}", "Parameters": parameters("x")}
        )
        seen["tombstone"] = self.item(statements, key("a"))
        return seen

    def item(self, statements, key):
        return sorted(
            statements.client.get_item(TableName=statements.table, Key={"messageId": {"S": key}}, ConsistentRead=True).get("Item", {})
        )

    def judge(self, seen):
        codes = lambda name: [each["code"] for each in seen[name].get("members", [])]  # noqa: E731
        total = lambda name: (seen[name].get("units") or {}).get("total")  # noqa: E731
        duplicates = seen["same_key"]["request"] == "ValidationException" and "duplicates" in seen["same_key"]["message"]
        checks = [
            (
                codes("order") == [None, "DuplicateItem", None],
                f"three INSERTs, the second on an existing key: got {codes('order')}, expected only the second refused, as DuplicateItem",
            ),
            (duplicates, f"one key twice: got {seen['same_key']}, expected the whole request to be refused because of duplicates"),
            (
                codes("old_item")[:1] == ["DuplicateItem"] and not seen["old_item"]["members"][0]["item"],
                "a refused INSERT returns the existing item, expected none",
            ),
            (
                codes("false_where") == [None, "ConditionalCheckFailed", "ConditionalCheckFailed"],
                f"UPDATEs with a true WHERE, a false one and no item: got {codes('false_where')}",
            ),
            (
                seen["tombstone"] == ["expiresAt", "messageId"],
                f"REMOVE of attributes that are absent: the item has {seen['tombstone']}, expected expiresAt and messageId",
            ),
            (
                codes("malformed") == [None, "ValidationError"],
                f"a statement without a key: got {codes('malformed') or seen['malformed']['request']}, expected ValidationError for it alone",
            ),
            # The ledger of `local` charges what is refused: two stored items with an index entry each, and one refused write.
            (
                None if total("order") is None else total("order") == 5,
                f"units of two INSERTs and a refused one: got {seen['order'].get('units')}, expected 5",
            ),
        ]
        reported = "not reported" if seen["all_refused"].get("units") is None else f"{total('all_refused')} units"
        return of_checks(
            checks,
            f"as assumed, refused members charged ({total('order')} units for two stored and one refused); units of a batch that is refused as a whole: {reported}",
        )


class LargeBatch(Experiment):
    number = 4
    assumption = "25 INSERTs of 200 KB each fit one request"
    relied_on_in = "shared/aws/src/batch_items.rs"
    does = "Sends one batch of 25 items of 200 KB"
    needs = ("claims",)
    minutes = 0.5
    bytes = 200_000

    def costs(self):
        return [Cost("write", 25 * 196 * 2)]

    def run(self, world):
        statements = Statements(world, world.need("claims")["table"])
        run = secrets.token_hex(4)
        return statements.execute(*(statements.insert(f"{run}-{index}", "x" * self.bytes) for index in range(25)))

    def judge(self, seen):
        if seen["request"]:
            return refuted(f"the request was refused: {seen['request']}: {seen['message']}")
        wrong = [each["code"] for each in seen["members"] if each["code"]]
        if any(each not in THROTTLED for each in wrong):
            return refuted(f"{len(wrong)} of {len(seen['members'])} statements were refused: {', '.join(sorted(set(wrong)))}")
        if len(wrong) == len(seen["members"]):
            return unclear("every statement was throttled, so none was stored; run it again")
        throttled = f", {len(wrong)} throttled" if wrong else ""
        return of_checks(
            [(len(seen["members"]) == 25, f"{len(seen['members'])} results, expected 25")],
            f"{25 - len(wrong)} of 25 stored{throttled}; {seen['units']} units",
        )


EXPERIMENTS = (Semantics(), LargeBatch())
