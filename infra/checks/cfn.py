"""Reads and transforms templates, and resolves them as CloudFormation would."""

import copy
import functools
import json
import logging
import os
import pathlib

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-west-1")
os.environ.setdefault("AWS_ACCESS_KEY_ID", "none")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "none")

from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.translator.transform import transform as sam_transform  # noqa: E402

# It counts its calls, and logs a warning if the counts are not collected.
logging.getLogger("samtranslator").setLevel(logging.CRITICAL)

INFRA = pathlib.Path(__file__).resolve().parent.parent
ROOT = INFRA.parent
SAM = INFRA / "sam" / "template.yaml"

PSEUDO = {
    "AWS::Region": "eu-west-1",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::AccountId": "123456789012",
    "AWS::StackName": "stack",
}
NO_VALUE = object()
# Parameters without a default, with the values that a check gives them if it chooses none.
REQUIRED = {"Sink": "log:", "EventId": "json:id"}


class _NoManagedPolicies:
    def load(self):
        return {}

    def get_policy_name_map(self):
        return {}


def parse(text):
    return yaml_parse(text)


def parameters(template, chosen=None):
    """Returns every parameter with its chosen or default value, or that of REQUIRED. Raises ValueError for a name that is not a
    parameter."""
    values = {name: value for name, value in REQUIRED.items() if name in template["Parameters"]}
    for name, spec in template["Parameters"].items():
        if "Default" in spec:
            values[name] = str(spec["Default"])
    for name, value in (chosen or {}).items():
        if name not in template["Parameters"]:
            raise ValueError(f"parameters: unknown name: got {name}, expected a parameter of the template")
        values[name] = str(value)
    return values


@functools.lru_cache(maxsize=None)
def _transform(text, chosen):
    template = parse(text)
    defaults = {}
    if chosen is None:
        # Without defaults, references to parameters stay unresolved, so one transformed template serves all values.
        for name, spec in template["Parameters"].items():
            if "Default" in spec:
                defaults[name] = spec.pop("Default")
    for resource in template["Resources"].values():
        uri = resource.get("Properties", {}).get("CodeUri")
        if isinstance(uri, str):
            # `sam package` would upload the code and write its bucket and key here; the transform only needs that form.
            resource["Properties"]["CodeUri"] = {"Bucket": "code", "Key": pathlib.PurePath(uri).parent.name + ".zip"}
    made = json.loads(json.dumps(sam_transform(template, dict(chosen or ()), _NoManagedPolicies())))
    for name, default in defaults.items():
        made["Parameters"][name]["Default"] = default
    return made


def transform(text, chosen=None):
    """Returns the CloudFormation template of a SAM template, for given parameters, or with open parameters if `chosen` is None."""
    values = None if chosen is None else tuple(sorted(parameters(parse(text), chosen).items()))
    return copy.deepcopy(_transform(text, values))


