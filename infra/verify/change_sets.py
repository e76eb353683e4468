"""Change sets of new stacks, which are never executed: CloudFormation looks at the whole template, and creates none of its resources.

The templates are those that users deploy: infra/sam with its transform, and what the CDK app of infra/cdk synthesizes. Only the place of
the code is another one. CloudFormation does not look whether it exists.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from botocore.exceptions import ClientError

from verify import code_zips, emulators, ledger, template
from verify.unavailable import Unavailable

CDK = ledger.ROOT / "infra" / "cdk"
SECONDS_MAX = 300
CHOSEN = {"EventId": "json:id", "Sink": "log:"}
# Codes of errors of a request whose template or parameters are wrong.
REFUSED = ("ValidationError", "InsufficientCapabilitiesException", "InsufficientCapabilities")


def sam(world):
    """Returns what CloudFormation says about the SAM template, which it transforms itself, and the resources that are expected."""
    chosen = CHOSEN | {"PermissionsBoundaryArn": world.boundary}
    bucket = world.need("bucket")["bucket"]
    made, expected = template.untransformed(bucket, "code"), template.types(chosen)
    if world.emulator:
        # No emulator has the transform, and moto looks at no condition.
        made = emulators.adapted(world.emulator, template.transformed(), chosen)
        expected = {name: kind for name, kind in expected.items() if name in made["Resources"]}
        made["Resources"] = {name: each for name, each in made["Resources"].items() if name in expected}
    return changes(world, "c", made, chosen) | {"expected": expected}


def cdk(world):
    """Returns what CloudFormation says about the template of the CDK app, and the resources that are expected."""
    made = synthesized()
    return changes(world, "d", made, {}) | {"expected": {name: each["Type"] for name, each in made["Resources"].items()}}


def synthesized():
    """Returns the template of the CDK app, without the rule that the account was prepared by `cdk bootstrap`."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for function in code_zips.FUNCTIONS:
            (folder / function).mkdir()
            (folder / function / "bootstrap.zip").write_bytes(code_zips.empty_zip())
        context = {"eventId": CHOSEN["EventId"], "sink": CHOSEN["Sink"], "code": str(folder)}
        # node is installed beside this interpreter.
        path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "CDK_CONTEXT_JSON": json.dumps(context), "CDK_OUTDIR": str(folder / "out")}
        install = [] if (CDK / "node_modules" / ".bin" / "tsc").exists() else [["npm", "ci"]]
        for command in (*install, ["node_modules/.bin/tsc"], ["node", "dist/bin/app.js"]):
            done = subprocess.run(command, cwd=CDK, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Unavailable(f"infra/cdk: {' '.join(command)} failed: {' '.join((done.stdout + done.stderr).split())[-300:]}")
        made = json.loads((folder / "out" / "UniqueEventBatchAggregator.template.json").read_text())
    del made["Parameters"]["BootstrapVersion"], made["Rules"]["CheckBootstrapVersion"]
    return made


def changes(world, suffix, made, chosen):
    """Creates a change set of a new stack, and deletes it. Returns its status, the reason, and the resources that it would create. The
    clean-up deletes the stack, which has nothing."""
    name = f"{world.name}-{suffix}"
    stacks = world.client("cloudformation")
    arguments = {
        "StackName": name, "ChangeSetName": name, "ChangeSetType": "CREATE", "TemplateURL": template.stored(world, name, made),
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in chosen.items()],
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        "Tags": [{"Key": ledger.TAG, "Value": world.name}],
    }  # fmt: skip
    world.ledger.intend("CloudFormation stack", name)
    try:
        stacks.create_change_set(**arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return {"status": "refused", "reason": error.response["Error"].get("Message", "")[:300], "resources": {}}
    which = {"StackName": name, "ChangeSetName": name}
    try:
        described = world.until(lambda: settled(stacks.describe_change_set(**which)), SECONDS_MAX) or {}
        pages = stacks.get_paginator("describe_change_set").paginate(**which)
        found = [each["ResourceChange"] for page in pages for each in page.get("Changes", [])]
    finally:
        stacks.delete_change_set(**which)
    return {
        "status": described.get("Status", "still in progress"),
        "reason": described.get("StatusReason", "")[:300],
        "resources": {each["LogicalResourceId"]: each["ResourceType"] for each in found if each["Action"] == "Add"},
    }


def settled(described):
    return described if described["Status"] not in ("CREATE_PENDING", "CREATE_IN_PROGRESS") else None
