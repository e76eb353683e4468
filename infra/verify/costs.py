"""What the experiments cost, from list prices of us-east-1. Other regions can cost up to half as much again.

Prices are those of tools/planner/prices.json, which plans and bursts use too; it has the source and month of each. Where a line says
otherwise, that.
"""

import dataclasses
import json

from verify import ledger

TABLE = json.loads((ledger.ROOT / "tools" / "planner" / "prices.json").read_text())
MONTHS = sorted(each["date"] for each in TABLE.values() if isinstance(each, dict))
PRICES_OF = f"{TABLE['region']}, list prices of {MONTHS[0]} to {MONTHS[-1]}"


@dataclasses.dataclass(frozen=True)
class Price:
    dollars: float
    per: float
    unit: str


def listed(name, per, unit):
    return Price(TABLE[name]["dollars"], per, unit)


PRICES = {
    "write": listed("dynamodb_million_write_units", 1e6, "DynamoDB write units"),
    "read": listed("dynamodb_million_read_units", 1e6, "DynamoDB read units"),
    "sqs": listed("sqs_million_requests", 1e6, "SQS requests"),
    "invocation": listed("lambda_million_requests", 1e6, "Lambda requests"),
    "gb-second": listed("lambda_gb_second_x86_64", 1, "Lambda GB-s"),
    "put": listed("s3_million_puts", 1e6, "S3 PUT requests"),
    "get": listed("s3_million_gets", 1e6, "S3 GET requests"),
    # KMS, CloudWatch and transfer: AWS's price pages from memory, not read for this.
    "gb-out": Price(0.09, 1, "GB to this machine"),
    "kms": Price(0.03, 1e4, "KMS requests"),
    "log-gb": Price(0.50, 1, "GB of logs"),
    "poller-hour": listed("poller_hour", 1, "event poller unit hours"),
    "key-hour": Price(1.0 / 730, 1, "KMS key hours"),
    # 16 alarms on 19 metrics, the dashboard and some 30 custom metrics, all of them charged by the hour.
    "watch-hour": Price((19 * 0.10 + 3.00 + 30 * 0.30) / 730, 1, "hours of a stack's alarms, metrics and dashboard"),
    "ce": Price(0.01, 1, "Cost Explorer requests"),
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """An amount of something that has a price."""

    price: str
    amount: float

    @property
    def dollars(self):
        price = PRICES[self.price]
        return self.amount / price.per * price.dollars

    def __str__(self):
        return f"{number(self.amount)} {PRICES[self.price].unit}"


def number(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def dollars(costs):
    return sum(each.dollars for each in costs)


# What one message of a burst takes, with bodies in lock items: measured on one machine with 5 % duplicates (docs/performance.md), a message sent.
WRITES_A_MESSAGE = 3.82
READS_A_MESSAGE = 0.98
# Sent, received and deleted, ten at a time.
SQS_A_MESSAGE = 0.3
# Functions of $0.02 a million, at a fifth of the list price of docs/deploying.md; the estimate takes that page's higher figure.
GB_SECONDS_A_MESSAGE = 0.0045


def burst(messages):
    """Returns the costs of sending messages through a stack."""
    return [
        Cost("write", messages * WRITES_A_MESSAGE),
        Cost("read", messages * READS_A_MESSAGE),
        Cost("sqs", messages * SQS_A_MESSAGE),
        Cost("invocation", messages / 100),
        Cost("gb-second", messages * GB_SECONDS_A_MESSAGE),
        Cost("log-gb", messages / 100 * 2_000 / 1e9),
    ]


def by_price(costs):
    """Returns the costs with equal prices added up, in the order of the prices."""
    sums = {}
    for each in costs:
        sums[each.price] = sums.get(each.price, 0) + each.amount
    return [Cost(price, sums[price]) for price in PRICES if price in sums]
