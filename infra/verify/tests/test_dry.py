"""Runs of level 0 on the emulator moto: change sets that are never executed, and policies that are evaluated."""

import contextlib
import fnmatch
import io
import json
from unittest import mock

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend
from moto.core.responses import ActionResult
from moto.iam.responses import IamResponse

from verify import change_sets, cleanup, main, template
from verify.tests.on_moto import OnMoto


def matches(statement, action, resource):
    """Returns whether a statement without conditions is about an action on a resource."""
    listed = lambda key: statement[key] if isinstance(statement[key], list) else [statement[key]]  # noqa: E731
    found = [
        any(fnmatch.fnmatchcase(value, pattern) for pattern in listed(key)) for key, value in (("Action", action), ("Resource", resource))
    ]
    return "Condition" not in statement and all(found)


def simulate_custom_policy(response):
    """What moto does not have: IAM's decision about each action on each resource."""
    statements = [each for policy in response._get_param("PolicyInputList") for each in json.loads(policy)["Statement"]]
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": "allowed" if any(matches(each, action, resource) for each in statements) else "implicitDeny",
        }
        for resource in response._get_param("ResourceArns")
        for action in response._get_param("ActionNames")
    ]
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


class Dry(OnMoto):
    def setUp(self):
        super().setUp()
        self.stack.enter_context(mock.patch.object(IamResponse, "simulate_custom_policy", simulate_custom_policy, create=True))

    def results(self, only):
        """Runs experiments; returns the results by number."""
        self.out.truncate(self.out.seek(0))
        code = main.main(["--yes", "--json", "--only", only], emulator="moto")
        self.assertIn(code, (0, 1), self.log.getvalue())
        self.assert_nothing_remains()
        return {each["number"]: each for each in json.loads(self.out.getvalue())["results"]}

    def test_level_0_creates_no_resources_of_a_template_and_costs_nothing(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(main.main(["--dry-run", "--json", "--level", "0"]), 0)
        plan = json.loads(out.getvalue())
        self.assertEqual([each["number"] for each in plan["experiments"]], [1, 21, 22])
        self.assertEqual({each["name"] for each in plan["resources"]}, {"bucket", "sam-changes", "cdk-changes"})
        self.assertEqual(plan["dollars"], 0)

    def test_change_sets_of_both_templates_are_read_and_never_executed(self):
        found = []
        delete = cleanup.Stacks.delete

        def look(kind, one):
            stack = self.client("cloudformation").describe_stacks(StackName=one)["Stacks"][0]
            found.append((one[-2:], stack["StackStatus"], len(self.client("cloudformation").list_change_sets(StackName=one)["Summaries"])))
            delete(kind, one)

        with mock.patch.object(cleanup.Stacks, "delete", look):
            result = self.results("21")[21]
        self.assertEqual(result["verdict"], "confirmed", result["seen"])
        self.assertEqual(sorted(found), [("-c", "REVIEW_IN_PROGRESS", 0), ("-d", "REVIEW_IN_PROGRESS", 0)])
        # Both have the same functions, tables and queues.
        kinds = [sorted(kind for kind in each["resources"].values() if "Queue" in kind or "Table" in kind) for each in result["observation"].values()]
        self.assertEqual(kinds[0], [kind for kind in kinds[1] if "Policy" not in kind])
        self.assertGreater(len(kinds[0]), 7)

    def test_a_template_that_is_refused_or_lacks_a_resource_is_refuted(self):
        types = template.types
        self.stack.enter_context(mock.patch.object(change_sets, "synthesized", lambda: {"Resources": {}}))
        with mock.patch.object(template, "types", lambda chosen: types(chosen) | {"InputQueue": "AWS::SNS::Topic"}):
            result = self.results("21")[21]
        self.assertEqual(result["verdict"], "refuted")
        self.assertIn("does not create [('InputQueue', 'AWS::SNS::Topic')]; ", result["seen"])
        with mock.patch.object(CloudFormationBackend, "create_change_set", side_effect=ValidationError("stack", message="a wrong template")):
            result = self.results("21")[21]
        self.assertEqual(result["verdict"], "refuted")
        self.assertIn("infra/sam: refused: a wrong template", result["seen"])

    def test_iam_allows_the_calls_of_both_functions_and_no_others(self):
        result = self.results("22")[22]
        self.assertEqual(result["verdict"], "confirmed", result["seen"])
        for role in result["observation"]["roles"]:
            self.assertGreater(role["called"], 10, role)
            self.assertGreater(role["evaluated"], 3 * role["called"], role)

    def test_a_grant_that_is_missing_or_too_wide_is_refuted(self):
        text = template.text()
        grant = "dynamodb:PartiQLInsert]"
        changes = {
            "Aggregator with s3://bucket/some/prefix: called and denied: dynamodb:PartiQLInsert on arn:aws:dynamodb": (grant, "dynamodb:Other]"),
            "allowed and not called: dynamodb:Scan on arn:aws:dynamodb": (grant, "dynamodb:PartiQLInsert, dynamodb:Scan]"),
        }
        for seen, (old, new) in changes.items():
            self.assertEqual(text.count(old), 1)
            with self.subTest(seen=seen), mock.patch.object(template, "text", lambda old=old, new=new: text.replace(old, new)):
                result = self.results("22")[22]
                self.assertEqual(result["verdict"], "refuted")
                self.assertIn(seen, result["seen"])
