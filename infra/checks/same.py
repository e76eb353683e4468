"""SAM against CDK: the same parameters, and for each choice the same resources with the same properties."""

import copy
import json
import re
import subprocess

import cfn
from world import accepts, statements

CDK = cfn.INFRA / "cdk"

WORLDS = {
    "Default": {},
    "Provisioned": {"InputScaling": "provisioned", "PollersMin": "5", "PollersMax": "30"},
    "Requeue": {"OnDuplicate": "requeue", "DedupWindow": "86400", "BatchKey": "customer", "BatchKeysMax": "50", "DeadlineMarginMs": "5000"},
    "Put": {"WriteMode": "put", "Architecture": "arm64", "MemorySize": "3008"},
    "Key": {"KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:key/0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d"},
    "Traced": {"Tracing": "Active", "AlarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms", "SweepMinutes": "10"},
    "Warm": {"LockTableWarmWrites": "40000", "LockTableWarmReads": "24000"},
    "Slow": {"MaxSecondaryBatchingWindow": "700", "MaxBatchSize": "400000", "MaxBatchBytes": "268435456", "VerifyDelay": "30", "AggregatorTimeout": "180", "InputBatchingWindow": "300", "BatchProcessorTimeout": "900", "OldestMessageSeconds": "7200"},
    "Bucket": {"Sink": cfn.SINKS["s3"], "OverflowBucket": "bodies", "MaxPartBytes": "33554432", "SinkFormat": "body", "SinkCompression": "zstd", "LogRetentionDays": "7"},
    "Machine": {"Sink": cfn.SINKS["states"]} | {"SinkPayloads": "s3://payloads"},
    "Version": {"Sink": cfn.QUALIFIED["states"], "MaxReceiveCount": "100", "EventId": "json:[a, b]", "EventIdPrefix": "tenant/", "SinkPayloads": cfn.PAYLOADS, "SinkRejects": cfn.REJECTS},
    "Function": {"Sink": cfn.SINKS["lambda"], "SinkPayloads": "s3://payloads", "InputBatchSize": "500", "BatchProcessorConcurrency": "5"},
    "Postgres": {"Sink": cfn.SINKS["postgres"], "SinkTable": "legacy.events", "SinkPassword": "not a secret", "SinkColumns": cfn.COLUMNS["s3"], "SinkRejectsMax": "5"},
    "Root": {"Sink": "s3://bucket", "SinkFormat": "fixed-width", "SinkColumns": cfn.COLUMNS["file"]},
    "Deep": {"Sink": "s3://bucket/1/2/3/4/5/6"},
    "Https": {"Sink": cfn.SINKS["https"], "SinkFormat": "csv", "SinkColumns": '[{"name":"id","json":"id"}]', "SinkHeader": "off", "SinkTimeout": "60", "SinkRejects": cfn.REJECTS, "SealWhenDrained": "on", "AggregatorConcurrency": "9", "IndexShards": "20", "WriteConcurrency": "128"} | cfn.SECRETS["secretsmanager"],
    "Parameter": {"Sink": cfn.SINKS["https"]} | cfn.SECRETS["ssm"],
}


def others(template):
    """Another value than its default for each parameter that no world above chooses: one that CDK ignores shows."""
    chosen = {name for world in WORLDS.values() for name in world}
    found = {}
    for name, spec in template["Parameters"].items():
        values = [str(each) for each in [*spec.get("AllowedValues", []), spec.get("MinValue"), spec.get("MaxValue"), "other"] if each is not None]
        values = [each for each in values if each != str(spec.get("Default")) and accepts(spec, each)]
        if name not in chosen and values:
            found[name] = values[0]
    return found


WORLDS["Others"] = others(cfn.parse(cfn.SAM.read_text()))


