"""1: does the account fit? 2: do both zips start?"""

from verify.costs import Cost
from verify.experiment import Experiment
from verify.unavailable import Unavailable
from verify.verdict import of_checks

# Defaults of the template: 4 aggregators, of which one more may run, 2 batch-processors, and a sweep.
CONCURRENCY_MIN = 8
# The quota that the pace of the aggregator is computed from: protocol/src/limits.rs, TABLE_PACE_UNITS_PER_SECOND_MAX.
TABLE_WRITES_MIN = 40_000


class Account(Experiment):
    number = 1
    assumption = "The account has room for the defaults: concurrency, and 40,000 write units a second of one table"
    relied_on_in = "infra/sam/template.yaml, AggregatorConcurrency; protocol/src/limits.rs, TABLE_PACE_UNITS_PER_SECOND_MAX"
    does = "Reads the account's Lambda settings and DynamoDB limits"
    minutes = 0.1
    level = 0

    def run(self, world):
        settings = world.client("lambda").get_account_settings()["AccountLimit"]
        limits = world.client("dynamodb").describe_limits()
        return {
            "concurrency": settings["ConcurrentExecutions"],
            "unreserved": settings["UnreservedConcurrentExecutions"],
            "table_writes": limits["TableMaxWriteCapacityUnits"],
            "table_reads": limits["TableMaxReadCapacityUnits"],
        }

    def judge(self, seen):
        figures = f"{seen['unreserved']:,} of {seen['concurrency']:,} concurrent executions are unreserved; one table may write {seen['table_writes']:,} units a second"
        return of_checks(
            [
                (seen["unreserved"] >= CONCURRENCY_MIN, f"{figures}: fewer executions than the {CONCURRENCY_MIN} of the defaults"),
                (seen["table_writes"] >= TABLE_WRITES_MIN, f"{figures}: less than {TABLE_WRITES_MIN:,}"),
            ],
            figures,
        )


EMPTY = {"Records": []}
STACKS = {"x86_64": "main", "arm64": "arm"}


class Starts(Experiment):
    number = 2
    assumption = "Both functions start on both architectures and return an empty response to an empty event"
    relied_on_in = "docs/deploying.md, The processor"
    does = "Deploys a stack of each architecture and invokes both functions with no records"
    needs = ("main", "arm")
    minutes = 8

    def costs(self):
        return [Cost("invocation", 4), Cost("gb-second", 4)]

    def run(self, world):
        return {arch: self.invoked(world, name) for arch, name in STACKS.items()}

    def invoked(self, world, name):
        try:
            stack = world.need(name)
        except Unavailable as error:
            return {"not_deployed": str(error)}
        return {function: world.invoke(stack.physical[function], EMPTY) for function in ("Aggregator", "BatchProcessor")}

    def judge(self, seen):
        checks, starts = [], []
        for arch, functions in seen.items():
            if "not_deployed" in functions:
                checks.append((None, f"{arch}: not tried: {functions['not_deployed']}"))
                continue
            for name, reply in functions.items():
                good = reply["error"] is None and reply["status"] == 200 and not (reply["payload"] or {}).get("batchItemFailures")
                checks.append((good, f"{name} for {arch} failed: {reply['error']} {reply['payload']}"))
                starts.append(f"{name} {arch} {reply['init_ms']} ms" if reply["init_ms"] is not None else f"{name} {arch}")
        return of_checks(checks, f"started, with an init time where Lambda gave one: {', '.join(starts)}")


EXPERIMENTS = (Account(), Starts())
