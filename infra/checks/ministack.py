"""Deploys the transformed template on the emulator ministack, which runs the packaged executables from the stack's queues.

`loadgen burst --stack` sends a burst with duplicates, waits until it is delivered, and audits the files. `cargo xtask ministack`
runs this for about a minute; it is not one of the other checks. ministack invokes the functions with at most 10 messages and without
a window, so this tests the template and the executables, not load. A success on an emulator does not prove a success on AWS.

    python ministack.py PYTHON_OF_MINISTACK LOADGEN MESSAGES BODIES
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import boto3

import cfn
import package
from rules.buckets import PREFIX

START_MAX_SECS = 60
# `loadgen burst` gives up after this long without progress.
PATIENCE_SECS = 150
# ministack counts messages without a delay.
QUIET_SECS = 3
STACK = "stack"
CHOSEN = {
    "Architecture": package.ARCHITECTURE,
    "EventId": "json:id",
    "BatchProcessorTimeout": "60",
    "AggregatorConcurrency": "2",
}
# Variables of the functions. Short times, because a batch starts only a timeout, a window and 3 s after it was opened.
SETTINGS = {"MAX_SECONDARY_BATCHING_WINDOW": "5", "VERIFY_DELAY": "2"}
AGGREGATOR_TIMEOUT_SECS = 15
# ministack passes at most 10 messages.
BATCH_SIZE_MAX = 10
# Bytes of a body with Bodies=log:s3: a load of 10 messages must be too large for the batch table, which has loads of up to 8 KB
# after compression.
LARGE_BODY_BYTES = 8_000
LOG = "ministack.log"
LOG_TAIL_CHARS = 20_000
SET_ASIDE = ("InputDeadLetterQueue", "BatchDeadLetterQueue", "QuarantineQueue", "SweepDeadLetterQueue")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def started(python, folder):
    """Starts ministack on a free port; yields its endpoint. At the end of the block, kills ministack and the processes that it started."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": os.environ["AWS_DEFAULT_REGION"],
        "LAMBDA_EXECUTOR": "local",
        # ministack passes this variable on to the functions.
        "AWS_ENDPOINT_URL": endpoint,
    }
    with open(folder / LOG, "w") as log:
        # In its own session, so that the functions, which ministack starts, can be killed with it.
        server = subprocess.Popen(
            [python, "-m", "ministack"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until_ready(server, endpoint)
            yield endpoint
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def wait_until_ready(server, endpoint):
    deadline = time.monotonic() + START_MAX_SECS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"ministack ended while starting: got exit code {server.returncode}")
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"ministack is not ready: expected a response within {START_MAX_SECS} s")


def adapted(made, chosen):
    """Changes a transformed template where ministack 1.5.33 does not support it, and returns it."""
    resolver = cfn.Resolver(made, chosen)
    for name, condition in made["Conditions"].items():
        # ministack resolves no Fn::Split and no Fn::Sub in conditions: create_stack returns `InternalError`, `0`.
        if "Fn::Split" in json.dumps(condition):
            made["Conditions"][name] = {"Fn::Equals": [str(resolver.condition(name)), "True"]}
    for mapping in cfn.by_type(made["Resources"], "AWS::Lambda::EventSourceMapping").values():
        # ministack compares a parameter of type Number as a text with a number, and then the mapping never polls.
        scaling = resolver.value(mapping["ScalingConfig"])
        if scaling is not cfn.NO_VALUE:
            mapping["ScalingConfig"] = {"MaximumConcurrency": int(scaling["MaximumConcurrency"])}
        mapping["BatchSize"] = min(mapping["BatchSize"], BATCH_SIZE_MAX)
    made["Resources"]["Aggregator"]["Properties"]["Timeout"] = AGGREGATOR_TIMEOUT_SECS
    for name in [name for name, each in made["Resources"].items() if "Metrics" in each.get("Properties", {})]:
        # ministack does not support alarms on expressions: `metric math is not supported`.
        del made["Resources"][name]
    # Whether ministack calls custom resources was not tried. The burst that follows shows whether the functions work.
    del made["Resources"]["CheckedDeployment"]
    return made


def is_record(item):
    """Whether an item of the batch table is the record of a batch; the others are what the log keeps there."""
    return not {"/", "#"} & set(item["batchId"]["S"])


def is_load(item):
    """Whether an item of the batch table has a load, or a piece of it."""
    return item["batchId"]["S"].startswith("load/")


