"""21: does CloudFormation accept what is deployed? 22: do the roles of the template allow the calls of the functions, and no others?"""

import json
import re

from verify import template
from verify.experiment import Experiment
from verify.verdict import of_checks

with template.own_environment():
    import cfn
    import iam
    from drift import FUNCTIONS
    from world import World


class ChangeSets(Experiment):
    number = 21
    assumption = "CloudFormation accepts infra/sam and infra/cdk, and would create the resources that the checks of `cargo xtask infra` look at"
    relied_on_in = "infra/sam/template.yaml; infra/cdk/lib; infra/checks/cfn.py, which transforms the template as AWS is assumed to"
    does = "Creates a change set of each template, reads it, and deletes it; none is executed"
    needs = ("sam-changes", "cdk-changes")
    minutes = 2
    level = 0

    def run(self, world):
        return {name.removesuffix("-changes"): world.need(name) for name in self.needs}

    def judge(self, seen):
        checks = []
        for name, each in seen.items():
            got, expected = each["resources"].items(), each["expected"].items()
            summary = f"infra/{name}: {each['status']}: {each['reason']}"
            checks += [
                (each["status"] == "CREATE_COMPLETE", summary),
                (got >= expected, f"{summary}: does not create {sorted(expected - got)}"),
                (got <= expected, f"{summary}: also creates {sorted(got - expected)}"),
            ]
        return of_checks(checks, "; ".join(f"infra/{name}: {len(each['resources'])} resources" for name, each in seen.items()))


# Sets of parameters with which the functions make all calls of infra/checks/calls.txt.
CHOSEN = tuple({"Sink": cfn.SINKS[scheme], "Bodies": "log:s3"} for scheme in ("s3", "lambda", "states"))
# Actions on the same resources that neither function may ever take.
NEVER = ("dynamodb:DeleteItem", "dynamodb:DeleteTable", "dynamodb:Scan", "lambda:UpdateFunctionCode", "s3:DeleteBucket",
    "s3:PutBucketPolicy", "sqs:PurgeQueue", "sqs:SetQueueAttributes", "states:StopExecution", "events:PutRule")  # fmt: skip


class Grants(Experiment):
    number = 22
    assumption = "The policies of both roles allow each call of the functions, and no other call on the same resources"
    relied_on_in = "infra/checks/calls.txt; infra/sam/template.yaml; docs/deploying.md, Policies"
    does = f"Has IAM evaluate the policies of both roles, and the one of docs/deploying.md, with {len(CHOSEN)} sets of parameters"
    minutes = 2
    level = 0

    def run(self, world):
        known = iam.calls(iam.CALLS.read_text())
        with template.own_environment():
            sets = [(chosen["Sink"], World(template.text(), chosen)) for chosen in CHOSEN]
        roles = [(sink, one, function) for sink, one in sets for function in FUNCTIONS]
        return {"roles": [{"function": function, "sink": sink} | self.evaluated(world, known, one, function) for sink, one, function in roles]}

    def evaluated(self, world, known, one, function):
        """Returns the number of calls that were evaluated, those that are wrongly denied or allowed, and those without a decision."""
        policies = [each["PolicyDocument"] for each in one.properties(f"{function}Role")["Policies"]]
        policies = [localized(world, json.dumps(arns(one, each))) for each in [*policies, *iam.documented_policies()]]
        actions = {call.action for call in known} | iam.MAPPING | set(NEVER)
        by_policy = iam.granted_by(iam.documented_policies())
        needed = {name: iam.needed(known, name, one) | by_policy for name in FUNCTIONS}
        resources = {arn(one, resource) for each in needed.values() for action, resource in each if action in actions} | OTHERS
        expected = {(action, arn(one, resource)) for action, resource in needed[function] if action in actions}
        decisions = {
            (action, resource): decision
            for resource in sorted(resources)
            for action, decision in decided(world, policies, sorted(each for each in actions if of_service(each, resource)), resource)
        }
        allowed = {call for call, decision in decisions.items() if decision == "allowed"}
        denied = {call for call, decision in decisions.items() if decision in ("implicitDeny", "explicitDeny")}
        named = lambda calls: sorted(" on ".join(call) for call in calls)  # noqa: E731
        return {
            "called": len(expected),
            "evaluated": len(decisions),
            "denied": named(denied & expected),
            "allowed": named(allowed - expected),
            "undecided": named(decisions.keys() - allowed - denied),
        }

    def judge(self, seen):
        checks, called, evaluated = [], 0, 0
        for each in seen["roles"]:
            role = f"{each['function']} with {each['sink']}"
            called, evaluated = called + each["called"], evaluated + each["evaluated"]
            checks += [
                (not each["denied"], f"{role}: called and denied: {', '.join(each['denied'])}"),
                (not each["allowed"], f"{role}: allowed and not called: {', '.join(each['allowed'])}"),
                (None if each["undecided"] else True, f"{role}: no decision: {', '.join(each['undecided'])}"),
            ]
        return of_checks(checks, f"{called} calls allowed, {evaluated - called} others denied")


def of_service(action, resource):
    return action.split(":")[0] == resource.split(":")[2]


def decided(world, policies, actions, resource):
    """Yields each action with IAM's decision about it on one resource; None if IAM returns none."""
    pages = (
        world.client("iam")
        .get_paginator("simulate_custom_policy")
        .paginate(PolicyInputList=policies, ActionNames=actions, ResourceArns=[localized(world, resource)])
    )
    found = {each["EvalActionName"]: each["EvalDecision"] for page in pages for each in page["EvaluationResults"]}
    for action in actions:
        yield action, found.get(action)


def localized(world, text):
    """Returns a text with the partition, region and account of the run in its ARNs."""
    account = f"{world.region}:{world.ledger.about['account']}"
    return text.replace(ACCOUNT, account).replace("arn:aws:", f"arn:{world.partition}:")


ACCOUNT = f"{cfn.PSEUDO['AWS::Region']}:{cfn.PSEUDO['AWS::AccountId']}"
ARNS = {
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{ACCOUNT}:table/",
    "AWS::SQS::Queue": f"arn:aws:sqs:{ACCOUNT}:",
    "AWS::S3::Bucket": "arn:aws:s3:::",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{ACCOUNT}:log-group:",
}
# Resources of the same services that are not the service's.
OTHERS = {
    f"arn:aws:dynamodb:{ACCOUNT}:table/Other",
    f"arn:aws:lambda:{ACCOUNT}:function:other",
    "arn:aws:s3:::other/object",
    f"arn:aws:sqs:{ACCOUNT}:Other",
    f"arn:aws:states:{ACCOUNT}:stateMachine:other",
}


def arn(one, resource):
    """Returns the ARN of a resource of iam.py: of the template by its name, or by its ARN; `*` stands for an object."""
    name = resource.split("/")[0]
    if name in one.resources:
        resource = ARNS[one.resources[name]["Type"]] + resource
    return resource.replace("*", "object")


def arns(one, node):
    """Returns a policy with ARNs in place of references to resources of the template."""
    return json.loads(re.sub(r"<(\w+)\.Arn>", lambda match: arn(one, match.group(1)), json.dumps(node)))


EXPERIMENTS = (ChangeSets(), Grants())
