"""Deletes everything that a run created. What belongs to a run is known by its name, which begins with that of the run."""

import time

from botocore.exceptions import BotoCoreError, ClientError

from verify.interrupt import say

STACK_SECONDS_MAX = 900
STACK_POLL_SECONDS = 3
# Something that a request of the run was still creating appears within this time.
SETTLE_SECONDS = 5
# SQS lists a deleted queue for a minute.
PASSES_MAX = 20
# So often in a row something could not be deleted, and nothing else could.
FAILED_PASSES_MAX = 3
# A key can only be deleted after this time; until then it costs nothing.
KEY_DAYS = 7
GONE = {
    "AWS.SimpleQueueService.NonExistentQueue", "NoSuchBucket", "NoSuchEntity", "NotFoundException", "QueueDoesNotExist",
    "ResourceNotFound", "ResourceNotFoundException", "404",
}  # fmt: skip


def pages(client, operation, key, **arguments):
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(key, [])


class Kind:
    """One kind of resource: how those of a run are listed, and how one is deleted."""

    name = ""

    def __init__(self, client, run):
        self.client = client
        self.run = run

    def listed(self):
        """Returns the names, or ids, of those that exist."""
        raise NotImplementedError

    def delete(self, one):
        raise NotImplementedError

    def mine(self, name):
        return name == self.run or name.startswith(f"{self.run}-")


class Stacks(Kind):
    name = "CloudFormation stack"

    def listed(self):
        stacks = pages(self.client("cloudformation"), "describe_stacks", "Stacks")
        return [each["StackName"] for each in stacks if self.mine(each["StackName"]) and each["StackStatus"] != "DELETE_COMPLETE"]

    def delete(self, one):
        deadline = time.monotonic() + STACK_SECONDS_MAX
        while (status := self.status(one)) is not None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"still {status} after {STACK_SECONDS_MAX} s")
            try:
                self.step(one, status)
            except ClientError as error:
                # CloudFormation refuses a deletion during an update and its roll-back: it is asked again.
                if error.response["Error"]["Code"] != "ValidationError":
                    raise
            time.sleep(STACK_POLL_SECONDS)

    def status(self, one):
        try:
            status = self.client("cloudformation").describe_stacks(StackName=one)["Stacks"][0]["StackStatus"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            return None
        return None if status == "DELETE_COMPLETE" else status

    def step(self, one, status):
        stacks = self.client("cloudformation")
        if status == "DELETE_FAILED":
            # What stopped the deletion is left, and deleted by itself by the kinds below.
            left = stacks.describe_stack_resources(StackName=one)["StackResources"]
            stacks.delete_stack(
                StackName=one, RetainResources=[each["LogicalResourceId"] for each in left if each["ResourceStatus"] == "DELETE_FAILED"]
            )
        elif status == "UPDATE_IN_PROGRESS":
            stacks.cancel_update_stack(StackName=one)
        elif status != "DELETE_IN_PROGRESS":
            stacks.delete_stack(StackName=one)


class Mappings(Kind):
    name = "event source mapping"

    def listed(self):
        mappings = pages(self.client("lambda"), "list_event_source_mappings", "EventSourceMappings")
        return [each["UUID"] for each in mappings if self.mine(each["FunctionArn"].split(":")[6]) and each.get("State") != "Deleting"]

    def delete(self, one):
        self.client("lambda").delete_event_source_mapping(UUID=one)


class Functions(Kind):
    name = "Lambda function"

    def listed(self):
        return [
            each["FunctionName"] for each in pages(self.client("lambda"), "list_functions", "Functions") if self.mine(each["FunctionName"])
        ]

    def delete(self, one):
        self.client("lambda").delete_function(FunctionName=one)


class Roles(Kind):
    name = "IAM role"

    def listed(self):
        return [each["RoleName"] for each in pages(self.client("iam"), "list_roles", "Roles") if self.mine(each["RoleName"])]

    def delete(self, one):
        iam = self.client("iam")
        for policy in iam.list_role_policies(RoleName=one)["PolicyNames"]:
            iam.delete_role_policy(RoleName=one, PolicyName=policy)
        iam.delete_role(RoleName=one)


class Rules(Kind):
    name = "EventBridge rule"

    def listed(self):
        return [
            each["Name"] for each in pages(self.client("events"), "list_rules", "Rules", NamePrefix=self.run) if self.mine(each["Name"])
        ]

    def delete(self, one):
        events = self.client("events")
        targets = [each["Id"] for each in events.list_targets_by_rule(Rule=one)["Targets"]]
        if targets:
            events.remove_targets(Rule=one, Ids=targets)
        events.delete_rule(Name=one)


class Alarms(Kind):
    name = "CloudWatch alarm"

    def listed(self):
        alarms = pages(self.client("cloudwatch"), "describe_alarms", "MetricAlarms", AlarmNamePrefix=self.run)
        return [each["AlarmName"] for each in alarms if self.mine(each["AlarmName"])]

    def delete(self, one):
        self.client("cloudwatch").delete_alarms(AlarmNames=[one])


class Dashboards(Kind):
    name = "CloudWatch dashboard"

    def listed(self):
        boards = self.client("cloudwatch").list_dashboards(DashboardNamePrefix=self.run)["DashboardEntries"]
        # A generated name of a dashboard has the stack's name with a logical id behind it.
        return [each["DashboardName"] for each in boards if each["DashboardName"].startswith(self.run)]

    def delete(self, one):
        self.client("cloudwatch").delete_dashboards(DashboardNames=[one])


class Queues(Kind):
    name = "SQS queue"

    def listed(self):
        urls = pages(self.client("sqs"), "list_queues", "QueueUrls", QueueNamePrefix=self.run)
        return [each for each in urls if self.mine(each.rsplit("/", 1)[1])]

    def delete(self, one):
        self.client("sqs").delete_queue(QueueUrl=one)


class Tables(Kind):
    name = "DynamoDB table"

    def listed(self):
        return [each for each in pages(self.client("dynamodb"), "list_tables", "TableNames") if self.mine(each)]

    def delete(self, one):
        tables = self.client("dynamodb")
        tables.get_waiter("table_exists").wait(TableName=one, WaiterConfig={"Delay": 3, "MaxAttempts": 60})
        tables.delete_table(TableName=one)
        tables.get_waiter("table_not_exists").wait(TableName=one, WaiterConfig={"Delay": 3, "MaxAttempts": 200})


class LogGroups(Kind):
    name = "log group"

    def listed(self):
        groups = pages(self.client("logs"), "describe_log_groups", "logGroups", logGroupNamePrefix=self.run)
        own = pages(self.client("logs"), "describe_log_groups", "logGroups", logGroupNamePrefix=f"/aws/lambda/{self.run}")
        return [each["logGroupName"] for each in [*groups, *own]]

    def delete(self, one):
        self.client("logs").delete_log_group(logGroupName=one)


class Buckets(Kind):
    name = "S3 bucket"

    def listed(self):
        return [each["Name"] for each in self.client("s3").list_buckets()["Buckets"] if self.mine(each["Name"])]

    def delete(self, one):
        self.empty(one)
        self.client("s3").delete_bucket(Bucket=one)

    def empty_if_there(self, one):
        try:
            self.empty(one)
        except ClientError as error:
            if error.response["Error"]["Code"] not in GONE:
                raise

    def empty(self, one):
        s3 = self.client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=one):
            keys = [{"Key": each["Key"]} for each in page.get("Contents", [])]
            if keys:
                failed = s3.delete_objects(Bucket=one, Delete={"Objects": keys, "Quiet": True}).get("Errors", [])
                if failed:
                    raise RuntimeError(f"bucket {one}: {len(failed)} objects not deleted: {failed[0].get('Code')}")


