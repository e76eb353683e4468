"""Sends bursts through a stack with `loadgen`, and watches its queues and batches until nothing is left."""

import json
import os
import subprocess
import time

from verify import ledger
from verify.interrupt import say

LOADGEN = ledger.ROOT / "target" / "release" / "loadgen"
# SQS's figures can be wrong for a minute after the last message.
# Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>
QUIET_SECONDS = 60
POLL_SECONDS = 5
STATUSES = ("open", "sealed", "processing", "error")
STATUS_SHARDS = 4
SET_ASIDE = ("InputDeadLetterQueue", "BatchDeadLetterQueue", "QuarantineQueue", "SweepDeadLetterQueue")


def build():
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--package", "loadgen"]
    say("building loadgen")
    subprocess.run(command, cwd=ledger.ROOT, check=True, stdin=subprocess.DEVNULL)


def seed(world, number):
    """Returns a seed that no other burst of this run has, nor one of another run."""
    return int(world.name.rsplit("-", 1)[1], 16) * 100 + number


def workload(messages, duplicates, seed):
    return ["--messages", str(messages), "--duplicates", str(duplicates), "--seed", str(seed)]


def environment(world):
    """Returns the environment of a child with the credentials of this run, wherever they came from."""
    own = world.session.get_credentials().get_frozen_credentials()
    variables = {"AWS_ACCESS_KEY_ID": own.access_key, "AWS_SECRET_ACCESS_KEY": own.secret_key, "AWS_REGION": world.region}
    if own.token:
        variables["AWS_SESSION_TOKEN"] = own.token
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name.startswith("AWS_ENDPOINT")} | variables


def incomplete(world, stack):
    """Returns the number of batches that are not complete."""
    tables, found = world.client("dynamodb"), 0
    for status in STATUSES:
        for shard in range(STATUS_SHARDS):
            found += tables.query(
                TableName=stack.physical["BatchTable"],
                IndexName="status-index",
                Select="COUNT",
                KeyConditionExpression="statusShard = :s",
                ExpressionAttributeValues={":s": {"S": f"{status}#{shard}"}},
            )["Count"]
    return found


class Burst:
    """What was seen while a burst was under way."""

    def __init__(self, world, stack):
        self.world, self.stack = world, stack
        self.in_flight_max = self.visible_max = 0

    def look(self, queues):
        """Returns the number of messages in the queues, and notes how many of the input queue are in flight."""
        depths = self.stack.messages(*queues)
        visible, in_flight, _ = depths["InputQueue"]
        self.visible_max, self.in_flight_max = max(self.visible_max, visible), max(self.in_flight_max, in_flight)
        return sum(map(sum, depths.values()))

    def run(self, messages, duplicates, number, seconds_max, batches=True):
        """Sends and waits. `batches` says whether to wait until all batches are complete, or only for the input queue."""
        queues = ("InputQueue", "BatchQueue") if batches else ("InputQueue",)
        plan = workload(messages, duplicates, seed(self.world, number))
        send = [LOADGEN, "send", *plan, "--queue-url", self.stack.physical["InputQueue"], "--concurrency", "64"]
        say(f"  sending {messages:,} messages")
        began = time.time()
        # In the folder of the run, where it leaves notes of a burst that failed.
        sender = subprocess.Popen(
            send,
            cwd=self.world.ledger.folder,
            env=environment(self.world),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            sent = self.wait(sender, queues, batches, began, seconds_max)
        finally:
            # After a signal, or a failure of this loop.
            sender.kill()
            sender.wait()
        return {"began": began, "messages": messages, "visible_max": self.visible_max, "in_flight_max": self.in_flight_max, **sent}

    def wait(self, sender, queues, batches, began, seconds_max):
        poll = self.world.scaled(POLL_SECONDS, 1)
        quiet, report = 0, None
        deadline = time.monotonic() + self.world.scaled(seconds_max, 150)
        while time.monotonic() < deadline:
            left = self.look(queues)
            if report is None and sender.poll() is not None:
                output = sender.stdout.read()
                if sender.returncode != 0:
                    return {"sent": None, "drained": False, "problem": f"loadgen send failed: exit code {sender.returncode}"}
                report = json.loads(output)
            busy = left or report is None or (batches and incomplete(self.world, self.stack))
            quiet = 0 if busy else quiet + poll
            if quiet >= self.world.scaled(QUIET_SECONDS, 3):
                return {"sent": report, "drained": True, "seconds": round(time.time() - began - quiet)}
            time.sleep(poll)
        return {"sent": report, "drained": False, "seconds": round(time.time() - began)}


def set_aside(stack):
    return {queue: sum(depths) for queue, depths in stack.messages(*SET_ASIDE).items()}


def audit(world, messages, duplicates, number, folder):
    """Downloads what an S3 sink has, and compares it with the burst. Returns the report of `loadgen audit`."""
    s3, bucket = world.client("s3"), world.need("bucket")["bucket"]
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="parts/"):
        for each in page.get("Contents", []):
            target = folder / each["Key"].removeprefix("parts/")
            target.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, each["Key"], str(target))
    command = [LOADGEN, "audit", *workload(messages, duplicates, seed(world, number)), "--dir", folder]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"problem": done.stderr.strip()[-300:]}
    return {"ok": done.returncode == 0, "report": report}
