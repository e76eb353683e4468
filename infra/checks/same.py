"""Compares SAM with CDK: they must have the same parameters, and for each set of parameters the same resources and properties."""

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
    "Requeue": {"OnDuplicate": "requeue", "DedupWindow": "86400", "BatchKey": "customer", "Bypass": "priority == 'high'", "BatchKeysMax": "50", "DeadlineMarginMs": "5000"},
    "Put": {"WriteMode": "put", "Architecture": "arm64", "MemorySize": "3008"},
    "Key": {"KmsKeyArn": cfn.KEY},
    "Traced": {"Tracing": "Active", "AlarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms", "SweepMinutes": "10"},
    "Warm": {"LockTableWarmWrites": "40000", "LockTableWarmReads": "24000"},
    "Slow": {"MaxSecondaryBatchingWindow": "700", "MaxBatchSize": "400000", "MaxBatchBytes": "268435456", "VerifyDelay": "30", "AggregatorTimeout": "180", "InputBatchingWindow": "300", "BatchProcessorTimeout": "900", "OldestMessageSeconds": "7200"},
    "Bucket": {"Sink": cfn.SINKS["s3"], "OverflowBucket": "bodies", "MaxPartBytes": "33554432", "SinkFormat": "body", "SinkCompression": "zstd", "LogRetentionDays": "7"},
    "Machine": {"Sink": cfn.SINKS["states"]} | {"SinkPayloads": "s3://payloads"},
    "Version": {"Sink": cfn.QUALIFIED["states"], "MaxReceiveCount": "100", "EventId": "json:[a, b]", "EventIdPrefix": "tenant/", "SinkPayloads": cfn.PAYLOADS, "SinkRejects": cfn.REJECTS},
    "Function": {"Sink": cfn.SINKS["lambda"], "SinkPayloads": "s3://payloads", "InputBatchSize": "500", "BatchProcessorConcurrency": "5"},
    "Postgres": {"Sink": cfn.SINKS["postgres"], "SinkTable": "legacy.events", "SinkPassword": "not a secret", "SinkColumns": cfn.COLUMNS["s3"], "SinkRejectsMax": "5"},
    "Sftp": {"Sink": cfn.SINKS["sftp"], "SinkHostKey": cfn.HOST_KEYS} | cfn.SECRETS["secretsmanager"],
    "Root": {"Sink": "s3://bucket", "SinkFormat": "fixed-width", "SinkColumns": cfn.COLUMNS["file"]},
    "Deep": {"Sink": "s3://bucket/1/2/3/4/5/6", "Completion": cfn.COMPLETIONS["sqs"], "AlarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms"},
    "Bus": {"Completion": cfn.COMPLETIONS["events"], "DeliveryHours": "20:00-05:00 Europe/Berlin", "DeliveryMaxPerSecond": "50", "DuplicatesSqsUrl": cfn.COMPLETIONS["sqs"], "CloseAt": "00:00 Europe/Berlin", "CloseTime": "at", "CloseAfterIdle": "600"},
    "Https": {"Sink": cfn.SINKS["https"], "SinkFormat": "csv", "SinkColumns": '[{"name":"id","json":"id"}]', "SinkHeader": "off", "SinkTimeout": "60", "SinkRejects": cfn.REJECTS, "SealWhenDrained": "on", "AggregatorConcurrency": "9", "IndexShards": "20", "WriteConcurrency": "128"} | cfn.SECRETS["secretsmanager"],
    "Chunks": {"Bodies": "s3", "FormerBodies": cfn.FORMER},
    "ChunksKey": {"Bodies": "s3", "KmsKeyArn": cfn.KEY},
    "Given": {"Bodies": cfn.CHUNKS, "FormerBodies": "s3", "KmsKeyArn": cfn.KEY},
    "GivenRoot": {"Bodies": "s3://chunks", "FormerBodies": "s3://former", "OverflowBucket": "bodies"},
    "Table": {"Bodies": "table", "FormerBodies": "s3", "MaxBatchSize": "100000"},
    "Quota": {"Quota": "customer", "QuotaMax": "100", "QuotaPeriod": "day Europe/Berlin", "QuotaTime": "at"},
    "Waiting": {"Quota": "customer", "QuotaMax": "100", "QuotaPeriod": "hour", "QuotaBeyond": "wait"},
    "Parameter": {"Sink": cfn.SINKS["https"]} | cfn.SECRETS["ssm"],
}


def others(template):
    """Returns a value that is not the default for each parameter that no world sets. A parameter that CDK ignores then shows."""
    chosen = {name for world in WORLDS.values() for name in world}
    found = {}
    for name, spec in template["Parameters"].items():
        values = [str(each) for each in [*spec.get("AllowedValues", []), spec.get("MinValue"), spec.get("MaxValue"), "other"] if each is not None]
        values = [each for each in values if each != str(spec.get("Default")) and accepts(spec, each)]
        if name not in chosen and values:
            found[name] = values[0]
    return found


WORLDS["Others"] = others(cfn.parse(cfn.SAM.read_text()))


