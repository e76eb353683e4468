"""Event source mappings: batches, scaling, timeouts and what they wire."""

import cfn
from rules import rule
from world import accepts


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
    # A list, because Lambda refuses a second mapping of a queue to a function.
    wired = sorted((function, queue) for _, function, queue in world.mappings())
    if wired != [("Aggregator", "InputQueue"), ("BatchProcessor", "BatchQueue")]:
        yield f"wired {wired}"
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