# What neither takes, with what CDK says of it.
REFUSED = {
    "PollersTurned": ({"InputScaling": "provisioned", "PollersMin": "50", "PollersMax": "49"}, "pollersMin is 50, expected at most pollersMax"),
    "ManyPollers": ({"PollersMax": "2001"}, "from 2 to 2000"),
    "OnePoller": ({"PollersMin": "1"}, "expected one of 2, 5"),
    "HardlyWarm": ({"LockTableWarmWrites": "3999"}, "expected a number like"),
    "NoMargin": ({"DeadlineMarginMs": "1999"}, "from 2000 to"),
    "FewReceives": ({"MaxReceiveCount": "4"}, "from 5 to 1000"),
    "LongColumns": ({"SinkFormat": "csv", "SinkColumns": f"[{' ' * 703}]"}, "at most 704 characters"),
    "AnyVersion": ({"Sink": cfn.SINKS["states"] + ":*"}, "expected a text like"),
}
# CloudFormation cannot calculate: the functions refuse it when they start, and CDK before.
REFUSED_BY_CDK = {
    "ManyParts": ({"MaxPartBytes": "1048576", "MaxBatchBytes": "200000000"}, "needs 271 parts, expected at most 90"),
    "ManyEvents": ({"MaxPartBytes": "1048576", "MaxBatchBytes": "409600", "MaxBatchSize": "500000"}, "needs 164 parts, expected at most 90"),
}


def synthesize(outdir, dist=CDK / "dist", worlds=WORLDS):
    """Every world's template, the parameters, and what is said of the worlds that are refused."""
    refused = {name: chosen for name, (chosen, _) in (REFUSED | REFUSED_BY_CDK).items()}
    command = ["node", str(dist / "bin" / "worlds.js"), str(outdir)]
    subprocess.run(command, input=json.dumps({"worlds": worlds, "refused": refused}), text=True, check=True, stderr=subprocess.PIPE)
    read = lambda name: json.loads((outdir / name).read_text())  # noqa: E731
    return {name: read(f"{name}.template.json") for name in worlds}, read("parameters.json"), read("refused.json")


def names(template):
    """CDK's logical ids to the names of its constructs, which are the template's."""
    found = {}
    for identity, resource in template["Resources"].items():
        path = resource.get("Metadata", {}).get("aws:cdk:path", "").split("/")
        name = path[2] if len(path) > 2 else path[-1]
        # What belongs to another resource has its path.
        name += {"AWS::Lambda::Permission": "Permission", "AWS::SQS::QueuePolicy": "Policy"}.get(resource["Type"], "")
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


# Where the two tools write one thing in two ways.


def plain(resources):
    """Without what says nothing, and with one spelling for each thing."""
    resources = copy.deepcopy(resources)
    for resource in resources.values():
        properties = resource["Properties"]
        kind = resource["Type"]
        if kind == "AWS::Lambda::Function":
            # The archive: SAM names a bucket that `sam package` fills, CDK its asset bucket.
            del properties["Code"]
            properties["Tags"] = [each for each in properties.pop("Tags", []) if each["Key"] != "lambda:createdBy"]
        if kind == "AWS::Lambda::EventSourceMapping":
            properties["Tags"] = [each for each in properties.pop("Tags", []) if each["Key"] != "lambda:createdBy"]
        if kind == "AWS::Events::Rule":
            for target in properties["Targets"]:
                del target["Id"]
        if kind == "AWS::Lambda::Permission":
            # By name or by ARN.
            properties["FunctionName"] = properties["FunctionName"].replace(".Arn>", ">")
        if kind == "AWS::DynamoDB::Table" and "SSESpecification" in properties:
            # KMS is the only type there is.
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
                # CDK makes a name.
                statement.pop("Sid", None)
        if kind == "AWS::CloudWatch::Dashboard":
            properties["DashboardBody"] = json.loads(properties["DashboardBody"])
        if kind in ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::Logs::LogGroup"):
            resource.setdefault("DeletionPolicy", "Delete")
        else:
            resource.pop("DeletionPolicy", None)
            resource.pop("UpdateReplacePolicy", None)
    return scalars(resources)


