"""Functions: settings, variables, logs and the sweep."""

import json
import re

import cfn
from rules import rule
from world import statements


@rule
def functions_as_designed(world):
    for name in ("Aggregator", "BatchProcessor"):
        function = world.properties(name)
        wanted = {
            "Runtime": "provided.al2023",
            "Architectures": [world.parameter("Architecture")],
            "MemorySize": world.parameter("MemorySize"),
            "Role": f"<{name}Role.Arn>",
            "LoggingConfig": {"LogGroup": f"<{name}LogGroup>"},
            "Timeout": world.parameter("BatchProcessorTimeout") if name == "BatchProcessor" else 60,
        }
        for key, value in wanted.items():
            if str(function.get(key)) != str(value):
                yield f"{name}: {key} is {function.get(key)}"
        # The extension is the one layer: the batch processor reads secrets with it.
        layer = world.parameter("SecretsLayerArn") if name == "BatchProcessor" else ""
        if function.get("Layers", []) != ([layer] if layer else []):
            yield f"{name}: Layers is {function.get('Layers')}"
        network = {
            "SubnetIds": world.parameter("VpcSubnetIds").split(","),
            "SecurityGroupIds": world.parameter("VpcSecurityGroupIds").split(","),
        }
        wanted = network if name == "BatchProcessor" and world.parameter("VpcSubnetIds") else None
        if function.get("VpcConfig") != wanted:
            yield f"{name}: wrong network: got {function.get('VpcConfig')}, expected {wanted}"
    if (world.spec("Architecture")["Default"], str(world.spec("MemorySize")["Default"])) != ("arm64", "1769"):
        # arm64 costs a fifth less a second, and is tested as x86-64 is.
        yield "defaults of Architecture and MemorySize"
    if sorted(world.spec("Architecture")["AllowedValues"]) != ["arm64", "x86_64"]:
        yield "Architecture: not every one that Lambda has"


@rule
def deployments_are_checked(world):
    """The check is the batch-processor's code under another handler. It may invoke both functions, is in no network, and is called
    again when a variable that is not a resource has changed."""
    functions = ["<Aggregator.Arn>", "<BatchProcessor.Arn>"]
    check = world.properties("DeploymentCheck")
    if check.get("Code") != world.properties("BatchProcessor").get("Code") or check.get("Handler") != "deployment-check":
        yield f"DeploymentCheck: wrong code: got {check.get('Code')} with {check.get('Handler')}"
    if "VpcConfig" in check or "Environment" in check:
        yield "DeploymentCheck: has a network or variables"
    for key, wanted in {"Role": "<DeploymentCheckRole.Arn>", "LoggingConfig": {"LogGroup": "<DeploymentCheckLogGroup>"}, "Architectures": [world.parameter("Architecture")]}.items():
        if check.get(key) != wanted:
            yield f"DeploymentCheck: {key} is {check.get(key)}"
    granted = [each["Resource"] for each in statements(world.properties("DeploymentCheckRole")) if each["Action"] == "lambda:InvokeFunction"]
    if granted != [functions]:
        yield f"DeploymentCheckRole: may invoke {granted}, expected {functions}"
    checked = world.properties("CheckedDeployment")
    if checked["ServiceToken"] != "<DeploymentCheck.Arn>" or checked["Functions"] != functions:
        yield f"CheckedDeployment: calls {checked['ServiceToken']} for {checked['Functions']}"
    if not int(check["Timeout"]) < int(checked["ServiceTimeout"]):
        yield f"CheckedDeployment: CloudFormation waits {checked['ServiceTimeout']} s, the check may take {check['Timeout']} s"
    for key in ("DeletionPolicy", "UpdateReplacePolicy"):
        if world.resources["CheckedDeployment"].get(key) != "Retain":
            yield f"CheckedDeployment: {key}: CloudFormation calls the check to delete nothing"
    access = {world.parameter(each) for each in ACCESS}
    if missing := access - set(checked["Access"]):
        yield f"CheckedDeployment: is not called again when these change: {missing}"
    variables = {
        name: value
        for function in ("Aggregator", "BatchProcessor")
        for name, value in world.properties(function)["Environment"]["Variables"].items()
    }
    chosen = {value for name, value in variables.items() if name not in NOT_CHOSEN}
    if missing := chosen - set(checked["Settings"]):
        yield f"CheckedDeployment: is not called again when these change: {missing}"


