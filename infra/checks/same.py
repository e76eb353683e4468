"""Compares SAM with CDK: for each set of parameters they must have the same resources and properties."""

import copy
import json
import re
import subprocess

import cfn
from world import accepts, statements

CDK = cfn.INFRA / "cdk"

# `Default` chooses what has no default: see `cfn.REQUIRED`.
WORLDS = {
    "Default": {},
    "Requeue": {"OnDuplicate": "requeue", "EventId": "json:[a, b]", "Bodies": "items"},
    "X86": {"Architecture": "x86_64", "MemorySize": "3008", "AlarmTopicArn": cfn.TOPIC},
    "Key": {"KmsKeyArn": cfn.KEY},
    "Slow": {"BatchProcessorTimeout": "900", "Bodies": "log:table"},
    "Log": {"KmsKeyArn": cfn.KEY, "Bodies": "log:s3"},
    "Many": {"AggregatorConcurrency": "9", "BatchProcessorConcurrency": "5", "ReserveConcurrency": "on"},
    "AtMost": {"LockTableCapacity": "at-most:500"},
    "Warm": {"LockTableCapacity": "warm:40000"},
    "Provisioned": {"LockTableCapacity": "provisioned:5-1000", "KmsKeyArn": cfn.KEY},
    "Bounded": {"PermissionsBoundaryArn": cfn.BOUNDARY, "PolicyArns": cfn.POLICIES},
    "Network": cfn.VPC,
    "NetworkBounded": cfn.VPC | {"PermissionsBoundaryArn": cfn.BOUNDARY, "PolicyArns": cfn.POLICIES},
    "ConfigFile": {"Config": cfn.CONFIGS["file"]},
    "ConfigObject": {"Config": cfn.CONFIGS["s3"]},
    "ConfigParameter": {"Config": cfn.CONFIGS["ssm"]},
    "Bucket": {"Sink": cfn.SINKS["s3"]},
    "Root": {"Sink": "s3://bucket"},
    "Deep": {"Sink": "s3://bucket/1/2/3/4/5/6"},
    "File": {"Sink": cfn.SINKS["file"]},
    "Machine": {"Sink": cfn.SINKS["states"]},
    "Version": {"Sink": cfn.QUALIFIED["states"]},
    "Function": {"Sink": cfn.SINKS["lambda"]},
    "Alias": {"Sink": cfn.QUALIFIED["lambda"]},
    "Postgres": {"Sink": cfn.SINKS["postgres"]} | cfn.SECRETS["ssm"],
    "Sftp": {"Sink": cfn.SINKS["sftp"]} | cfn.SECRETS["secretsmanager"],
    "Https": {"Sink": cfn.SINKS["https"]},
    "AnswersBucket": {"Answers": cfn.ANSWERS["s3"], "AlarmTopicArn": cfn.TOPIC},
    "AnswersDeep": {"Answers": "s3://legacy/1/2/3/4/5/6"},
    "AnswersServer": {"Answers": cfn.ANSWERS["sftp"], "Sink": cfn.SINKS["sftp"]} | cfn.SECRETS["secretsmanager"],
    "AnswersFile": {"Answers": cfn.ANSWERS["file"]},
}


# Parameters that SAM and CDK must refuse, and a part of CDK's error.
REFUSED = {
    "NoEventId": ({"EventId": "id"}, "expected json:<JMESPath>"),
    "HardlyWarm": ({"LockTableCapacity": "warm:3999"}, "expected a whole number from 4000 on"),
    "NoWrites": ({"LockTableCapacity": "at-most:0"}, "expected a whole number from 1 on"),
    "OneProcessor": ({"BatchProcessorConcurrency": "1"}, "expected 2 to 1000"),
    "OneAggregator": ({"AggregatorConcurrency": "1"}, "expected 2 to 1000"),
    "LittleMemory": ({"MemorySize": "128"}, "expected 512 to 10240 MB"),
    "LongTimeout": ({"BatchProcessorTimeout": "960"}, "expected 60 to 900 s"),
    "WidePrefix": ({"Sink": "s3://bucket/*"}, "expected parts of letters"),
    "WideAnswers": ({"Answers": "s3://bucket/*"}, "expected parts of letters"),
    "AnswersEverywhere": ({"Answers": "s3://bucket"}, "expected parts of letters"),
    "AnswersAbove": ({"Answers": "sftp:/in/../out"}, "expected a path on the server of the sink, without"),
    "AnswersLost": ({"Answers": "file:///tmp/answers"}, "expected a path that begins with /mnt/"),
    "Password": ({"Sink": "sftp://user:word@host/path"}, "without a password"),
    "PlainHttp": ({"Sink": "https:"}, "expected https://host/path"),
    "NoSubnets": ({"VpcSecurityGroupIds": "sg-0a1b2c3d"}, "expected vpc as well"),
}
# Parameters that only one of them refuses, and a part of the error: CloudFormation cannot calculate or split a text in a rule; CDK adds
# the extension by itself and makes a security group by itself.
REFUSED_BY_CDK = {
    "AnswersElsewhere": ({"Answers": "sftp:/in/answers"}, "expected a sink sftp://"),
    "Turned": ({"LockTableCapacity": "provisioned:100-99"}, "max is 99, expected a whole number from 100 on"),
}
REFUSED_BY_SAM = {
    "SecretWithoutLayer": ({"SinkSecretArn": cfn.SECRETS["ssm"]["SinkSecretArn"]}, "SecretsLayerArn: missing"),
    "NetworkWithoutGroups": ({"VpcSubnetIds": cfn.VPC["VpcSubnetIds"]}, "VpcSecurityGroupIds: missing"),
}


