"""Asks AWS what only an account can say, with the credentials of its caller. `cargo xtask verify-aws` installs the tools.

It is Python with boto3, which the checks of the templates have installed already. With the SDK for Rust, every task of xtask would
compile the clients of ten services.

Exit codes: 0 every assumption is confirmed; 1 some are not; 2 wrong options, no credentials or no consent; 3 something could not
be deleted; 130 interrupted, and everything is deleted.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from verify import bill, burst, cleanup, code_zips, ledger, registry, report, verdict
from verify.interrupt import Interrupted, Signals, say
from verify.plan import Plan
from verify.unavailable import Unavailable, brief
from verify.world import BOUNDARY, World, boundary

USAGE, NOT_DELETED, INTERRUPTED = 2, 3, 130
MAX_COST = 20.0


class Refused(Exception):
    """The run does not begin. Its text says why."""


def options_of(arguments):
    parser = argparse.ArgumentParser(
        prog="cargo xtask verify-aws", description="Asks AWS what only an account can say; docs/verifying-aws.md has the details."
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list every resource and the cost; needs no credentials and makes no request"
    )
    parser.add_argument("--only", metavar="N,N", help="run only these experiments")
    parser.add_argument(
        "--level",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: only what creates nothing that works or costs; 2: also what takes a day (11), or has a price that is not known (12-warm)",
    )
    parser.add_argument(
        "--max-cost", type=float, default=MAX_COST, metavar="DOLLARS", help="refuse if the estimate is above (default %(default)s)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--region", help="region (default: that of the profile or AWS_REGION)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--clean", metavar="NAME", help="delete everything of an earlier run, and do nothing else")
    parser.add_argument("--bill", metavar="NAME", help="print the bill of an earlier run by its tag, and do nothing else")
    parser.add_argument(
        "--zips", metavar="FOLDER", type=pathlib.Path, help="take FOLDER/<architecture>/<function>.zip instead of building the functions"
    )
    parser.add_argument("--judge", metavar="REPORT", help="judge the observations of a report again, without a request")
    # For tests: small numbers, and a template that ministack understands. `cargo xtask verify-aws --emulator` starts it.
    parser.add_argument("--on", dest="emulator", choices=("ministack",), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in filter(None, (options.clean, options.bill)):
        if not ledger.is_name(name):
            parser.error(f"not the name of a run: got {name}, expected {ledger.PREFIX} and 8 hexadecimal digits")
    return options


def session_of(options):
    """Returns the session, and what identifies the account; Refused without region or credentials."""
    session = boto3.session.Session(profile_name=options.profile, region_name=options.region or os.environ.get("AWS_REGION"))
    if session.region_name is None:
        raise Refused("no region: give --region, or set AWS_REGION")
    if options.emulator == "ministack" and not os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://127.0.0.1:"):
        raise Refused("--on: wrong endpoint: expected AWS_ENDPOINT_URL to be one of this machine")
    try:
        return session, session.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise Refused(f"no credentials that AWS accepts: {brief(error)}") from error


def find_boundary(session, identity, plan):
    """Refuses a run that would create roles without the permissions boundary."""
    if not plan.has_roles():
        return
    arn = boundary(session, identity["Account"])
    try:
        session.client("iam").get_policy(PolicyArn=arn)
    except ClientError as error:
        file = pathlib.Path(__file__).parent.relative_to(ledger.ROOT) / "boundary.json"
        create = f"aws iam create-policy --policy-name {BOUNDARY} --policy-document file://{file}"
        raise Refused(f"no permissions boundary for roles: got {brief(error)}, expected {arn}; an administrator creates it: {create}") from error


def consent(options, plan, session, identity):
    if session.get_credentials().token:
        say(
            f"\nThese credentials are temporary. If they end before the run does, in about {plan.minutes / 60:.1f} h, nothing can be deleted with them:"
        )
        say("then delete with new ones, by `--clean` and the name below. `--only` makes a run shorter.")
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise Refused("no consent: standard input is not a terminal, and --yes is not set")
    say(
        f"\nThis creates all of that in account {identity['Account']} ({identity['Arn']}), region {session.region_name}, for about ${plan.dollars:.2f}."
    )
    print("Type the account's number to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != identity["Account"]:
        raise Refused("no consent: another number was typed")


def prepare(world, plan, options):
    """Builds what the chosen experiments need on this machine."""
    stacks = plan.stacks()
    if not stacks or options.emulator == "moto":
        return
    if options.zips:
        world.zips = options.zips
    else:
        # What the template deploys by default last: it is what stays in target/lambda.
        arches = [*(["arm64"] if "arm" in stacks and not options.emulator else []), "x86_64"]
        world.ledger.about["not_built"] = code_zips.build(world.zips, arches)
    if "main" in stacks and not options.emulator:
        burst.build()


def experiment_results(world, experiments):
    """Runs the experiments one after the other; yields each with its verdict."""
    for experiment in experiments:
        say(f"{experiment.number}: {experiment.does}")
        try:
            seen = json.loads(json.dumps(experiment.run(world), default=str))
            world.observed[experiment.number] = seen
            world.ledger.store(f"seen-{experiment.number}.json", seen)
            given = experiment.judge(seen)
        except (BotoCoreError, ClientError, Unavailable) as error:
            # A permission that is missing, a quota, a request that failed: the others go on.
            given = verdict.unclear(f"could not be run: {brief(error)}")
        except Exception as error:
            given = verdict.unclear(f"the experiment itself failed: {brief(error)}")
        say(f"  {given.word}: {given.seen}")
        yield experiment, given


def cleaned(session, notes):
    """Deletes everything of a run; returns what remains, as lines."""
    say(f"deleting everything of {notes.name}")
    remains = cleanup.clean(functools.cache(session.client), notes)
    if remains:
        say("\n".join(["NOT DELETED:", *(f"  {each}" for each in remains), f"try again with: cargo xtask verify-aws --clean {notes.name}"]))
    return remains


def run(options):
    experiments = registry.select(options.only, options.level)
    name = ledger.new_name()
    plan = Plan(experiments, name if not options.dry_run else "NAME")
    if options.dry_run:
        print(json.dumps(plan.as_json(), indent=1) if options.json else plan.text())
        return 0
    say(plan.text())
    if plan.dollars > options.max_cost:
        raise Refused(f"--max-cost: the estimate is too high: got ${plan.dollars:.2f}, expected at most ${options.max_cost:.2f}")
    session, identity = session_of(options)
    find_boundary(session, identity, plan)
    consent(options, plan, session, identity)
    about = {
        "account": identity["Account"],
        "region": session.region_name,
        "started": time.time(),
        "dollars_estimated": round(plan.dollars, 2),
        "emulator": options.emulator,
    }
    notes = ledger.Ledger(name, **about)
    notes.write()
    say(f"\nThis run is {name}; its notes are in {notes.folder}")
    world = World(name, notes, session, options.emulator)
    results, interrupted = [], False
    with Signals(lambda: [" ".join(each) for each in notes.remaining()]) as signals:
        try:
            prepare(world, plan, options)
            for result in experiment_results(world, experiments):
                results.append(result)
        except Interrupted:
            interrupted = True
        finally:
            signals.cleaning = True
            remains = cleaned(session, notes)
    return finish(options, notes, results, world.observed, remains, interrupted)


def finish(options, notes, results, observed, remains, interrupted):
    """Prints and stores the report; returns the exit code."""
    made = report.as_json(notes.about | {"name": notes.name, "interrupted": interrupted}, results, observed, remains)
    notes.store("report.json", made)
    print(json.dumps(made, indent=1, default=str) if options.json else report.table(results))
    say(f"report: {notes.folder / 'report.json'}")
    if remains:
        return NOT_DELETED
    if interrupted:
        return INTERRUPTED
    return 0 if all(given.word == verdict.CONFIRMED for _, given in results) else 1


def clean(options):
    notes = ledger.read(options.clean)
    # Without notes on this machine, everything with the name is looked for, in the region that is given.
    options.region = options.region or notes.about.get("region")
    session, identity = session_of(options)
    if notes.about.get("account", identity["Account"]) != identity["Account"]:
        raise Refused(f"--clean: wrong account: got {identity['Account']}, expected {notes.about['account']}")
    with Signals(lambda: [" ".join(each) for each in notes.remaining()]) as signals:
        signals.cleaning = True
        return NOT_DELETED if cleaned(session, notes) else 0


def judge(options):
    """Judges the observations of a report again."""
    with open(options.judge) as file:
        made = json.load(file)
    results = []
    for each in made["results"]:
        experiment = registry.EXPERIMENTS[each["number"]]
        seen = each["observation"]
        results.append((experiment, experiment.judge(seen) if seen is not None else verdict.Verdict(each["verdict"], each["seen"])))
    print(report.table(results))
    return 0 if all(given.word == verdict.CONFIRMED for _, given in results) else 1


def main(arguments, emulator=None):
    """Runs the program; `emulator` is `moto` in tests that have replaced AWS by it."""
    options = options_of(arguments)
    options.emulator = emulator or options.emulator
    try:
        if options.clean:
            return clean(options)
        if options.bill:
            session, _ = session_of(options)
            print(bill.text(bill.bill(session, options.bill), ledger.read(options.bill).about.get("dollars_estimated")))
            return 0
        return judge(options) if options.judge else run(options)
    except (Refused, registry.Unknown) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
