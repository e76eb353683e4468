"""7: a burst on fresh tables. 9, 18 and 20 look at what it left: index lag, concurrency, cost."""

import collections
import pathlib
import tempfile
import time

from verify import burst
from verify.costs import PRICES, Cost
from verify.costs import burst as burst_costs
from verify.experiment import Experiment
from verify.unavailable import Unavailable
from verify.verdict import of_checks, unclear

MESSAGES = 1_200_000
DUPLICATES = 5
NUMBER = 7
IN_FLIGHT_MAX = 120_000
AGGREGATOR_CONCURRENCY = 50
# CloudWatch has the figures of a minute some minutes later.
METRICS_AFTER_SECONDS = 300


def size(world):
    return world.scaled(MESSAGES, 200)


def span(world):
    """Returns when the burst began and ended; Unavailable if it did not run."""
    if "burst" not in world.times:
        raise Unavailable("experiment 7 did not run, or did not end")
    began, ended = world.times["burst"]
    world.pause(max(0, ended + METRICS_AFTER_SECONDS - time.time()))
    return began, ended


class FreshTable(Experiment):
    number = NUMBER
    assumption = "A new stack takes a burst of 1.2 million messages without a dead letter, and loses and repeats nothing"
    relied_on_in = "ARCHITECTURE.md, Promises and their checks; protocol/src/pace.rs"
    does = f"Sends {MESSAGES:,} messages, {DUPLICATES} % of them duplicates, as fast as this machine can, and audits what the S3 sink got"
    needs = ("main",)
    minutes = 35

    def costs(self):
        return [*burst_costs(MESSAGES), Cost("put", 500), Cost("get", 500), Cost("gb-out", 0.5)]

    def run(self, world):
        stack = world.need("main")
        seen = burst.Burst(world, stack).run(size(world), DUPLICATES, NUMBER, 3_600)
        world.times["burst"] = (seen["began"], time.time())
        seen["set_aside"] = burst.set_aside(stack)
        if seen["drained"]:
            with tempfile.TemporaryDirectory(prefix="verify-aws-") as folder:
                seen["audit"] = burst.audit(world, size(world), DUPLICATES, NUMBER, pathlib.Path(folder))
        seen["throttles"] = self.throttles(world, stack, *span(world))
        return seen

    def throttles(self, world, stack, began, ended):
        total = lambda *arguments: sum(world.metric(*arguments, began, "Sum", ended))  # noqa: E731
        table, index = {"TableName": stack.physical["LockTable"]}, {"GlobalSecondaryIndexName": "batchId-index"}
        return {
            "aggregator": total("AWS/Lambda", "Throttles", {"FunctionName": stack.physical["Aggregator"]}),
            "lock table": total("AWS/DynamoDB", "WriteThrottleEvents", table),
            "its index": total("AWS/DynamoDB", "WriteThrottleEvents", table | index),
        }

    def judge(self, seen):
        if not seen["sent"]:
            return unclear(f"the burst was not sent: {seen.get('problem')}")
        dead = {queue: count for queue, count in seen["set_aside"].items() if count}
        text = f"{seen['messages']:,} messages drained in {seen['seconds']:,} s; at most {seen['in_flight_max']:,} in flight; throttles: {seen['throttles']}"
        audit = seen.get("audit", {"ok": None, "report": None})
        return of_checks(
            [
                (not dead, f"messages were set aside: {dead}; {text}"),
                (
                    audit["ok"] if seen["drained"] else None,
                    f"the audit failed: {audit['report']}" if seen["drained"] else f"not drained after {seen['seconds']:,} s",
                ),
                (seen["in_flight_max"] < IN_FLIGHT_MAX, f"{text}: the limit of {IN_FLIGHT_MAX:,} in flight was reached"),
            ],
            f"{text}; nothing lost, repeated or set aside",
        )


