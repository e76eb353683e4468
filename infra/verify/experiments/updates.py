"""12: do the updates succeed that docs/operations.md promises?"""

from botocore.exceptions import ClientError

from verify import template
from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks

# One more than CloudFormation's documented limit, which is below Lambda's.
POLLERS_OVER = 2_001


class Updates(Experiment):
    number = 12
    assumption = "Updates work: to provisioned pollers, back in two deployments only, with a key and without; Lambda takes 2,001 pollers"
    relied_on_in = "docs/operations.md, Updates, and Back from provisioned pollers; infra/sam/template.yaml, PollersMax"
    does = "Updates a stack six times, and asks Lambda for 2,001 pollers"
    needs = ("updates", "key")
    minutes = 25

    def costs(self):
        # Two pollers for as long as the update to the next step takes.
        return [Cost("poller-hour", 2 * 0.5), Cost("key-hour", 1), Cost("kms", 500)]

    def run(self, world):
        stack = world.need("updates")
        key = world.need("key")["arn"]
        steps = [
            self.step(world, stack, "to provisioned", InputScaling="provisioned"),
            self.pollers_over(world, stack),
            self.step(world, stack, "back in one", InputScaling="maximum-concurrency"),
            self.step(world, stack, "without the mapping", template.without_input_mapping),
            self.step(world, stack, "back in two"),
            self.step(world, stack, "key on", KmsKeyArn=key),
            self.step(world, stack, "key off", KmsKeyArn=""),
        ]
        return {"steps": {step.pop("step"): step for step in steps}}

    def step(self, world, stack, name, change=None, **chosen):
        try:
            status, failures = stack.update(change, **chosen)
        except ClientError as error:
            status, failures = "refused", [error.response["Error"].get("Message", "")[:300]]
        return {
            "step": name,
            "status": status,
            "failures": failures,
            "scaling": self.scaling(stack),
            "encrypted": self.encrypted(world, stack),
        }

    def scaling(self, stack):
        """Returns how the mappings of the aggregator scale."""
        kinds = ("ScalingConfig", "ProvisionedPollerConfig")
        return [{kind: mapping[kind] for kind in kinds if mapping.get(kind)} for mapping in stack.mappings()]

    def encrypted(self, world, stack):
        """Returns whether a key of the account encrypts a queue and a table."""
        queue = world.client("sqs").get_queue_attributes(QueueUrl=stack.physical["InputQueue"], AttributeNames=["All"])["Attributes"]
        table = world.client("dynamodb").describe_table(TableName=stack.physical["LockTable"])["Table"]
        return {"queue": bool(queue.get("KmsMasterKeyId")), "table": table.get("SSEDescription", {}).get("SSEType") == "KMS"}

    def pollers_over(self, world, stack):
        config = {"MinimumPollers": 2, "MaximumPollers": POLLERS_OVER}
        try:
            for mapping in stack.mappings():
                world.client("lambda").update_event_source_mapping(UUID=mapping["UUID"], ProvisionedPollerConfig=config)
            status, failures = "accepted", []
        except ClientError as error:
            status, failures = "refused", [error.response["Error"].get("Message", "")[:300]]
        # The next update of the stack would meet a mapping that is still changing.
        world.until(lambda: all(each.get("State") == "Enabled" for each in stack.mappings()), 600)
        return {"step": "2001 pollers", "status": status, "failures": failures, "scaling": self.scaling(stack), "encrypted": None}

    def has_pollers_over(self, step):
        most = [each.get("ProvisionedPollerConfig", {}).get("MaximumPollers") for each in step["scaling"]]
        return step["status"] == "accepted" and most == [POLLERS_OVER]

    def judge(self, seen):
        steps = seen["steps"]
        has = lambda name, kind: any(kind in each for each in steps[name]["scaling"])  # noqa: E731
        told = lambda name: f"{name}: {steps[name]['status']} {' '.join(steps[name]['failures'])} {steps[name]['scaling']}".strip()  # noqa: E731
        done = lambda name: steps[name]["status"] == "UPDATE_COMPLETE"  # noqa: E731
        both = lambda name, on: done(name) and set(steps[name]["encrypted"].values()) == {on}  # noqa: E731
        checks = [
            (done("to provisioned") and has("to provisioned", "ProvisionedPollerConfig"), told("to provisioned")),
            (self.has_pollers_over(steps["2001 pollers"]), told("2001 pollers")),
            # docs/operations.md says that the pollers stay. If they do not, the runbook asks for more than is needed.
            (
                has("back in one", "ProvisionedPollerConfig") or not done("back in one"),
                f"{told('back in one')}: the pollers are gone after one deployment, so the runbook asks for one too many",
            ),
            (done("without the mapping") and not steps["without the mapping"]["scaling"], told("without the mapping")),
            (
                done("back in two") and has("back in two", "ScalingConfig") and not has("back in two", "ProvisionedPollerConfig"),
                told("back in two"),
            ),
            (both("key on", True), f"{told('key on')} {steps['key on']['encrypted']}"),
            (both("key off", False), f"{told('key off')} {steps['key off']['encrypted']}"),
        ]
        return of_checks(checks, "; ".join(f"{name}: {step['status']}" for name, step in steps.items()))


class WarmThroughput(Experiment):
    number = "12-warm"
    assumption = "LockTableWarmWrites can be raised on a stack that exists, for the table and its index"
    relied_on_in = "infra/sam/template.yaml, LockTableWarmWrites"
    does = "Raises it from the default to 5,000. AWS publishes a price for that which could not be read: it is not in the estimate"
    needs = ("updates",)
    minutes = 10
    slow = True

    def run(self, world):
        stack = world.need("updates")
        status, failures = stack.update(LockTableWarmWrites="5000")
        table = world.client("dynamodb").describe_table(TableName=stack.physical["LockTable"])["Table"]
        warm = [table.get("WarmThroughput", {}), *(each.get("WarmThroughput", {}) for each in table["GlobalSecondaryIndexes"])]
        return {"status": status, "failures": failures, "writes": [each.get("WriteUnitsPerSecond") for each in warm]}

    def judge(self, seen):
        text = f"{seen['status']} {' '.join(seen['failures'])}; write units of table and index: {seen['writes']}"
        return of_checks([(seen["status"] == "UPDATE_COMPLETE" and all(int(each or 0) >= 5_000 for each in seen["writes"]), text)], text)


EXPERIMENTS = (Updates(), WarmThroughput())
