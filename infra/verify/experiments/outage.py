"""13: a sink that is down for a minute. 14: is a chain of tickets taken for a recursion?"""

import json
import time

from verify.costs import Cost
from verify.experiment import Experiment
from verify.unavailable import Unavailable
from verify.verdict import of_checks, unclear

CLOSED_SECONDS = 60
# protocol/src/limits.rs, TICKET_BACKOFF_MAX. Without it a ticket comes back after the visibility timeout, 360 s in this stack.
BACKOFF_MAX_SECONDS = 300
DELIVERED_MAX_SECONDS = 900
FAR = 10**10


def send(world, stack, count, what):
    """Sends single messages, each with an id of its own."""
    for index in range(count):
        body = json.dumps({"id": f"{world.name}-{what}-{index}"})
        world.client("sqs").send_message(QueueUrl=stack.physical["InputQueue"], MessageBody=body)


class Outage(Experiment):
    number = 13
    assumption = "A ticket whose sink fails comes back within 5 minutes at most, and a short outage raises no alarm of age"
    relied_on_in = "docs/protocol.md, When a ticket comes back; docs/runbook.md"
    does = f"Closes the sink for {CLOSED_SECONDS} s while a batch is due, and waits for its delivery"
    needs = ("outage", "receiver")
    minutes = 15

    def costs(self):
        return [Cost("invocation", 60), Cost("gb-second", 600), Cost("write", 200), Cost("sqs", 200)]

    def run(self, world):
        stack, receiver = world.need("outage"), world.need("receiver")
        self.close_until(world, receiver, FAR)
        began = time.time()
        send(world, stack, 10, "outage")
        first = world.until(lambda: self.attempts(world, receiver, began), DELIVERED_MAX_SECONDS)
        if not first:
            raise Unavailable("the sink was not called")
        opens = first[0]["at"] + world.scaled(CLOSED_SECONDS, 3)
        self.close_until(world, receiver, opens)
        world.until(lambda: any(not each["closed"] for each in self.attempts(world, receiver, began)), DELIVERED_MAX_SECONDS)
        attempts = self.attempts(world, receiver, began)
        return {
            "opened_at": opens,
            "attempts": [{"at": each["at"], "closed": each["closed"]} for each in attempts],
            "alarms": self.alarms(world, stack, began),
        }

    def close_until(self, world, receiver, until):
        lambdas = world.client("lambda")
        lambdas.update_function_configuration(FunctionName=receiver["function"], Environment={"Variables": {"CLOSED_UNTIL": str(until)}})
        lambdas.get_waiter("function_updated_v2").wait(FunctionName=receiver["function"])

    def attempts(self, world, receiver, since):
        lines = world.log_lines(receiver["group"], since, "{ $.receiver IS TRUE }")
        return sorted((line for line in lines if isinstance(line, dict) and line.get("receiver")), key=lambda line: line["at"])

    def alarms(self, world, stack, since):
        """Returns the alarms of age that went off."""
        names = [stack.physical[name] for name in ("InputQueueAge", "BatchQueueAge") if stack.physical.get(name)]
        return [name for name in names if to_alarm(world, name, since)]

    def judge(self, seen):
        taken = [each["at"] for each in seen["attempts"] if not each["closed"]]
        failed = [each["at"] for each in seen["attempts"] if each["closed"]]
        if not taken:
            last = max(failed) - seen["opened_at"] if failed else 0
            return of_checks(
                [
                    (
                        False,
                        f"not delivered within {DELIVERED_MAX_SECONDS} s after {len(failed)} attempts, the last {last:.0f} s after the sink opened",
                    )
                ],
                "",
            )
        after = taken[0] - seen["opened_at"]
        text = f"{len(failed)} attempts while it was closed; delivered {after:.0f} s after it opened"
        return of_checks(
            [
                (bool(failed) or None, "no attempt fell into the outage"),
                (after <= BACKOFF_MAX_SECONDS, f"{text}: later than {BACKOFF_MAX_SECONDS} s"),
                (not seen["alarms"], f"{text}; alarms went off: {seen['alarms']}"),
            ],
            f"{text}; no alarm of age",
        )


