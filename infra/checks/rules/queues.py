"""Queues: receives, retention, sizes and encryption."""

from rules import rule
from world import retention

# A fault that lasts so long sets nothing aside.
FAULT_SECS = 2 * 3600


@rule
def receives_fit_the_duplicate_rule(world):
    """A message comes back only on failure. Requeued duplicates come back until the first is delivered."""
    requeues = world.parameter("OnDuplicate") == "requeue"
    # SQS takes at most 1,000 receives.
    wanted = {"InputQueue": 1000 if requeues else 50, "BatchQueue": 50}
    for queue, receives in wanted.items():
        found = int(world.properties(queue).get("RedrivePolicy", {}).get("maxReceiveCount", 0))
        if found != receives:
            yield f"{queue}: gives up after {found} receives, expected {receives}"
        lasts = found * int(world.properties(queue).get("VisibilityTimeout", 30))
        if lasts < FAULT_SECS:
            yield f"{queue}: a fault of {FAULT_SECS} s moves what waits to the dead letters, after {lasts} s"
        if queue == "InputQueue" and requeues and lasts < 24 * 3600:
            yield f"a duplicate is given up after {lasts} s"


@rule
def dead_letters_outlive_their_source(world):
    """A message keeps its age when it is moved: the queue it goes to must keep it longer."""
    for source, target in (("InputQueue", "InputDeadLetterQueue"), ("BatchQueue", "BatchDeadLetterQueue")):
        arn = world.properties(source).get("RedrivePolicy", {}).get("deadLetterTargetArn")
        if arn != f"<{target}.Arn>":
            yield f"{source}: dead letters go to {arn}"
        if retention(world.properties(target)) <= retention(world.properties(source)):
            yield f"{target} keeps messages no longer than {source}"
    if retention(world.properties("QuarantineQueue")) <= retention(world.properties("InputQueue")):
        yield "QuarantineQueue keeps messages no longer than InputQueue"
    # Under requeue, a duplicate waits in the queue; while the sink is down, everything does.
    for queue in ("InputQueue", "BatchQueue"):
        if retention(world.properties(queue)) < 4 * 86400:
            yield f"{queue} keeps messages less than 4 days"


@rule
def queues_take_any_message(world):
    """Standard queues without a delay or a size limit of their own."""
    for name, queue in world.kind("AWS::SQS::Queue").items():
        if int(queue.get("MaximumMessageSize", 1048576)) < 1048576 or int(queue.get("DelaySeconds", 0)) or queue.get("FifoQueue"):
            yield f"{name}: is limited, delayed or FIFO"


@rule
def encrypted(world):
    """Queues by SQS or a key, tables by DynamoDB or the key."""
    key = world.parameter("KmsKeyArn")
    for name, queue in world.kind("AWS::SQS::Queue").items():
        managed = str(queue.get("SqsManagedSseEnabled", "")).lower() == "true"
        # EventBridge writes into this one, which a key of yours would have to admit; no event of yours comes there.
        if name == "SweepDeadLetterQueue":
            if not managed or "KmsMasterKeyId" in queue:
                yield f"{name}: not encrypted by SQS"
        elif (queue.get("KmsMasterKeyId") != key) if key else not managed:
            yield f"{name}: not encrypted as KmsKeyArn says"
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        if table.get("SSESpecification", {}).get("KMSMasterKeyId", "") != key:
            yield f"{name}: not encrypted as KmsKeyArn says"
