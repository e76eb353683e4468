"""The function `probe`: measures from inside Lambda. An event is `{"job": <name>, ...}`; the result is JSON.

It uses botocore alone, which Lambda's Python has. Nothing is retried, so that every attempt is seen.
"""

import http.client
import os
import secrets
import select
import threading
import time
import urllib.parse

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

STARTED = time.time()
ENVIRONMENT = secrets.token_hex(8)
CLIENTS = {}


def client(service, connections=64):
    if service not in CLIENTS:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1}, max_pool_connections=connections, connect_timeout=10, read_timeout=30
        )
        CLIENTS[service] = botocore.session.get_session().create_client(service, config=config)
    return CLIENTS[service]


def code_of(error):
    """Returns the code of an error, or the name of its class."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__


def milliseconds(since):
    return round((time.monotonic() - since) * 1_000, 1)


class Tally:
    """Counts by name, from several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}

    def add(self, name, by=1):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + by


def paced(work, count, threads, rate):
    """Calls `work(index)` for each index below `count`, at most `rate` times a second."""
    began = time.monotonic()
    lock = threading.Lock()
    following = iter(range(count))

    def one():
        while True:
            with lock:
                index = next(following, None)
            if index is None:
                return
            early = began + index / rate - time.monotonic()
            if early > 0:
                time.sleep(early)
            work(index)

    running = [threading.Thread(target=one) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return round(time.monotonic() - began, 3)


def batches(event):
    """Sends batches of 25 claims. Returns the time of each request, and of the first one by itself, which connects."""
    table, run = event["table"], secrets.token_hex(6)
    text = f"INSERT INTO \"{table}\" VALUE {{'messageId': ?, 'batchId': ?, 'seq': ?, 'message': ?}}"
    took, errors = [], Tally()

    def send(index):
        # As many keys of the index as keep each of them far below its limit.
        values = lambda member: [f"{run}-{index}-{member}", f"{run}#{member}", {"N": str(index)}, "x" * 300]  # noqa: E731
        statements = [
            {"Statement": text, "Parameters": [each if isinstance(each, dict) else {"S": each} for each in values(member)]}
            for member in range(25)
        ]
        began = time.monotonic()
        try:
            reply = client("dynamodb").batch_execute_statement(Statements=statements)
            for member in reply["Responses"]:
                if "Error" in member:
                    errors.add(member["Error"]["Code"])
        except (BotoCoreError, ClientError) as error:
            errors.add(code_of(error))
        took.append(milliseconds(began))

    client("dynamodb")
    send(-1)
    first = took.pop()
    seconds = paced(send, event["count"], event.get("threads", 8), event["rate"])
    return {"first_ms": first, "ms": took, "errors": errors.counts, "seconds": seconds}


def updates(event):
    """Updates records as the aggregator counts claims (`move` false), or as it would if every count moved the due time."""
    tally, began = Tally(), int(time.time() * 1_000)

    def update(index):
        key = {"batchId": {"S": f"record-{(index * event['probes'] + event['probe']) % event['records']}"}}
        expression, values = "SET settled = :b, confirmed = :n, accounts = :n", {":b": {"B": os.urandom(32)}, ":n": {"N": str(index)}}
        if event["move"]:
            expression += ", dueAt = :d"
            values[":d"] = {"N": str(began + index)}
        try:
            reply = client("dynamodb").update_item(
                TableName=event["table"],
                Key=key,
                UpdateExpression=expression,
                ExpressionAttributeValues=values,
                ReturnConsumedCapacity="INDEXES",
            )
            consumed = reply.get("ConsumedCapacity", {})
            indexes = consumed.get("GlobalSecondaryIndexes", {})
            tally.add("table_units", consumed.get("Table", {}).get("CapacityUnits", 0))
            tally.add("index_units", sum(each.get("CapacityUnits", 0) for each in indexes.values()))
            tally.add("updates")
        except ClientError as error:
            reasons = error.response.get("ThrottlingReasons") or [{"reason": code_of(error)}]
            for each in reasons:
                tally.add(f"refused {each.get('reason')}")
        except BotoCoreError as error:
            tally.add(f"refused {code_of(error)}")

    seconds = paced(update, event["count"], event.get("threads", 16), event["rate"])
    return {"seconds": seconds, **tally.counts}


def signed_put(bucket, key):
    url = client("s3").generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": key})
    return urllib.parse.urlsplit(url)


def idle(event):
    """Sends two PUTs over one connection, some seconds apart. Returns whether S3 had closed the connection in between."""
    found = []
    for seconds in event["seconds"]:
        url = signed_put(event["bucket"], f"probe/idle-{seconds}")
        make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = make(url.hostname, url.port, timeout=30)
        target = f"{url.path}?{url.query}"

        def put():
            connection.request("PUT", target, body=b"x")  # noqa: B023
            response = connection.getresponse()  # noqa: B023
            response.read()
            return response.status

        first = put()
        time.sleep(seconds * event.get("scale", 1))
        # What is readable on an idle connection is its end, or TLS's notice of it.
        closed = connection.sock is None or bool(select.select([connection.sock], [], [], 0)[0])
        connection.close() if closed else None
        found.append({"seconds": seconds, "first": first, "closed": closed, "second": put()})
        connection.close()
    return {"idle": found}


def status_of(call):
    try:
        return {"status": call()["ResponseMetadata"]["HTTPStatusCode"]}
    except ClientError as error:
        return {"status": error.response["ResponseMetadata"]["HTTPStatusCode"], "code": code_of(error)}


def overwrite(event):
    """Stores one key twice with `If-None-Match: *`, and asks for objects that exist, do not exist, and may not be seen."""
    s3, bucket, key = client("s3"), event["bucket"], f"probe/once-{secrets.token_hex(4)}"
    put = lambda: s3.put_object(Bucket=bucket, Key=key, Body=b"x", IfNoneMatch="*")  # noqa: E731
    head = lambda name: status_of(lambda: s3.head_object(Bucket=bucket, Key=name))  # noqa: E731
    return {
        "first_put": status_of(put),
        "second_put": status_of(put),
        "head": head(key),
        "head_missing": head("probe/missing"),
        "head_outside": head("outside/missing"),
    }


def objects(event):
    """Stores and reads objects of random bytes. Returns the time of each request, and the errors by status."""
    s3, body = client("s3"), os.urandom(event["bytes"])
    puts, gets, errors = [], [], Tally()

    def one(index):
        key = f"probe/{ENVIRONMENT}-{index // 100}/{index % 100}"
        for list_of, call in (
            (puts, lambda: s3.put_object(Bucket=event["bucket"], Key=key, Body=body, IfNoneMatch="*")),
            (gets, lambda: s3.get_object(Bucket=event["bucket"], Key=key)["Body"].read()),
        ):
            began = time.monotonic()
            try:
                call()
            except (BotoCoreError, ClientError) as error:
                errors.add(code_of(error))
            list_of.append(milliseconds(began))

    seconds = paced(one, event["count"], event.get("threads", 8), event.get("rate", 1_000))
    return {"put_ms": puts, "get_ms": gets, "errors": errors.counts, "seconds": seconds}


def reservations(event):
    """Reserves ten seats at a time in one record, as the aggregator does. Returns times, units, and the first seat of each."""
    took, firsts, errors, units = [], [], Tally(), Tally()

    def reserve(_index):
        began = time.monotonic()
        try:
            reply = client("dynamodb").update_item(
                TableName=event["table"],
                Key={"batchId": {"S": "reserved"}},
                UpdateExpression="SET lastAt = :t ADD reserved :n, reservedBytes :b, slots :one",
                ConditionExpression="#status = :open",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={
                    ":t": {"N": str(int(time.time() * 1_000))},
                    ":n": {"N": "10"},
                    ":b": {"N": "3000"},
                    ":one": {"N": "1"},
                    ":open": {"S": "open"},
                },
                ReturnValues="UPDATED_NEW",
                ReturnConsumedCapacity="TOTAL",
            )
            firsts.append(int(reply["Attributes"]["reserved"]["N"]) - 10)
            units.add("units", reply.get("ConsumedCapacity", {}).get("CapacityUnits", 0))
        except (BotoCoreError, ClientError) as error:
            errors.add(code_of(error))
        took.append(milliseconds(began))

    seconds = paced(reserve, event["count"], event.get("threads", 16), event["rate"])
    return {"ms": took, "firsts": firsts, "units": units.counts.get("units", 0), "errors": errors.counts, "seconds": seconds}


def commits(event):
    """Stores a run and replaces one item by its version, again until it is applied, `count` times. Every fourth run is read back."""
    dynamodb, s3, body = client("dynamodb"), client("s3"), os.urandom(event["bytes"])
    key, names = {"batchId": {"S": "manifest"}}, {"#version": "version"}
    times, counts, errors = {"put": [], "get": [], "cas": []}, Tally(), Tally()

    def timed(what, call):
        began = time.monotonic()
        try:
            return call()
        finally:
            times[what].append(milliseconds(began))

    def replaced(version):
        values = {":old": {"N": str(version)}, ":new": {"N": str(version + 1)}}
        return dynamodb.update_item(
            TableName=event["table"],
            Key=key,
            UpdateExpression="SET #version = :new",
            ConditionExpression="#version = :old",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
            ReturnConsumedCapacity="TOTAL",
        )

    def commit(index):
        name = {"Bucket": event["bucket"], "Key": f"probe/run-{ENVIRONMENT}-{secrets.token_hex(6)}"}
        timed("put", lambda: s3.put_object(**name, Body=body, IfNoneMatch="*"))
        if index % 4 == 0:
            timed("get", lambda: s3.get_object(**name)["Body"].read())
        while True:
            version = int(dynamodb.get_item(TableName=event["table"], Key=key, ConsistentRead=True)["Item"]["version"]["N"])
            try:
                reply = timed("cas", lambda: replaced(version))  # noqa: B023
                counts.add("units", reply.get("ConsumedCapacity", {}).get("CapacityUnits", 0))
                return counts.add("applied")
            except ClientError as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                counts.add("refused")

    for index in range(event["count"]):
        try:
            commit(index)
        except (BotoCoreError, ClientError) as error:
            errors.add(code_of(error))
    sums = {name: counts.counts.get(name, 0) for name in ("applied", "refused", "units")}
    return sums | {f"{what}_ms": took for what, took in times.items()} | {"errors": errors.counts}


def clock(_event):
    """Returns both clocks, and which environment this is."""
    return {"wall": time.time(), "monotonic": time.monotonic(), "environment": ENVIRONMENT, "started": STARTED}


def credentials(event):
    """Makes a request with the credentials that this environment was started with."""
    try:
        client("s3").head_object(Bucket=event["bucket"], Key="probe/missing")
        result = "ok"
    except ClientError as error:
        # 404 says that the credentials were accepted. S3 answers HEAD without a body, so expired ones are 400 or 403.
        result = "ok" if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404 else code_of(error)
    return clock(event) | {"result": result}


JOBS = {job.__name__: job for job in (batches, updates, idle, overwrite, objects, reservations, commits, clock, credentials)}


def handler(event, _context):
    return JOBS[event["job"]](event)
