"""5: the time of one attempt. 8: the heat of the index by status. Both run in the probe."""

from verify import figures
from verify.costs import Cost
from verify.experiment import Experiment
from verify.unavailable import Unavailable
from verify.verdict import of_checks

# shared/src/retry/budget.rs, attempt_timeout: a quarter of DEADLINE_MARGIN_MS, which is 3,000 ms.
ATTEMPT_MS = 750
PROBES = 4
BATCHES = 10_000
# 2,500 items a second: below the 4,000 units that a new table and its index take.
BATCHES_PER_SECOND = 100


class Attempts(Experiment):
    number = 5
    assumption = f"{ATTEMPT_MS} ms are enough for an attempt of 25 claims, also for the first one and with a key"
    relied_on_in = "shared/src/retry/budget.rs, attempt_timeout"
    does = f"Sends {BATCHES:,} batches of 25 claims from Lambda, without and with a KMS key"
    needs = ("claims", "keyed-claims", "probe")
    minutes = 5

    def costs(self):
        return [
            Cost("write", 2 * BATCHES * 25 * 2),
            Cost("gb-second", 2 * PROBES * 110 * 1.73),
            Cost("invocation", 16),
            Cost("kms", 2_000),
            Cost("key-hour", 2),
        ]

    def run(self, world):
        seen = {}
        for what, name in (("plain", "claims"), ("key", "keyed-claims")):
            try:
                seen[what] = self.measured(world, world.need(name)["table"])
            except Unavailable as error:
                seen[what] = {"not_tried": str(error)}
        return seen

    def measured(self, world, table):
        count = world.scaled(BATCHES, 40) // PROBES
        results = world.probes([{"job": "batches", "table": table, "count": count, "rate": BATCHES_PER_SECOND / PROBES}] * PROBES)
        times = [each for result in results for each in result["ms"]]
        errors = figures.merged(result["errors"] for result in results)
        return {"first_ms": max(result["first_ms"] for result in results), **figures.summary(times), "errors": errors}

    def judge(self, seen):
        checks, texts = [], []
        for what, one in seen.items():
            if "not_tried" in one:
                checks.append((None, f"{what}: not tried: {one['not_tried']}"))
                continue
            text = f"{what}: median {one['p50']} ms, p99.9 {one['p999']} ms, max {one['max']} ms, first {one['first_ms']} ms"
            texts.append(text)
            checks.append((one["p999"] < ATTEMPT_MS, f"{text}: one attempt in a thousand takes longer than {ATTEMPT_MS} ms"))
            # Connecting may take longer than an attempt, but then the first attempt of an environment is lost.
            checks.append((one["first_ms"] < ATTEMPT_MS, f"{text}: the first attempt takes longer than {ATTEMPT_MS} ms"))
            share = sum(one["errors"].values()) / (25 * one["count"])
            checks.append((share < 0.01 or None, f"{text}, but {share:.0%} of the items failed, so the times say little: {one['errors']}"))
        return of_checks(checks, "; ".join(texts))


RECORDS = 100
UPDATES_PER_SECOND = 1_500
SECONDS = 60
STATUS_SHARDS = 4


class Heat(Experiment):
    number = 8
    assumption = "Reserving seats in 100 open batches, 1,500 times a second, writes nothing to status-index and is not throttled"
    relied_on_in = "docs/adr/0008-status-index.md; infra/sam/template.yaml, projection of status-index"
    does = f"Updates {RECORDS} records {UPDATES_PER_SECOND:,} times a second for {SECONDS} s: without, then with the due time"
    needs = ("records", "probe")
    minutes = 4

    def costs(self):
        updates = UPDATES_PER_SECOND * SECONDS
        return [Cost("write", 2 * updates + 2 * updates), Cost("gb-second", 2 * 10 * SECONDS * 1.73), Cost("invocation", 20)]

    def run(self, world):
        table = world.need("records")["table"]
        for index in range(RECORDS):
            item = {
                "batchId": {"S": f"record-{index}"},
                "statusShard": {"S": f"open#{index % STATUS_SHARDS}"},
                "dueAt": {"N": "1"},
                "source": {"S": "queue"},
            }
            world.client("dynamodb").put_item(TableName=table, Item=item)
        return {"plain": self.updated(world, table, move=False), "moved": self.updated(world, table, move=True)}

    def updated(self, world, table, move):
        probes = world.scaled(10, 2)
        rate = world.scaled(UPDATES_PER_SECOND, 100) / probes
        event = {
            "job": "updates",
            "table": table,
            "records": RECORDS,
            "move": move,
            "rate": rate,
            "probes": probes,
            "count": int(rate * world.scaled(SECONDS, 1)),
        }
        results = world.probes([event | {"probe": index} for index in range(probes)])
        sums = figures.merged(results)
        sums["seconds"] = max(result["seconds"] for result in results)
        return sums

    def judge(self, seen):
        plain, moved = seen["plain"], seen["moved"]
        rate = plain.get("updates", 0) / plain["seconds"]
        refused = lambda one: {name: count for name, count in one.items() if name.startswith("refused")}  # noqa: E731
        text = f"{rate:,.0f} updates a second: {plain.get('index_units', 0):g} units of the index, refused: {refused(plain) or 'none'}"
        also = f"; with the due time moved: {moved.get('index_units', 0):g} units, refused: {refused(moved) or 'none'}"
        return of_checks(
            [
                (plain.get("index_units", 0) == 0, f"{text}: an update of other attributes writes the index"),
                (not refused(plain), text),
                (
                    rate >= 0.8 * UPDATES_PER_SECOND or None,
                    f"only {rate:,.0f} updates a second were reached, expected {UPDATES_PER_SECOND:,}",
                ),
            ],
            text + also,
        )


EXPERIMENTS = (Attempts(), Heat())