class IndexLag(Experiment):
    number = 9
    assumption = "The index follows within a second as a rule: a batch is seldom looked at again because of it"
    relied_on_in = "docs/protocol.md, When a batch is complete"
    does = "Reads the metric IndexLagRetries of every invocation of 7"
    needs = ("main",)
    after = (7,)
    minutes = 0.5

    def run(self, world):
        began, _ = span(world)
        group = world.need("main").physical["BatchProcessorLogGroup"]
        retries = [
            int(line["IndexLagRetries"]) for line in world.log_lines(group, began, "{ $.IndexLagRetries > 0 }") if isinstance(line, dict)
        ]
        complete = sum(
            int(line["BatchesCompleted"]) for line in world.log_lines(group, began, "{ $.BatchesCompleted > 0 }") if isinstance(line, dict)
        )
        histogram = collections.Counter(retries)
        return {"batches": complete, "invocations_with_retries": {str(count): histogram[count] for count in sorted(histogram)}}

    def judge(self, seen):
        if not seen["batches"]:
            return unclear("no completed batch was found in the log")
        total = sum(int(retries) * count for retries, count in seen["invocations_with_retries"].items())
        text = f"{total} further looks for {seen['batches']} batches; invocations by looks: {seen['invocations_with_retries'] or 'none'}"
        return of_checks([(total <= seen["batches"], f"{text}: more than one a batch")], text)


class Overshoot(Experiment):
    number = 18
    assumption = "MaximumConcurrency is exceeded by a tenth at most"
    relied_on_in = "infra/sam/template.yaml, AggregatorConcurrency"
    does = "Reads the concurrent executions of the aggregator in 7"
    needs = ("main",)
    after = (7,)
    minutes = 0.2

    def run(self, world):
        began, ended = span(world)
        dimensions = {"FunctionName": world.need("main").physical["Aggregator"]}
        return {
            "setting": AGGREGATOR_CONCURRENCY,
            "maxima": world.metric("AWS/Lambda", "ConcurrentExecutions", dimensions, began, "Maximum", ended),
        }

    def judge(self, seen):
        if not seen["maxima"]:
            return unclear("CloudWatch had no data of the burst")
        most, setting = max(seen["maxima"]), seen["setting"]
        text = f"at most {most:.0f} concurrent aggregators with a setting of {setting}"
        # A burst that never needs that many says nothing.
        return of_checks([(most <= setting * 1.1, text), (most >= setting or None, f"{text}: the burst did not reach the setting")], text)


# docs and README.md: units a message sent, with 5 % duplicates and bodies in lock items, measured on one machine.
WRITES_PREDICTED = 3.82
MARGIN = 0.1


class CostPerMillion(Experiment):
    number = 20
    assumption = f"A million messages sent take {WRITES_PREDICTED} million write units, as the ledger of `local` says"
    relied_on_in = "docs/performance.md, What it costs"
    does = "Reads the consumed units of the tables and indexes in 7. The bill itself is a day late: see --bill"
    needs = ("main",)
    after = (7,)
    minutes = 0.5

    def run(self, world):
        began, ended = span(world)
        stack, units = world.need("main"), {}
        for table, index in (("LockTable", None), ("LockTable", "batchId-index"), ("BatchTable", None), ("BatchTable", "status-index")):
            dimensions = {"TableName": stack.physical[table]} | ({"GlobalSecondaryIndexName": index} if index else {})
            for kind in ("Write", "Read"):
                units[f"{table} {index or 'items'} {kind.lower()}"] = sum(
                    world.metric("AWS/DynamoDB", f"Consumed{kind}CapacityUnits", dimensions, began, "Sum", ended)
                )
        return {"messages": size(world), "units": units}

    def judge(self, seen):
        writes = sum(count for name, count in seen["units"].items() if name.endswith("write"))
        reads = sum(count for name, count in seen["units"].items() if name.endswith("read"))
        if not writes:
            return unclear("CloudWatch had no consumed units of the burst")
        a_message = writes / seen["messages"]
        dollars = a_message * PRICES["write"].dollars + reads / seen["messages"] * PRICES["read"].dollars
        text = f"{a_message:.3f} write and {reads / seen['messages']:.3f} read units a message sent: ${dollars:.2f} a million for the tables; predicted {WRITES_PREDICTED}"
        return of_checks([(abs(a_message / WRITES_PREDICTED - 1) <= MARGIN, f"{text}, which is more than {MARGIN:.0%} off")], text)


EXPERIMENTS = (FreshTable(), IndexLag(), Overshoot(), CostPerMillion())
