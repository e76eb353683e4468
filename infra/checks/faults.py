"""Wrong templates, and who catches each. A change is text of the template and what takes its place."""

import functools
import json
import multiprocessing

import cfn
import drift
import iam
import policy

HEAD = "  InputQueue:\n    Type: AWS::SQS::Queue\n"

FAULTS = [
    ("batches of 10,000 without a window", [("            MaximumBatchingWindowInSeconds: !Ref InputBatchingWindow\n", "")]),
    ("the window may be 0", [("AllowedValues: [1, 2, 5, 10, 20, 60, 300]", "AllowedValues: [0, 1, 2, 5, 10, 20, 60, 300]"), ('{ "1": 361,', '{ "0": 360, "1": 361,')]),
    ("MaximumConcurrency and provisioned pollers", [("              - Provisioned\n              - !Ref AWS::NoValue\n              - { MaximumConcurrency", "              - Provisioned\n              - { MaximumConcurrency: 7 }\n              - { MaximumConcurrency")]),
    ("batch size 20,000", [("InputBatchSize:\n    Type: Number\n    Default: 10000\n    MinValue: 1\n    MaxValue: 10000", "InputBatchSize:\n    Type: Number\n    Default: 20000\n    MinValue: 1\n    MaxValue: 20000")]),
    ("the aggregator reports no failures", [("            MaximumBatchingWindowInSeconds: !Ref InputBatchingWindow\n            FunctionResponseTypes: [ReportBatchItemFailures]\n", "            MaximumBatchingWindowInSeconds: !Ref InputBatchingWindow\n")]),
    ("misspelt ReportBatchItemFailures", [("            BatchSize: 1\n            FunctionResponseTypes: [ReportBatchItemFailures]", "            BatchSize: 1\n            FunctionResponseTypes: [ReportBatchItemFailure]")]),
    ("ten tickets at once", [("            BatchSize: 1\n", "            BatchSize: 10\n")]),
    ("no cap on batch processors", [("            ScalingConfig: { MaximumConcurrency: !Ref BatchProcessorConcurrency }\n", "")]),
    ("MaximumConcurrency 1", [("MaximumConcurrency: !Ref BatchProcessorConcurrency", "MaximumConcurrency: 1")]),
    ("the mapping reads the wrong queue", [("            Queue: !GetAtt BatchQueue.Arn", "            Queue: !GetAtt InputQueue.Arn")]),
    ("visibility timeout below the rule", [('"1": 361', '"1": 60')]),
    ("visibility timeout left at its default", [("      VisibilityTimeout: !FindInMap [BatchVisibility, !Ref BatchProcessorTimeout, Seconds]\n", "")]),
    ("a timeout without its visibility", [("AllowedValues: [60, 120, 300, 600, 900]", "AllowedValues: [60, 120, 240, 300, 600, 900]")]),
    ("a timeout over 900 s", [("AllowedValues: [60, 120, 300, 600, 900]", "AllowedValues: [60, 120, 300, 600, 960]"), ('"900": { Seconds: 5400 }', '"960": { Seconds: 5760 }')]),
    ("window and timeout over 900 s", [("    MaxValue: 700\n", "    MaxValue: 900\n")]),
    ("dedup window below the visibility timeout", [("    MinValue: 1440\n", "    MinValue: 60\n")]),
    ("deadline margin longer than a timeout", [("    MaxValue: 10000\n    Description: Milliseconds", "    MaxValue: 60000\n    Description: Milliseconds")]),
    ("given up at the first receive", [("        maxReceiveCount: 5\n", "        maxReceiveCount: 1\n")]),
    ("waiting duplicates are given up after 5", [("    requeue: { Input: 1000 }", "    requeue: { Input: 5 }")]),
    ("more receives than SQS allows", [("    requeue: { Input: 1000 }", "    requeue: { Input: 5000 }")]),
    ("no dead letters", [("      RedrivePolicy:\n        deadLetterTargetArn: !GetAtt BatchDeadLetterQueue.Arn\n        maxReceiveCount: 5\n", "")]),
    ("dead letters into the queue itself", [("deadLetterTargetArn: !GetAtt InputDeadLetterQueue.Arn", "deadLetterTargetArn: !GetAtt InputQueue.Arn")]),
    ("dead letters are kept no longer than their source", [("      VisibilityTimeout: !FindInMap [InputVisibility, !Ref AggregatorTimeout, !Ref InputBatchingWindow]\n      MessageRetentionPeriod: 604800", "      VisibilityTimeout: !FindInMap [InputVisibility, !Ref AggregatorTimeout, !Ref InputBatchingWindow]\n      MessageRetentionPeriod: 1209600")]),
    ("retention over 14 days", [("  QuarantineQueue:\n    Type: AWS::SQS::Queue\n    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      MessageRetentionPeriod: 1209600", "  QuarantineQueue:\n    Type: AWS::SQS::Queue\n    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      MessageRetentionPeriod: 2000000")]),
    ("a FIFO input queue", [(HEAD + "    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n", HEAD + "    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      FifoQueue: true\n")]),
    ("a queue unencrypted with a key", [("      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n      KmsMasterKeyId: !If [HasKey, !Ref KmsKeyArn, !Ref \"AWS::NoValue\"]\n\n", "      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n\n")]),
    ("messages are deleted with the stack", [(HEAD + "    DeletionPolicy: Retain\n", HEAD + "    DeletionPolicy: Delete\n")]),
    ("a table without TTL attribute", [("      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }\n      SSESpecification: !If\n        - HasKey\n        - { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn }\n        - !Ref AWS::NoValue\n  BatchTable", "      TimeToLiveSpecification: { Enabled: true }\n      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }\n      SSESpecification: !If\n        - HasKey\n        - { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn }\n        - !Ref AWS::NoValue\n  BatchTable")]),
    ("the TTL attribute of another name", [("TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }", "TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }")]),
    ("the index holds bodies", [("{ ProjectionType: KEYS_ONLY }", "{ ProjectionType: ALL }")]),
    ("an attribute defined and used nowhere", [("        - { AttributeName: seq, AttributeType: N }\n", "        - { AttributeName: seq, AttributeType: N }\n        - { AttributeName: sentAt, AttributeType: N }\n")]),
    ("an index key of the wrong type", [("{ AttributeName: dueAt, AttributeType: N }", "{ AttributeName: dueAt, AttributeType: S }")]),
    ("provisioned table", [("      BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: messageId", "      BillingMode: PROVISIONED\n      AttributeDefinitions:\n        - { AttributeName: messageId")]),
    ("no point-in-time recovery", [("PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false")]),
    ("a warm table with a cold index", [("          WarmThroughput: !If\n            - IsWarm\n            - { ReadUnitsPerSecond: !Ref LockTableWarmReads, WriteUnitsPerSecond: !Ref LockTableWarmWrites }\n            - !Ref AWS::NoValue\n", "")]),
    ("a runtime that does not exist", [("    Runtime: provided.al2023", "    Runtime: provided.al2024")]),
    ("a runtime that is not this one's", [("    Runtime: provided.al2023", "    Runtime: python3.13")]),
    ("an architecture that does not exist", [("    Architectures: [!Ref Architecture]", "    Architectures: [arm65]")]),
    ("too little memory", [("    Default: 1769\n", "    Default: 64\n")]),
    ("a misspelt property", [("      BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: batchId", "      BilingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: batchId")]),
    ("a reference to nothing", [("deadLetterTargetArn: !GetAtt BatchDeadLetterQueue.Arn", "deadLetterTargetArn: !GetAtt TicketDeadLetterQueue.Arn")]),
    ("a variable that nobody reads", [("          BATCH_KEYS_MAX: !Ref BatchKeysMax\n", "          BATCH_KEY_MAX: !Ref BatchKeysMax\n")]),
    ("a variable set by another's parameter", [("          INDEX_SHARDS: !Ref IndexShards", "          INDEX_SHARDS: !Ref BatchKeysMax")]),
    ("a default that is not the code's", [("    Default: 50000\n", "    Default: 60000\n")]),
    ("a bound beyond the code's", [("    MaxValue: 900\n    Description: Requests in flight", "    MaxValue: 9000\n    Description: Requests in flight")]),
    ("a sink with a wildcard", [("(/[A-Za-z0-9!_.=-]+)*", "(/[^/]+)*")]),
    ("a grant less", [("                  - dynamodb:BatchGetItem\n                  - dynamodb:PutItem\n", "                  - dynamodb:BatchGetItem\n")]),
    ("a grant more", [("Action: [dynamodb:GetItem, dynamodb:UpdateItem]", "Action: [dynamodb:GetItem, dynamodb:UpdateItem, dynamodb:DeleteItem]")]),
    ("a grant on every table", [("                Action: [dynamodb:GetItem, dynamodb:UpdateItem]\n                Resource: !GetAtt BatchTable.Arn", "                Action: [dynamodb:GetItem, dynamodb:UpdateItem]\n                Resource: \"*\"")]),
    ("the grant of a sink that is not chosen", [("  SinkIsFunction: !Equals [!Select [2, !Split [\":\", !Sub \"${Sink}::\"]], lambda]", "  SinkIsFunction: !Not [!Equals [!Ref Sink, \"log:\"]]")]),
    ("payloads in the place of rejects", [('!Sub "${SinkPayloads}://"', '!Sub "${SinkRejects}://"')]),
    ("payloads that cannot be compared", [("                - Sid: KeepPayloadsInS3\n                  Effect: Allow\n                  Action: [s3:GetObject, s3:PutObject]", "                - Sid: KeepPayloadsInS3\n                  Effect: Allow\n                  Action: s3:PutObject")]),
    ("every secret may be read", [("                  Action: secretsmanager:GetSecretValue\n                  Resource: !Ref SinkSecretArn", "                  Action: secretsmanager:GetSecretValue\n                  Resource: \"*\"")]),
    ("a secret that nobody may read", [("              - !If\n                - SecretIsParameter\n", "              - !If\n                - SecretIsInSecretsManager\n")]),
    ("the ARN of a secret with a wildcard", [(":secret:[A-Za-z0-9/_+=.@-]+", ":secret:.+")]),
    ("a secret without the extension", [("      Layers: !If [HasSecretsLayer, [!Ref SecretsLayerArn], !Ref \"AWS::NoValue\"]\n", "")]),
    ("the header of a secret without one", [('!If [HasSecret, !Ref SinkSecretHeader, ""]', "!Ref SinkSecretHeader")]),
    ("an action that does not exist", [("Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem]", "Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItems]")]),
    ("the sweep is off", [("            Enabled: true\n", "            Enabled: false\n")]),
    ("the sweep's event is changed", [("            Enabled: true\n", "            Enabled: true\n            Input: '{\"sweep\":true}'\n")]),
    ("a schedule of Scheduler", [("          Type: Schedule\n          Properties:\n            Schedule: !Sub rate(${SweepMinutes} minutes)\n            Enabled: true\n", "          Type: ScheduleV2\n          Properties:\n            ScheduleExpression: !Sub rate(${SweepMinutes} minutes)\n")]),
    ("an alarm less", [("  BatchesInError:\n    Type: AWS::CloudWatch::Alarm\n", "  BatchesInError:\n    Type: AWS::CloudWatch::Alarm\n    Condition: HasKey\n")]),
    ("an alarm on a metric nobody emits", [("      MetricName: BatchesOverdue", "      MetricName: OverdueBatches")]),
    ("a dashboard that is no JSON", [('        {"widgets": [', '        {"widgets": [,')]),
    ("the dashboard shows a metric nobody emits", [('"UniqueEventBatchAggregator", "Claimed"', '"UniqueEventBatchAggregator", "Claims"')]),
]


