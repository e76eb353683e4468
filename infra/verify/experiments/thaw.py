"""10: what a frozen environment finds when it thaws. 11: do environments outlive their credentials?"""

import hashlib
import json
import time
import uuid

from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks, unclear

IDLE_SECONDS = (5, 60, 600)
CLOCK_MARGIN_SECONDS = 1.0


def record(queue_arn, region, event_id):
    """Returns one record of an SQS event, as Lambda hands it over."""
    body, now = json.dumps({"id": event_id}), str(int(time.time() * 1_000))
    attributes = {"ApproximateReceiveCount": "1", "SentTimestamp": now, "SenderId": "verify-aws", "ApproximateFirstReceiveTimestamp": now}
    return {
        "messageId": str(uuid.uuid4()), "receiptHandle": "none", "body": body, "attributes": attributes, "messageAttributes": {},
        "md5OfBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest(), "eventSource": "aws:sqs", "eventSourceARN": queue_arn, "awsRegion": region,
    }  # fmt: skip


class Thaw(Experiment):
    number = 10
    assumption = (
        "After a freeze the first requests of an environment succeed, because the monotonic clock ran on and old connections are not used"
    )
    relied_on_in = "shared/aws/src/sdk.rs, POOL_IDLE_TIMEOUT"
    does = f"Invokes the aggregator with one record, and the probe, after {', '.join(map(str, IDLE_SECONDS))} s"
    needs = ("main", "probe")
    minutes = 12

    def costs(self):
        return [Cost("invocation", 8), Cost("gb-second", 8), Cost("write", 100)]

    def run(self, world):
        stack, seen = world.need("main"), []
        arn = stack.queue_arn("InputQueue")
        before = None
        for idle in (0, *IDLE_SECONDS):
            world.pause(idle)
            clock = world.probe(job="clock")
            reply = world.invoke(stack.physical["Aggregator"], {"Records": [record(arn, world.region, f"{world.name}-thaw-{idle}")]})
            failed = (reply["payload"] or {}).get("batchItemFailures") if isinstance(reply["payload"], dict) else None
            one = {
                "idle": idle,
                "error": reply["error"],
                "failed": len(failed or []),
                "cold": reply["init_ms"] is not None,
                "duration_ms": reply["duration_ms"],
                "warnings": reply["warnings"],
            }
            if before and clock["environment"] == before["environment"]:
                one["clock"] = {"wall": clock["wall"] - before["wall"], "monotonic": clock["monotonic"] - before["monotonic"]}
            before = clock
            seen.append(one)
        return {"invocations": seen}

    def judge(self, seen):
        checks, texts = [], []
        for one in seen["invocations"]:
            if not one["idle"]:
                continue
            text = f"{one['idle']} s: {one['duration_ms']} ms"
            texts.append(text + (f" with {len(one['warnings'])} warnings" if one["warnings"] else ""))
            checks.append(
                (
                    one["error"] is None and one["failed"] == 0,
                    f"after {one['idle']} s the invocation failed: {one['error']}, {one['failed']} records, {one['warnings']}",
                )
            )
            checks.append((None if one["cold"] else True, f"after {one['idle']} s the environment was a new one"))
            clock = one.get("clock")
            behind = clock["wall"] - clock["monotonic"] if clock else None
            checks.append(
                (
                    None if clock is None else behind < CLOCK_MARGIN_SECONDS,
                    f"after {one['idle']} s the monotonic clock is {'not known: another environment' if clock is None else f'{behind:.1f} s behind'}",
                )
            )
        return of_checks(checks, f"first invocation after {'; '.join(texts)}; the monotonic clock ran on")


HOURS = 24
EVERY_SECONDS = 60


class Credentials(Experiment):
    number = 11
    assumption = "An environment ends before the credentials that it was started with"
    relied_on_in = "shared/aws/src/sdk.rs, Sdk; docs/deploying.md, Lambda Managed Instances"
    does = f"Invokes the probe every minute for {HOURS} h, and makes a request with the credentials of its start"
    needs = ("bucket", "probe")
    minutes = HOURS * 60
    level = 2

    def costs(self):
        calls = HOURS * 60
        return [Cost("invocation", calls), Cost("gb-second", calls * 0.2), Cost("get", calls)]

    def run(self, world):
        bucket = world.need("bucket")["bucket"]
        ages, refused = {}, None
        for _ in range(world.scaled(HOURS * 3_600 // EVERY_SECONDS, 3)):
            one = world.probe(job="credentials", bucket=bucket)
            age = one["wall"] - one["started"]
            ages[one["environment"]] = age
            if one["result"] != "ok" and refused is None:
                refused = {"age": age, "code": one["result"]}
            world.pause(EVERY_SECONDS)
        return {"hours": world.scaled(HOURS, 0), "environments": len(ages), "oldest": max(ages.values()), "refused": refused}

    def judge(self, seen):
        text = f"{seen['environments']} environments in {seen['hours']} h, the oldest {seen['oldest'] / 3_600:.1f} h"
        if seen["refused"]:
            return of_checks(
                [(False, f"credentials were refused after {seen['refused']['age'] / 3_600:.1f} h: {seen['refused']['code']}; {text}")], ""
            )
        return (
            of_checks([(True, "")], f"no request was refused; {text}")
            if seen["environments"] > 1
            else unclear(f"no environment ended; {text}")
        )


EXPERIMENTS = (Thaw(), Credentials())