class Keys(Kind):
    name = "KMS key"

    def listed(self):
        aliases = pages(self.client("kms"), "list_aliases", "Aliases")
        return [each["AliasName"] for each in aliases if self.mine(each["AliasName"].removeprefix("alias/"))]

    def delete(self, one):
        kms = self.client("kms")
        key = next(each["TargetKeyId"] for each in pages(kms, "list_aliases", "Aliases") if each["AliasName"] == one)
        kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=KEY_DAYS)
        # Last, because the key is found by its alias.
        kms.delete_alias(AliasName=one)


# In the order of deletion. Stacks first: they delete most of the others, and would miss what is deleted before them.
KINDS = (Stacks, Mappings, Functions, Rules, Alarms, Dashboards, Queues, Tables, Buckets, LogGroups, Roles, Keys)
# What a stack may leave behind.
OF_STACKS = {each.name for each in KINDS} - {Keys.name}


def was_created(ledger, kind):
    """Whether a run may have created something of a kind. Without a ledger it may have created anything."""
    kinds = {each for each, _ in ledger.intended}
    return not kinds or kind in kinds or (Stacks.name in kinds and kind in OF_STACKS)


def clean(client, ledger):
    """Deletes everything of a run; `client` returns the client of a service. Returns what could not be deleted, as texts."""
    failed = {}
    empty_passes = failed_passes = 0
    for number in range(PASSES_MAX):
        found, failed = one_pass(client, ledger, quiet=number > 0)
        empty_passes = 0 if found or failed else empty_passes + 1
        failed_passes = failed_passes + 1 if failed and not found else 0
        # Twice with nothing, some seconds apart: a request that was interrupted may still create something.
        if empty_passes == 2 or failed_passes == FAILED_PASSES_MAX:
            break
        time.sleep(SETTLE_SECONDS)
    if empty_passes < 2 and not failed:
        failed = {"clean-up": f"something was still found after {PASSES_MAX} passes"}
    for kind, name in ledger.remaining():
        if kind not in failed and "clean-up" not in failed:
            ledger.gone(kind, name)
    return [f"{kind}: {text}" for kind, text in failed.items()]


def one_pass(client, ledger, quiet):
    """Lists and deletes once. Returns how many were found, and the failures by kind."""
    found, failed = 0, {}
    buckets = Buckets(client, ledger.name)
    for kind in (make(client, ledger.name) for make in KINDS):
        if not was_created(ledger, kind.name):
            continue
        try:
            if isinstance(kind, Stacks):
                # CloudFormation deletes no bucket that has objects.
                for one in buckets.listed():
                    buckets.empty_if_there(one)
            ones = kind.listed()
        except (BotoCoreError, ClientError, RuntimeError) as error:
            failed[kind.name] = f"cannot be listed: {error}"
            continue
        for one in ones:
            say(f"  deleting {kind.name} {one}")
            try:
                kind.delete(one)
                found += 1
            except ClientError as error:
                # Lists lag behind deletions.
                if error.response["Error"]["Code"] not in GONE:
                    failed[kind.name] = f"{one}: {error}"
                    continue
            except (BotoCoreError, RuntimeError, TimeoutError, StopIteration) as error:
                failed[kind.name] = f"{one}: {error}"
                continue
            ledger.gone(kind.name, one)
    if not found and not quiet:
        say("  nothing to delete")
    return found, failed
