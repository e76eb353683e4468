"""15: no alarm goes off because a stack is new. 16: metrics arrive from a log group with a name of its own."""

import json
import time

from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks, unclear

QUIET_MINUTES = 20
ALARMS = 16


class NoPage(Experiment):
    number = 15
    assumption = "A deployment by itself raises no alarm"
    relied_on_in = "infra/sam/template.yaml, TreatMissingData of the alarms"
    does = f"Leaves a new stack alone for {QUIET_MINUTES} minutes and reads the history of its alarms"
    needs = ("main",)
    minutes = QUIET_MINUTES

    def run(self, world):
        stack = world.need("main")
        end = stack.created_at + QUIET_MINUTES * 60
        world.pause(max(0, end - time.time()))
        cloudwatch = world.client("cloudwatch")
        alarms = [
            each
            for page in cloudwatch.get_paginator("describe_alarms").paginate(AlarmNamePrefix=stack.name)
            for each in page["MetricAlarms"]
        ]
        items = cloudwatch.get_paginator("describe_alarm_history").paginate(
            HistoryItemType="StateUpdate", StartDate=stack.created_at, EndDate=time.time()
        )
        raised = [
            {"alarm": each["AlarmName"], "at": str(each["Timestamp"])}
            for page in items
            for each in page["AlarmHistoryItems"]
            if each["AlarmName"].startswith(stack.name) and "to ALARM" in each["HistorySummary"]
        ]
        return {
            "minutes": round((time.time() - stack.created_at) / 60, 1),
            "states": {each["AlarmName"]: each["StateValue"] for each in alarms},
            "raised": raised,
        }

    def judge(self, seen):
        count = {state: list(seen["states"].values()).count(state) for state in sorted(set(seen["states"].values()))}
        text = f"{len(seen['states'])} alarms after {seen['minutes']} minutes: {', '.join(f'{number} {state}' for state, number in count.items())}"
        if seen["raised"]:
            return of_checks([(False, f"went off: {', '.join(sorted({each['alarm'] for each in seen['raised']}))}")], "")
        if len(seen["states"]) < ALARMS:
            return unclear(f"{text}: expected {ALARMS} alarms")
        return of_checks([(seen["minutes"] >= QUIET_MINUTES * 0.9 or None, f"{text}: too short a time")], f"none went off; {text}")


WITHIN_SECONDS = 300


class CustomGroup(Experiment):
    number = 16
    assumption = "CloudWatch makes metrics with both dimensions from the log lines in a log group of the stack, within 5 minutes"
    relied_on_in = "shared/src/metrics.rs; infra/sam/template.yaml, LoggingConfig and the alarms on UniqueEventBatchAggregator"
    does = "Sends ten messages and waits for the metric Received"
    needs = ("main",)
    minutes = 6

    def costs(self):
        return [Cost("sqs", 30), Cost("write", 60), Cost("invocation", 10), Cost("gb-second", 20)]

    def run(self, world):
        stack = world.need("main")
        began = time.time()
        for index in range(10):
            world.client("sqs").send_message(
                QueueUrl=stack.physical["InputQueue"], MessageBody=json.dumps({"id": f"{world.name}-metric-{index}"})
            )
        dimensions = {"function": stack.physical["Aggregator"], "source": stack.queue_arn("InputQueue")}
        values = world.until(
            lambda: world.metric("UniqueEventBatchAggregator", "Received", dimensions, began - 60, "Sum"), 2 * WITHIN_SECONDS
        )
        return {"seconds": round(time.time() - began), "received": sum(values or []), "line": self.line(world, stack, began)}

    def line(self, world, stack, began):
        """Returns whether the log group has the line that the metric is made of."""
        return any(isinstance(each, dict) and each.get("Received") for each in world.log_lines(stack.physical["AggregatorLogGroup"], began))

    def judge(self, seen):
        if not seen["received"]:
            wrong = "although the log group has the line" if seen["line"] else "and the log group has no line of it"
            return of_checks([(False if seen["line"] else None, f"no metric after {seen['seconds']} s, {wrong}")], "")
        text = f"the metric was there after {seen['seconds']} s, with {seen['received']:.0f} messages"
        return of_checks([(seen["seconds"] <= WITHIN_SECONDS, f"{text}: later than {WITHIN_SECONDS} s")], text)


EXPERIMENTS = (NoPage(), CustomGroup())
