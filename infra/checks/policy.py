"""What no linter knows: rules of AWS and of this service that a template must keep under every choice of parameters.

A rule is a function of one world: the resources worked out for one set of parameters. It yields what is wrong.
"""

import json
import re

import cfn
import declared
import rust

RULES = []
# One for all worlds: what is read from the code is the same in each.
SOURCE = rust.Source()


def rule(function):
    RULES.append(function)
    return function


class World:
    def __init__(self, text, chosen=None, generic=None, rename=None):
        self.text = text
        self.template = generic or cfn._transform(text, None)
        self.resolver = cfn.Resolver(self.template, chosen, rename)
        self.resources = self.resolver.resources()
        self.chosen = chosen or {}

    def kind(self, kind):
        return cfn.by_type(self.resources, kind)

    def properties(self, name):
        return self.resources[name]["Properties"]

    def parameter(self, name):
        return self.resolver.values[name]

    def spec(self, name):
        return self.template["Parameters"][name]

    def mappings(self):
        """(mapping, its function, its queue), by what they point at."""
        for mapping in self.kind("AWS::Lambda::EventSourceMapping").values():
            name = mapping["FunctionName"].strip("<>").split(".")[0]
            queue = mapping["EventSourceArn"].strip("<>").split(".")[0]
            yield mapping, name, queue

    def mapping_of(self, function):
        return next(mapping for mapping, name, _ in self.mappings() if name == function)

    def extremes(self, name):
        spec = self.spec(name)
        values = [int(each) for each in spec.get("AllowedValues", [])] or [int(spec["MinValue"]), int(spec["MaxValue"])]
        return min(values), max(values)


def retention(queue):
    return int(queue.get("MessageRetentionPeriod", 345600))


@rule
def large_batches_have_a_window(world):
    """More than 10 messages need a window of at least 1 s."""
    for mapping, function, _ in world.mappings():
        if int(mapping.get("BatchSize", 10)) > 10 and int(mapping.get("MaximumBatchingWindowInSeconds", 0)) < 1:
            yield f"{function}: batches of {mapping['BatchSize']} without a window"


@rule
def one_way_of_scaling(world):
    """MaximumConcurrency and provisioned pollers exclude each other; one of them is there."""
    for mapping, function, _ in world.mappings():
        both = {"ScalingConfig", "ProvisionedPollerConfig"} & set(mapping)
        if len(both) != 1:
            yield f"{function}: has {sorted(both)}"
    pollers = world.mapping_of("Aggregator").get("ProvisionedPollerConfig")
    if (world.parameter("InputScaling") == "provisioned") != (pollers is not None):
        yield "InputScaling does not decide"


@rule
def pollers_fit_each_other(world):
    """Any concurrency can be chosen from 2 pollers on; more at least than at most is refused, and nothing else is."""
    if world.chosen:
        return
    least, most = world.spec("PollersMin")["AllowedValues"], world.extremes("PollersMax")
    wrong = []
    for low in least:
        # Beyond the largest choice there is nothing left to refuse.
        for high in {*range(most[0], max(least) + 2), most[1]}:
            resolver = cfn.Resolver(world.template, {"PollersMin": low, "PollersMax": high})
            if bool(resolver.refusals()) != (low > high):
                wrong.append(f"PollersMin {low} with PollersMax {high} is {'refused' if low <= high else 'taken'}")
    if wrong:
        yield f"{wrong[0]} ({len(wrong)} such pairs)"


@rule
def bounds_are_those_of_aws(world):
    """What AWS refuses is refused before anything is created."""
    # Sources: <https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-lambda-eventsourcemapping-provisionedpollerconfig.html>,
    # <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html>.
    for name, (least, most) in {"PollersMin": (2, 200), "PollersMax": (2, 2000), "AggregatorConcurrency": (2, 1000), "BatchProcessorConcurrency": (2, 1000)}.items():
        bounds = world.extremes(name)
        if bounds[0] != least or bounds[1] > most:
            yield f"{name}: {bounds[0]} to {bounds[1]}, AWS takes {least} to {most}"
    # What a new table takes cannot be lowered.
    # Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html>.
    for value, taken in {"0": True, "1": False, "3999": False, "4000": True, "39999": True, "40000": True, "-4000": False, "": False}.items():
        if accepts(world.spec("LockTableWarmWrites"), value) != taken:
            yield f"LockTableWarmWrites: {value!r} is {'refused' if taken else 'taken'}"
    if int(world.spec("LockTableWarmReads").get("MinValue", 0)) < 12000:
        yield "LockTableWarmReads: less than what a new table takes"


