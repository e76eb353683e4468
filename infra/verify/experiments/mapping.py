"""6: how many messages an invocation gets, by window."""

import time

from verify import burst, figures
from verify.costs import burst as burst_costs
from verify.experiment import Experiment
from verify.verdict import of_checks

MESSAGES = 200_000
WINDOWS = (1, 5, 20)
CONCURRENCY = 50
MAPPING = {"BatchSize": 10_000, "ScalingConfig": {"MaximumConcurrency": CONCURRENCY}}
# docs/deploying.md, Cost: the messages an invocation that the page assumes.
ASSUMED = 100
# The log has an invocation's line some seconds later.
LOG_SECONDS = 60


class BatchSize(Experiment):
    number = 6
    assumption = "An invocation gets 100 messages or more at the window of 1 s"
    relied_on_in = "docs/deploying.md, Cost"
    does = f"Reserves {CONCURRENCY} executions and sends {MESSAGES:,} messages with windows of {', '.join(map(str, WINDOWS))} s"
    needs = ("main",)
    minutes = 15

    def costs(self):
        return burst_costs(MESSAGES * len(WINDOWS))

    def run(self, world):
        stack = world.need("main")
        lambdas, function = world.client("lambda"), stack.physical["Aggregator"]
        # Otherwise other functions of the account may take what the mapping is allowed, and the batches are larger for that.
        lambdas.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=CONCURRENCY)
        try:
            return {"runs": self.runs(world, stack)}
        finally:
            lambdas.delete_function_concurrency(FunctionName=function)

    def runs(self, world, stack):
        runs = []
        for number, window in enumerate(WINDOWS):
            self.map(world, stack, window)
            seen = burst.Burst(world, stack).run(world.scaled(MESSAGES, 100), 0, 600 + number, 900, batches=False)
            world.pause(LOG_SECONDS)
            lines = world.log_lines(stack.physical["AggregatorLogGroup"], seen["began"], "{ $.Received > 0 }")
            received = [int(line["Received"]) for line in lines if isinstance(line, dict) and line.get("Received")]
            run = {"window": window, "drained": seen["drained"], "seconds": seen.get("seconds"), "invocations": len(received)}
            runs.append(
                run
                | {
                    "mean": round(sum(received) / len(received)) if received else None,
                    "p50": figures.percentile(received, 0.5),
                    "max": max(received, default=None),
                }
            )
        self.map(world, stack, 1)
        return runs

    def map(self, world, stack, window):
        """Replaces the mapping of the input queue."""
        lambdas, function, queue = world.client("lambda"), stack.physical["Aggregator"], stack.queue_arn("InputQueue")
        for old in stack.mappings():
            lambdas.delete_event_source_mapping(UUID=old["UUID"])
        world.until(lambda: not stack.mappings(), 300)
        new = lambdas.create_event_source_mapping(
            FunctionName=function, EventSourceArn=queue, MaximumBatchingWindowInSeconds=window,
            FunctionResponseTypes=["ReportBatchItemFailures"], **MAPPING,
        )["UUID"]  # fmt: skip
        world.until(lambda: lambdas.get_event_source_mapping(UUID=new)["State"] == "Enabled", 600)
        time.sleep(world.scaled(10, 0))

    def judge(self, seen):
        checks, texts = [], []
        for run in seen["runs"]:
            text = f"{run['window']} s: mean {run['mean']}, median {run['p50']}, max {run['max']} in {run['invocations']:,} invocations"
            texts.append(text)
            if not run["invocations"]:
                checks.append((None, f"{run['window']} s: no invocation was found in the log"))
            else:
                checks.append((run["mean"] >= ASSUMED, f"{text}: fewer than the {ASSUMED} that docs/deploying.md assumes"))
        return of_checks(checks, "; ".join(texts))


EXPERIMENTS = (BatchSize(),)