class SynthesisFailed(Exception):
    pass


def synthesize_all(runs):
    """Synthesizes the CDK stacks of several built constructs, given as (output directory, `dist`, worlds), in one process."""
    def complete(sets):
        return {name: cfn.REQUIRED | chosen for name, chosen in sets.items()}

    refused = complete({name: chosen for name, (chosen, _) in (REFUSED | REFUSED_BY_CDK).items()})
    runs = [{"lib": str(dist / "lib"), "outdir": str(outdir), "worlds": complete(worlds), "refused": refused} for outdir, dist, worlds in runs]
    command = ["node", str(CDK / "dist" / "bin" / "worlds.js")]
    subprocess.run(command, input=json.dumps(runs), text=True, check=True, stderr=subprocess.PIPE)


def synthesized(outdir, worlds):
    """Returns what was synthesized: the template of each world, and the errors of the refused sets."""
    if (outdir / "error.txt").exists():
        raise SynthesisFailed((outdir / "error.txt").read_text())
    read = lambda name: json.loads((outdir / name).read_text())  # noqa: E731
    return {name: read(f"{name}.template.json") for name in worlds}, read("refused.json")


def synthesize(outdir, worlds=WORLDS):
    """Synthesizes the CDK stacks; returns as `synthesized`."""
    synthesize_all([(outdir, CDK / "dist", worlds)])
    return synthesized(outdir, worlds)


def names(template):
    """Returns the name of the construct of each logical id of CDK. The constructs have the names of the SAM template's resources."""
    found = {}
    for identity, resource in template["Resources"].items():
        path = resource.get("Metadata", {}).get("aws:cdk:path", "").split("/")
        name = path[2] if len(path) > 2 else path[-1]
        # A permission or a policy has the path of its function, queue or bucket.
        name += {"AWS::Lambda::Permission": "Permission", "AWS::SQS::QueuePolicy": "Policy", "AWS::S3::BucketPolicy": "Policy"}.get(resource["Type"], "")
        if name in found.values():
            name = identity
        found[identity] = name
    return found


def of_cdk(template):
    template = copy.deepcopy(template)
    for identity in [identity for identity, each in template["Resources"].items() if each["Type"] == "AWS::CDK::Metadata"]:
        del template["Resources"][identity]
    template.pop("Parameters", None)
    return cfn.Resolver(template, rename=names(template)).resources()


# Both tools write some properties in different ways.


def plain(resources):
    """Returns resources with one spelling of each property, and without properties that mean nothing."""
    resources = copy.deepcopy(resources)
    for resource in resources.values():
        properties = resource["Properties"]
        kind = resource["Type"]
        if kind == "AWS::Lambda::Function":
            # SAM names the bucket of `sam package`, CDK its own bucket of assets.
            del properties["Code"]
            properties["Tags"] = [each for each in properties.pop("Tags", []) if each["Key"] != "lambda:createdBy"]
        if kind == "AWS::Lambda::EventSourceMapping":
            properties["Tags"] = [each for each in properties.pop("Tags", []) if each["Key"] != "lambda:createdBy"]
        if kind == "Custom::DeploymentCheck":
            # CDK has other props than SAM has parameters, and knows the code that it uploads.
            del properties["Access"]
            properties.pop("Code", None)
        if kind == "AWS::Events::Rule":
            for target in properties["Targets"]:
                del target["Id"]
        if kind == "AWS::Lambda::Permission":
            # One tool uses the function's name, the other its ARN.
            properties["FunctionName"] = properties["FunctionName"].replace(".Arn>", ">")
        if kind == "AWS::DynamoDB::Table":
            # The default.
            properties.setdefault("BillingMode", "PROVISIONED")
        if kind == "AWS::DynamoDB::Table" and "SSESpecification" in properties:
            # KMS is the only type and the default.
            properties["SSESpecification"].setdefault("SSEType", "KMS")
        if kind == "AWS::IAM::Role":
            for statement in statements(properties):
                for key in ("Action", "Resource"):
                    value = statement[key]
                    statement[key] = sorted(value if isinstance(value, list) else [value])
            for each in properties["Policies"]:
                each["PolicyDocument"]["Statement"].sort(key=lambda one: one["Sid"])
        if kind == "AWS::SQS::QueuePolicy":
            for statement in properties["PolicyDocument"]["Statement"]:
                # CDK generates a Sid.
                statement.pop("Sid", None)
        if kind == "AWS::CloudWatch::Dashboard":
            properties["DashboardBody"] = json.loads(properties["DashboardBody"])
        if kind in ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Logs::LogGroup"):
            resource.setdefault("DeletionPolicy", "Delete")
        else:
            resource.pop("DeletionPolicy", None)
            resource.pop("UpdateReplacePolicy", None)
    return scalars(resources)