# Parameters that change what the functions may do or reach.
ACCESS = ("PolicyArns", "SecretsLayerArn", "KmsKeyArn", "PermissionsBoundaryArn", "VpcSubnetIds", "VpcSecurityGroupIds", "Architecture",
    "BatchProcessorTimeout")
# Variables that name resources of the stack.
NOT_CHOSEN = {"DDB_LOCK_TABLE", "DDB_BATCH_TABLE", "DDB_BATCH_INDEX", "BATCH_QUEUE_URL", "QUARANTINE_SQS_URL"}


@rule
def reserves_what_it_may_use(world):
    """One that is reserved too low throttles the mapping, and throttled messages come nearer to the dead letters. A sweep may run
    beside the largest number of deliveries."""
    for name, more in {"Aggregator": 0, "BatchProcessor": 1}.items():
        wanted = str(int(world.parameter(f"{name}Concurrency")) + more) if world.parameter("ReserveConcurrency") == "on" else None
        found = world.properties(name).get("ReservedConcurrentExecutions")
        if (None if found is None else str(found)) != wanted:
            yield f"{name}: reserves {found}, expected {wanted}"


# Parameters that go together, each of which is refused without the others.
TOGETHER = (
    {name: each[name] for each in [cfn.SECRETS["ssm"]] for name in ("SinkSecretArn", "SecretsLayerArn")},
    cfn.VPC,
)


@rule
def what_goes_together_is_demanded(world):
    """A secret needs the extension that reads it, and a network its subnets and its security groups. The extension may be there alone."""
    if world.chosen:
        return
    for chosen in TOGETHER:
        if refusals := cfn.Resolver(world.template, chosen).refusals():
            yield f"{sorted(chosen)}: refused: {refusals}, expected to be accepted"
        for name in set(chosen) - {"SecretsLayerArn"}:
            if not cfn.Resolver(world.template, {name: chosen[name]}).refusals():
                yield f"{name} alone is accepted, expected a refusal"


# Lambda measures the variables of a function together, as JSON.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>; that it is JSON is what its refusal shows.
VARIABLES_BYTES_MAX = 4096

# Names that CloudFormation makes end where the service's do; a queue's URL has a region and an account besides.
# Sources: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Limits.html>,
# <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>,
# <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>.
GENERATED = {
    "AWS::DynamoDB::Table": "t" * 255,
    "AWS::SQS::Queue": f"https://sqs.ap-southeast-1.amazonaws.com.cn/123456789012/{'q' * 80}",
    "AWS::S3::Bucket": "b" * 63,
}


def longest(spec, name):
    """A value that takes as much room in JSON as any that a parameter accepts."""
    if "AllowedValues" in spec:
        return max((str(each) for each in spec["AllowedValues"]), key=len)
    if spec["Type"] == "Number":
        return str(spec["MaxValue"])
    pattern = spec.get("AllowedPattern", "(?s:.)*")
    wide = [each for each in ("\x01", "\u00fc", "\n") if any_char(pattern, each)]
    if wide:
        raise ValueError(f"{name} accepts {wide[0]!r}, which takes more room than a character of ASCII")
    escaped = any_char(pattern, '"') or any_char(pattern, "\\")
    return ('"' if escaped else "x") * int(spec["MaxLength"])


def any_char(pattern, char):
    """Whether some class of characters in a pattern has this one."""
    import re._parser as parser

    def classes(node):
        for kind, argument in node:
            name = str(kind)
            if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
                yield (kind, argument)
            elif name == "SUBPATTERN":
                yield from classes(argument[-1])
            elif name == "BRANCH":
                for branch in argument[1]:
                    yield from classes(branch)
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                yield from classes(argument[2])
            elif name != "AT":
                raise ValueError(f"{name} in a pattern is not known here")

    def has(kind, argument):
        name = str(kind)
        if name == "LITERAL":
            return argument == ord(char)
        if name == "NOT_LITERAL":
            return argument != ord(char)
        if name == "ANY":
            return True
        negated = any(str(each[0]) == "NEGATE" for each in argument)
        inside = any(
            (str(one) == "LITERAL" and what == ord(char)) or (str(one) == "RANGE" and what[0] <= ord(char) <= what[1])
            for one, what in argument
        )
        return inside != negated

    return any(has(*each) for each in classes(parser.parse(pattern)))


