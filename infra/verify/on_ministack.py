"""Runs verify-aws against the emulator ministack: experiments with small numbers, then an interrupted run, which must leave nothing.

An emulator says nothing about AWS. This tests that the program creates, observes and deletes. `cargo xtask verify-aws --emulator`
runs it for some minutes.

    python -m verify.on_ministack PYTHON_OF_MINISTACK [FLAGS OF main.py]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import boto3

from verify import burst, cleanup, code_zips, ledger, template
from verify.world import BOUNDARY

with template.own_environment():
    import ministack

HERE = pathlib.Path(__file__).resolve().parent
REGION = "eu-west-1"
# What ministack 1.5.33 does as AWS is assumed to, or is known to do otherwise: it takes one key twice in a batch (3), and does not
# evaluate the policies of roles (17). There is no arm64 here (2).
EXPECTED = {
    "1": "confirmed",
    "2": "unclear",
    "3": "refuted",
    "4": "confirmed",
    "7": "confirmed",
    "10": "confirmed",
    "13": "confirmed",
    "17": "refuted",
    "21": "confirmed",
    "22": "confirmed",
}
# Run for their requests only: their verdicts depend on the speed of this machine, or on what ministack does not have.
OBSERVED = ("5", "8", "12", "19")
# When a run is interrupted: which experiment it is to run, after which line, and by which signal.
INTERRUPTIONS = (("2", "deploying", signal.SIGINT), ("7", "sending", signal.SIGTERM))
SECONDS_MAX = 420


def environment(endpoint):
    return os.environ | {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }


def make_boundary(endpoint):
    """Creates the permissions boundary, as an administrator does."""
    iam = boto3.client("iam", endpoint_url=endpoint, region_name=REGION, aws_access_key_id="none", aws_secret_access_key="none")
    iam.create_policy(PolicyName=BOUNDARY, PolicyDocument=(HERE / "boundary.json").read_text())


def started(endpoint, *flags):
    command = [sys.executable, "-m", "verify.main", "--on", "ministack", "--yes", "--json", *flags]
    return subprocess.Popen(
        command,
        cwd=HERE.parent,
        env=environment(endpoint),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def remains(endpoint):
    """Returns what any run left on the emulator, by kind."""
    client = lambda service: boto3.client(
        service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id="none", aws_secret_access_key="none"
    )  # noqa: E731
    found = {}
    for kind in cleanup.KINDS:
        one = kind(client, ledger.PREFIX.rstrip("-"))
        if names := one.listed():
            found[kind.name] = names
    return found


def whole_run(endpoint, flags):
    """Runs the experiments to their end; returns the problems."""
    process = started(endpoint, "--only", ",".join([*EXPECTED, *OBSERVED]), *flags)
    output, log = process.communicate(timeout=SECONDS_MAX)
    print(log[-6_000:], file=sys.stderr)
    if not output:
        return [f"no report: exit code {process.returncode}"]
    results = {str(each["number"]): each for each in json.loads(output)["results"]}
    for number, each in results.items():
        print(f"{number}: {each['verdict']}: {each['seen']}")
    problems = [
        f"{number}: got {results[number]['verdict']}, expected {verdict}: {results[number]['seen']}"
        for number, verdict in EXPECTED.items()
        if results[number]["verdict"] != verdict
    ]
    problems += [
        f"{number}: nothing was observed: {results[number]['seen']}" for number in OBSERVED if results[number]["observation"] is None
    ]
    return problems + [f"not deleted: {each}" for each in remains(endpoint).items()]


def interrupted_run(endpoint, flags, experiment, after, number):
    """Interrupts a run after a line of its log; returns the problems."""
    process = started(endpoint, "--only", experiment, *flags)
    log, sent = [], None
    for line in process.stderr:
        log.append(line)
        if after in line and sent is None:
            process.send_signal(number)
            sent = time.monotonic()
    process.stdout.read()
    process.wait(timeout=SECONDS_MAX)
    text, name = "".join(log), f"{signal.Signals(number).name} after `{after}`"
    if sent is None:
        return [f"{name}: no such line: {text[-2_000:]}"]
    problems = [f"{name}: got exit code {process.returncode}, expected 130: {text[-2_000:]}"] if process.returncode != 130 else []
    if "  deleting" not in text:
        problems.append(f"{name}: nothing was deleted, expected something to be there at the signal: {text[-2_000:]}")
    print(f"{name}: everything deleted and ended {time.monotonic() - sent:.0f} s later")
    return problems + [f"{name}: not deleted: {each}" for each in remains(endpoint).items()]


def zips_of(flags, folder):
    """Returns the flag for the zips, and builds them unless it is among `flags`; the problems if that fails."""
    burst.build()
    if "--zips" in flags:
        return [], []
    problems = code_zips.build(folder / "code", ["x86_64"])
    return ["--zips", str(folder / "code")], [f"no zips: {each}" for each in problems.values()]


def main():
    python, *flags = sys.argv[1:]
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    with tempfile.TemporaryDirectory(prefix="verify-aws-") as folder:
        folder = pathlib.Path(folder)
        zips, problems = zips_of(flags, folder)
        if not problems:
            with ministack.started(pathlib.Path(python).absolute(), folder) as endpoint:
                make_boundary(endpoint)
                problems += whole_run(endpoint, [*flags, *zips])
                for interruption in INTERRUPTIONS:
                    problems += interrupted_run(endpoint, [*flags, *zips], *interruption)
    print(*problems or ["everything that was created is deleted, also after SIGINT and SIGTERM"], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