def scalars(node):
    """Numbers and truth values as texts, as parameters are; no empty lists."""
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
                yield f"{path}/{key}: only SAM has it ({json.dumps(sam[key])[:120]})"
            elif key not in sam:
                yield f"{path}/{key}: only CDK has it ({json.dumps(cdk[key])[:120]})"
            else:
                yield from differences(sam[key], cdk[key], f"{path}/{key}")
    elif isinstance(sam, list) and isinstance(cdk, list) and len(sam) == len(cdk):
        for at, (one, other) in enumerate(zip(sam, cdk)):
            yield from differences(one, other, f"{path}/{at}")
    elif sam != cdk:
        yield f"{path}: SAM {json.dumps(sam)[:160]}, CDK {json.dumps(cdk)[:160]}"


def camel(name):
    return name[0].lower() + name[1:]


def parameters(template, listed):
    """Names, defaults and bounds."""
    spelling = {"Default": "default", "MinValue": "min", "MaxValue": "max", "AllowedValues": "allowed", "AllowedPattern": "pattern", "MaxLength": "maxLength"}
    sam = {
        camel(name): {spelling[key]: value for key, value in spec.items() if key in spelling}
        for name, spec in template["Parameters"].items()
    }
    # Which function reads one as a variable shows in the functions.
    cdk = {name: {key: value for key, value in spec.items() if key in spelling.values()} for name, spec in listed.items()}
    for spec in cdk.values():
        if "pattern" in spec:
            spec["pattern"] = spec["pattern"].replace("\\/", "/")
    # A number that SAM can bound only as a text is a number in CDK.
    return list(differences(scalars(sam), scalars(cdk), "parameters"))


def refusals(template, said):
    """What should be refused and is taken, by either."""
    for name, (_, words) in (REFUSED | REFUSED_BY_CDK).items():
        if words not in said[name]:
            yield f"{name}: CDK says {said[name]!r}, wanted `{words}`"
    for name, (chosen, _) in REFUSED.items():
        refused = [each for each, value in chosen.items() if not accepts(template["Parameters"][each], value)]
        if not refused and not cfn.Resolver(template, chosen).refusals():
            yield f"{name}: SAM takes {chosen}"


def check_all(text, templates, listed, said):
    found = [("parameters", each) for each in parameters(cfn.parse(text), listed)]
    found += [("refused", each) for each in refusals(cfn._transform(text, None), said)]
    for name, template in templates.items():
        sam = plain(cfn.resolve(text, WORLDS[name]))
        cdk = plain(of_cdk(template))
        found += [("same", f"{each} (with {name})") for each in differences(sam, cdk)]
    return found


def self_test(text, templates, listed):
    """Each resource that is taken away, and each property of it that is changed, is a difference. Returns how many."""
    tried = 0
    cdk = plain(of_cdk(templates["Default"]))
    sam = plain(cfn.resolve(text))

    def leaves(node):
        if isinstance(node, (dict, list)):
            for key in node if isinstance(node, dict) else range(len(node)):
                if isinstance(node[key], (dict, list)):
                    yield from leaves(node[key])
                else:
                    yield node, key

    for name in list(sam):
        less = {key: value for key, value in sam.items() if key != name}
        assert list(differences(less, cdk)), f"{name} can be missing unnoticed"
        for holder, key in list(leaves(sam[name])):
            before, holder[key] = holder[key], "changed"
            # The template is large: only the resource that changed is compared.
            assert list(differences(sam[name], cdk[name])), f"{name}: {key} can differ unnoticed"
            holder[key] = before
            tried += 1
        tried += 1
    wrong = copy.deepcopy(listed)
    wrong["verifyDelay"]["max"] = 901
    assert parameters(cfn.parse(text), wrong), "a bound can differ unnoticed"
    return tried + 1


def used_worlds():
    """Every parameter is chosen otherwise in some world, so that a property that CDK ignores shows. Returns those that are not."""
    template = cfn.parse(cfn.SAM.read_text())
    chosen = {name for world in WORLDS.values() for name in world}
    return sorted(set(template["Parameters"]) - chosen)