def matches(template):
    from cfnlint.api import ManualArgs, lint as run

    # The default rules: errors and warnings, no hints.
    return [match for match in run(template, config=ManualArgs(regions=["eu-west-1"])) if match.rule.id[0] in "EW"]


def lint_texts(template):
    """What cfn-lint says, with where."""
    return [f"{match.rule.id} {match.message} ({'/'.join(map(str, match.path or []))})" for match in matches(template)]


def lint(template):
    """The rules of cfn-lint that a template breaks."""
    try:
        return [match.rule.id for match in matches(template)]
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        return [f"{type(error).__name__}"]


def catch(fault, everybody):
    """Who catches a fault; the linters, which take seconds, are asked where nobody else does, or if `everybody` is."""
    name, changes = fault
    text = cfn.SAM.read_text()
    for old, new in changes:
        if old not in text:
            return name, {"stale": [f"the template has no {old!r} any more"]}
        text = text.replace(old, new, 1)
    caught = {
        "rules": sorted({rule for rule, _ in policy.check_all(text)}),
        "iam": sorted({"iam" for _ in iam.check_all(text)}),
        "variables": sorted({"variables" for _ in drift.check_all(text)}),
    }
    if not everybody and any(caught.values()):
        return name, caught | {"SAM alone": ["not asked"], "cfn-lint": ["not asked"]}
    caught["SAM alone"] = lint(text)
    try:
        # As a deployment would: with the parameters' defaults.
        cfn.transform(text, {})
        caught["cfn-lint"] = lint(json.dumps(cfn.transform(text)))
    except Exception as error:  # noqa: BLE001: whatever a wrong template breaks
        caught["cfn-lint"] = [f"transform: {type(error).__name__}"]
    return name, caught


COLUMNS = ("SAM alone", "cfn-lint", "rules", "iam", "variables")


def table(everybody):
    """Every fault with who catches it, and the names of those that nobody does."""
    with multiprocessing.Pool(2) as pool:
        results = pool.map(functools.partial(catch, everybody=everybody), FAULTS, chunksize=1)
    # A StopIteration in a worker passes for the end of its list, and is told nowhere.
    assert len(results) == len(FAULTS), f"{len(results)} of {len(FAULTS)} wrong templates were looked at"
    lines = ["| wrong template | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    missed = []
    for name, caught in results:
        if "stale" in caught or not any(caught[column] != ["not asked"] and caught[column] for column in COLUMNS[1:]):
            missed.append(f"{name}: {caught}")
        lines.append(f"| {name} | " + " | ".join(", ".join(dict.fromkeys(caught.get(column, []))) or "–" for column in COLUMNS) + " |")
    return lines, missed


if __name__ == "__main__":
    lines, missed = table(everybody=True)
    print("\n".join(lines))
    print(f"{len(FAULTS)} wrong templates, {len(missed)} of them caught by nobody", *missed, sep="\n")