def accepts(spec, value):
    """Whether CloudFormation takes a value for a parameter."""
    if "AllowedValues" in spec:
        return value in [str(each) for each in spec["AllowedValues"]]
    if spec["Type"] == "Number":
        if not re.fullmatch(r"-?[0-9]+", value):
            return False
        return int(spec.get("MinValue", value)) <= int(value) <= int(spec.get("MaxValue", value))
    return len(value) <= int(spec.get("MaxLength", len(value))) and bool(re.fullmatch(spec.get("AllowedPattern", "[\\s\\S]*"), value))


@rule
def reports_failures(world):
    """Without ReportBatchItemFailures the answer is ignored, and failed messages are deleted."""
    for mapping, function, _ in world.mappings():
        if mapping.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
            yield f"{function}: reports no failures"
        if str(mapping.get("Enabled", "true")).lower() != "true":
            yield f"{function}: mapping is off"


@rule
def mappings_as_designed(world):
    """Input queue to aggregator, tickets one at a time to the batch processor."""
    wired = {(function, queue) for _, function, queue in world.mappings()}
    if wired != {("Aggregator", "InputQueue"), ("BatchProcessor", "BatchQueue")}:
        yield f"wired {sorted(wired)}"
    tickets = world.mapping_of("BatchProcessor")
    if int(tickets.get("BatchSize", 10)) != 1:
        yield "the batch processor takes more than one ticket"
    if int(tickets.get("ScalingConfig", {}).get("MaximumConcurrency", 0)) != int(world.parameter("BatchProcessorConcurrency")):
        yield "the batch processor has no concurrency cap of its own"
    if any("FilterCriteria" in mapping for mapping, _, _ in world.mappings()):
        yield "a filter deletes what it filters out"


@rule
def visibility_fits(world):
    """Visibility is at least 6 times the function's timeout plus the window, and no more than a minute above it."""
    for mapping, function, queue in world.mappings():
        timeout = int(world.properties(function)["Timeout"])
        least = 6 * timeout + int(mapping.get("MaximumBatchingWindowInSeconds", 0))
        visibility = int(world.properties(queue).get("VisibilityTimeout", 30))
        if not least <= visibility <= min(43200, least + 60):
            yield f"{queue}: visibility {visibility} s, from {least} s on it fits"


@rule
def tickets_fit_their_delay(world):
    """Function timeout, window and clock skew stay within the longest delay of a message, whatever is chosen."""
    longest = world.extremes("AggregatorTimeout")[1] + world.extremes("MaxSecondaryBatchingWindow")[1] + 3
    if longest > 900:
        yield f"AggregatorTimeout and MaxSecondaryBatchingWindow may come to {longest} s"
    if world.extremes("BatchProcessorTimeout")[1] > 900 or world.extremes("VerifyDelay")[1] > 900:
        yield "BatchProcessorTimeout or VerifyDelay may be over 900 s"


@rule
def dedup_window_outlives_visibility(world):
    """A message that comes back must meet its tombstone."""
    visibility = int(world.properties("InputQueue").get("VisibilityTimeout", 30))
    least = world.extremes("DedupWindow")[0]
    if least <= visibility:
        yield f"DedupWindow may be {least} s, and the input queue's visibility timeout is {visibility} s"


@rule
def deadline_margin_fits(world):
    """An invocation must have time before its margin begins, and the margin be enough for what it is left for."""
    least, margin = world.extremes("DeadlineMarginMs")
    # Two calls of 1.5 s hardly fit; one does.
    if least < 2000:
        yield f"DeadlineMarginMs may be {least}"
    if margin >= 1000 * world.extremes("AggregatorTimeout")[0]:
        yield f"DeadlineMarginMs may be {margin} and leave an aggregator no time"


# A fault that lasts so long sets nothing aside.
FAULT_SECS = 2 * 3600


