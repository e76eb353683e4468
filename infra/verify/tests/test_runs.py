"""Whole runs on the emulator moto: what is planned, created and deleted, also after signals. moto runs in this process, with no network."""

import contextlib
import functools
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import boto3

from verify import cleanup, ledger, main, registry, resources, template, verdict, world
from verify.experiment import Experiment
from verify.interrupt import Signals
from verify.tests.on_moto import ACCOUNT, BOUNDARY, REGION, OnMoto


class Ends(Experiment):
    """An experiment of the tests: creates things, and then calls `then`."""

    number = 1
    assumption = does = "something"

    def __init__(self, needs, then=lambda: None):
        self.needs, self.then = needs, then

    def run(self, of):
        for need in self.needs:
            of.need(need)
        self.then()
        return {}

    def judge(self, seen):
        return verdict.confirmed("seen")


def interrupt(number=signal.SIGINT):
    """Sends this process a signal, and waits for it as an experiment would wait for AWS."""
    os.kill(os.getpid(), number)
    time.sleep(30)
    raise AssertionError("the signal was ignored")


class Runs(OnMoto):
    def created(self):
        """Creates one of everything but a stack without deleting it, as a run does that is killed. Returns its name."""
        notes = ledger.Ledger(ledger.new_name(), account=ACCOUNT, region=REGION, emulator="moto")
        one = world.World(notes.name, notes, boto3.session.Session(region_name=REGION), "moto")
        for need in ("bucket", "claims", "key", "probe"):
            one.need(need)
        self.client("s3").put_object(Bucket=f"{notes.name}-data", Key="a/b", Body=b"x")
        return notes.name

    def test_a_run_deletes_all_that_it_created(self):
        seen = []
        look = lambda: seen.extend(kind.name for kind in cleanup.KINDS if kind(self.client, ledger.PREFIX.rstrip("-")).listed())  # noqa: E731
        code = self.run_with(Ends(("outage", "records", "keyed-claims", "probe"), look))
        self.assertEqual(code, 0, self.log.getvalue())
        # moto creates no alarms of a stack, and no dashboards.
        kinds = ("CloudFormation stack", "event source mapping", "Lambda function", "EventBridge rule", "SQS queue", "DynamoDB table")
        self.assertEqual(set(seen), {*kinds, "S3 bucket", "log group", "IAM role", "KMS key"})
        self.assert_nothing_remains()

    def test_signals_delete_all_that_was_created(self):
        for number, created in ((signal.SIGINT, "main"), (signal.SIGTERM, "probe"), (signal.SIGHUP, "key")):
            with self.subTest(signal=number):
                code = self.run_with(
                    Ends((created, "claims"), functools.partial(interrupt, number)), Ends((), lambda: self.fail("went on"))
                )
                self.assertEqual(code, main.INTERRUPTED, self.log.getvalue())
                self.assert_nothing_remains()

    def with_signal_at_the_bucket(self, *experiments):
        """Runs with a signal just before the bucket is deleted."""
        delete = cleanup.Buckets.delete

        def interrupted(kind, one):
            os.kill(os.getpid(), signal.SIGINT)
            delete(kind, one)

        with mock.patch.object(cleanup.Buckets, "delete", interrupted):
            return self.run_with(*experiments)

    def test_a_second_signal_says_what_remains_and_the_clean_up_goes_on(self):
        code = self.with_signal_at_the_bucket(Ends(("bucket", "claims"), interrupt))
        self.assertEqual(code, main.INTERRUPTED, self.log.getvalue())
        remained = self.log.getvalue().split("Not deleted yet:")[1].split("The clean-up goes on")[0].strip().splitlines()
        # The table was deleted before.
        self.assertEqual([each.split(" verify")[0] for each in remained], ["S3 bucket"])
        self.assert_nothing_remains()

    def test_a_first_signal_during_the_clean_up_does_not_stop_it(self):
        code = self.with_signal_at_the_bucket(Ends(("bucket", "claims")))
        self.assertEqual(code, 0, self.log.getvalue())
        self.assert_nothing_remains()

    def test_the_third_signal_ends_the_program(self):
        with Signals(lambda: ["a table"]) as signals, mock.patch("os._exit", side_effect=SystemExit) as ended:
            signals.cleaning = True
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0)
            ended.assert_not_called()
            with self.assertRaises(SystemExit):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0)
        ended.assert_called_once_with(128 + signal.SIGTERM)

    def test_clean_deletes_a_run_that_was_killed_and_no_other(self):
        killed, other = self.created(), self.created()
        self.client("dynamodb").create_table(
            TableName=f"{killed}x",
            BillingMode="PAY_PER_REQUEST",
            **{key: resources.CLAIMS[key] for key in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")},
        )
        self.assertEqual(main.main(["--clean", killed], emulator="moto"), 0, self.log.getvalue())
        self.assert_nothing_remains(killed)
        kept = [kind.name for kind in cleanup.KINDS if kind(self.client, other).listed()]
        self.assertEqual(kept, ["Lambda function", "DynamoDB table", "S3 bucket", "log group", "IAM role", "KMS key"])
        self.assertIn(f"{killed}x", self.client("dynamodb").list_tables()["TableNames"])

    def test_everything_has_the_tag_of_its_run(self):
        name = self.created()
        bucket = self.client("s3").get_bucket_tagging(Bucket=f"{name}-data")["TagSet"]
        table = self.client("dynamodb").describe_table(TableName=f"{name}-claims")["Table"]["TableArn"]
        table = self.client("dynamodb").list_tags_of_resource(ResourceArn=table)["Tags"]
        role = self.client("iam").list_role_tags(RoleName=f"{name}-probe")["Tags"]
        self.assertEqual([bucket, table, role], [[{"Key": "verify-aws", "Value": name}]] * 3)
        key = next(each["TargetKeyId"] for each in self.client("kms").list_aliases()["Aliases"] if each["AliasName"] == f"alias/{name}")
        key = self.client("kms").list_resource_tags(KeyId=key)["Tags"]
        self.assertEqual(key, [{"TagKey": "verify-aws", "TagValue": name}])
        function = self.client("lambda").get_function(FunctionName=f"{name}-probe")["Tags"]
        self.assertEqual(
            [function, self.client("logs").list_tags_log_group(logGroupName=f"{name}-probe")["tags"]], [{"verify-aws": name}] * 2
        )

    def test_clean_works_without_the_notes(self):
        killed = self.created()
        (ledger.RUNS / killed / "ledger.json").unlink()
        self.assertEqual(main.main(["--clean", killed], emulator="moto"), 0, self.log.getvalue())
        self.assert_nothing_remains()

    def test_clean_refuses_a_name_that_is_no_run(self):
        for name in ("verify-aws-", "verify-aws-12345678-data", "prod", "verify-aws-1234567g"):
            with self.subTest(name=name), self.assertRaises(SystemExit) as ended:
                main.main(["--clean", name], emulator="moto")
            self.assertEqual(ended.exception.code, main.USAGE)

    def test_clean_refuses_another_account(self):
        killed = self.created()
        notes = ledger.read(killed)
        notes.about["account"] = "999999999999"
        notes.write()
        self.assertEqual(main.main(["--clean", killed], emulator="moto"), main.USAGE)
        self.assertIn("wrong account", self.log.getvalue())

    def test_a_thing_that_cannot_be_deleted_is_reported(self):
        with mock.patch.object(cleanup.Buckets, "delete", side_effect=RuntimeError("object lock")):
            code = self.run_with(Ends(("bucket", "claims")))
        self.assertEqual(code, main.NOT_DELETED)
        self.assertIn("S3 bucket: verify-aws-", self.log.getvalue().split("NOT DELETED:")[1])
        self.assertIn("--clean verify-aws-", self.log.getvalue())
        self.assertEqual(self.client("dynamodb").list_tables()["TableNames"], [])

    def test_a_thing_that_appears_again_and_again_is_reported(self):
        with mock.patch.object(cleanup, "PASSES_MAX", 3), mock.patch.object(cleanup.Buckets, "delete"):
            code = self.run_with(Ends(("bucket",)))
        self.assertEqual(code, main.NOT_DELETED)
        self.assertIn("something was still found after 3 passes", self.log.getvalue())

    def test_an_experiment_that_cannot_be_run_is_unclear_and_the_others_go_on(self):
        def denied():
            self.client("s3").get_object(Bucket="nothing", Key="x")

        code = self.run_with(Ends((), denied), Ends((), lambda: 1 / 0), Ends(()), flags=("--yes", "--json"))
        results = json.loads(self.out.getvalue())["results"]
        self.assertEqual([each["verdict"] for each in results], ["unclear", "unclear", "confirmed"])
        self.assertIn("NoSuchBucket", results[0]["seen"])
        self.assertIn("ZeroDivisionError", results[1]["seen"])
        self.assertEqual(code, 1)

    def test_what_could_not_be_created_is_not_tried_again(self):
        with mock.patch.object(cleanup, "PASSES_MAX", 1), mock.patch.dict(resources.RESOURCES):
            create = mock.Mock(side_effect=RuntimeError("quota"))
            resources.RESOURCES["claims"] = resources.Resource("table", (), create)
            self.run_with(Ends(("claims",)), Ends(("claims",)), flags=("--yes", "--json"))
        self.assertEqual(create.call_count, 1)
        seen = [each["seen"] for each in json.loads(self.out.getvalue())["results"]]
        self.assertEqual(seen, ["could not be run: claims could not be created: RuntimeError: quota"] * 2)

    def test_nothing_is_created_without_consent(self):
        refusals = ((("--max-cost", "0.5"), "estimate is too high"), ((), "standard input is not a terminal"))
        for flags, reason in refusals:
            with self.subTest(flags=flags), mock.patch("sys.stdin", io.StringIO()):
                self.assertEqual(main.main(list(flags), emulator="moto"), main.USAGE)
            self.assertIn(reason, self.log.getvalue())
        typed = io.StringIO("yes\n")
        typed.isatty = lambda: True
        with mock.patch("sys.stdin", typed):
            self.assertEqual(main.main([], emulator="moto"), main.USAGE)
        self.assertIn("another number was typed", self.log.getvalue())
        self.assert_nothing_remains()

    def test_roles_are_not_created_without_the_boundary(self):
        self.client("iam").delete_policy(PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/{world.BOUNDARY}")
        self.assertEqual(self.run_with(Ends(("probe",))), main.USAGE)
        self.assertIn("aws iam create-policy --policy-name verify-aws-boundary", self.log.getvalue())
        self.assert_nothing_remains()
        # A run without roles needs none.
        self.assertEqual(self.run_with(Ends(("claims",))), 0, self.log.getvalue())

    def test_every_role_has_the_boundary(self):
        found = []
        roles = cleanup.Roles(self.client, ledger.PREFIX.rstrip("-"))
        look = lambda: found.extend(self.client("iam").get_role(RoleName=each)["Role"] for each in roles.listed())  # noqa: E731
        self.run_with(Ends(("main", "probe", "receiver"), look))
        self.assertEqual(len(found), 5)
        arn = f"arn:aws:iam::{ACCOUNT}:policy/{world.BOUNDARY}"
        self.assertEqual({each.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn") for each in found}, {arn})

    def test_the_boundary_has_the_actions_of_all_roles_and_no_others(self):
        granted = set()
        listed = lambda statement: statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]  # noqa: E731

        def look():
            iam = self.client("iam")
            for role in cleanup.Roles(self.client, ledger.PREFIX.rstrip("-")).listed():
                for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
                    for statement in iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]["Statement"]:
                        granted.update(listed(statement))

        self.run_with(Ends(("probe", "receiver"), look))
        # moto gives a role of a stack no policies. The probe may use keys, as the stack `updates` with its key.
        for parameters in (resources.main_parameters, resources.outage_parameters):
            for role in template.cfn.by_type(template.cfn.resolve(template.text(), parameters("verify-aws-0")), "AWS::IAM::Role").values():
                granted.update(action for policy in role["Policies"] for each in policy["PolicyDocument"]["Statement"] for action in listed(each))
        allowed = {action for statement in json.loads(BOUNDARY.read_text())["Statement"] for action in statement["Action"]}
        self.assertEqual(granted, allowed)

    def test_the_account_number_is_consent(self):
        typed = io.StringIO("123456789012\n")
        typed.isatty = lambda: True
        with mock.patch("sys.stdin", typed):
            self.assertEqual(self.run_with(Ends(()), flags=()), 0)


class DryRun(unittest.TestCase):
    def dry_run(self, *flags):
        """Runs without credentials, and fails if anything is asked of a network."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {"HOME": "/nonexistent"}
        connect = mock.Mock(side_effect=AssertionError("a request"))
        out = io.StringIO()
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(socket.socket, "connect", connect),
            contextlib.redirect_stdout(out),
        ):
            self.assertEqual(main.main(["--dry-run", *flags]), 0)
        connect.assert_not_called()
        return out.getvalue()

    def test_it_lists_every_resource_and_the_cost(self):
        plan = json.loads(self.dry_run("--json", "--level", "2"))
        self.assertEqual(len(plan["experiments"]), len(registry.ORDER))
        self.assertEqual({each["name"] for each in plan["resources"]}, set(resources.RESOURCES))
        stack = {(each["type"], name) for each in plan["resources"] if each["name"] == "main" for name in each["names"]}
        for wanted in (
            ("AWS::DynamoDB::Table", "LockTable"),
            ("AWS::SQS::Queue", "InputQueue"),
            ("AWS::Lambda::Function", "Aggregator"),
            ("AWS::IAM::Role", "BatchProcessorRole"),
        ):
            self.assertIn(wanted, stack)
        self.assertGreater(plan["dollars"], sum(each["dollars"] for each in plan["experiments"]))
        text = self.dry_run()
        for wanted in ("LockTable", "NAME-probe", "in all", "10,000 batches of 25 claims"):
            self.assertIn(wanted, text)

    def test_only_what_is_chosen_is_planned(self):
        plan = json.loads(self.dry_run("--json", "--only", "1,18"))
        # 18 looks at the burst of 7.
        self.assertEqual([each["number"] for each in plan["experiments"]], [1, 7, 18])
        self.assertEqual({each["name"] for each in plan["resources"]}, {"bucket", "main"})
        with contextlib.redirect_stderr(io.StringIO()) as log:
            self.assertEqual(main.main(["--dry-run", "--only", "3,31"]), main.USAGE)
        self.assertIn("got 31", log.getvalue())

    def test_the_page_shows_it_as_it_is(self):
        page = (ledger.ROOT / "docs" / "verifying-aws.md").read_text()
        self.assertIn(self.dry_run(), page)
        for number in registry.ORDER:
            experiment = registry.EXPERIMENTS[number]
            self.assertIn(f"| {number} | {experiment.assumption} | {experiment.does} |", page)

    def test_the_commands_of_the_page_are_understood(self):
        page = (ledger.ROOT / "docs" / "verifying-aws.md").read_text()
        lines = re.findall(r"(?m)^cargo xtask verify-aws (.*)$", page)
        self.assertGreater(len(lines), 3)
        for line in lines:
            main.options_of(shlex.split(line, comments=True))
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main.options_of(["--slow"])

    def test_the_policy_for_callers_has_every_service_that_is_called(self):
        folder = ledger.ROOT / "infra" / "verify"
        source = "".join(each.read_text() for each in [*folder.glob("*.py"), *(folder / "experiments").glob("*.py")])
        called = set(re.findall(r'client\("([a-z0-9]+)', source))
        statements = json.loads((folder / "caller-policy.json").read_text())["Statement"]
        allowed = {action.split(":")[0] for statement in statements for action in statement["Action"]}
        self.assertEqual(called, allowed)
        # A role gets its permissions together with the boundary only, which the caller cannot change.
        iam = [(action, each) for each in statements for action in each["Action"] if action.startswith("iam:")]
        demanding = {action for action, each in iam if "iam:PermissionsBoundary" in json.dumps(each.get("Condition", {}))}
        self.assertEqual(demanding, {"iam:CreateRole", "iam:PutRolePolicy"})
        changing = re.compile("iam:(Attach|Create|Put|Update|Set|Delete)")
        free = {action for action, each in iam if changing.match(action)} - demanding
        self.assertEqual(free, {"iam:DeleteRole", "iam:DeleteRolePolicy"})
        # Whatever is allowed on everything is named: no wildcard of a service.
        on_all = [action for statement in statements if statement["Resource"] == "*" for action in statement["Action"]]
        self.assertEqual([action for action in on_all if action.endswith(":*")], [])

    def test_the_environment_is_left_alone(self):
        """The modules of infra/checks set credentials for emulators, which would hide the user's own."""
        code = "import os; before = dict(os.environ); from verify import main, template; template.transformed(); assert dict(os.environ) == before"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        subprocess.run([sys.executable, "-c", code], cwd=ledger.ROOT / "infra", env=environment, check=True)


class ThrowAway(unittest.TestCase):
    def test_nothing_survives_the_deletion_of_a_stack(self):
        made = template.throw_away(template.transformed(), "bucket", "code/arm64")
        policies = {name: each.get("DeletionPolicy") for name, each in made["Resources"].items()}
        self.assertEqual({policies[name] for name in ("InputQueue", "LockTable", "ChunkBucket")}, {"Delete"})
        self.assertNotIn("Retain", json.dumps(made))

    def test_the_template_of_a_change_set_is_that_of_sam_but_for_the_place_of_the_code(self):
        made = json.loads(json.dumps(template.untransformed("bucket", "code")))
        self.assertEqual(made["Transform"], "AWS::Serverless-2016-10-31")
        with template.own_environment():
            transformed = template.cfn.transform(json.dumps(made))
        expected = template.transformed()
        for name, function in (("Aggregator", "aggregator"), ("BatchProcessor", "batch-processor"), ("DeploymentCheck", "batch-processor")):
            code = transformed["Resources"][name]["Properties"].pop("Code")
            self.assertEqual(code, {"S3Bucket": "bucket", "S3Key": f"code/{function}.zip"})
            del expected["Resources"][name]["Properties"]["Code"]
        self.assertEqual(transformed, expected)

    def test_the_code_is_that_of_the_run(self):
        made = template.throw_away(template.transformed(), "bucket", "code/arm64")
        code = {name: each["Properties"]["Code"] for name, each in made["Resources"].items() if each["Type"] == "AWS::Lambda::Function"}
        processor = "code/arm64/batch-processor.zip"
        keys = {"Aggregator": "code/arm64/aggregator.zip", "BatchProcessor": processor, "DeploymentCheck": processor}
        self.assertEqual(code, {name: {"S3Bucket": "bucket", "S3Key": key} for name, key in keys.items()})


if __name__ == "__main__":
    unittest.main()