def to_alarm(world, alarm, since):
    """Returns when an alarm went to ALARM, as texts."""
    history = world.client("cloudwatch").describe_alarm_history(
        AlarmName=alarm, HistoryItemType="StateUpdate", StartDate=since, EndDate=time.time()
    )
    return [str(each["Timestamp"]) for each in history["AlarmHistoryItems"] if "to ALARM" in each["HistorySummary"]]


class Recursion(Experiment):
    number = 14
    assumption = "Lambda drops no invocation as recursive; a verify ticket is one hop"
    relied_on_in = "docs/operations.md, Recursion"
    does = "Reads RecursiveInvocationsDropped, and the trace header of a verify ticket while the mapping is off"
    needs = ("outage", "receiver")
    minutes = 8

    def costs(self):
        return [Cost("invocation", 20), Cost("gb-second", 100), Cost("write", 200), Cost("sqs", 100)]

    def run(self, world):
        stack = world.need("outage")
        began = time.time()
        Outage().close_until(world, world.need("receiver"), 0)
        send(world, stack, 10, "recursion")
        ticket = self.verify_ticket(world, stack, began)
        functions = [stack.physical[name] for name in ("Aggregator", "BatchProcessor")]
        if "main" in world.made:
            functions += [world.made["main"].physical[name] for name in ("Aggregator", "BatchProcessor")]
        since = world.times.get("burst", (began,))[0]
        world.pause(180)
        dropped = {
            name: sum(world.metric("AWS/Lambda", "RecursiveInvocationsDropped", {"FunctionName": name}, since, "Sum")) for name in functions
        }
        invoked = {name: sum(world.metric("AWS/Lambda", "Invocations", {"FunctionName": name}, since, "Sum")) for name in functions}
        return {"ticket": ticket, "dropped": dropped, "invoked": invoked}

    def verify_ticket(self, world, stack, began):
        """Takes the mapping of the tickets away while a verify ticket is delayed, and returns the ticket's trace header."""
        group, lambdas = stack.physical["BatchProcessorLogGroup"], world.client("lambda")
        # The batch was not sealed, so it is looked at a second time: VERIFY_DELAY of this stack later, 120 s.
        if not world.until(lambda: world.log_lines(group, began, '"verify ticket sent"'), 300):
            return None
        for mapping in stack.mappings("BatchProcessor"):
            lambdas.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        world.until(lambda: all(each["State"] == "Disabled" for each in stack.mappings("BatchProcessor")), 100)
        ticket = world.until(lambda: self.received(world, stack), 200)
        for mapping in stack.mappings("BatchProcessor"):
            lambdas.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
        return ticket

    def received(self, world, stack):
        reply = world.client("sqs").receive_message(
            QueueUrl=stack.physical["BatchQueue"],
            MaxNumberOfMessages=10,
            WaitTimeSeconds=5,
            VisibilityTimeout=30,
            MessageSystemAttributeNames=["AWSTraceHeader"],
        )
        for message in reply.get("Messages", []):
            body = json.loads(message["Body"])
            if body.get("reason") == "verify":
                return {"body": body, "trace": message.get("Attributes", {}).get("AWSTraceHeader")}
        return None

    def judge(self, seen):
        dropped = {name: count for name, count in seen["dropped"].items() if count}
        trace = f"its trace header is `{seen['ticket']['trace']}`" if seen["ticket"] else "no verify ticket was caught"
        if dropped:
            return of_checks([(False, f"dropped: {dropped}; {trace}")], "")
        if not any(seen["invoked"].values()):
            return unclear(f"CloudWatch had no data of the functions; {trace}")
        return of_checks(
            [(bool(seen["ticket"] and seen["ticket"]["trace"]) or None, trace)],
            f"none dropped of {sum(seen['invoked'].values()):,.0f} invocations; {trace}",
        )


EXPERIMENTS = (Outage(), Recursion())
