"""Event source mappings: batches, scaling, timeouts and what they wire."""

from rules import rule


@rule
def large_batches_have_a_window(world):
    """More than 10 messages need a window of at least 1 s."""
    for mapping, function, _ in world.mappings():
        if int(mapping.get("BatchSize", 10)) > 10 and int(mapping.get("MaximumBatchingWindowInSeconds", 0)) < 1:
            yield f"{function}: batches of {mapping['BatchSize']} without a window"


@rule
def scales_by_a_maximum(world):
    """Each mapping has the maximum concurrency that is chosen. Provisioned pollers would cost money while idle."""
    for mapping, function, _ in world.mappings():
        found = mapping.get("ScalingConfig", {}).get("MaximumConcurrency")
        if str(found) != world.parameter(f"{function}Concurrency") or "ProvisionedPollerConfig" in mapping:
            yield f"{function}: scales to {found}, expected {function}Concurrency"


@rule
def bounds_are_those_of_aws(world):
    """What AWS refuses is refused before anything is created."""
    # Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>.
    for name in ("AggregatorConcurrency", "BatchProcessorConcurrency"):
        least, most = world.extremes(name)
        if least != 2 or most > 1000:
            yield f"{name}: {least} to {most}, AWS takes 2 to 1000"


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
def batches_are_large(world):
    """An invocation of the aggregator gets as many messages as Lambda gives."""
    size = int(world.mapping_of("Aggregator").get("BatchSize", 10))
    if size != 10_000:
        yield f"the aggregator gets at most {size} messages, Lambda gives 10000"


# The smallest DEDUP_WINDOW that is of use, which docs/deploying.md names: a message that comes back must meet its tombstone.
DEDUP_WINDOW_DEFAULT_SECS = 3600


@rule
def timeouts_fit_the_settings(world):
    """The default dedup window outlives the input queue's visibility timeout."""
    if world.extremes("BatchProcessorTimeout")[1] > 900:
        yield "BatchProcessorTimeout: over 900 s"
    visibility = int(world.properties("InputQueue").get("VisibilityTimeout", 30))
    if DEDUP_WINDOW_DEFAULT_SECS <= visibility:
        yield f"InputQueue: a visibility timeout of {visibility} s: expected less than the default of DEDUP_WINDOW"
