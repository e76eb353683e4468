"""What experiments do things with: clients, resources that are created when they are first needed, time, and the log of a run."""

import base64
import json
import re
import threading
import time

import boto3
from botocore.config import Config

from verify.interrupt import say
from verify.resources import RESOURCES
from verify.unavailable import Unavailable, brief

# An experiment that waits for results of a function waits this long for its response.
READ_SECONDS_MAX = 900
POLL_SECONDS = 5
# The managed policy of infra/verify/boundary.json. The policy of the caller demands it of each role, so it cannot be made by a run.
BOUNDARY = "verify-aws-boundary"


def boundary(session, account):
    return f"arn:{session.get_partition_for_region(session.region_name)}:iam::{account}:policy/{BOUNDARY}"


class World:
    """`emulator` is the name of the emulator that stands in for AWS; then numbers are small and nothing waits long."""

    def __init__(self, name, ledger, session=None, emulator=None):
        self.name = name
        self.ledger = ledger
        self.session = session or boto3.session.Session()
        self.emulator = emulator
        self.clients = {}
        self.made = {}
        self.broken = {}
        # <architecture>/<function>.zip
        self.zips = ledger.folder / "code"
        # Observations of this run, by number of the experiment.
        self.observed = {}
        # Times of this run that several experiments look at, in epoch seconds.
        self.times = {}

    def client(self, service):
        if service not in self.clients:
            # A retried Invoke would run an experiment twice. Keep-alive, because nothing is sent while a function runs for minutes.
            attempts = 1 if service == "lambda-once" else 6
            config = Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                read_timeout=READ_SECONDS_MAX,
                max_pool_connections=50,
                tcp_keepalive=True,
            )
            self.clients[service] = self.session.client(service.removesuffix("-once"), config=config)
        return self.clients[service]

    @property
    def region(self):
        return self.session.region_name

    @property
    def partition(self):
        return self.session.get_partition_for_region(self.region)

    @property
    def boundary(self):
        """Returns the ARN of the permissions boundary that every role of a run has."""
        return boundary(self.session, self.ledger.about["account"])

    def need(self, name):
        """Returns what a resource of RESOURCES has to say about itself, and creates it first if it is not there.

        Raises Unavailable if it could not be created, now or before.
        """
        if name in self.broken:
            raise Unavailable(self.broken[name])
        if name not in self.made:
            say(f"  creating {name}: {RESOURCES[name].what}")
            try:
                self.made[name] = RESOURCES[name].create(self)
            except Exception as error:
                self.broken[name] = f"{name} could not be created: {brief(error)}"
                raise Unavailable(self.broken[name]) from error
        return self.made[name]

    def scaled(self, full, small):
        """Returns a number for AWS, or the one for an emulator."""
        return full if self.emulator is None else small

    def pause(self, seconds):
        """Waits. On an emulator for a hundredth, because nothing happens there meanwhile."""
        time.sleep(self.scaled(seconds, seconds / 100))

    def until(self, done, seconds_max, poll=POLL_SECONDS):
        """Waits until `done` returns something true, and returns it; None after `seconds_max`."""
        deadline = time.monotonic() + self.scaled(seconds_max, min(seconds_max, 60))
        while True:
            found = done()
            if found:
                return found
            if time.monotonic() > deadline:
                return None
            time.sleep(self.scaled(poll, min(poll, 1)))

    # Functions.

    def invoke(self, function, payload, tail=True):
        """Invokes a function and waits. Returns status, error, payload, and what the end of the log says."""
        response = self.client("lambda-once").invoke(
            FunctionName=function, Payload=json.dumps(payload).encode(), LogType="Tail" if tail else "None"
        )
        text = response["Payload"].read().decode()
        log = base64.b64decode(response.get("LogResult", "")).decode(errors="replace")
        return {
            "status": response["StatusCode"],
            "error": response.get("FunctionError"),
            "payload": parsed(text),
            **report_of(log),
            "warnings": warnings_of(log),
        }

    def probe(self, **event):
        """Runs a job of the function `probe`; returns its result."""
        function = self.need("probe")["function"]
        result = self.invoke(function, event)
        if result["error"]:
            raise Unavailable(f"the probe failed: {str(result['payload'])[:300]}")
        return result["payload"]

    def probes(self, events):
        """Runs several jobs of the probe at once; returns their results in order."""
        results = [None] * len(events)

        def one(index, event):
            try:
                results[index] = self.probe(**event)
            except Exception as error:
                results[index] = error

        self.need("probe")
        # Daemons, so that after a signal the program does not wait for them.
        threads = [threading.Thread(target=one, args=each, daemon=True) for each in enumerate(events)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise Unavailable(brief(result)) from result
        return results

    # What AWS has measured.

    def metric(self, namespace, name, dimensions, start, stat, end=None, period=60):
        """Returns the values of a metric, one a period, in order of time. `stat` may be a percentile, such as `p50`."""
        extended = stat.startswith("p")
        points = self.client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
            StartTime=start,
            EndTime=end or time.time(),
            Period=period,
            **({"ExtendedStatistics": [stat]} if extended else {"Statistics": [stat]}),
        )["Datapoints"]
        points.sort(key=lambda each: each["Timestamp"])
        return [each["ExtendedStatistics"][stat] if extended else each[stat] for each in points]

    def log_lines(self, group, start, pattern=""):
        """Returns the lines of a log group since `start`, each parsed if it is JSON."""
        pages = (
            self.client("logs")
            .get_paginator("filter_log_events")
            .paginate(logGroupName=group, startTime=int(start * 1_000), filterPattern=pattern)
        )
        return [parsed(event["message"]) for page in pages for event in page["events"]]


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def report_of(log):
    """Returns the figures of the line that ends an invocation's log, in ms; None where there is none."""
    found = {
        name: re.search(rf"{label}: ([0-9.]+) ms", log) for name, label in (("duration_ms", r"\tDuration"), ("init_ms", "Init Duration"))
    }
    return {name: float(each.group(1)) if each else None for name, each in found.items()}


def warnings_of(log):
    return [
        line.strip()[:300]
        for line in log.splitlines()
        if re.match(r"\s*(WARN|ERROR)\b", line) or '"level":"WARN"' in line or '"level":"ERROR"' in line
    ]
