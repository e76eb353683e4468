"""17: S3's idle connections, and one key twice. 19: loads of 1 MB."""

from verify import figures
from verify.costs import Cost
from verify.experiment import Experiment
from verify.verdict import of_checks

# shared/aws/src/sdk.rs, POOL_IDLE_TIMEOUT: a connection is not used again after this.
POOL_IDLE_SECONDS = 10
IDLE_SECONDS = (9, 15, 20, 25)


class Objects(Experiment):
    number = 17
    assumption = (
        "S3 keeps an idle connection for 10 s; a second PUT of a key is a 412, and a missing object a 404, under the role of an S3 sink"
    )
    relied_on_in = "shared/aws/src/sdk.rs, POOL_IDLE_TIMEOUT; sinks/src/s3.rs; infra/sam/template.yaml, MissInS3"
    does = f"From Lambda: two PUTs over one connection {', '.join(map(str, IDLE_SECONDS))} s apart, and one key twice"
    needs = ("bucket", "probe")
    minutes = 2

    def costs(self):
        return [Cost("put", 12), Cost("get", 6), Cost("gb-second", 75 * 1.73)]

    def run(self, world):
        bucket = world.need("bucket")["bucket"]
        seen = world.probe(job="idle", bucket=bucket, seconds=list(IDLE_SECONDS), scale=world.scaled(1, 0.01))
        return seen | world.probe(job="overwrite", bucket=bucket)

    def judge(self, seen):
        closed = [each["seconds"] for each in seen["idle"] if each["closed"]]
        kept = [each["seconds"] for each in seen["idle"] if not each["closed"]]
        status = {name: seen[name]["status"] for name in ("first_put", "second_put", "head", "head_missing", "head_outside")}
        text = f"connections closed after {closed or 'none'} s, kept after {kept or 'none'} s; {', '.join(f'{name} {code}' for name, code in status.items())}"
        return of_checks(
            [
                (
                    min(closed, default=POOL_IDLE_SECONDS) >= POOL_IDLE_SECONDS,
                    f"S3 closed a connection that was idle for {min(closed, default=0)} s, which the pool would use again",
                ),
                (
                    status["first_put"] == 200 and status["second_put"] == 412,
                    f"{text}: expected the second PUT of a key to be refused with 412",
                ),
                (status["head"] == 200, f"{text}: expected 200 for the object"),
                (status["head_missing"] == 404, f"{text}: expected 404 for a missing object below the prefix"),
                (status["head_outside"] == 403, f"{text}: expected 403 outside the prefix"),
            ],
            text,
        )


PUTS = 10_000
BYTES = 1_000_000
PROBES = 5
# An attempt for a load has the time of any other: shared/aws/src/ports.rs.
ATTEMPT_MS = 750


class Loads(Experiment):
    number = 19
    assumption = "An object of 1 MB is stored and read within one attempt of 750 ms, without conflicts, and the bucket keeps it for 40 days"
    relied_on_in = "shared/aws/src/ports.rs; shared/aws/src/s3_object_store.rs; infra/sam/template.yaml, ChunkBucket"
    does = f"Stores and reads {PUTS:,} objects of 1 MB from Lambda; sets the lifecycle of the template's bucket and reads it back"
    needs = ("bucket", "probe")
    minutes = 6

    def costs(self):
        return [Cost("put", PUTS), Cost("get", PUTS), Cost("gb-second", PROBES * 240 * 1.73)]

    def run(self, world):
        bucket = world.need("bucket")["bucket"]
        rule = {"ID": "chunks", "Status": "Enabled", "Filter": {"Prefix": "chunks/"}, "Expiration": {"Days": 40}}
        s3 = world.client("s3")
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
        kept = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        event = {"job": "objects", "bucket": bucket, "count": world.scaled(PUTS, 20) // PROBES, "bytes": world.scaled(BYTES, 10_000)}
        results = world.probes([event] * PROBES)
        times = {what: figures.summary([each for result in results for each in result[f"{what}_ms"]]) for what in ("put", "get")}
        return times | {"errors": figures.merged(result["errors"] for result in results), "lifecycle": kept}

    def judge(self, seen):
        put, get = seen["put"], seen["get"]
        text = f"{put['count']:,} PUTs: median {put['p50']} ms, p99 {put['p99']} ms, p99.9 {put['p999']} ms; GETs: {get['p50']}, {get['p99']}, {get['p999']} ms; errors: {seen['errors'] or 'none'}"
        days = [rule.get("Expiration", {}).get("Days") for rule in seen["lifecycle"]]
        return of_checks(
            [
                (
                    put["p999"] < ATTEMPT_MS and get["p999"] < ATTEMPT_MS,
                    f"{text}: one request in a thousand takes longer than {ATTEMPT_MS} ms",
                ),
                (not seen["errors"].get("ConditionalRequestConflict"), f"{text}: conflicts, although every key was stored once"),
                (not seen["errors"], text),
                (days == [40], f"the lifecycle was read back with {days} days, expected 40"),
            ],
            text + "; the lifecycle was read back. That S3 removes nothing sooner takes 40 days to see",
        )


EXPERIMENTS = (Objects(), Loads())
