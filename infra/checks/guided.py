"""Runs `sam deploy --guided` against the emulator moto, as somebody would who answers every question with Enter.

Only the two parameters without a default are answered. The SAM CLI must ask for each parameter once, and write `samconfig.toml` with
all of them. Whether moto then creates the stack does not matter: emulator.py deploys the transformed template.
"""

import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

import boto3
from moto.server import ThreadedMotoServer

import cfn

# One line for each request.
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

SAM_CLI = pathlib.Path(sys.executable).parent / "sam"
STACK = "guided"
REGION = "eu-west-1"
# More answers than there are questions. The SAM CLI asks again for a value that it does not take.
ENTERS = 200
SECONDS_MAX = 600


def copied(folder):
    """Writes the template to a folder, with zips where its relative paths lead; returns the path of the template."""
    template = folder / "infra" / "sam" / "template.yaml"
    template.parent.mkdir(parents=True)
    shutil.copy(cfn.SAM, template)
    for function in ("aggregator", "batch-processor"):
        code = folder / "target" / "lambda" / function / "bootstrap.zip"
        code.parent.mkdir(parents=True)
        with zipfile.ZipFile(code, "w") as out:
            out.writestr("bootstrap", function)
    return template


def managed_bucket(endpoint):
    """Creates the stack of the bucket that the SAM CLI keeps in an account. The SAM CLI creates it by a change set, of whose tags moto
    knows nothing afterwards."""
    template = {
        "Resources": {"SamCliSourceBucket": {"Type": "AWS::S3::Bucket"}},
        "Outputs": {"SourceBucket": {"Value": {"Ref": "SamCliSourceBucket"}}},
    }
    boto3.client("cloudformation", endpoint_url=endpoint, region_name=REGION).create_stack(
        StackName="aws-sam-cli-managed-default",
        TemplateBody=json.dumps(template),
        Tags=[{"Key": "ManagedStackSource", "Value": "AwsSamCli"}],
    )


def answered(template, folder, endpoint):
    """Runs the SAM CLI in a folder; returns what it printed."""
    answers = [STACK, REGION, *(cfn.REQUIRED.get(name, "") for name in cfn.parse(template.read_text())["Parameters"]), *[""] * ENTERS]
    environment = os.environ | {
        "AWS_ENDPOINT_URL": endpoint,
        "HOME": str(folder),
        "SAM_CLI_TELEMETRY": "0",
    }
    command = [SAM_CLI, "deploy", "--guided", "--capabilities", "CAPABILITY_IAM", "--template", template]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input="\n".join(answers) + "\n",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS_MAX,
    )
    return done.stdout


def check_all():
    """Returns the problems, and how many parameters were asked for."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            template = copied(folder)
            parameters = cfn.parse(template.read_text())["Parameters"]
            endpoint = f"http://{host}:{port}"
            managed_bucket(endpoint)
            said = answered(template, folder, endpoint)
            problems = [
                f"sam deploy --guided: asks {said.count(f'Parameter {name} [') + said.count(f'Parameter {name}:')} times for {name}, expected once"
                for name in parameters
                if said.count(f"Parameter {name} [") + said.count(f"Parameter {name}:") != 1
            ]
            if "Initiating deployment" not in said:
                problems.append("sam deploy --guided: does not begin to deploy after the last question")
            saved = next(folder.rglob("samconfig.toml"), None)
            if saved is None:
                return [*problems, "sam deploy --guided: no samconfig.toml, expected one with every parameter", *said.splitlines()[-20:]], 0
            overrides = tomllib.loads(saved.read_text())["default"]["deploy"]["parameters"]["parameter_overrides"]
            problems += [f"samconfig.toml: {name} is missing: got {overrides}" for name in parameters if f'{name}="' not in overrides]
            return problems, len(parameters)
    finally:
        server.stop()


if __name__ == "__main__":
    problems, count = check_all()
    print(*problems or [f"{count} parameters"], sep="\n")
    sys.exit(bool(problems))
