"""Queues: receives, retention, sizes and encryption."""

from rules import rule
from world import retention

# A fault that lasts so long sets nothing aside.
FAULT_SECS = 2 * 3600


@rule
def receives_fit_the_duplicate_rule(world):
    """A message comes back only on failure. Requeued duplicates come back until the first is delivered, and events that wait for their
    quota until the next period."""
    redrive = {queue: world.properties(queue).get("RedrivePolicy", {}) for queue in ("InputQueue", "BatchQueue")}
    receives = {queue: int(each.get("maxReceiveCount", 0)) for queue, each in redrive.items()}
    visibility = int(world.properties("InputQueue").get("VisibilityTimeout", 30))
    waits = world.parameter("OnDuplicate") == "requeue" or world.parameter("QuotaBeyond") == "wait"
    chosen = int(world.parameter("MaxReceiveCount"))
    if receives["BatchQueue"] != chosen:
        yield f"tickets are given up after {receives['BatchQueue']} receives, not {chosen}"
    if receives["InputQueue"] != (1000 if waits else chosen):
        yield f"messages are given up after {receives['InputQueue']} receives"
    if world.extremes("MaxReceiveCount") != (5, 1000):
        yield "MaxReceiveCount: AWS advises 5 at least with Lambda, and SQS takes 1,000 at most"
    if waits and receives["InputQueue"] * visibility < 24 * 3600:
        yield f"a duplicate is given up after {receives['InputQueue'] * visibility} s"
    # With an AggregatorTimeout of 15 s more is needed, as docs/deploying.md says.
    default = "MaxReceiveCount" not in world.chosen and int(world.parameter("AggregatorTimeout")) >= 30
    for queue in ("InputQueue", "BatchQueue"):
        lasts = receives[queue] * int(world.properties(queue).get("VisibilityTimeout", 30))
        if default and lasts < FAULT_SECS:
            yield f"{queue}: a fault of {FAULT_SECS} s moves what waits to the dead letters, after {lasts} s"


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
