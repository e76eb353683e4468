"""The template of a throw-away stack: that of infra/sam, transformed, with the zips of a run, and without what survives a deletion."""

import collections
import contextlib
import json
import os
import pathlib
import sys

CHECKS = pathlib.Path(__file__).resolve().parent.parent / "checks"


@contextlib.contextmanager
def own_environment():
    """Gives the block a region, and undoes what it does to the environment."""
    before = dict(os.environ)
    # The transform of SAM needs one.
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# cfn.py sets a region and credentials for the emulators, if there are none. Requests to AWS must not see them.
with own_environment():
    sys.path.insert(0, str(CHECKS))
    import cfn


def text():
    return cfn.SAM.read_text()


def transformed():
    """Returns the template with open parameters, as CloudFormation makes it of the SAM template."""
    with own_environment():
        return cfn.transform(text())


def untransformed(bucket, folder):
    """Returns the SAM template as `sam deploy` sends it, with code from `folder` of a bucket."""
    made = cfn.parse(text())
    for function in cfn.by_type(made["Resources"], "AWS::Serverless::Function").values():
        function["CodeUri"] = {"Bucket": bucket, "Key": f"{folder}/{pathlib.PurePath(function['CodeUri']).parent.name}.zip"}
    return made


def stored(world, name, made):
    """Stores a template in the bucket of the run, because a request can contain only 51,200 bytes of it; returns its URL."""
    s3, bucket, key = world.client("s3"), world.need("bucket")["bucket"], f"templates/{name}.json"
    s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(made).encode())
    return f"{s3.meta.endpoint_url}/{bucket}/{key}"


def throw_away(template, bucket, folder):
    """Changes a transformed template: code from `folder` of a bucket, and nothing stays when the stack is deleted."""
    for table in cfn.by_type(template["Resources"], "AWS::DynamoDB::Table").values():
        table["DeletionProtectionEnabled"] = False
    for logs in cfn.by_type(template["Resources"], "AWS::Logs::LogGroup").values():
        logs["RetentionInDays"] = 1
    for resource in template["Resources"].values():
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            if policy in resource:
                resource[policy] = "Delete"
        if resource["Type"] == "AWS::Lambda::Function":
            code = resource["Properties"]["Code"]
            resource["Properties"]["Code"] = {"S3Bucket": bucket, "S3Key": f"{folder}/{code['S3Key']}"}
    return template


def with_settings(template, settings):
    """Adds variables to both functions, which override the configuration file."""
    for name in ("Aggregator", "BatchProcessor"):
        template["Resources"][name]["Properties"]["Environment"]["Variables"].update(settings)
    return template


def types(chosen):
    """Returns the type of each resource that the stack has with these parameters."""
    with own_environment():
        return {name: resource["Type"] for name, resource in cfn.resolve(text(), chosen).items()}


def resources(chosen):
    """Returns the names of the resources that the stack has with these parameters, by type."""
    found = collections.defaultdict(list)
    for name, kind in types(chosen).items():
        found[kind].append(name)
    return {kind: sorted(names) for kind, names in sorted(found.items())}