def longest_of(world, node):
    """A value that takes as much room in JSON as any that a variable of a function can have."""
    if not isinstance(node, dict):
        return str(node)
    if "Fn::If" in node:
        # The longer one, whatever is chosen.
        return max((longest_of(world, each) for each in node["Fn::If"][1:]), key=lambda text: len(json.dumps(text)))
    if "Fn::Sub" in node:
        return re.sub(r"\$\{(\w+)\}", lambda match: longest_of(world, {"Ref": match.group(1)}), node["Fn::Sub"])
    if node["Ref"] in world.template["Parameters"]:
        return longest(world.spec(node["Ref"]), node["Ref"])
    return GENERATED[world.template["Resources"][node["Ref"]]["Type"]]


def variables_bytes(world):
    """What Lambda measures of each function, each variable with the longest value that its parameter accepts."""
    measured = {}
    for name in ("Aggregator", "BatchProcessor"):
        nodes = world.template["Resources"][name]["Properties"]["Environment"]["Variables"]
        filled = {}
        for variable, node in nodes.items():
            filled[variable] = longest_of(world, node)
        measured[name] = len(json.dumps(filled, separators=(",", ":")).encode())
    return measured


@rule
def variables_fit(world):
    """All variables of a function fit Lambda's 4 KB together, whatever is chosen."""
    for name, measured in variables_bytes(world).items() if not world.chosen else ():
        if measured > VARIABLES_BYTES_MAX:
            yield f"{name}: variables may take {measured} bytes, Lambda takes {VARIABLES_BYTES_MAX}"

@rule
def logs_end(world):
    """Every function has a log group of its own, with a retention."""
    for name in ("AggregatorLogGroup", "BatchProcessorLogGroup", "DeploymentCheckLogGroup"):
        if str(world.properties(name).get("RetentionInDays")) != "30":
            yield f"{name}: retention"


@rule
def sweep_is_scheduled(world):
    """An EventBridge rule (its `detail-type` is what the batch processor knows), and the permission it needs."""
    schedules = {
        name: each
        for name, each in world.kind("AWS::Events::Rule").items()
        if each.get("ScheduleExpression") and each.get("State", "ENABLED") == "ENABLED"
    }
    if len(schedules) != 1:
        yield f"{len(schedules)} schedules"
        return
    (name, schedule), = schedules.items()
    if schedule["ScheduleExpression"] != "rate(5 minutes)":
        yield f"{name}: {schedule['ScheduleExpression']}"
    targets = schedule.get("Targets", [])
    if [each["Arn"] for each in targets] != ["<BatchProcessor.Arn>"]:
        yield f"{name}: does not go to the batch processor"
    if any({"Input", "InputPath", "InputTransformer"} & set(each) for each in targets):
        yield f"{name}: changes the event, which is then no `Scheduled Event`"
    permitted = [
        each
        for each in world.kind("AWS::Lambda::Permission").values()
        if each["Principal"] == "events.amazonaws.com" and each["Action"] == "lambda:InvokeFunction"
        and each.get("SourceArn") == f"<{name}.Arn>" and each["FunctionName"].startswith("<BatchProcessor")
    ]
    if len(permitted) != 1 or len(world.kind("AWS::Lambda::Permission")) != 1:
        yield f"{name}: may not invoke the batch processor, or others may"


@rule
def failed_sweeps_are_kept(world):
    """A sweep that could not be called, or failed, goes to a queue that EventBridge and Lambda may write to, and nobody else."""
    queue = "<SweepDeadLetterQueue.Arn>"
    (name, schedule), = world.kind("AWS::Events::Rule").items()
    for target in schedule["Targets"]:
        if target.get("DeadLetterConfig", {}).get("Arn") != queue:
            yield f"{name}: what cannot be called is lost"
    invoked = [each for each in world.kind("AWS::Lambda::EventInvokeConfig").values() if each["FunctionName"].startswith("<BatchProcessor")]
    if [each.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination") for each in invoked] != [queue]:
        yield "BatchProcessor: a sweep that fails is not reported"
    # Each sweep does what the one before it missed: two at once would only send twice the tickets.
    if any(str(each.get("MaximumRetryAttempts")) != "0" for each in invoked):
        yield "BatchProcessor: a sweep that failed is tried again"
    allowed = [
        (statement["Effect"], statement["Action"], statement["Principal"], statement["Resource"], statement.get("Condition"))
        for policy in world.kind("AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    wanted = ("Allow", "sqs:SendMessage", {"Service": "events.amazonaws.com"}, queue, {"ArnEquals": {"aws:SourceArn": f"<{name}.Arn>"}})
    if allowed != [wanted]:
        yield f"SweepDeadLetterQueue: who may send to it is {allowed}"