# Parameters that SAM and CDK must refuse, and a part of CDK's error.
REFUSED = {
    "PollersTurned": ({"InputScaling": "provisioned", "PollersMin": "50", "PollersMax": "49"}, "pollersMin is 50, expected at most pollersMax"),
    "ManyPollers": ({"PollersMax": "2001"}, "from 2 to 2000"),
    "OnePoller": ({"PollersMin": "1"}, "expected one of 2, 5"),
    "HardlyWarm": ({"LockTableWarmWrites": "3999"}, "expected a number like"),
    "NoMargin": ({"DeadlineMarginMs": "1999"}, "from 2000 to"),
    "FewReceives": ({"MaxReceiveCount": "4"}, "from 5 to 1000"),
    "LongColumns": ({"SinkFormat": "csv", "SinkColumns": f"[{' ' * 143}]"}, "at most 144 characters"),
    "WideBodies": ({"Bodies": "s3://chunks/*"}, "expected a text like"),
    "FormerItems": ({"FormerBodies": "items"}, "expected a text like"),
    "LongBodies": ({"Bodies": f"s3://chunks/{'p' * 117}"}, "at most 128 characters"),
    "AnyVersion": ({"Sink": cfn.SINKS["states"] + ":*"}, "expected a text like"),
}
# Parameters that only CDK refuses, because CloudFormation cannot calculate. The functions refuse them at a cold start.
REFUSED_BY_CDK = {
    "ManyParts": ({"MaxPartBytes": "1048576", "MaxBatchBytes": "200000000"}, "needs 271 parts, expected at most 90"),
    "ManyEvents": ({"MaxPartBytes": "1048576", "MaxBatchBytes": "409600", "MaxBatchSize": "500000"}, "needs 164 parts, expected at most 90"),
    "ManyInChunks": ({"Bodies": "table", "MaxBatchSize": "100001"}, "expected at most 100000 with bodies table"),
    "ChunksInOverflow": ({"Bodies": cfn.CHUNKS, "OverflowBucket": "chunks"}, "expected another bucket than overflowBucket"),
}


class SynthesisFailed(Exception):
    pass


def synthesize_all(runs):
    """Synthesizes the CDK stacks of several built constructs, given as (output directory, `dist`, worlds), in one process."""
    refused = {name: chosen for name, (chosen, _) in (REFUSED | REFUSED_BY_CDK).items()}
    runs = [{"lib": str(dist / "lib"), "outdir": str(outdir), "worlds": worlds, "refused": refused} for outdir, dist, worlds in runs]
    command = ["node", str(CDK / "dist" / "bin" / "worlds.js")]
    subprocess.run(command, input=json.dumps(runs), text=True, check=True, stderr=subprocess.PIPE)


def synthesized(outdir, worlds):
    """Returns what was synthesized: the template of each world, the parameters, and the errors of the refused sets."""
    if (outdir / "error.txt").exists():
        raise SynthesisFailed((outdir / "error.txt").read_text())
    read = lambda name: json.loads((outdir / name).read_text())  # noqa: E731
    return {name: read(f"{name}.template.json") for name in worlds}, read("parameters.json"), read("refused.json")


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
        if kind == "AWS::Events::Rule":
            for target in properties["Targets"]:
                del target["Id"]
        if kind == "AWS::Lambda::Permission":
            # One tool uses the function's name, the other its ARN.
            properties["FunctionName"] = properties["FunctionName"].replace(".Arn>", ">")
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


def camel(name):
    return name[0].lower() + name[1:]


def parameters(template, listed):
    """Returns the differences of names, defaults and bounds of the parameters."""
    spelling = {"Default": "default", "MinValue": "min", "MaxValue": "max", "AllowedValues": "allowed", "AllowedPattern": "pattern", "MaxLength": "maxLength"}
    sam = {
        camel(name): {spelling[key]: value for key, value in spec.items() if key in spelling}
        for name, spec in template["Parameters"].items()
    }
    # `readBy` is not compared here: the variables of the functions show it.
    cdk = {name: {key: value for key, value in spec.items() if key in spelling.values()} for name, spec in listed.items()}
    for spec in cdk.values():
        if "pattern" in spec:
            spec["pattern"] = spec["pattern"].replace("\\/", "/")
    # Compared as texts: a parameter can be a text in SAM, for its pattern, and a number in CDK.
    return list(differences(scalars(sam), scalars(cdk), "parameters"))


def refusals(template, said):
    """Yields sets of parameters that must be refused, but are accepted by SAM or CDK."""
    for name, (_, words) in (REFUSED | REFUSED_BY_CDK).items():
        if words not in said[name]:
            yield f"{name}: wrong error of CDK: got {said[name]!r}, expected `{words}`"
    for name, (chosen, _) in REFUSED.items():
        refused = [each for each, value in chosen.items() if not accepts(template["Parameters"][each], value)]
        if not refused and not cfn.Resolver(template, chosen).refusals():
            yield f"{name}: SAM accepts {chosen}, expected a refusal"


def check_all(text, templates, listed, said):
    found = [("parameters", each) for each in parameters(cfn.parse(text), listed)]
    found += [("refused", each) for each in refusals(cfn._transform(text, None), said)]
    for name, template in templates.items():
        sam = plain(cfn.resolve(text, WORLDS[name]))
        cdk = plain(of_cdk(template))
        found += [("same", f"{each} (with {name})") for each in differences(sam, cdk)]
    return found


def self_test(text, templates, listed):
    """Asserts that each removed resource and each changed property is a difference. Returns how many were tried."""
    tried = 0
    # The second of these has a bucket.
    cdk = plain(of_cdk(templates["Default"])) | plain(of_cdk(templates["ChunksKey"]))
    sam = plain(cfn.resolve(text)) | plain(cfn.resolve(text, WORLDS["ChunksKey"]))

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
    wrong = copy.deepcopy(listed)
    wrong["verifyDelay"]["max"] = 901
    assert parameters(cfn.parse(text), wrong), "self_test: not noticed: a bound differs"
    return tried + 1


def used_worlds():
    """Returns the parameters that no world sets. Every parameter must be set in a world, so that one that CDK ignores shows."""
    template = cfn.parse(cfn.SAM.read_text())
    chosen = {name for world in WORLDS.values() for name in world}
    return sorted(set(template["Parameters"]) - chosen)