def scalars(node):
    """Returns numbers and truth values as texts, because parameters are texts; removes empty lists."""
    if isinstance(node, dict):
        values = {key: scalars(each) for key, each in node.items()}
        return {key: each for key, each in values.items() if each != []}
    if isinstance(node, list):
        return [scalars(each) for each in node]
    if isinstance(node, bool):
        return str(node).lower()
    return str(node)


def differences(sam, cdk, path=""):
    if isinstance(sam, dict) and isinstance(cdk, dict):
        for key in sorted(set(sam) | set(cdk)):
            if key not in cdk:
                yield f"{path}/{key}: only in SAM ({json.dumps(sam[key])[:120]})"
            elif key not in sam:
                yield f"{path}/{key}: only in CDK ({json.dumps(cdk[key])[:120]})"
            else:
                yield from differences(sam[key], cdk[key], f"{path}/{key}")
    elif isinstance(sam, list) and isinstance(cdk, list) and len(sam) == len(cdk):
        for at, (one, other) in enumerate(zip(sam, cdk)):
            yield from differences(one, other, f"{path}/{at}")
    elif sam != cdk:
        yield f"{path}: different: SAM has {json.dumps(sam)[:160]}, CDK has {json.dumps(cdk)[:160]}"


def refusals(template, said):
    """Yields sets of parameters that must be refused, but are accepted by SAM or CDK."""
    for name, (_, words) in (REFUSED | REFUSED_BY_CDK).items():
        if words not in said[name]:
            yield f"{name}: wrong error of CDK: got {said[name]!r}, expected `{words}`"
    for name, (chosen, words) in (REFUSED | REFUSED_BY_SAM).items():
        refused = [each for each, value in chosen.items() if not accepts(template["Parameters"][each], value)]
        rules = cfn.Resolver(template, chosen).refusals()
        if not refused and not rules:
            yield f"{name}: SAM accepts {chosen}, expected a refusal"
        if name in REFUSED_BY_SAM and not any(words in each for each in rules):
            yield f"{name}: wrong error of SAM: got {rules}, expected `{words}`"


def check_all(text, templates, said):
    found = [("refused", each) for each in refusals(cfn._transform(text, None), said)]
    for name, template in templates.items():
        sam = plain(cfn.resolve(text, WORLDS[name]))
        cdk = plain(of_cdk(template))
        found += [("same", f"{each} (with {name})") for each in differences(sam, cdk)]
    return found


def self_test(text, templates):
    """Asserts that each removed resource and each changed property is a difference. Returns how many were tried."""
    tried = 0
    # The second of these has provisioned capacity, which is scaled.
    cdk = plain(of_cdk(templates["Default"])) | plain(of_cdk(templates["Provisioned"]))
    sam = plain(cfn.resolve(text)) | plain(cfn.resolve(text, WORLDS["Provisioned"]))

    def leaves(node):
        if isinstance(node, (dict, list)):
            for key in node if isinstance(node, dict) else range(len(node)):
                if isinstance(node[key], (dict, list)):
                    yield from leaves(node[key])
                else:
                    yield node, key

    for name in list(sam):
        less = {key: value for key, value in sam.items() if key != name}
        assert list(differences(less, cdk)), f"self_test: not noticed: {name} is missing"
        for holder, key in list(leaves(sam[name])):
            before, holder[key] = holder[key], "changed"
            # Only the changed resource is compared, because the template is large.
            assert list(differences(sam[name], cdk[name])), f"self_test: not noticed: {key} of {name} differs"
            holder[key] = before
            tried += 1
        tried += 1
    return tried


def used_worlds():
    """Returns the parameters that no world sets. Every parameter must be set in a world, so that one that CDK ignores shows."""
    template = cfn.parse(cfn.SAM.read_text())
    chosen = {name for world in WORLDS.values() for name in world}
    return sorted(set(template["Parameters"]) - chosen)