@rule
def receives_fit_the_duplicate_rule(world):
    """Dropped duplicates: a message comes back only on failure. Requeued ones come back until the first is delivered."""
    redrive = {queue: world.properties(queue).get("RedrivePolicy", {}) for queue in ("InputQueue", "BatchQueue")}
    receives = {queue: int(each.get("maxReceiveCount", 0)) for queue, each in redrive.items()}
    visibility = int(world.properties("InputQueue").get("VisibilityTimeout", 30))
    requeues = world.parameter("OnDuplicate") == "requeue"
    chosen = int(world.parameter("MaxReceiveCount"))
    if receives["BatchQueue"] != chosen:
        yield f"tickets are given up after {receives['BatchQueue']} receives, not {chosen}"
    if receives["InputQueue"] != (1000 if requeues else chosen):
        yield f"messages are given up after {receives['InputQueue']} receives"
    if world.extremes("MaxReceiveCount") != (5, 1000):
        yield "MaxReceiveCount: AWS advises 5 at least with Lambda, and SQS takes 1,000 at most"
    if requeues and receives["InputQueue"] * visibility < 24 * 3600:
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
    written = set()
    for path in SOURCE.files("shared/src/aws"):
        written |= set(re.findall(r"\b\w+\b", SOURCE.read(path)))
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        carried = [each for index in table["GlobalSecondaryIndexes"] for each in index["Projection"].get("NonKeyAttributes", [])]
        for attribute in [each["AttributeName"] for each in table["AttributeDefinitions"]] + carried:
            if attribute not in written:
                yield f"{name}: no adapter writes {attribute}"


