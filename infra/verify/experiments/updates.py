"""12: do the updates succeed that docs/operations.md promises?"""

from botocore.exceptions import ClientError

from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks

UNITS = (5, 10)


class Updates(Experiment):
    number = 12
    assumption = "Updates work: of the lock table to provisioned capacity and back, with a key and without"
    relied_on_in = "docs/operations.md, Updates; docs/deploying.md, Capacity of the lock table"
    does = "Updates a stack four times"
    needs = ("updates", "key")
    minutes = 20

    def costs(self):
        return [Cost("key-hour", 1), Cost("kms", 500)]

    def run(self, world):
        stack = world.need("updates")
        key = world.need("key")["arn"]
        steps = [
            self.step(world, stack, "to provisioned", LockTableCapacity=f"provisioned:{UNITS[0]}-{UNITS[1]}"),
            self.step(world, stack, "back on demand", LockTableCapacity="on-demand"),
            self.step(world, stack, "key on", KmsKeyArn=key),
            self.step(world, stack, "key off", KmsKeyArn=""),
        ]
        return {"steps": {step.pop("step"): step for step in steps}}

    def step(self, world, stack, name, **chosen):
        try:
            status, failures = stack.update(**chosen)
        except ClientError as error:
            status, failures = "refused", [error.response["Error"].get("Message", "")[:300]]
        return {
            "step": name,
            "status": status,
            "failures": failures,
            "capacity": self.capacity(world, stack),
            "encrypted": self.encrypted(world, stack),
        }

    def capacity(self, world, stack):
        """Returns the provisioned write units of the lock table and of its index; 0 on demand."""
        table = world.client("dynamodb").describe_table(TableName=stack.physical["LockTable"])["Table"]
        return [each.get("ProvisionedThroughput", {}).get("WriteCapacityUnits", 0) for each in (table, *table["GlobalSecondaryIndexes"])]

    def encrypted(self, world, stack):
        """Returns whether a key of the account encrypts a queue and a table."""
        queue = world.client("sqs").get_queue_attributes(QueueUrl=stack.physical["InputQueue"], AttributeNames=["All"])["Attributes"]
        table = world.client("dynamodb").describe_table(TableName=stack.physical["LockTable"])["Table"]
        return {"queue": bool(queue.get("KmsMasterKeyId")), "table": table.get("SSEDescription", {}).get("SSEType") == "KMS"}

    def judge(self, seen):
        steps = seen["steps"]
        summary = lambda name: f"{name}: {steps[name]['status']} {' '.join(steps[name]['failures'])} {steps[name]['capacity']}"  # noqa: E731
        done = lambda name: steps[name]["status"] == "UPDATE_COMPLETE"  # noqa: E731
        both = lambda name, on: done(name) and set(steps[name]["encrypted"].values()) == {on}  # noqa: E731
        scaled = [UNITS[0] <= int(units) <= UNITS[1] for units in steps["to provisioned"]["capacity"]]
        checks = [
            (done("to provisioned") and all(scaled), summary("to provisioned")),
            (done("back on demand") and not any(steps["back on demand"]["capacity"]), summary("back on demand")),
            (both("key on", True), f"{summary('key on')} {steps['key on']['encrypted']}"),
            (both("key off", False), f"{summary('key off')} {steps['key off']['encrypted']}"),
        ]
        return of_checks(checks, "; ".join(f"{name}: {step['status']}" for name, step in steps.items()))


class WarmThroughput(Experiment):
    number = "12-warm"
    assumption = "LockTableCapacity=warm:N can be raised on a stack that exists, for the table and its index"
    relied_on_in = "infra/sam/template.yaml, LockTableCapacity"
    does = "Raises it from the default to 5,000. AWS publishes a price for that which could not be read: it is not in the estimate"
    needs = ("updates",)
    minutes = 10
    level = 2

    def run(self, world):
        stack = world.need("updates")
        status, failures = stack.update(LockTableCapacity="warm:5000")
        table = world.client("dynamodb").describe_table(TableName=stack.physical["LockTable"])["Table"]
        warm = [table.get("WarmThroughput", {}), *(each.get("WarmThroughput", {}) for each in table["GlobalSecondaryIndexes"])]
        return {"status": status, "failures": failures, "writes": [each.get("WriteUnitsPerSecond") for each in warm]}

    def judge(self, seen):
        text = f"{seen['status']} {' '.join(seen['failures'])}; write units of table and index: {seen['writes']}"
        return of_checks([(seen["status"] == "UPDATE_COMPLETE" and all(int(each or 0) >= 5_000 for each in seen["writes"]), text)], text)


EXPERIMENTS = (Updates(), WarmThroughput())
