"""Alarms and the dashboard: what they watch, and when they ring."""

import json
import re

import cfn
import declared
import rust
from rules import rule
from world import SOURCE

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
    ("UniqueEventBatchAggregator", "NoticesWaiting", "function", "<BatchProcessor>", "source", "all"),
    ("UniqueEventBatchAggregator", "Rejected", "function", "<BatchProcessor>", "source", "<InputQueue.Arn>"),
    ("UniqueEventBatchAggregator", "PartsDelivered", "function", "<BatchProcessor>", "source", "<InputQueue.Arn>"),
    ("UniqueEventBatchAggregator", "IndexRuns", "function", "<BatchProcessor>", "source", "<InputQueue.Arn>"),
    ("UniqueEventBatchAggregator", "Failed", "function", "<Aggregator>", "source", "<InputQueue.Arn>"),
}

# If answers are read.
ALARMS_OF_ANSWERS = {
    ("UniqueEventBatchAggregator", "EventsSilent", "function", "<BatchProcessor>", "source", "all"),
    ("UniqueEventBatchAggregator", "AnswerProblems", "function", "<BatchProcessor>", "source", "all"),
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
    """Every alarm that docs/runbook.md explains, on metrics and dimensions that exist, sent to the topic."""
    alarms = world.kind("AWS::CloudWatch::Alarm")
    seen = {metric for alarm in alarms.values() for metric in watched(alarm)}
    wanted_metrics = ALARMS | (ALARMS_OF_REQUEUE if world.parameter("OnDuplicate") == "requeue" else set())
    wanted_metrics |= ALARMS_OF_ANSWERS if world.parameter("Answers") else set()
    for missing in sorted(wanted_metrics - seen):
        yield f"no alarm on {' '.join(missing)}"
    for other in sorted(seen - wanted_metrics):
        yield f"alarm on {' '.join(other)}, which docs/runbook.md does not explain"
    topic = world.parameter("AlarmTopicArn")
    actions = [topic] if topic else []
    for name, alarm in alarms.items():
        if alarm.get("AlarmActions", []) != actions or str(alarm.get("ActionsEnabled", "true")).lower() != "true":
            yield f"{name}: tells nobody"
        # A new stack would send a message for each alarm.
        if "OKActions" in alarm:
            yield f"{name}: tells {alarm['OKActions']} that it clears, expected nobody"
        # Alarms on 0: any count is one too many. Ages and the size of the index have thresholds of their own.
        level = alarm.get("MetricName") in ("ApproximateAgeOfOldestMessage", "IndexRuns")
        if (str(alarm.get("Threshold")) != "0" and not level) or alarm.get("ComparisonOperator") != "GreaterThanThreshold":
            yield f"{name}: threshold"
        # A period must see at least one sweep.
        if alarm.get("Namespace") == "UniqueEventBatchAggregator" and int(alarm["Period"]) < sweep_secs(world):
            yield f"{name}: shorter than the time between two sweeps"


def sweep_secs(world):
    """Returns the seconds between two sweeps."""
    (schedule,) = (each["ScheduleExpression"] for each in world.kind("AWS::Events::Rule").values())
    return 60 * int(re.fullmatch(r"rate\((\d+) minutes\)", schedule).group(1))


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
    # A message that fails twice is not late.
    least = 3 * int(world.properties("InputQueue")["VisibilityTimeout"])
    if not least <= int(alarms["InputQueueAge"]["Threshold"]) <= 3600:
        yield f"InputQueueAge: rings after {alarms['InputQueueAge']['Threshold']} s, expected {least} to 3600 s"


@rule
def what_stays_overdue_rings(world):
    """A batch that was sent a ticket is not overdue for a while: every period must see the sweep that finds it again."""
    (alarm,) = (each for each in world.kind("AWS::CloudWatch::Alarm").values() if each.get("MetricName") == "BatchesOverdue")
    resend_after, sweep = constant("TICKET_RESEND_AFTER"), sweep_secs(world)
    found_every = sweep * (resend_after // sweep + 1)
    if alarm.get("Statistic") != "Maximum" or int(alarm["Period"]) < found_every:
        yield f"BatchesOverdue: the {alarm.get('Statistic')} of {alarm['Period']} s, a batch that stays overdue is found every {found_every} s"


@rule
def nothing_rings_at_creation(world):
    """An alarm without data rings only if it had some before; the one that can say that there is no sweep any more does so."""
    actions = [world.parameter("AlarmTopicArn")] if world.parameter("AlarmTopicArn") else []
    for name, alarm in world.kind("AWS::CloudWatch::Alarm").items():
        # INSUFFICIENT_DATA is what an alarm begins with, and only a change is notified.
        # Source: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html>.
        wanted = {"BatchesOverdue": "missing", "BatchesInError": "ignore"}.get(alarm.get("MetricName"), "notBreaching")
        if alarm.get("TreatMissingData") != wanted:
            yield f"{name}: missing data is {alarm.get('TreatMissingData')}"
        if alarm.get("InsufficientDataActions", []) != (actions if wanted == "missing" else []):
            yield f"{name}: without data it tells {alarm.get('InsufficientDataActions', [])}"


def calculated(alarm, sums):
    """What the expression of an alarm comes to, of sums of one period; what is not there is missing."""
    (expression,) = (each["Expression"] for each in alarm["Metrics"] if "Expression" in each)
    names = {each["Id"]: sums.get(each["Id"]) for each in alarm["Metrics"] if "MetricStat" in each}
    functions = {"IF": lambda condition, yes, no: yes if condition else no, "FILL": lambda value, missing: missing if value is None else value}
    return eval(expression.replace(" AND ", " and ").replace(" OR ", " or "), {"__builtins__": {}}, functions | names)  # noqa: S307: of a template of ours

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
        ("each comes twice", {"received": 18, "deleted": 9, "delivered": 9}, (0, 0)),
        ("one comes three times", {"received": 3}, (1, 1)),
        ("each comes three times", {"received": 27, "deleted": 9}, (1, 1)),
        ("each comes three times while others are delivered", {"received": 27, "deleted": 9, "delivered": 5}, (1, 1)),
        ("others wait for one that comes again", {"received": 30, "deleted": 26}, (1, 1)),
        ("one comes again while others are delivered", {"received": 30, "deleted": 26, "delivered": 20}, (0, 0)),
        ("batches wait for their hour", {"received": 30, "deleted": 30}, (0, 0)),
        ("two are being delivered", {"received": 30, "deleted": 28}, (0, 0)),
    ],
}
SITUATIONS_OF_ANSWERS = {
    "AnswersMissing": [
        ("no sweep wrote anything", {}, (0, 0)),
        ("all is answered", {"silent": 0, "problems": 0}, (0, 0)),
        ("nothing was said about an event", {"silent": 1, "problems": 0}, (1, 1)),
        ("an answer says nothing", {"silent": 0, "problems": 1}, (1, 1)),
    ],
}