@rule
def tables_forget_by_expires_at(world):
    """The TTL attribute is `expiresAt`: a live claim has none, a tombstone has."""
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
    """Deleting the stack, or a change that replaces a resource, deletes no message and no claim."""
    for name, resource in world.resources.items():
        if resource["Type"] in ("AWS::SQS::Queue", "AWS::DynamoDB::Table"):
            if {resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")} != {"Retain"}:
                yield f"{name}: is not kept"
            if {"QueueName", "TableName"} & set(resource["Properties"]):
                yield f"{name}: has a name, so a second stack could not be created beside what was kept"


@rule
def functions_as_designed(world):
    for name in ("Aggregator", "BatchProcessor"):
        function = world.properties(name)
        wanted = {
            "Runtime": "provided.al2023",
            "Architectures": [world.parameter("Architecture")],
            "MemorySize": world.parameter("MemorySize"),
            "Role": f"<{name}Role.Arn>",
            "TracingConfig": {"Mode": world.parameter("Tracing")},
            "LoggingConfig": {"LogGroup": f"<{name}LogGroup>"},
            "Timeout": world.parameter(f"{name}Timeout"),
        }
        for key, value in wanted.items():
            if str(function.get(key)) != str(value):
                yield f"{name}: {key} is {function.get(key)}"
        # The extension is the one layer, of the one function that has a secret.
        layer = world.parameter("SecretsLayerArn") if name == "BatchProcessor" else ""
        if function.get("Layers", []) != ([layer] if layer else []):
            yield f"{name}: Layers is {function.get('Layers')}"
        # One that is reserved too low throttles the mapping, and throttled messages come nearer to the dead letters.
        if "ReservedConcurrentExecutions" in function:
            yield f"{name}: reserves concurrency"
    if (world.spec("Architecture")["Default"], str(world.spec("MemorySize")["Default"])) != ("x86_64", "1769"):
        # What is built and tested; the other one is a choice, with a package of its own.
        yield "defaults of Architecture and MemorySize"
    if sorted(world.spec("Architecture")["AllowedValues"]) != ["arm64", "x86_64"]:
        yield "Architecture: not every one that Lambda has"


# Lambda measures the variables of a function together, as JSON.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>; that it is JSON is what its refusal shows.
VARIABLES_BYTES_MAX = 4096
# Names that CloudFormation makes end where the service's do; a queue's URL has a region and an account besides.
# Sources: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Limits.html>,
# <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>.
GENERATED = {
    "AWS::DynamoDB::Table": "t" * 255,
    "AWS::SQS::Queue": f"https://sqs.ap-southeast-1.amazonaws.com.cn/123456789012/{'q' * 80}",
}


def longest(spec, name):
    """A value that takes as much room in JSON as any that a parameter accepts."""
    if "AllowedValues" in spec:
        return max((str(each) for each in spec["AllowedValues"]), key=len)
    if spec["Type"] == "Number":
        return str(spec["MaxValue"])
    pattern = spec.get("AllowedPattern", "(?s:.)*")
    wide = [each for each in ("\x01", "\u00fc", "\n") if any_char(pattern, each)]
    if wide:
        raise ValueError(f"{name} accepts {wide[0]!r}, which takes more room than a character of ASCII")
    escaped = any_char(pattern, '"') or any_char(pattern, "\\")
    return ('"' if escaped else "x") * int(spec["MaxLength"])


def any_char(pattern, char):
    """Whether some class of characters in a pattern has this one."""
    import re._parser as parser

    def classes(node):
        for kind, argument in node:
            name = str(kind)
            if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
                yield (kind, argument)
            elif name == "SUBPATTERN":
                yield from classes(argument[-1])
            elif name == "BRANCH":
                for branch in argument[1]:
                    yield from classes(branch)
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                yield from classes(argument[2])
            elif name != "AT":
                raise ValueError(f"{name} in a pattern is not known here")

    def has(kind, argument):
        name = str(kind)
        if name == "LITERAL":
            return argument == ord(char)
        if name == "NOT_LITERAL":
            return argument != ord(char)
        if name == "ANY":
            return True
        negated = any(str(each[0]) == "NEGATE" for each in argument)
        inside = any(
            (str(one) == "LITERAL" and what == ord(char)) or (str(one) == "RANGE" and what[0] <= ord(char) <= what[1])
            for one, what in argument
        )
        return inside != negated

    return any(has(*each) for each in classes(parser.parse(pattern)))


def variables_bytes(world):
    """What Lambda measures of each function, each variable with the longest value that its parameter accepts."""
    measured = {}
    for name in ("Aggregator", "BatchProcessor"):
        nodes = world.template["Resources"][name]["Properties"]["Environment"]["Variables"]
        filled = {}
        for variable, node in nodes.items():
            # The longer one, whatever is chosen.
            node = node["Fn::If"][1] if isinstance(node, dict) and "Fn::If" in node else node
            if not isinstance(node, dict):
                filled[variable] = str(node)
            elif node["Ref"] in world.template["Parameters"]:
                filled[variable] = longest(world.spec(node["Ref"]), node["Ref"])
            else:
                filled[variable] = GENERATED[world.template["Resources"][node["Ref"]]["Type"]]
        measured[name] = len(json.dumps(filled, separators=(",", ":")).encode())
    return measured


@rule
def variables_fit(world):
    """All variables of a function fit Lambda's 4 KB together, whatever is chosen."""
    for name, measured in variables_bytes(world).items() if not world.chosen else ():
        if measured > VARIABLES_BYTES_MAX:
            yield f"{name}: variables may take {measured} bytes, Lambda takes {VARIABLES_BYTES_MAX}"


# Parts that a full batch may need; it has 100, of which the others are for what comes late.
PARTS_MAX = 90


@rule
def a_full_batch_fits_its_parts(world):
    """As the functions check it when they start: of the defaults, nothing is refused."""
    size, total, part = (int(world.parameter(each)) for each in ("MaxBatchSize", "MaxBatchBytes", "MaxPartBytes"))
    if f"The largest batch fits {PARTS_MAX} parts" not in declared.DOCUMENT.read_text():
        yield f"a full batch may need {PARTS_MAX} parts here and in CDK, in the code it is another number"
    parts = -(-4 * (total + 256 * size) // (3 * part))
    if parts > PARTS_MAX:
        yield f"a full batch needs {parts} parts"
    for name in ("Aggregator", "BatchProcessor"):
        missing = {"MAX_BATCH_SIZE", "MAX_BATCH_BYTES", "MAX_PART_BYTES"} - set(world.properties(name)["Environment"]["Variables"])
        if missing:
            yield f"{name}: cannot check the parts of a batch without {sorted(missing)}"


@rule
def logs_end(world):
    """Every function has a log group of its own, with a retention."""
    for name in ("AggregatorLogGroup", "BatchProcessorLogGroup"):
        if str(world.properties(name).get("RetentionInDays")) != world.parameter("LogRetentionDays"):
            yield f"{name}: retention"


@rule
def sweep_is_scheduled(world):
    """An EventBridge rule (its `detail-type` is what the batch processor knows), and the permission it needs."""
    schedules = {
        name: each
        for name, each in world.kind("AWS::Events::Rule").items()
        if each.get("ScheduleExpression") and each.get("State", "ENABLED") == "ENABLED"
    }
    if len(schedules) != 1:
        yield f"{len(schedules)} schedules"
        return
    (name, schedule), = schedules.items()
    if schedule["ScheduleExpression"] != f"rate({world.parameter('SweepMinutes')} minutes)":
        yield f"{name}: {schedule['ScheduleExpression']}"
    targets = schedule.get("Targets", [])
    if [each["Arn"] for each in targets] != ["<BatchProcessor.Arn>"]:
        yield f"{name}: does not go to the batch processor"
    if any({"Input", "InputPath", "InputTransformer"} & set(each) for each in targets):
        yield f"{name}: changes the event, which is then no `Scheduled Event`"
    permitted = [
        each
        for each in world.kind("AWS::Lambda::Permission").values()
        if each["Principal"] == "events.amazonaws.com" and each["Action"] == "lambda:InvokeFunction"
        and each.get("SourceArn") == f"<{name}.Arn>" and each["FunctionName"].startswith("<BatchProcessor")
    ]
    if len(permitted) != 1 or len(world.kind("AWS::Lambda::Permission")) != 1:
        yield f"{name}: may not invoke the batch processor, or others may"


@rule
def failed_sweeps_are_kept(world):
    """A sweep that could not be called, or failed, goes to a queue that EventBridge and Lambda may write to, and nobody else."""
    queue = "<SweepDeadLetterQueue.Arn>"
    (name, schedule), = world.kind("AWS::Events::Rule").items()
    for target in schedule["Targets"]:
        if target.get("DeadLetterConfig", {}).get("Arn") != queue:
            yield f"{name}: what cannot be called is lost"
    invoked = [each for each in world.kind("AWS::Lambda::EventInvokeConfig").values() if each["FunctionName"].startswith("<BatchProcessor")]
    if [each.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination") for each in invoked] != [queue]:
        yield "BatchProcessor: a sweep that fails is told nowhere"
    # Each sweep does what the one before it missed: two at once would only send twice the tickets.
    if any(str(each.get("MaximumRetryAttempts")) != "0" for each in invoked):
        yield "BatchProcessor: a sweep that failed is tried again"
    allowed = [
        (statement["Effect"], statement["Action"], statement["Principal"], statement["Resource"], statement.get("Condition"))
        for policy in world.kind("AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    wanted = ("Allow", "sqs:SendMessage", {"Service": "events.amazonaws.com"}, queue, {"ArnEquals": {"aws:SourceArn": f"<{name}.Arn>"}})
    if allowed != [wanted]:
        yield f"SweepDeadLetterQueue: who may send to it is {allowed}"


ALARMS = {
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<InputDeadLetterQueue.QueueName>"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<BatchDeadLetterQueue.QueueName>"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<QuarantineQueue.QueueName>"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<SweepDeadLetterQueue.QueueName>"),
    ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", "<InputQueue.QueueName>"),
    ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", "<BatchQueue.QueueName>"),
    ("AWS/SQS", "NumberOfMessagesDeleted", "QueueName", "<InputQueue.QueueName>"),
    ("AWS/SQS", "NumberOfMessagesReceived", "QueueName", "<InputQueue.QueueName>"),
    ("AWS/SQS", "NumberOfMessagesDeleted", "QueueName", "<BatchQueue.QueueName>"),
    ("AWS/SQS", "NumberOfMessagesReceived", "QueueName", "<BatchQueue.QueueName>"),
    ("AWS/Lambda", "Errors", "FunctionName", "<Aggregator>"),
    ("AWS/Lambda", "Errors", "FunctionName", "<BatchProcessor>"),
    ("AWS/Lambda", "Throttles", "FunctionName", "<Aggregator>"),
    ("AWS/Lambda", "Throttles", "FunctionName", "<BatchProcessor>"),
    ("UniqueEventBatchAggregator", "BatchesOverdue", "function", "<BatchProcessor>", "source", "all"),
    ("UniqueEventBatchAggregator", "BatchesInError", "function", "<BatchProcessor>", "source", "all"),
    ("UniqueEventBatchAggregator", "Failed", "function", "<Aggregator>", "source", "<InputQueue.Arn>"),
}
# With these an alarm tells duplicates that wait from messages that fail.
ALARMS_OF_REQUEUE = {
    ("UniqueEventBatchAggregator", "Duplicates", "function", "<Aggregator>", "source", "<InputQueue.Arn>"),
    ("UniqueEventBatchAggregator", "Conflicts", "function", "<Aggregator>", "source", "<InputQueue.Arn>"),
}


def watched(alarm):
    """The metrics an alarm looks at, each as namespace, name and dimensions."""
    for each in [alarm] + [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part]:
        if "MetricName" in each:
            dimensions = sorted((one["Name"], one["Value"]) for one in each.get("Dimensions", []))
            yield (each["Namespace"], each["MetricName"], *[text for pair in dimensions for text in pair])


@rule
def alarms_are_there(world):
    """Every alarm that docs/operations.md explains, on metrics and dimensions that exist, told to the topic."""
    alarms = world.kind("AWS::CloudWatch::Alarm")
    seen = {metric for alarm in alarms.values() for metric in watched(alarm)}
    wanted_metrics = ALARMS | (ALARMS_OF_REQUEUE if world.parameter("OnDuplicate") == "requeue" else set())
    for missing in sorted(wanted_metrics - seen):
        yield f"no alarm on {' '.join(missing)}"
    for other in sorted(seen - wanted_metrics):
        yield f"alarm on {' '.join(other)}, which docs/operations.md does not explain"
    topic = world.parameter("AlarmTopicArn")
    told = [topic] if topic else []
    for name, alarm in alarms.items():
        if alarm.get("AlarmActions", []) != told or str(alarm.get("ActionsEnabled", "true")).lower() != "true":
            yield f"{name}: tells nobody"
        # Alarms on 0: any count is one too many. Ages have a threshold of their own.
        age = alarm.get("MetricName") == "ApproximateAgeOfOldestMessage"
        if (str(alarm.get("Threshold")) != "0" and not age) or alarm.get("ComparisonOperator") != "GreaterThanThreshold":
            yield f"{name}: threshold"
        # A sweep reports once every SweepMinutes: a period must see at least one.
        if alarm.get("Namespace") == "UniqueEventBatchAggregator" and int(alarm["Period"]) < 60 * int(world.parameter("SweepMinutes")):
            yield f"{name}: shorter than the time between two sweeps"


def constant(name):
    """A duration in whole seconds of the sources."""
    (secs,) = re.findall(rf"const {name}: Duration = Duration::from_secs\(([\d_]+)\);", SOURCE.read("protocol/src/limits.rs"))
    return int(secs)


# Longest that a message waits before it can be received.
DELAY_MAX_SECS = 900


@rule
def ages_are_above_what_is_normal(world):
    """A message that is being worked on is as old as a visibility timeout, and a ticket may have been delayed before."""
    alarms = world.kind("AWS::CloudWatch::Alarm")
    visibility = int(world.properties("BatchQueue")["VisibilityTimeout"])
    if int(alarms["BatchQueueAge"]["Threshold"]) < visibility + DELAY_MAX_SECS:
        yield f"BatchQueueAge: rings after {alarms['BatchQueueAge']['Threshold']} s, a ticket is given {visibility} s and a delay"
    if str(alarms["InputQueueAge"]["Threshold"]) != world.parameter("OldestMessageSeconds"):
        yield "InputQueueAge: not OldestMessageSeconds"


@rule
def what_stays_overdue_rings(world):
    """A batch that was sent a ticket is not overdue for a while: every period must see the sweep that finds it again."""
    (alarm,) = (each for each in world.kind("AWS::CloudWatch::Alarm").values() if each.get("MetricName") == "BatchesOverdue")
    reminded, sweep = constant("REMINDED_FOR"), 60 * int(world.parameter("SweepMinutes"))
    found_every = sweep * (reminded // sweep + 1)
    if alarm.get("Statistic") != "Maximum" or int(alarm["Period"]) < found_every:
        yield f"BatchesOverdue: the {alarm.get('Statistic')} of {alarm['Period']} s, a batch that stays overdue is found every {found_every} s"


@rule
def nothing_rings_at_creation(world):
    """An alarm without data rings only if it had some before; the one that can say that there is no sweep any more does so."""
    told = [world.parameter("AlarmTopicArn")] if world.parameter("AlarmTopicArn") else []
    for name, alarm in world.kind("AWS::CloudWatch::Alarm").items():
        # INSUFFICIENT_DATA is what an alarm begins with, and only a change is told.
        # Source: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html>.
        wanted = {"BatchesOverdue": "missing", "BatchesInError": "ignore"}.get(alarm.get("MetricName"), "notBreaching")
        if alarm.get("TreatMissingData") != wanted:
            yield f"{name}: missing data is {alarm.get('TreatMissingData')}"
        if alarm.get("InsufficientDataActions", []) != (told if wanted == "missing" else []):
            yield f"{name}: without data it tells {alarm.get('InsufficientDataActions', [])}"


def calculated(alarm, sums):
    """What the expression of an alarm comes to, of sums of one period; what is not there is missing."""
    (expression,) = (each["Expression"] for each in alarm["Metrics"] if "Expression" in each)
    names = {each["Id"]: sums.get(each["Id"]) for each in alarm["Metrics"] if "MetricStat" in each}
    functions = {"IF": lambda condition, yes, no: yes if condition else no, "FILL": lambda value, missing: missing if value is None else value}
    return eval(expression.replace(" AND ", " and "), {"__builtins__": {}}, functions | names)  # noqa: S307: of a template of ours


# Sums of a period, and whether they are an alarm: with dropped duplicates, and with requeued ones.
SITUATIONS = {
    "InputQueueStuck": [
        ("nothing comes", {}, (0, 0)),
        ("all is well", {"received": 9, "deleted": 9, "duplicates": 1}, (0, 0)),
        ("answers are malformed", {"received": 9, "deleted": 0}, (1, 1)),
        ("duplicates wait", {"received": 9, "deleted": 0, "duplicates": 9}, (1, 0)),
        ("other contents wait", {"received": 9, "deleted": 0, "conflicts": 9}, (1, 0)),
    ],
    "BatchQueueStuck": [
        ("nothing comes", {}, (0, 0)),
        ("all is well", {"received": 9, "deleted": 9}, (0, 0)),
        ("the sink is down", {"received": 9, "deleted": 0}, (1, 1)),
    ],
    "InputQueueRetries": [
        ("nothing comes", {}, (0, 0)),
        ("one message fails", {"failed": 1}, (1, 1)),
        ("duplicates wait", {"failed": 9, "duplicates": 5, "conflicts": 4}, (1, 0)),
        ("one message fails while duplicates wait", {"failed": 10, "duplicates": 9}, (1, 1)),
    ],
    "BatchQueueRetries": [
        ("nothing comes", {}, (0, 0)),
        ("all is well", {"received": 9, "deleted": 9}, (0, 0)),
        ("each comes twice", {"received": 18, "deleted": 9}, (0, 0)),
        ("one comes three times", {"received": 3}, (1, 1)),
        ("each comes three times", {"received": 27, "deleted": 9}, (1, 1)),
    ],
}
# Longest that a ticket that is given back stays away.
GIVEN_BACK_MAX_SECS = 300


@rule
def calculated_alarms_tell_what_is_wrong(world):
    """Duplicates that wait are no failure; what is received three times, which the age of a queue leaves out, is one."""
    alarms = world.kind("AWS::CloudWatch::Alarm")
    requeues = world.parameter("OnDuplicate") == "requeue"
    for name, situations in SITUATIONS.items():
        for what, sums, rings in situations:
            if calculated(alarms[name], sums) != rings[requeues]:
                yield f"{name}: when {what}, it {'is silent' if rings[requeues] else 'rings'}"
    periods = {
        name: {int(each["MetricStat"]["Period"]) for each in alarm.get("Metrics", []) if "MetricStat" in each} for name, alarm in alarms.items()
    }
    # What keeps failing must fail in every period, or the periods are no receives of one message.
    if min(periods["InputQueueRetries"]) < int(world.properties("InputQueue")["VisibilityTimeout"]):
        yield "InputQueueRetries: a period is shorter than a visibility timeout"
    if int(alarms["InputQueueRetries"]["EvaluationPeriods"]) != 3:
        yield "InputQueueRetries: not three receives"
    if min(periods["BatchQueueRetries"]) < 3 * (int(world.parameter("BatchProcessorTimeout")) + GIVEN_BACK_MAX_SECS):
        yield "BatchQueueRetries: a period is too short for three receives"


@rule
def metrics_exist(world):
    """Alarms and dashboard name only metrics that the functions emit, under their namespace and dimensions."""
    namespace, emitted = rust.namespace(SOURCE), rust.metrics(SOURCE)
    used = {metric for alarm in world.kind("AWS::CloudWatch::Alarm").values() for metric in watched(alarm)}
    boards = world.kind("AWS::CloudWatch::Dashboard")
    shown = set()
    for name, board in boards.items():
        for widget in json.loads(board["DashboardBody"])["widgets"]:
            shown |= {tuple(part for part in metric if isinstance(part, str)) for metric in widget["properties"]["metrics"]}
            if widget["properties"]["region"] != cfn.PSEUDO["AWS::Region"]:
                yield f"{name}: another region"
    if len(boards) != 1:
        yield f"{len(boards)} dashboards"
    for metric in sorted(used | shown):
        if not metric[0].startswith("AWS/"):
            if metric[0] != namespace or metric[1] not in emitted:
                yield f"nobody emits {metric[0]} {metric[1]}"
            if metric[2::2] != ("function", "source"):
                yield f"{metric[1]}: dimensions {metric[2::2]}"
    for name in ("Claimed", "Duplicates", "BatchItems", "BatchesCompleted", "IndexLagRetries", "Throttles", "BatchAge"):
        if name not in {metric[1] for metric in shown}:
            yield f"the dashboard does not show {name}"


@rule
def wildcards_are_argued_for(world):
    """A `*` in a policy has a comment before its statement that says why; nothing is excepted or denied instead."""
    for role, properties in world.kind("AWS::IAM::Role").items():
        if properties.get("ManagedPolicyArns"):
            yield f"{role}: managed policies"
        for statement in statements(properties):
            if {"NotAction", "NotResource", "NotPrincipal"} & set(statement) or statement["Effect"] != "Allow":
                yield f"{role}: {statement.get('Sid')} is not a plain grant"
            text = json.dumps([statement.get("Action"), statement.get("Resource")])
            if ("*" in text or "LogGroup.Arn" in text) and world.text:
                lines = world.text.splitlines()
                argued = [
                    re.match(r"\s*#.*(wildcard|no resources)", lines[at - 1])
                    for at, line in enumerate(lines)
                    if line.strip() == f"- Sid: {statement.get('Sid')}"
                ]
                if not argued or not all(argued):
                    yield f"{role}: {statement.get('Sid')} has a wildcard without a word on it"
        trust = properties["AssumeRolePolicyDocument"]["Statement"]
        if [(each["Action"], each["Principal"]) for each in trust] != [("sts:AssumeRole", {"Service": "lambda.amazonaws.com"})]:
            yield f"{role}: who may assume it"


@rule
def lists_only_what_it_reads(world):
    """s3:ListBucket is there to tell a missing object from a forbidden one: below the prefix that is read, and nowhere else."""
    # In place of a name that is missing, S3 checks this with the name as the prefix.
    # Source: <https://github.com/ceph/ceph/pull/68577>, which does as S3 does.
    for sid, parameter in {"MissInS3": "Sink", "MissRejectsInS3": "SinkRejects", "MissPayloadsInS3": "SinkPayloads"}.items():
        bucket, _, prefix = world.parameter(parameter).removeprefix("s3://").partition("/")
        for statement in statements(world.properties("BatchProcessorRole")):
            if statement["Sid"] == sid:
                wanted = {"StringLike": {"s3:prefix": f"{prefix}/*"}} if prefix else None
                if statement.get("Condition") != wanted or statement["Resource"] != f"arn:aws:s3:::{bucket}":
                    yield f"{sid}: lists {statement['Resource']} with {statement.get('Condition')}"


@rule
def starts_only_what_is_chosen(world):
    """A version or an alias of a state machine is granted as IAM sees it: the machine, and what is behind it as a condition."""
    # Source: <https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html>.
    fields = world.parameter("Sink").split(":")
    for statement in statements(world.properties("BatchProcessorRole")):
        if statement["Sid"] == "DeliverToStateMachine":
            wanted = {"ForAnyValue:StringEquals": {"states:StateMachineQualifier": fields[7]}} if len(fields) > 7 else None
            if statement.get("Condition") != wanted or statement["Resource"] != ":".join(fields[:7]):
                yield f"{statement['Resource']} with {statement.get('Condition')}"


def statements(role):
    return [each for policy in role.get("Policies", []) for each in policy["PolicyDocument"]["Statement"]]


@rule
def outside_policies(world):
    """Nothing else grants anything: no policies beside the roles, and of resources the one that EventBridge needs."""
    for name, resource in world.resources.items():
        kind = resource["Type"]
        other = kind == "AWS::SQS::QueuePolicy" and resource["Properties"]["Queues"] != ["<SweepDeadLetterQueue>"]
        if other or kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
            yield f"{name}: grants beside the roles"


def check(world):
    """(rule, what is wrong) of one world."""
    found = []
    for each in RULES:
        try:
            found += [(each.__name__, problem) for problem in each(world)]
        except (KeyError, StopIteration, ValueError, TypeError, IndexError) as error:
            found.append((each.__name__, f"cannot be looked at: {error!r}"))
    return found


def check_all(text):
    """The same in every world; each problem once, with the first world that has it."""
    try:
        generic = cfn._transform(text, None)
        worlds = cfn.worlds(generic)
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        return [("transform", f"{type(error).__name__}: {error}")]
    found = {}
    for chosen in worlds:
        try:
            world = World(text, chosen, generic)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            found.setdefault(("resolves", repr(error)), chosen)
            continue
        for problem in check(world):
            found.setdefault(problem, chosen)
    return [(name, f"{problem}{f' (with {chosen})' if chosen else ''}") for (name, problem), chosen in found.items()]
