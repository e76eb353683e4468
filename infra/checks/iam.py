"""The actions the code calls against the actions granted, both ways, for every choice that changes either."""

import cfn
import policy
import rust

CRATES = {"Aggregator": "aggregator", "BatchProcessor": "batch-processor"}

# What Lambda does with a function's role for a queue that is mapped to it.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>.
MAPPING = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
# What it writes a log with.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html>.
LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}
# What tracing needs; X-Ray has no resources.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html>.
TRACE = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
# What SQS and DynamoDB ask of the key on the caller's behalf.
# Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html>,
# <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html>.
KEY = {"kms:Decrypt", "kms:Encrypt", "kms:DescribeKey", "kms:GenerateDataKey*", "kms:ReEncrypt*"}

# How Lambda reports with the function's role what failed of its asynchronous calls, which are the sweeps.
# Source: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>.
DESTINATION = ("sqs:SendMessage", "SweepDeadLetterQueue")
# Without it, S3 says of a missing object that it is forbidden. Needed wherever objects are read that may be missing.
# Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html>.
MISS = "s3:ListBucket"
# Of a bucket, not of its objects.
OF_BUCKETS = {MISS, "s3:GetLifecycleConfiguration"}

# Reached only with DEDUP_WINDOW=0, which the template's MinValue rules out.
WITHOUT_DEDUP_WINDOW = {"dynamodb:DeleteItem", "dynamodb:PartiQLDelete"}

# Called only with SEAL_WHEN_DRAINED=on. The figures of the queue are what its mapping asks for too.
WHEN_DRAINED = {"sqs:GetQueueUrl"}

# The file that reads `SINK_COLUMNS` from S3, where it names no sink, and what it may call.
COLUMNS_FILES = ("columns", "columns_source")
COLUMNS_ACTION = "s3:GetObject"
# The sink's file, where it is not called as its scheme.
SINK_FILE = {"https": "http"}
# Files that write objects for sinks, with the parameter that says where and what it says in the worlds.
STORES = {"rejects": ("SinkRejects", cfn.REJECTS), "payload": ("SinkPayloads", cfn.PAYLOADS)}


def as_list(value):
    return value if isinstance(value, list) else [value]


def granted(role):
    return {
        (action, resource.strip("<>").removesuffix(".Arn") if resource.startswith("<") and resource.endswith(">") else resource)
        for statement in policy.statements(role)
        for action in as_list(statement["Action"])
        for resource in (each.replace(".Arn>/", "/").lstrip("<") if ".Arn>/" in each else each for each in as_list(statement["Resource"]))
    }


def sink_resource(sink):
    """What is acted on in the place of a sink, in terms of `SINK`."""
    scheme = cfn.scheme_of(sink)
    if scheme == "s3":
        return f"arn:aws:s3:::{sink.removeprefix('s3://')}/*"
    if scheme == "states":
        # Of a version or an alias, IAM sees the state machine.
        # Source: <https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html>.
        return ":".join(sink.split(":")[:7])
    return sink


def in_place(actions, resource):
    """(action, resource) of what is called in a place. Who reads objects of a bucket must be able to miss one."""
    found = {(action, resource) for action in actions}
    if "s3:GetObject" in actions:
        found.add((MISS, resource.split("/")[0]))
    return found


def sinks(source):
    """Scheme to the actions its sink calls."""
    calls = rust.sink_actions(source)
    return {scheme: calls.get(SINK_FILE.get(scheme, scheme), set()) for scheme in rust.sink_schemes(source)}


def strays(source, sink):
    """Files of sinks that call what is neither a sink's nor a store's."""
    known = {SINK_FILE.get(scheme, scheme) for scheme in sink} | set(STORES)
    calls = rust.sink_actions(source)
    return sorted(file for file in set(calls) - known if not (file in COLUMNS_FILES and calls[file] == {COLUMNS_ACTION}))


def needed(source, function, world, sink):
    """(action, resource) that a function needs in a world."""
    mode = world.parameter("WriteMode")
    need = rust.called(source, f"{CRATES[function]}/src", mode)
    if int(world.spec("DedupWindow").get("MinValue", 0)) > 0:
        need = {each for each in need if each[0] not in WITHOUT_DEDUP_WINDOW}
    bucket = world.parameter("OverflowBucket")
    bodies = {action for action, resource in need if resource == "OverflowBucket"}
    need = {each for each in need if each[1] != "OverflowBucket"}
    if bucket:
        need |= in_place(bodies - OF_BUCKETS, f"arn:aws:s3:::{bucket}/*")
        need |= {(action, f"arn:aws:s3:::{bucket}") for action in bodies & OF_BUCKETS}
    if world.parameter("SealWhenDrained") == "off":
        need = {each for each in need if each[0] not in WHEN_DRAINED}
    for _, name, queue in world.mappings():
        if name == function:
            need |= {(action, queue) for action in MAPPING}
    need |= {(action, f"{function}LogGroup") for action in LOG}
    if world.parameter("Tracing") == "Active":
        need |= {(action, "*") for action in TRACE}
    key = world.parameter("KmsKeyArn")
    if key:
        need |= {(action, key) for action in KEY}
    if function == "BatchProcessor":
        need.add(DESTINATION)
        scheme = cfn.scheme_of(world.parameter("Sink"))
        need |= in_place(sink[scheme], sink_resource(world.parameter("Sink")))
        for file, (name, uri) in STORES.items():
            # Payloads are of what is called alone.
            if world.parameter(name) == uri and (file == "rejects" or scheme in cfn.CALLED):
                place = uri.removeprefix("s3://")
                need |= in_place(rust.sink_actions(source).get(file, set()), f"arn:aws:s3:::{place}/*")
        columns = world.parameter("SinkColumns")
        if columns.startswith("s3://"):
            need.add((COLUMNS_ACTION, f"arn:aws:s3:::{columns.removeprefix('s3://')}"))
        secret = world.parameter("SinkSecret").split(":")[0]
        if secret:
            need.add((rust.secret_actions(source)[secret], cfn.SECRETS[secret]["SinkSecretArn"]))
    return need