# Longest that a ticket that is given back stays away.
GIVEN_BACK_MAX_SECS = 300


@rule
def calculated_alarms_tell_what_is_wrong(world):
    """Duplicates that wait are no failure; what is received three times, which the age of a queue leaves out, is one."""
    alarms = world.kind("AWS::CloudWatch::Alarm")
    requeues = world.parameter("OnDuplicate") == "requeue"
    for name, situations in (SITUATIONS | (SITUATIONS_OF_ANSWERS if world.parameter("Answers") else {})).items():
        for what, sums, rings in situations:
            if calculated(alarms[name], sums) != rings[requeues]:
                yield f"{name}: when {what}, it {'is silent' if rings[requeues] else 'rings'}"
    periods = {
        name: {int(each["MetricStat"]["Period"]) for each in alarm.get("Metrics", []) if "MetricStat" in each} for name, alarm in alarms.items()
    }
    if min(periods.get("AnswersMissing", {sweep_secs(world)})) < sweep_secs(world):
        yield "AnswersMissing: a period is shorter than the time between two sweeps"
    # What keeps failing must fail in every period, or the periods are no receives of one message.
    if min(periods["InputQueueRetries"]) < int(world.properties("InputQueue")["VisibilityTimeout"]):
        yield "InputQueueRetries: a period is shorter than a visibility timeout"
    if int(alarms["InputQueueRetries"]["EvaluationPeriods"]) != 3:
        yield "InputQueueRetries: not three receives"
    # One period may end while tickets are on their way to the first delivery.
    if int(alarms["BatchQueueRetries"]["EvaluationPeriods"]) != 2:
        yield "BatchQueueRetries: not two periods"
    if min(periods["BatchQueueRetries"]) < 3 * (int(world.parameter("BatchProcessorTimeout")) + GIVEN_BACK_MAX_SECS):
        yield "BatchQueueRetries: a period is too short for three receives"


@rule
def metrics_exist(world):
    """Alarms and dashboard name only metrics that the functions emit, under their namespace and dimensions."""
    namespace, emitted = rust.namespace(SOURCE), declared.metrics(declared.METRICS.read_text())
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
