"""6: how many messages an invocation gets, by window and by how the mapping scales."""

import time

from verify import burst, figures
from verify.costs import Cost
from verify.costs import burst as burst_costs
from verify.experiment import Experiment
from verify.verdict import of_checks

MESSAGES = 200_000
WINDOWS = (1, 5, 20)
MODES = {
    "standard": {"ScalingConfig": {"MaximumConcurrency": 50}},
    "provisioned": {"ProvisionedPollerConfig": {"MinimumPollers": 2, "MaximumPollers": 200}},
}
# docs/deploying.md, Cost: what a provisioned poller receives in a second, and the messages an invocation that the page assumes.
POLLER_PER_SECOND = 100
STANDARD_ASSUMED = 100
# The log has an invocation's line some seconds later.
LOG_SECONDS = 60


class BatchSize(Experiment):
    number = 6
    assumption = (
        "An invocation gets 100 messages or more at the default window of 1 s; a provisioned poller gathers 100 a second of its window"
    )
    relied_on_in = "docs/deploying.md, Cost; infra/sam/template.yaml, PollersMax"
    does = f"Sends {MESSAGES:,} messages with windows of {', '.join(map(str, WINDOWS))} s, with MaximumConcurrency and with provisioned pollers"
    needs = ("main",)
    minutes = 30

    def costs(self):
        runs = len(WINDOWS) * len(MODES)
        return [*burst_costs(MESSAGES * runs), Cost("poller-hour", 200 * 0.3)]

    def run(self, world):
        stack, runs = world.need("main"), []
        for number, (mode, window) in enumerate((mode, window) for mode in MODES for window in WINDOWS):
            self.map(world, stack, mode, window)
            seen = burst.Burst(world, stack).run(world.scaled(MESSAGES, 100), 0, 600 + number, 900, batches=False)
            world.pause(LOG_SECONDS)
            lines = world.log_lines(stack.physical["AggregatorLogGroup"], seen["began"], "{ $.Received > 0 }")
            received = [int(line["Received"]) for line in lines if isinstance(line, dict) and line.get("Received")]
            run = {"mode": mode, "window": window, "drained": seen["drained"], "seconds": seen.get("seconds"), "invocations": len(received)}
            runs.append(
                run
                | {
                    "mean": round(sum(received) / len(received)) if received else None,
                    "p50": figures.percentile(received, 0.5),
                    "max": max(received, default=None),
                }
            )
        self.map(world, stack, "standard", 1)
        return {"runs": runs}

    def map(self, world, stack, mode, window):
        """Replaces the mapping of the input queue."""
        lambdas, function, queue = world.client("lambda"), stack.physical["Aggregator"], stack.queue_arn("InputQueue")
        for old in stack.mappings():
            lambdas.delete_event_source_mapping(UUID=old["UUID"])
        world.until(lambda: not stack.mappings(), 300)
        new = lambdas.create_event_source_mapping(
            FunctionName=function, EventSourceArn=queue, BatchSize=10_000, MaximumBatchingWindowInSeconds=window,
            FunctionResponseTypes=["ReportBatchItemFailures"], **MODES[mode],
        )["UUID"]  # fmt: skip
        world.until(lambda: lambdas.get_event_source_mapping(UUID=new)["State"] == "Enabled", 600)
        time.sleep(world.scaled(10, 0))

    def judge(self, seen):
        checks, texts = [], []
        for run in seen["runs"]:
            text = f"{run['mode']} {run['window']} s: mean {run['mean']}, median {run['p50']}, max {run['max']} in {run['invocations']:,} invocations"
            texts.append(text)
            if not run["invocations"]:
                checks.append((None, f"{run['mode']} {run['window']} s: no invocation was found in the log"))
            elif run["mode"] == "standard":
                checks.append(
                    (run["mean"] >= STANDARD_ASSUMED, f"{text}: fewer than the {STANDARD_ASSUMED} that docs/deploying.md assumes")
                )
            else:
                most = POLLER_PER_SECOND * run["window"]
                checks.append(
                    (run["max"] <= most * 1.2, f"{text}: more than {most}, so a poller receives more than {POLLER_PER_SECOND} a second")
                )
        return of_checks(checks, "; ".join(texts))


EXPERIMENTS = (BatchSize(),)