class Stack:
    """The stack on ministack."""

    def __init__(self, endpoint, sink, bodies):
        def client(service):
            return boto3.client(service, endpoint_url=endpoint)

        self.sqs, self.dynamodb, self.lambdas = client("sqs"), client("dynamodb"), client("lambda")
        self.s3 = s3 = client("s3")
        s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": os.environ["AWS_DEFAULT_REGION"]})
        for function in package.FUNCTIONS:
            s3.put_object(Bucket="code", Key=f"{function}.zip", Body=package.zip_of(function).read_bytes())
        stacks = client("cloudformation")
        chosen = CHOSEN | {"Sink": f"file://{sink}", "Bodies": bodies}
        made = adapted(cfn.transform(cfn.SAM.read_text()), chosen)
        for name in ("Aggregator", "BatchProcessor"):
            made["Resources"][name]["Properties"]["Environment"]["Variables"].update(SETTINGS)
        s3.put_object(Bucket="code", Key="template.json", Body=json.dumps(made).encode())
        stacks.create_stack(
            StackName=STACK,
            # By URL, as `sam deploy` does, because a request can contain only 51,200 bytes of template.
            TemplateURL=f"{endpoint}/code/template.json",
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in chosen.items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        stacks.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": START_MAX_SECS})
        self.physical = {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for page in stacks.get_paginator("list_stack_resources").paginate(StackName=STACK)
            for each in page["StackResourceSummaries"]
        }

    def messages(self, *queues):
        """Returns the number of messages in the queues: visible, in flight and delayed."""
        total = 0
        for queue in queues:
            attributes = self.sqs.get_queue_attributes(QueueUrl=self.physical[queue], AttributeNames=["All"])["Attributes"]
            total += sum(int(attributes[f"ApproximateNumberOfMessages{state}"]) for state in ("", "NotVisible", "Delayed"))
        return total

    def batch_items(self):
        """Yields the items of the batch table."""
        for page in self.dynamodb.get_paginator("scan").paginate(TableName=self.physical["BatchTable"], ConsistentRead=True):
            yield from page["Items"]

    def batches(self):
        """Returns the number of complete batches, and of the others."""
        done = ["completedAt" in item for item in self.batch_items() if is_record(item)]
        return sum(done), len(done) - sum(done)

    def loads(self):
        """Returns the number of items and of objects with loads, by where they are."""
        found = {"table": sum(map(is_load, self.batch_items())), "s3": 0}
        if "ChunkBucket" in self.physical:
            pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.physical["ChunkBucket"], Prefix=f"{PREFIX}load/")
            found["s3"] = sum(page["KeyCount"] for page in pages)
        return found


def misplaced(bodies, loads):
    """Returns the problem if loads are not where Bodies says, and nowhere else."""
    wanted = {"items": [], "log:table": ["table"], "log:s3": ["s3"]}[bodies]
    # The last load of a batch in S3 may be small enough for the table.
    found = [place for place, number in loads.items() if number and not (bodies == "log:s3" and place == "table")]
    return [f"loads with Bodies={bodies}: got {loads}, expected some in {wanted or 'no place'}"] if found != wanted else []


def burst(endpoint, loadgen, messages, bodies, folder):
    """Sends a burst to the stack, by its name; returns the problems."""
    sink = folder / "sink"
    sink.mkdir()
    stack = Stack(endpoint, sink, bodies)
    workload = ["--messages", messages, "--duplicates", "10"]
    if bodies != "items":
        # Loads of smaller ones are in slots or in the table.
        workload += ["--size", str(LARGE_BODY_BYTES)]
    waits = ["--quiet", str(QUIET_SECS), "--patience", str(PATIENCE_SECS)]
    command = [loadgen, "burst", "--stack", STACK, *workload, *waits, "--record", folder / "record.json"]
    print(f"> AWS_ENDPOINT_URL={endpoint}", *command, flush=True)
    began = time.monotonic()
    sent = subprocess.run(command, env=os.environ | {"AWS_ENDPOINT_URL": endpoint}, check=False)
    problems = [f"loadgen burst: got exit code {sent.returncode}, expected 0"] if sent.returncode else []
    complete, others = stack.batches()
    problems += [f"batches: got {others} incomplete ones, expected none"] if others else []
    invocations = (folder / LOG).read_text().count(" SQS messages from ")
    print(f"drained after {time.monotonic() - began:.0f} s: {invocations} invocations, {complete} batches complete")
    loads = stack.loads()
    print(f"Bodies={bodies}: {loads['table']} items with loads, {loads['s3']} objects with loads")
    problems += misplaced(bodies, loads)
    return problems + [f"{queue}: got {stack.messages(queue)} messages, expected none" for queue in SET_ASIDE if stack.messages(queue)]


def main():
    python, loadgen, messages, bodies = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ministack-") as folder:
        folder = pathlib.Path(folder)
        problems = ["the test did not end"]
        try:
            with started(python, folder) as endpoint:
                problems = burst(endpoint, loadgen, messages, bodies, folder)
        finally:
            if problems:
                print((folder / LOG).read_text()[-LOG_TAIL_CHARS:], file=sys.stderr)
        print(*problems or ["no event was lost, repeated, quarantined or dead-lettered"], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
