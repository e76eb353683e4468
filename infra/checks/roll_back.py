"""Runs the commands of docs/runbook.md that change parameters of a stack, as they are there, with the real AWS CLI against moto.

A stack of one release is updated to another one. Then each command must change the parameters that it names, and nothing else.
"""

import contextlib
import logging
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

import boto3
from moto.server import ThreadedMotoServer

import cfn
import emulator

# One line for each request.
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

RUNBOOK = cfn.ROOT / "docs" / "runbook.md"
STACK = "my-stack"
REGION = "eu-west-1"
SECONDS_MAX = 120
RELEASES = ("v0.3.0/", "v0.4.0/")
# Parameters before anything goes wrong, with a value that a shell or the AWS CLI may split.
FORMER = {
    "CodeBucket": "code",
    "CodeKeyPrefix": RELEASES[0],
    "EventId": "json:[a, b]",
    "Sink": "log:",
    "Config": "s3://my-configuration/former.toml",
    "KmsKeyArn": cfn.KEY,
}
WRONG = FORMER | {"CodeKeyPrefix": RELEASES[1], "Config": "s3://my-configuration/wrong.toml"}


def released(text):
    """Returns the template of a release (tools/xtask/src/release/template.rs), transformed."""
    parameters = '\nParameters:\n  CodeBucket: { Type: String }\n  CodeKeyPrefix: { Type: String, Default: "" }\n'
    text = text.replace("\nParameters:\n", parameters)
    code = r'CodeUri: { Bucket: !Ref CodeBucket, Key: !Sub "${CodeKeyPrefix}\1-${Architecture}.zip" }'
    return emulator.adapted(cfn.transform(re.sub(r"CodeUri: \S*/([a-z-]+)/bootstrap\.zip", code, text)), {})


def commands(page):
    """Returns the function `set_parameters` of the runbook, and the lines that call it."""
    blocks = re.findall(r"(?s)```sh\n(.*?)```", page)
    function = next(each for each in blocks if "set_parameters() {" in each)
    return function, [line for each in blocks if each is not function for line in each.splitlines() if line.startswith("set_parameters ")]


def chosen(command):
    """Returns the parameters that a call of `set_parameters` names."""
    return dict(word.split("=", 1) for word in command.split("#")[0].split()[1:])


class Stack:
    """The stack on the emulator, of the former release."""

    def __init__(self, endpoint, template):
        self.endpoint = endpoint
        client = lambda service: boto3.client(service, endpoint_url=endpoint, region_name=REGION)  # noqa: E731
        self.stacks, self.lambdas, s3 = client("cloudformation"), client("lambda"), client("s3")
        self.template = template
        s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": REGION})
        for release in RELEASES:
            for function in ("aggregator", "batch-processor"):
                s3.put_object(Bucket="code", Key=f"{release}{function}-arm64.zip", Body=emulator.archive(release))
        self.deploy(self.stacks.create_stack, FORMER)
        self.former = self.seen()

    def deploy(self, deploy, chosen):
        # moto does not keep the default values, which AWS does.
        emulator.deployed(deploy, self.template, cfn.parameters(self.template, chosen), STACK)

    def seen(self):
        """Returns the parameters; the template and the physical resources, which no command may change; and what the functions run."""
        parameters = self.stacks.describe_stacks(StackName=STACK)["Stacks"][0]["Parameters"]
        parameters = {each["ParameterKey"]: each.get("ParameterValue", "") for each in parameters}
        resources = self.stacks.list_stack_resources(StackName=STACK)["StackResourceSummaries"]
        physical = {each["LogicalResourceId"]: each.get("PhysicalResourceId") for each in resources}
        functions = {name: self.lambdas.get_function_configuration(FunctionName=physical[name]) for name in ("Aggregator", "BatchProcessor")}
        code = {name: each["CodeSha256"] for name, each in functions.items()}
        config = {name: each["Environment"]["Variables"].get("CONFIG") for name, each in functions.items()}
        return parameters, (self.stacks.get_template(StackName=STACK).get("TemplateBody"), physical), (code, config)


def ran(function, command, endpoint):
    """Runs a command of the runbook in a shell; returns its exit code, and what it printed."""
    environment = {
        "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # No configuration of the caller.
        "HOME": "/nonexistent",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": REGION,
    }
    done = subprocess.run(
        ["/bin/sh", "-c", f"{function}\n{command}"], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX
    )
    return done.returncode, done.stdout


def rehearsed(page, stack, few=False):
    """Yields what is wrong with the commands of a runbook. With `few`, looks only at the one that rolls back a release."""
    function, lines = commands(page)
    releases = [each for each in lines if "CodeKeyPrefix=" in each]
    if len(releases) != 1 or chosen(releases[0]).get("CodeKeyPrefix") != RELEASES[0]:
        yield f"docs/runbook.md: got {releases}, expected one command that sets CodeKeyPrefix={RELEASES[0]}"
        return
    for command in releases if few else lines:
        stack.deploy(stack.stacks.update_stack, WRONG)
        before = stack.seen()
        code, said = ran(function, command, stack.endpoint)
        parameters, others, functions = stack.seen()
        if code != 0:
            yield f"docs/runbook.md: {command}: got exit code {code}: {said.strip()}"
        elif parameters != before[0] | chosen(command):
            yield f"docs/runbook.md: {command}: got parameters {parameters}, expected {before[0] | chosen(command)}"
        elif others != before[1]:
            yield f"docs/runbook.md: {command}: the template or a resource changed, expected parameters to change alone"
        elif command in releases and (functions == before[2] or functions != stack.former[2]):
            yield f"docs/runbook.md: {command}: got functions {functions}, expected those of the former release, {stack.former[2]}"


@contextlib.contextmanager
def stack_of_releases():
    """Yields a stack on an emulator of its own."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        # The servers of one process share what they have.
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
        yield Stack(endpoint, released(cfn.SAM.read_text()))
    finally:
        server.stop()


def check_all():
    """Returns the problems, the number of commands, and the number of planted mistakes, each of which must be noticed."""
    page = RUNBOOK.read_text()
    with stack_of_releases() as stack:
        return list(rehearsed(page, stack)), len(commands(page)[1]), self_test(page, stack)


def self_test(page, stack):
    """Asserts that `rehearsed` notices each of some wrong commands. Returns how many were tried."""
    changes = (
        ("update-stack --stack-name my-stack ", "update-stack "),
        (r'ParameterValue=\"${each#*=}\"', "ParameterValue=${each%%=*}"),
        ("set_parameters CodeKeyPrefix=v0.3.0/ ", "set_parameters CodeKey=v0.3.0/ "),
        # Last, because moto does not recover from an update without a template.
        (" --use-previous-template", ""),
    )
    for old, new in changes:
        assert page.count(old) == 1, f"self_test: the runbook has not once the text {old!r}"
        assert list(rehearsed(page.replace(old, new), stack, few=True)), f"self_test: rehearsed does not notice {new!r}"
    return len(changes)


if __name__ == "__main__":
    problems, count, wrong = check_all()
    print(*problems or [f"{count} commands, {wrong} wrong ones noticed"], sep="\n")
    sys.exit(bool(problems))
