"""23: reservations on one record. 24: commits that race. Both are of the log, and run in the probe."""

from verify import figures
from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks

# shared/src/retry/budget.rs, attempt_timeout.
ATTEMPT_MS = 750
# A partition takes 1,000 write units a second (docs/deploying.md), and a small record is one unit.
RESERVATIONS_PER_SECOND = 800
SECONDS = 30
PROBES = 8


class Reservations(Experiment):
    number = 23
    assumption = f"One open batch takes {RESERVATIONS_PER_SECOND} reservations a second, each within an attempt and of one unit"
    relied_on_in = "shared/aws/src/batch_writes; tools/planner"
    does = f"Reserves {RESERVATIONS_PER_SECOND} times a second in one record for {SECONDS} s, from {PROBES} functions"
    needs = ("records", "probe")
    minutes = 2

    def costs(self):
        return [
            Cost("write", RESERVATIONS_PER_SECOND * SECONDS),
            Cost("gb-second", PROBES * (SECONDS + 5) * 1.73),
            Cost("invocation", PROBES),
        ]

    def run(self, world):
        table = world.need("records")["table"]
        item = {"batchId": {"S": "reserved"}, "status": {"S": "open"}, "statusShard": {"S": "open#0"}, "dueAt": {"N": "1"}}
        world.client("dynamodb").put_item(TableName=table, Item=item)
        probes = world.scaled(PROBES, 2)
        rate = world.scaled(RESERVATIONS_PER_SECOND, 100) / probes
        event = {"job": "reservations", "table": table, "rate": rate, "count": int(rate * world.scaled(SECONDS, 1))}
        results = world.probes([event] * probes)
        firsts = sorted(each for result in results for each in result["firsts"])
        return {
            **figures.summary([each for result in results for each in result["ms"]]),
            "seconds": max(result["seconds"] for result in results),
            "units": sum(result["units"] for result in results),
            "errors": figures.merged(result["errors"] for result in results),
            "stored": len(firsts),
            "distinct": len(set(firsts)),
        }

    def judge(self, seen):
        rate = seen["count"] / seen["seconds"]
        text = f"{rate:,.0f} reservations a second: median {seen['p50']} ms, p99.9 {seen['p999']} ms, {seen['units']:g} units; refused: {seen['errors'] or 'none'}"
        return of_checks(
            [
                (seen["p999"] < ATTEMPT_MS, f"{text}: one in a thousand takes longer than {ATTEMPT_MS} ms"),
                (not seen["errors"], text),
                (seen["units"] <= seen["count"], f"{text}: more than one unit each"),
                (seen["distinct"] == seen["stored"], f"{text}: {seen['stored'] - seen['distinct']} got the seats of another"),
                (rate >= 0.8 * RESERVATIONS_PER_SECOND or None, f"only {rate:,.0f} a second were reached"),
            ],
            text,
        )


COMMITS = 200
COMMITTERS = 4
# 100,000 events, the most of one batch, of 40 bytes each: protocol/src/log.
RUN_BYTES = 4_000_000


class Commits(Experiment):
    number = 24
    assumption = "Commits of the index that race are applied one after the other, of one unit each, and a run is stored within an attempt"
    relied_on_in = "protocol/src/log; batch-processor/src/log_index"
    does = f"{COMMITTERS} functions at once store a run of 4 MB in S3 and replace one item by its version, {COMMITS} times each"
    needs = ("bucket", "records", "probe")
    minutes = 3

    def costs(self):
        tries = COMMITTERS * COMMITS * COMMITTERS
        return [
            Cost("write", tries),
            Cost("read", tries),
            Cost("put", COMMITTERS * COMMITS),
            Cost("get", COMMITTERS * COMMITS),
            Cost("gb-second", COMMITTERS * 120 * 1.73),
        ]

    def run(self, world):
        table, bucket = world.need("records")["table"], world.need("bucket")["bucket"]
        item = {"batchId": {"S": "manifest"}, "statusShard": {"S": "none"}, "dueAt": {"N": "0"}, "version": {"N": "0"}}
        world.client("dynamodb").put_item(TableName=table, Item=item)
        committers = world.scaled(COMMITTERS, 2)
        event = {
            "job": "commits",
            "table": table,
            "bucket": bucket,
            "count": world.scaled(COMMITS, 5),
            "bytes": world.scaled(RUN_BYTES, 10_000),
        }
        results = world.probes([event] * committers)
        version = world.client("dynamodb").get_item(TableName=table, Key={"batchId": {"S": "manifest"}}, ConsistentRead=True)
        times = {what: figures.summary([each for result in results for each in result[f"{what}_ms"]]) for what in ("put", "get", "cas")}
        return times | {
            "applied": sum(result["applied"] for result in results),
            "refused": sum(result["refused"] for result in results),
            "units": sum(result["units"] for result in results),
            "errors": figures.merged(result["errors"] for result in results),
            "version": int(version["Item"]["version"]["N"]),
        }

    def judge(self, seen):
        put, get, cas = seen["put"], seen["get"], seen["cas"]
        text = (
            f"{seen['applied']} applied, {seen['refused']} refused, {seen['units']:g} units; median and p99: PUT of a run {put['p50']} and {put['p99']} ms, "
            f"GET {get['p50']} and {get['p99']} ms, replacing the item {cas['p50']} and {cas['p99']} ms; errors: {seen['errors'] or 'none'}"
        )
        return of_checks(
            [
                (seen["version"] == seen["applied"], f"{text}: the version is {seen['version']}, so commits were lost"),
                # The reply to a refused write does not say its units.
                (seen["units"] == seen["applied"], f"{text}: expected one unit for each that was applied"),
                (put["p99"] < ATTEMPT_MS, f"{text}: one PUT in a hundred takes longer than {ATTEMPT_MS} ms"),
                (get["p99"] < 2 * ATTEMPT_MS, f"{text}: one GET in a hundred takes longer than {2 * ATTEMPT_MS} ms"),
                (not seen["errors"], text),
                (seen["refused"] > 0 or None, f"{text}: none was refused, so nothing raced"),
            ],
            text,
        )


EXPERIMENTS = (Reservations(), Commits())