def check_all(text, source=None):
    """(check, what is wrong)."""
    source = source or rust.Source()
    found = {}
    for stray in rust.stray_calls(source):
        found[("iam", f"an SDK call outside the adapters, which nothing here sees: {stray}")] = {}
    sink = sinks(source)
    for file in strays(source, sink):
        found[("iam", f"an SDK call of sink/{file}.rs, which is no sink known here")] = {}
    for scheme in sorted(set(sink) - set(cfn.SINKS)):
        found[("iam", f"the sink {scheme} is not among the worlds that are looked at")] = {}
    try:
        generic = cfn._transform(text, None)
        worlds = cfn.worlds(generic)
        for chosen in worlds:
            world = policy.World(text, chosen, generic)
            for function in CRATES:
                grants = granted(world.properties(f"{function}Role"))
                need = needed(source, function, world, sink)
                for action, resource in sorted(need - grants):
                    found.setdefault(("iam", f"{function} calls {action} on {resource}: not granted"), chosen)
                for action, resource in sorted(grants - need):
                    found.setdefault(("iam", f"{function} is granted {action} on {resource}: not called"), chosen)
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        found[("iam", f"cannot be looked at: {error!r}")] = {}
    return [(name, f"{problem}{f' (with {chosen})' if chosen else ''}") for (name, problem), chosen in found.items()]


def self_test(text):
    """The comparison fails for every grant that is taken away or added, and for a call that is added. Returns how many."""
    import copy

    generic = cfn._transform(text, None)
    source = rust.Source()
    sink = sinks(source)
    tried = 0
    for chosen in cfn.worlds(generic):
        for function in CRATES:
            world = policy.World(text, chosen, generic)
            role = world.properties(f"{function}Role")
            need = needed(source, function, world, sink)
            for at, statement in enumerate(policy.statements(role)):
                for action in as_list(statement["Action"]):
                    less = copy.deepcopy(role)
                    one = policy.statements(less)[at]
                    one["Action"] = [each for each in as_list(one["Action"]) if each != action]
                    assert need - granted(less), f"{function}: {action} can be taken away unnoticed"
                    more = copy.deepcopy(role)
                    one = policy.statements(more)[at]
                    one["Action"] = [*as_list(one["Action"]), action.split(":")[0] + ":Another"]
                    assert granted(more) - need, f"{function}: an action beside {action} can be added unnoticed"
                    wide = copy.deepcopy(role)
                    one = policy.statements(wide)[at]
                    one["Resource"] = [*as_list(one["Resource"]), "*"] if one["Resource"] != "*" else ["*", "<LockTable.Arn>"]
                    assert granted(wide) - need, f"{function}: the resource of {action} can be widened unnoticed"
                    tried += 3
    # In the code: a call that is added to an adapter, one that is taken away, a sink that appears.
    def changed(path, old, new):
        before = (cfn.ROOT / path).read_text()
        assert old in before, f"{path} has no `{old}` any more"
        return rust.Source({path: before.replace(old, new)})

    adapters, sink_files, sink_uri = "shared/src/aws/", "sinks/src/", rust.sink_uri_file(source)
    codes = {
        "a scan beside a query": changed(adapters + "dynamo_lock_store.rs", ".query()", ".scan()"),
        "get instead of put": changed(adapters + "dynamo_batch_store.rs", ".put_item()", ".get_item()"),
        "another statement": changed(adapters + "partiql.rs", '"UPDATE ', '"SELECT '),
        "a port's method less": changed("batch-processor/src/sweep.rs", "batches.overdue(", "batches.nothing("),
        "a port's method more": changed("batch-processor/src/release.rs", ".locks().release(", ".locks().claim("),
        "another question to a source": changed(adapters + "sqs_source_queues.rs", ".get_queue_url()", ".list_queues()"),
        "another queue method": changed(adapters + "sqs_batch_queue.rs", ".send_message()", ".purge_queue()"),
        "a call outside the adapters": rust.Source({"aggregator/src/new.rs": "fn f() { client.list_tables().limit(3).send().await }"}),
        "a sink that asks for more": changed(sink_files + "s3.rs", ".head_object()", ".get_object_tagging()"),
        "a sink that is there": changed(sink_uri, 'Some(("log", "")) =>', 'Some(("ftp", path)) => Err(path), Some(("log", "")) =>'),
        "a sink that is an ARN": changed(sink_uri, '== Some("states")', '== Some("events")'),
        "another way to call a function": changed(sink_files + "lambda.rs", ".invoke()", ".invoke_async()"),
        "another way to start": changed(sink_files + "states.rs", ".start_execution()", ".start_sync_execution()"),
        "payloads that are not kept": changed(sink_files + "payload.rs", "Objects::new(", "Nothing::new("),
        "rejects that are not kept": changed(sink_files + "rejects.rs", "Objects::new(", "Nothing::new("),
        "another question to the extension": changed(sink_files + "secret.rs", "/secretsmanager/get?", "/systemsmanager/parameters/get?"),
        "a call beside the sinks": rust.Source({sink_files + "new.rs": "fn f() { client.list_tables().limit(3).send().await }"}),
    }
    for name, other in codes.items():
        assert check_all(text, other), f"unnoticed: {name}"
        tried += 1
    return tried
