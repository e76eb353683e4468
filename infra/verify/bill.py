"""The bill of an earlier run, by tag. It is complete a day later, and only if the tag was active as a cost allocation tag."""

import datetime

from verify import ledger


def bill(session, name):
    """Returns the cost of a run by service, in $. One request, for $0.01."""
    about = ledger.read(name).about
    start = datetime.date.fromtimestamp(about["started"]) if "started" in about else datetime.date.today() - datetime.timedelta(days=14)
    period = {"Start": start.isoformat(), "End": (datetime.date.today() + datetime.timedelta(days=1)).isoformat()}
    # Cost Explorer has one endpoint, in us-east-1.
    reply = session.client("ce", region_name="us-east-1").get_cost_and_usage(
        TimePeriod=period,
        Granularity="MONTHLY",
        Metrics=["UnblendedCost"],
        Filter={"Tags": {"Key": ledger.TAG, "Values": [name]}},
        GroupBy=[{"Type": "DIMENSION", "Key": "SERVICE"}],
    )
    return by_service(reply)


def by_service(reply):
    sums = {}
    for month in reply["ResultsByTime"]:
        for group in month["Groups"]:
            service = group["Keys"][0]
            sums[service] = sums.get(service, 0) + float(group["Metrics"]["UnblendedCost"]["Amount"])
    return sums


def text(sums, estimate):
    if not sums:
        return "no cost with this tag yet: activate the cost allocation tag `verify-aws` in the billing console, and ask again a day after the run"
    lines = [f"  ${amount:8.4f}  {service}" for service, amount in sorted(sums.items(), key=lambda each: -each[1])]
    return "\n".join([*lines, f"  ${sum(sums.values()):8.4f}  in all" + (f"; the estimate was ${estimate:.2f}" if estimate else "")])