class Resolver:
    """Resolves a template for given parameters. A reference to a resource becomes the text `<Name>` or `<Name.Attribute>`."""

    def __init__(self, template, chosen=None, rename=None):
        self.template = template
        self.values = PSEUDO | parameters(template, chosen) if template.get("Parameters") else dict(PSEUDO)
        self.rename = rename or {}
        # Conditions refer to each other, and most resources to several.
        self.conditions = {}
        # Lists without anything to resolve, by their ids; some have a hundred texts and are looked at a hundred times.
        self.plain = {}

    def condition(self, name):
        if name not in self.conditions:
            self.conditions[name] = bool(self.value(self.template["Conditions"][name]))
        return self.conditions[name]

    def reference(self, name):
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.values:
            return self.values[name]
        if name not in self.template["Resources"]:
            raise ValueError(f"reference: unknown name: got {name}, expected a parameter or a resource")
        return f"<{self.rename.get(name, name)}>"

    def attribute(self, name, attribute):
        if name not in self.template["Resources"]:
            raise ValueError(f"reference: unknown name: got {name}, expected a parameter or a resource")
        return f"<{self.rename.get(name, name)}.{attribute}>"

    def sub(self, text, extra):
        import re

        def one(match):
            name = match.group(1)
            if name in extra:
                return str(extra[name])
            if "." in name:
                return self.attribute(*name.split(".", 1))
            return str(self.reference(name))

        return re.sub(r"\$\{([^}!]+)\}", one, text)

    def is_plain(self, node):
        # Keeps the list, so that no other gets its id.
        known = self.plain.get(id(node)) or self.plain.setdefault(id(node), (not any(isinstance(each, (dict, list)) for each in node), node))
        return known[0]

    def value(self, node):
        if isinstance(node, list):
            if self.is_plain(node):
                return list(node)
            values = (self.value(each) for each in node)
            return [each for each in values if each is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            (key, argument), = node.items()
            if key == "Ref":
                return self.reference(argument)
            if key == "Condition" and isinstance(argument, str):
                return self.condition(argument)
            if key == "Fn::GetAtt":
                name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
                return self.attribute(name, attribute)
            if key == "Fn::If":
                return self.value(argument[1] if self.condition(argument[0]) else argument[2])
            if key == "Fn::Sub":
                text, extra = argument if isinstance(argument, list) else (argument, {})
                return self.sub(text, {name: self.value(each) for name, each in extra.items()})
            if key == "Fn::Join":
                return argument[0].join(str(each) for each in self.value(argument[1]))
            if key == "Fn::Split":
                return str(self.value(argument[1])).split(argument[0])
            if key == "Fn::Select":
                return self.value(argument[1])[int(self.value(argument[0]))]
            if key == "Fn::Equals":
                left, right = (self.value(each) for each in argument)
                return str(left) == str(right)
            if key == "Fn::Not":
                return not self.value(argument[0])
            if key == "Fn::Contains":
                texts, one = (self.value(each) for each in argument)
                return str(one) in [str(each) for each in texts]
            if key in ("Fn::And", "Fn::Or"):
                return (all if key == "Fn::And" else any)(self.value(each) for each in argument)
            if key == "Fn::FindInMap":
                table, first, second = (self.value(each) for each in argument)
                return self.template["Mappings"][table][str(first)][str(second)]
            if key.startswith("Fn::"):
                raise ValueError(f"unknown function: got {key}, expected one that cfn.py resolves")
        values = {key: self.value(each) for key, each in node.items()}
        return {key: each for key, each in values.items() if each is not NO_VALUE}

    def refusals(self):
        """Returns the messages of the template's rules that the parameters break."""
        return [
            assertion["AssertDescription"]
            for rule in self.template.get("Rules", {}).values()
            if self.value(rule.get("RuleCondition", {"Fn::Equals": ["", ""]}))
            for assertion in rule["Assertions"]
            if not self.value(assertion["Assert"])
        ]

    def resources(self):
        """Returns every resource that is created, resolved."""
        resolved = {}
        for name, resource in self.template["Resources"].items():
            if "Condition" in resource and not self.condition(resource["Condition"]):
                continue
            one = {key: each for key, each in resource.items() if key in ("Type", "DeletionPolicy", "UpdateReplacePolicy")}
            one["Properties"] = self.value(resource.get("Properties", {}))
            resolved[self.rename.get(name, name)] = one
        return resolved


def resolve(text, chosen=None):
    """Returns the resources of a SAM template for given parameters."""
    return Resolver(_transform(text, None), chosen).resources()


def by_type(resources, kind):
    return {name: each["Properties"] for name, each in resources.items() if each["Type"] == kind}


def worlds(template):
    """Returns the sets of parameters for which a template is checked: every allowed value once, and every form of the others."""
    sets = [{}]
    for name, spec in template["Parameters"].items():
        sets += [{name: str(each)} for each in spec.get("AllowedValues", [])]
    sets += [{"BatchProcessorConcurrency": str(each), "ReserveConcurrency": "on"} for each in template["Parameters"]["BatchProcessorConcurrency"]["AllowedValues"]]
    sets += [{"Sink": each} for each in [*SINKS.values(), *QUALIFIED.values(), "s3://bucket", "s3://bucket/1/2/3/4/5/6"]]
    sets += [{"Sink": SINKS["https"]} | each for each in SECRETS.values()]
    sets += [{"Answers": each} for each in [*ANSWERS.values(), "s3://legacy/answers", "s3://legacy/1/2/3/4/5/6"]]
    sets += [{"Config": each} for each in CONFIGS.values()]
    sets += [{"LockTableCapacity": each} for each in CAPACITIES]
    sets += [VPC, VPC | {"PolicyArns": POLICIES}, {"PolicyArns": POLICIES}, {"PermissionsBoundaryArn": BOUNDARY}]
    sets += [{"KmsKeyArn": KEY}, {"Bodies": "log:s3", "KmsKeyArn": KEY}, {"AlarmTopicArn": TOPIC}, {"Answers": ANSWERS["s3"], "AlarmTopicArn": TOPIC}]
    return sets


KEY = "arn:aws:kms:eu-west-1:123456789012:key/0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
POLICIES = "arn:aws:iam::123456789012:policy/rejects,arn:aws:iam::aws:policy/AWSXRayDaemonWriteAccess"
LAYER = "arn:aws:lambda:eu-west-1:015030872274:layer:AWS-Parameters-and-Secrets-Lambda-Extension-Arm64:12"
# Parameters of a secret, by the service that keeps it.
SECRETS = {
    "secretsmanager": {
        "SinkSecretArn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:legacy/key-a1B2c3",
        "SecretsLayerArn": LAYER,
    },
    "ssm": {
        "SinkSecretArn": "arn:aws:ssm:eu-west-1:123456789012:parameter/legacy/key",
        "SecretsLayerArn": LAYER,
    },
}
# Values of Config.
CONFIGS = {
    "file": "file:///var/task/service.toml",
    "s3": "s3://configuration/legacy/service.toml",
    "ssm": "ssm:/legacy/service.toml",
}
CAPACITIES = ("on-demand", "at-most:500", "warm:40000", "provisioned:5-1000")
VPC = {"VpcSubnetIds": "subnet-0a1b2c3d,subnet-0d3c2b1a", "VpcSecurityGroupIds": "sg-0a1b2c3d"}
SINKS = {
    "log": "log:",
    "file": "file:///mnt/batches/a..b",
    "s3": "s3://bucket/some/prefix",
    "https": "https://legacy.example:8443/batches",
    "postgres": "postgres://aggregator@db.example:5432/legacy",
    "sftp": "sftp://aggregator@legacy.example:2222/in/batches",
    "states": "arn:aws:states:eu-west-1:123456789012:stateMachine:legacy",
    "lambda": "arn:aws:lambda:eu-west-1:123456789012:function:legacy",
}
# The sinks that are called, with an alias. A version would be a number in the same place.
QUALIFIED = {service: f"{SINKS[service]}:PROD" for service in ("states", "lambda")}

# Values of Answers.
ANSWERS = {
    "file": "file:///mnt/answers/a..b",
    "s3": "s3://legacy/some/answers",
    "sftp": "sftp:/in/answers",
}


def scheme_of(sink):
    """Returns the key of SINKS for a sink."""
    scheme, *fields = sink.split(":")
    return fields[1] if scheme == "arn" else scheme
