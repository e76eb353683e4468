"""What no linter knows: rules of AWS and of the design that a template must keep under every choice of parameters.

A rule is a function of one world: the resources worked out for one set of parameters. It yields what is wrong.
"""

import json
import re

import cfn
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
    if pollers and world.extremes("PollersMin")[1] > world.extremes("PollersMax")[0]:
        yield "PollersMin may be above PollersMax"


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
    """An invocation must have time before its margin begins."""
    margin = world.extremes("DeadlineMarginMs")[1]
    if margin >= 1000 * world.extremes("AggregatorTimeout")[0]:
        yield f"DeadlineMarginMs may be {margin} and leave an aggregator no time"


@rule
def receives_fit_the_duplicate_rule(world):
    """Dropped duplicates: a message comes back only on failure. Requeued ones come back until the first is delivered."""
    redrive = {queue: world.properties(queue).get("RedrivePolicy", {}) for queue in ("InputQueue", "BatchQueue")}
    receives = {queue: int(each.get("maxReceiveCount", 0)) for queue, each in redrive.items()}
    if not 5 <= receives["BatchQueue"] <= 20:
        yield f"tickets are given up after {receives['BatchQueue']} receives"
    if world.parameter("OnDuplicate") == "drop" and not 5 <= receives["InputQueue"] <= 20:
        yield f"messages are given up after {receives['InputQueue']} receives"
    if world.parameter("OnDuplicate") == "requeue":
        waits = receives["InputQueue"] * int(world.properties("InputQueue").get("VisibilityTimeout", 30))
        if waits < 24 * 3600 or receives["InputQueue"] > 1000:
            yield f"a duplicate is given up after {waits} s and {receives['InputQueue']} receives"


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
        if (queue.get("KmsMasterKeyId") != key) if key else not managed:
            yield f"{name}: not encrypted as KmsKeyArn says"
    for name, table in world.kind("AWS::DynamoDB::Table").items():
        if table.get("SSESpecification", {}).get("KMSMasterKeyId", "") != key:
            yield f"{name}: not encrypted as KmsKeyArn says"


TABLES = {
    "LockTable": ({"messageId": "S", "batchId": "S", "seq": "N"}, ["messageId"], "batchId-index", ["batchId", "seq"], "KEYS_ONLY"),
    "BatchTable": ({"batchId": "S", "status": "S", "dueAt": "N"}, ["batchId"], "status-index", ["status", "dueAt"], "ALL"),
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
        if indexes[0]["Projection"] != {"ProjectionType": projection}:
            yield f"{name}: projection of {index}"


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
    if (world.spec("Architecture")["Default"], str(world.spec("MemorySize")["Default"])) != ("arm64", "1769"):
        yield "defaults of Architecture and MemorySize"


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


ALARMS = {
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<InputDeadLetterQueue.QueueName>"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<BatchDeadLetterQueue.QueueName>"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "<QuarantineQueue.QueueName>"),
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
}


def watched(alarm):
    """The metrics an alarm looks at, each as namespace, name and dimensions."""
    for each in [alarm] + [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part]:
        if "MetricName" in each:
            dimensions = sorted((one["Name"], one["Value"]) for one in each.get("Dimensions", []))
            yield (each["Namespace"], each["MetricName"], *[text for pair in dimensions for text in pair])


@rule
def alarms_are_there(world):
    """Every alarm of the design, on metrics and dimensions that exist, told to the topic."""
    alarms = world.kind("AWS::CloudWatch::Alarm")
    seen = {metric for alarm in alarms.values() for metric in watched(alarm)}
    for missing in sorted(ALARMS - seen):
        yield f"no alarm on {' '.join(missing)}"
    for other in sorted(seen - ALARMS):
        yield f"alarm on {' '.join(other)}, which is not in the design"
    topic = world.parameter("AlarmTopicArn")
    for name, alarm in alarms.items():
        if alarm.get("AlarmActions", []) != ([topic] if topic else []) or str(alarm.get("ActionsEnabled", "true")).lower() != "true":
            yield f"{name}: tells nobody"
        # Alarms on 0: any count is one too many. The others have a threshold of their own.
        age = alarm.get("MetricName") == "ApproximateAgeOfOldestMessage"
        if str(alarm.get("Threshold")) != (world.parameter("OldestMessageSeconds") if age else "0") or alarm.get(
            "ComparisonOperator"
        ) != "GreaterThanThreshold":
            yield f"{name}: threshold"
        wanted = {"BatchesOverdue": "breaching", "BatchesInError": "ignore"}.get(alarm.get("MetricName"), "notBreaching")
        if alarm.get("TreatMissingData") != wanted:
            yield f"{name}: missing data is {alarm.get('TreatMissingData')}"
        stuck = [each.get("Expression", "") for each in alarm.get("Metrics", []) if "Expression" in each]
        if stuck and stuck != ["IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0, 1, 0)"]:
            yield f"{name}: expression"
        # A sweep reports once every SweepMinutes: a period must see at least one.
        if alarm.get("Namespace") == "UniqueEventBatchAggregator" and int(alarm["Period"]) < 60 * int(world.parameter("SweepMinutes")):
            yield f"{name}: shorter than the time between two sweeps"


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


def statements(role):
    return [each for policy in role.get("Policies", []) for each in policy["PolicyDocument"]["Statement"]]


@rule
def outside_policies(world):
    """Nothing else grants anything: no resource policies, no policies beside the roles."""
    for name, resource in world.resources.items():
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::SQS::QueuePolicy", "AWS::IAM::RolePolicy"):
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
