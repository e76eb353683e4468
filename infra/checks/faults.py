"""Wrong templates, and which check notices each. A fault replaces texts of the template, or of the built JavaScript of CDK."""

import functools
import json
import multiprocessing
import pathlib
import shutil
import tempfile

import cfn
import drift
import iam
import policy
import same

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
    ("the input queue is mapped twice", [("            ProvisionedPollerConfig: !If\n              - Provisioned\n              - { MinimumPollers: !Ref PollersMin, MaximumPollers: !Ref PollersMax }\n              - !Ref AWS::NoValue\n", "            ProvisionedPollerConfig: !If\n              - Provisioned\n              - { MinimumPollers: !Ref PollersMin, MaximumPollers: !Ref PollersMax }\n              - !Ref AWS::NoValue\n        InputAgain:\n          Type: SQS\n          Properties:\n            Queue: !GetAtt InputQueue.Arn\n            BatchSize: !Ref InputBatchSize\n            FunctionResponseTypes: [ReportBatchItemFailures]\n            MaximumBatchingWindowInSeconds: !Ref InputBatchingWindow\n            ScalingConfig: { MaximumConcurrency: 2 }\n")]),
    ("visibility timeout below the rule", [('"1": 361', '"1": 60')]),
    ("visibility timeout left at its default", [("      VisibilityTimeout: !FindInMap [BatchVisibility, !Ref BatchProcessorTimeout, Seconds]\n", "")]),
    ("a timeout without its visibility", [("AllowedValues: [60, 120, 300, 600, 900]", "AllowedValues: [60, 120, 240, 300, 600, 900]")]),
    ("a timeout over 900 s", [("AllowedValues: [60, 120, 300, 600, 900]", "AllowedValues: [60, 120, 300, 600, 960]"), ('"900": { Seconds: 5400, AlarmAge: 7200 }', '"960": { Seconds: 5760, AlarmAge: 7560 }')]),
    ("window and timeout over 900 s", [("    MaxValue: 700\n", "    MaxValue: 900\n")]),
    ("dedup window below the visibility timeout", [("    MinValue: 1440\n", "    MinValue: 60\n")]),
    ("deadline margin longer than a timeout", [("    MaxValue: 10000\n    Description: Milliseconds", "    MaxValue: 60000\n    Description: Milliseconds")]),
    ("given up at the first receive", [("        maxReceiveCount: !Ref MaxReceiveCount\n", "        maxReceiveCount: 1\n")]),
    ("waiting duplicates are given up after 5", [("!If [Requeues, 1000,", "!If [Requeues, 5,")]),
    ("more receives than SQS allows", [("!If [Requeues, 1000,", "!If [Requeues, 5000,")]),
    ("no dead letters", [("      RedrivePolicy:\n        deadLetterTargetArn: !GetAtt BatchDeadLetterQueue.Arn\n        maxReceiveCount: !Ref MaxReceiveCount\n", "")]),
    ("dead letters into the queue itself", [("deadLetterTargetArn: !GetAtt InputDeadLetterQueue.Arn", "deadLetterTargetArn: !GetAtt InputQueue.Arn")]),
    ("dead letters are kept no longer than their source", [("      VisibilityTimeout: !FindInMap [InputVisibility, !Ref AggregatorTimeout, !Ref InputBatchingWindow]\n      MessageRetentionPeriod: 604800", "      VisibilityTimeout: !FindInMap [InputVisibility, !Ref AggregatorTimeout, !Ref InputBatchingWindow]\n      MessageRetentionPeriod: 1209600")]),
    ("retention over 14 days", [("  QuarantineQueue:\n    Type: AWS::SQS::Queue\n    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      MessageRetentionPeriod: 1209600", "  QuarantineQueue:\n    Type: AWS::SQS::Queue\n    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      MessageRetentionPeriod: 2000000")]),
    ("a FIFO input queue", [(HEAD + "    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n", HEAD + "    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      FifoQueue: true\n")]),
    ("a queue unencrypted with a key", [("      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n      KmsMasterKeyId: !If [HasKey, !Ref KmsKeyArn, !Ref \"AWS::NoValue\"]\n\n", "      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n\n")]),
    ("messages are deleted with the stack", [(HEAD + "    DeletionPolicy: Retain\n", HEAD + "    DeletionPolicy: Delete\n")]),
    ("a table without TTL attribute", [("      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }\n      SSESpecification: !If\n        - HasKey\n        - { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn }\n        - !Ref AWS::NoValue\n  BatchTable", "      TimeToLiveSpecification: { Enabled: true }\n      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }\n      SSESpecification: !If\n        - HasKey\n        - { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn }\n        - !Ref AWS::NoValue\n  BatchTable")]),
    ("the TTL attribute of another name", [("TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }", "TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }")]),
    ("the index holds bodies", [("{ ProjectionType: KEYS_ONLY }", "{ ProjectionType: ALL }")]),
    ("an attribute that is defined and not used", [("        - { AttributeName: seq, AttributeType: N }\n", "        - { AttributeName: seq, AttributeType: N }\n        - { AttributeName: sentAt, AttributeType: N }\n")]),
    ("an index key of the wrong type", [("{ AttributeName: dueAt, AttributeType: N }", "{ AttributeName: dueAt, AttributeType: S }")]),
    ("provisioned table", [("      BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: messageId", "      BillingMode: PROVISIONED\n      AttributeDefinitions:\n        - { AttributeName: messageId")]),
    ("no point-in-time recovery", [("PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false")]),
    ("a warm table with a cold index", [("          WarmThroughput: !If\n            - IsWarm\n            - { ReadUnitsPerSecond: !Ref LockTableWarmReads, WriteUnitsPerSecond: !Ref LockTableWarmWrites }\n            - !Ref AWS::NoValue\n", "")]),
    ("a runtime that does not exist", [("    Runtime: provided.al2023", "    Runtime: provided.al2024")]),
    ("a runtime of another language", [("    Runtime: provided.al2023", "    Runtime: python3.13")]),
    ("an architecture that does not exist", [("    Architectures: [!Ref Architecture]", "    Architectures: [arm65]")]),
    ("too little memory", [("    Default: 1769\n", "    Default: 64\n")]),
    ("a misspelt property", [("      BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: batchId", "      BilingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: batchId")]),
    ("a reference to a missing resource", [("deadLetterTargetArn: !GetAtt BatchDeadLetterQueue.Arn", "deadLetterTargetArn: !GetAtt TicketDeadLetterQueue.Arn")]),
    ("a variable that no function reads", [("          BATCH_KEYS_MAX: !Ref BatchKeysMax\n", "          BATCH_KEY_MAX: !Ref BatchKeysMax\n")]),
    ("a variable set by another's parameter", [("          INDEX_SHARDS: !Ref IndexShards", "          INDEX_SHARDS: !Ref BatchKeysMax")]),
    ("a default that differs from the code", [("    Default: 50000\n", "    Default: 60000\n")]),
    ("a bound that exceeds the code", [("    MaxValue: 900\n    Description: Requests in flight", "    MaxValue: 9000\n    Description: Requests in flight")]),
    ("a sink with a wildcard", [("(/[A-Za-z0-9!_.=-]+){0,6}", "(/[^/]+){0,6}")]),
    ("a missing grant", [("                  - dynamodb:BatchGetItem\n                  - dynamodb:PutItem\n", "                  - dynamodb:BatchGetItem\n")]),
    ("a surplus grant", [("Action: [dynamodb:GetItem, dynamodb:UpdateItem]", "Action: [dynamodb:GetItem, dynamodb:UpdateItem, dynamodb:DeleteItem]")]),
    ("a grant on every table", [("                Action: [dynamodb:GetItem, dynamodb:UpdateItem]\n                Resource: !GetAtt BatchTable.Arn", "                Action: [dynamodb:GetItem, dynamodb:UpdateItem]\n                Resource: \"*\"")]),
    ("the grant of a sink that is not chosen", [("  SinkIsFunction: !Equals [!Select [2, !Split [\":\", !Sub \"${Sink}::\"]], lambda]", "  SinkIsFunction: !Not [!Equals [!Ref Sink, \"log:\"]]")]),
    ("payloads in the bucket of rejects", [('!Sub "${SinkPayloads}://"', '!Sub "${SinkRejects}://"')]),
    ("payloads that cannot be compared", [("                - Sid: KeepPayloadsInS3\n                  Effect: Allow\n                  Action: [s3:GetObject, s3:PutObject]", "                - Sid: KeepPayloadsInS3\n                  Effect: Allow\n                  Action: s3:PutObject")]),
    ("every secret may be read", [("                  Action: secretsmanager:GetSecretValue\n                  Resource: !Ref SinkSecretArn", "                  Action: secretsmanager:GetSecretValue\n                  Resource: \"*\"")]),
    ("a secret that the function may not read", [("              - !If\n                - SecretIsParameter\n", "              - !If\n                - SecretIsInSecretsManager\n")]),
    ("the ARN of a secret with a wildcard", [(":secret:[A-Za-z0-9/_+=.@-]+", ":secret:.+")]),
    ("a secret without the extension", [("      Layers: !If [HasSecretsLayer, [!Ref SecretsLayerArn], !Ref \"AWS::NoValue\"]\n", "")]),
    ("the header of a secret without a secret", [('!If [HasSecret, !Ref SinkSecretHeader, ""]', "!Ref SinkSecretHeader")]),
    ("an action that does not exist", [("Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem]", "Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItems]")]),
    ("the sweep is off", [("            Enabled: true\n", "            Enabled: false\n")]),
    ("the sweep's event is changed", [("            Enabled: true\n", "            Enabled: true\n            Input: '{\"sweep\":true}'\n")]),
    ("a Scheduler schedule instead of a rule", [("          Type: Schedule\n          Properties:\n            Schedule: !Sub rate(${SweepMinutes} minutes)\n            Enabled: true\n", "          Type: ScheduleV2\n          Properties:\n            ScheduleExpression: !Sub rate(${SweepMinutes} minutes)\n")]),
    ("a missing alarm", [("  BatchesInError:\n    Type: AWS::CloudWatch::Alarm\n", "  BatchesInError:\n    Type: AWS::CloudWatch::Alarm\n    Condition: HasKey\n")]),
    ("an alarm on a metric that is not emitted", [("      MetricName: BatchesOverdue", "      MetricName: OverdueBatches")]),
    ("batches that stay overdue are not seen in every period", [("      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 1800\n", "      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 900\n")]),
    ("batches count as overdue only if they are at every sweep", [("      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 1800\n", "      Statistic: Minimum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 1800\n")]),
    # The processor.
    ("the default is an architecture without zips", [("    Default: x86_64\n", "    Default: arm64\n")]),
    ("only one architecture is allowed", [("AllowedValues: [x86_64, arm64]", "AllowedValues: [x86_64]")]),
    # 4 KB of variables.
    ("columns as long as a parameter can be", [("    MaxLength: 144\n", "    MaxLength: 4096\n")]),
    ("columns of any length", [("    # Lambda limits all variables together to 4 KB: a longer list must be in a file.\n    MaxLength: 144\n", "")]),
    ("a key of any characters", [('    AllowedPattern: "^[ -~]*$"\n    MaxLength: 256\n', "    AllowedPattern: ^.*$\n    MaxLength: 256\n")]),
    ("columns that the function may not read", [("              - !If\n                - ColumnsAreInS3\n", "              - !If\n                - RejectsAreInS3\n")]),
    ("objects beside the columns may be read", [("                    - arn:${AWS::Partition}:s3:::${Place}\n                    - Place: !Select [1, !Split [\"://\", !Sub \"${SinkColumns}://\"]]", "                    - arn:${AWS::Partition}:s3:::${Place}*\n                    - Place: !Select [1, !Split [\"://\", !Sub \"${SinkColumns}://\"]]")]),
    ("columns in S3 are refused", [("|s3://[a-z0-9.-]+(/[A-Za-z0-9!_.=-]+)+)?$", ")?$")]),
    # What AWS refuses.
    ("more pollers than CloudFormation takes", [("    MaxValue: 2000\n", "    MaxValue: 10000\n")]),
    ("pollers from a concurrency of 2,000 on", [("    Default: 200\n    MinValue: 2\n", "    Default: 200\n    MinValue: 200\n")]),
    ("a single poller", [("AllowedValues: [2, 5, 10, 20, 50, 100, 200]", "AllowedValues: [1, 2, 5, 10, 20, 50, 100, 200]")]),
    ("more pollers at the minimum than at the maximum", [('Contains [["2", "5", "10", "20"], !Ref PollersMin]', 'Contains [["2", "5", "10", "20", "50"], !Ref PollersMin]')]),
    ("pollers that fit are refused", [('Contains [["2", "5", "10", "20"], !Ref PollersMin]', 'Contains [["2", "5", "10"], !Ref PollersMin]')]),
    ("a gap in what is refused", [('"38", "39", "40"', '"38", "40"')]),
    ("warm writes that AWS refuses", [("    AllowedPattern: ^(0|[4-9][0-9]{3}|[1-9][0-9]{4,6})$", "    AllowedPattern: ^[0-9]+$")]),
    ("warm writes of 10,000 and more are refused", [("    AllowedPattern: ^(0|[4-9][0-9]{3}|[1-9][0-9]{4,6})$", "    AllowedPattern: ^(0|[4-9][0-9]{3})$")]),
    ("a deadline margin that is too short", [("    Default: 3000\n    MinValue: 2000\n", "    Default: 3000\n    MinValue: 100\n")]),
    ("no version of a state machine", [("stateMachine:[A-Za-z0-9_-]+(:[A-Za-z0-9_.-]+)?|", "stateMachine:[A-Za-z0-9_-]+|")]),
    ("any version of a state machine", [("stateMachine:[A-Za-z0-9_-]+(:[A-Za-z0-9_.-]+)?|", "stateMachine:[A-Za-z0-9_-]+(:.+)?|")]),
    ("an alias in the resource of a grant", [("                      - !Select [6, !Split [\":\", !Ref Sink]]\n", "                      - !Select [6, !Split [\":\", !Ref Sink]]\n                      - !Select [7, !Split [\":\", !Sub \"${Sink}:\"]]\n")]),
    ("every alias is granted", [("  SinkHasQualifier: !Not [!Equals [!Select [7,", "  SinkHasQualifier: !Not [!Equals [!Select [8,")]),
    ("more can be listed than can be read", [("                    - SinkHasPrefix\n", "                    - HasKey\n")]),
    ("S3 returns 403 for a missing object", [("                    - Bucket: !Select [2, !Split [\"/\", !Sub \"${Sink}//\"]]", "                    - Bucket: !Select [2, !Split [\"/\", !Sub \"${SinkRejects}//\"]]")]),
    # The index of batches.
    ("an index by status alone", [("{ AttributeName: statusShard, AttributeType: S }", "{ AttributeName: status, AttributeType: S }"), ("{ AttributeName: statusShard, KeyType: HASH }", "{ AttributeName: status, KeyType: HASH }")]),
    ("an index of whole records", [("{ ProjectionType: INCLUDE, NonKeyAttributes: [source] }", "{ ProjectionType: ALL }")]),
    ("an index that every change of the counts writes", [("NonKeyAttributes: [source]", "NonKeyAttributes: [source, accounts]")]),
    # Parts of a batch.
    ("parts too small for a batch", [("    Default: 67108864\n", "    Default: 1048576\n")]),
    ("a function that cannot check its parts", [("          MAX_PART_BYTES: !Ref MaxPartBytes\n          INDEX_SHARDS", "          INDEX_SHARDS")]),
    # Tickets that are given back, and batches that are set aside.
    ("tickets that are given back wait a whole visibility timeout", [("                  - sqs:ChangeMessageVisibility\n", "")]),
    ("batches that cannot be set aside", [("              - Sid: Quarantine\n                Effect: Allow\n                Action: sqs:SendMessage\n                Resource: !GetAtt QuarantineQueue.Arn\n              # Lambda sends", "              # Lambda sends")]),
    ("a batch processor without the quarantine's URL", [("          QUARANTINE_SQS_URL: !Ref QuarantineQueue\n          MAX_BATCH_SIZE: !Ref MaxBatchSize\n          MAX_BATCH_BYTES: !Ref MaxBatchBytes\n          DEDUP_WINDOW", "          MAX_BATCH_SIZE: !Ref MaxBatchSize\n          MAX_BATCH_BYTES: !Ref MaxBatchBytes\n          DEDUP_WINDOW")]),
    # Receives.
    ("receives for only half an hour", [("    Default: 50\n    MinValue: 5\n", "    Default: 5\n    MinValue: 5\n")]),
    ("more receives than SQS allows to choose", [("    MinValue: 5\n    MaxValue: 1000\n", "    MinValue: 5\n    MaxValue: 10000\n")]),
    ("a single receive may be chosen", [("    MinValue: 5\n    MaxValue: 1000\n", "    MinValue: 1\n    MaxValue: 1000\n")]),
    ("tickets with another number of receives", [("        maxReceiveCount: !Ref MaxReceiveCount\n", "        maxReceiveCount: 50\n")]),
    # Alarms, and what becomes of a sweep that failed.
    ("tickets that are being processed are late", [("Threshold: !FindInMap [BatchVisibility, !Ref BatchProcessorTimeout, AlarmAge]", "Threshold: !Ref OldestMessageSeconds")]),
    ("tickets that were delayed are late", [('"900": { Seconds: 5400, AlarmAge: 7200 }', '"900": { Seconds: 5400, AlarmAge: 5460 }')]),
    ("an alarm is raised at creation", [("      TreatMissingData: missing\n", "      TreatMissingData: breaching\n")]),
    ("no notification of a sweep that stopped", [("      InsufficientDataActions: !If [HasTopic, [!Ref AlarmTopicArn], !Ref \"AWS::NoValue\"]\n", "")]),
    ("waiting duplicates count as stuck", [(" AND FILL(duplicates, 0) + FILL(conflicts, 0) == 0, 1, 0)", ", 1, 0)")]),
    ("the alarm never finds a stuck queue", [("            - IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0, 1, 0)\n", "            - IF(FILL(received, 0) > 0 AND FILL(deleted, 0) > 0, 1, 0)\n")]),
    ("waiting duplicates count as failures", [("IF(FILL(failed, 0) > FILL(duplicates, 0) + FILL(conflicts, 0), 1, 0)", "IF(FILL(failed, 0) > FILL(duplicates, 0), 1, 0)")]),
    ("no alarm for messages received three times", [("  InputQueueRetries:\n    Type: AWS::CloudWatch::Alarm\n", "  InputQueueRetries:\n    Type: AWS::CloudWatch::Alarm\n    Condition: HasKey\n")]),
    ("no alarm for tickets received three times", [("FILL(received, 0) >= 3 * FILL(deleted, 0)", "FILL(received, 0) >= 30 * FILL(deleted, 0)")]),
    ("periods that are shorter than the time between failures", [("          Period: 1800\n", "          Period: 300\n")]),
    ("a sweep that cannot be invoked is lost", [("            DeadLetterConfig: { Arn: !GetAtt SweepDeadLetterQueue.Arn }\n", "")]),
    ("a failed sweep is not reported", [("        DestinationConfig: { OnFailure: { Type: SQS, Destination: !GetAtt SweepDeadLetterQueue.Arn } }\n", "")]),
    ("a failed sweep may not be reported", [("              - Sid: ReportFailedSweeps\n                Effect: Allow\n                Action: sqs:SendMessage\n                Resource: !GetAtt SweepDeadLetterQueue.Arn\n", "")]),
    ("a queue that EventBridge may not write to", [("            Principal: { Service: events.amazonaws.com }\n", "            Principal: { Service: scheduler.amazonaws.com }\n")]),
    ("a queue that every rule may write to", [('            Condition: { ArnEquals: { "aws:SourceArn": !GetAtt BatchProcessorSweep.Arn } }\n', "")]),
    ("a queue that EventBridge cannot encrypt for", [("      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: true\n", "      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n      KmsMasterKeyId: !If [HasKey, !Ref KmsKeyArn, !Ref \"AWS::NoValue\"]\n")]),
    ("a dashboard that is no JSON", [('        {"widgets": [', '        {"widgets": [,')]),
    ("the dashboard shows a metric that is not emitted", [('"UniqueEventBatchAggregator", "Claimed"', '"UniqueEventBatchAggregator", "Claims"')]),
    # Bodies in chunks.
    ("chunks are deleted with the stack", [("    Condition: HasChunkBucket\n    DeletionPolicy: Retain\n", "    Condition: HasChunkBucket\n    DeletionPolicy: Delete\n")]),
    ("chunks are deleted with a bucket that is replaced", [("    Condition: HasChunkBucket\n    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n", "    Condition: HasChunkBucket\n    DeletionPolicy: Retain\n")]),
    ("a bucket with a name", [("      PublicAccessBlockConfiguration:\n", "      BucketName: chunks\n      PublicAccessBlockConfiguration:\n")]),
    ("a bucket whose policy may be public", [("        RestrictPublicBuckets: true\n", "")]),
    ("a bucket with public ACLs", [("        BlockPublicAcls: true\n", "        BlockPublicAcls: false\n")]),
    ("a bucket without encryption", [("      BucketEncryption:\n        ServerSideEncryptionConfiguration:\n          - !If\n            - HasKey\n            # With a bucket key, S3 calls KMS once in a while, and not for every chunk.\n            - ServerSideEncryptionByDefault: { SSEAlgorithm: aws:kms, KMSMasterKeyID: !Ref KmsKeyArn }\n              BucketKeyEnabled: true\n            - ServerSideEncryptionByDefault: { SSEAlgorithm: AES256 }\n", "")]),
    ("a bucket unencrypted with a key", [("{ SSEAlgorithm: aws:kms, KMSMasterKeyID: !Ref KmsKeyArn }", "{ SSEAlgorithm: AES256 }")]),
    ("a call of KMS for each chunk", [("              BucketKeyEnabled: true\n", "              BucketKeyEnabled: false\n")]),
    ("chunks that nothing removes", [("      LifecycleConfiguration:\n        Rules:\n          # A batch may wait for 10 days until it is set aside, and then for an operator.\n          - { Status: Enabled, Prefix: chunks/, ExpirationInDays: 30 }\n", "")]),
    ("chunks for 29 days", [("ExpirationInDays: 30 }", "ExpirationInDays: 29 }")]),
    ("a lifecycle of other objects", [("Prefix: chunks/, ExpirationInDays", "Prefix: bodies/, ExpirationInDays")]),
    ("a lifecycle that is switched off", [("{ Status: Enabled, Prefix: chunks/", "{ Status: Disabled, Prefix: chunks/")]),
    ("a second lifecycle, which is shorter", [("          - { Status: Enabled, Prefix: chunks/, ExpirationInDays: 30 }\n", "          - { Status: Enabled, Prefix: chunks/, ExpirationInDays: 30 }\n          - { Status: Enabled, ExpirationInDays: 7 }\n")]),
    ("chunks are moved to an archive", [(", ExpirationInDays: 30 }", ", ExpirationInDays: 30, Transitions: [{ StorageClass: GLACIER, TransitionInDays: 1 }] }")]),
    ("former versions of chunks are kept for ever", [("      PublicAccessBlockConfiguration:\n", "      VersioningConfiguration: { Status: Enabled }\n      PublicAccessBlockConfiguration:\n")]),
    ("a bucket that takes requests without TLS", [("  ChunkBucketPolicy:\n    Type: AWS::S3::BucketPolicy\n    Condition: HasChunkBucket\n    Properties:\n      Bucket: !Ref ChunkBucket\n      PolicyDocument:\n        Version: \"2012-10-17\"\n        Statement:\n          - Effect: Deny\n            Action: s3:*\n            Principal: { AWS: \"*\" }\n            Resource: [!GetAtt ChunkBucket.Arn, !Sub \"${ChunkBucket.Arn}/*\"]\n            Condition: { Bool: { \"aws:SecureTransport\": \"false\" } }\n\n", "")]),
    ("a bucket that everybody may use", [("          - Effect: Deny\n            Action: s3:*\n", "          - Effect: Allow\n            Action: s3:*\n")]),
    ("a bucket that takes TLS from nobody", [("{ \"aws:SecureTransport\": \"false\" }", "{ \"aws:SecureTransport\": \"true\" }")]),
    ("a bucket that nobody chose", [("  HasChunkBucket: !Or [!Condition BodiesAreInOwnBucket, !Condition FormerBodiesAreInOwnBucket]", "  HasChunkBucket: !Not [!Equals [!Ref Bodies, items]]")]),
    ("the way back takes the bucket away", [("  HasChunkBucket: !Or [!Condition BodiesAreInOwnBucket, !Condition FormerBodiesAreInOwnBucket]", "  HasChunkBucket: !Equals [!Ref Bodies, s3]")]),
    ("the aggregator may write beside the chunks", [("                    - !Sub ${ChunkBucket.Arn}/chunks/*\n", "                    - !Sub ${ChunkBucket.Arn}/*\n")]),
    ("the aggregator may write beside the given prefix", [("                    - !Sub ${ChunkBucket.Arn}/chunks/*\n                    - !Sub\n                      - arn:${AWS::Partition}:s3:::${Place}/*\n", "                    - !Sub ${ChunkBucket.Arn}/chunks/*\n                    - !Sub\n                      - arn:${AWS::Partition}:s3:::${Place}*\n")]),
    ("the aggregator may remove chunks", [("                - Sid: StoreChunks\n                  Effect: Allow\n                  Action: s3:PutObject\n", "                - Sid: StoreChunks\n                  Effect: Allow\n                  Action: [s3:PutObject, s3:DeleteObject]\n")]),
    ("the batch processor may write chunks", [("                - Sid: ReadChunks\n                  Effect: Allow\n                  Action: s3:GetObject\n", "                - Sid: ReadChunks\n                  Effect: Allow\n                  Action: [s3:GetObject, s3:PutObject]\n")]),
    ("the batch processor may remove chunks", [("                - Sid: ReadChunks\n                  Effect: Allow\n                  Action: s3:GetObject\n", "                - Sid: ReadChunks\n                  Effect: Allow\n                  Action: [s3:GetObject, s3:DeleteObject]\n")]),
    ("S3 returns 403 for a lost chunk", [("              - !If\n                - BodiesAreInS3\n                # As in MissInS3", "              - !If\n                - IsTraced\n                # As in MissInS3")]),
    ("the whole bucket of chunks can be listed", [("                    - StringLike: { s3:prefix: chunks/* }\n", "                    - !Ref AWS::NoValue\n")]),
    ("a given bucket can be listed beside its chunks", [("                      - BodiesHavePrefix\n", "                      - HasKey\n")]),
    ("chunks in the former place may not be read", [("              - !If\n                - FormerBodiesAreInS3\n                # Chunks of batches", "              - !If\n                - IsTraced\n                # Chunks of batches")]),
    ("S3 returns 403 for a lost chunk in the former place", [("              - !If\n                - FormerBodiesAreInS3\n                # As in MissInS3", "              - !If\n                - IsTraced\n                # As in MissInS3")]),
    ("an aggregator that may not use the key for chunks", [("                        - !If [BodiesAreInOwnBucket, !Sub \"s3.${AWS::Region}.${AWS::URLSuffix}\", !Ref \"AWS::NoValue\"]\n", "")]),
    ("a batch processor that may not use the key for former chunks", [("                        - !If [HasChunkBucket, !Sub \"s3.", "                        - !If [BodiesAreInOwnBucket, !Sub \"s3.")]),
    ("the key may be used through S3 without a bucket", [("                        - !If [HasChunkBucket, !Sub \"s3.", "                        - !If [HasKey, !Sub \"s3.")]),
    ("batch records and chunks without TTL", [("          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n", "          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: false }\n")]),
    ("another TTL attribute of batch records and chunks", [("          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n", "          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }\n")]),
    ("an aggregator without the quarantine's URL", [("          QUARANTINE_SQS_URL: !Ref QuarantineQueue\n          DUPLICATES_SQS_URL:", "          DUPLICATES_SQS_URL:")]),
    ("BODIES is not set", [("          BODIES: !If [BodiesAreInOwnBucket, !Sub \"s3://${ChunkBucket}/chunks\", !Ref Bodies]\n", "")]),
    ("BODIES names no bucket", [("          BODIES: !If [BodiesAreInOwnBucket, !Sub \"s3://${ChunkBucket}/chunks\", !Ref Bodies]\n", "          BODIES: !Ref Bodies\n")]),
    ("BODIES names a prefix without a lifecycle", [("!Sub \"s3://${ChunkBucket}/chunks\"", "!Sub \"s3://${ChunkBucket}/bodies\"")]),
    ("a place of chunks with a wildcard", [("^(items|table|s3|s3://[a-z0-9.-]{3,63}(/[A-Za-z0-9!_.=-]+){0,6})$", "^(items|table|s3|s3://[a-z0-9.-]{3,63}(/[^/]+){0,6})$")]),
    ("a former place that no bucket has", [("^(s3|s3://[a-z0-9.-]{3,63}(/", "^(s3|items|s3://[a-z0-9.-]{3,63}(/")]),
    ("a place of chunks as long as S3 allows", [("{0,6})$\n    MaxLength: 128\n    Description: >-\n      Where the bodies", "{0,6})$\n    MaxLength: 1024\n    Description: >-\n      Where the bodies")]),
]

# Faults that together are noticed by every check: the ones that `main.py --few` plants.
ONE_A_CHECK = {
    "the window may be 0",
    "an alarm on a metric that is not emitted",
    "visibility timeout left at its default",
    "a Scheduler schedule instead of a rule",
    "no cap on batch processors",
    "a timeout over 900 s",
    "a single poller",
    "a bucket that everybody may use",
    "a bucket that nobody chose",
    "batch size 20,000",
    "the aggregator reports no failures",
    "dedup window below the visibility timeout",
    "deadline margin longer than a timeout",
    "no dead letters",
    "a FIFO input queue",
    "a queue unencrypted with a key",
    "messages are deleted with the stack",
    "a table without TTL attribute",
    "the index holds bodies",
    "provisioned table",
    "no point-in-time recovery",
    "a runtime that does not exist",
    "a sink with a wildcard",
    "an alias in the resource of a grant",
    "more can be listed than can be read",
    "parts too small for a batch",
    "a bucket whose policy may be public",
    "chunks that nothing removes",
}


def matches(template):
    from cfnlint.api import ManualArgs, lint as run

    # Errors and warnings only, without hints.
    return [match for match in run(template, config=ManualArgs(regions=["eu-west-1"])) if match.rule.id[0] in "EW"]


def lint_texts(template):
    """Returns the findings of cfn-lint, with their paths."""
    return [f"{match.rule.id} {match.message} ({'/'.join(map(str, match.path or []))})" for match in matches(template)]


def lint(template):
    """Returns the ids of the cfn-lint rules that a template breaks."""
    try:
        return [match.rule.id for match in matches(template)]
    except Exception as error:  # noqa: BLE001: a wrong template may break anything
        return [f"{type(error).__name__}"]


def everything(text):
    return {"rules": set(policy.check_all(text)), "iam": set(iam.check_all(text)), "variables": set(drift.check_all(text))}


@functools.lru_cache(maxsize=1)
def right():
    """Returns the problems of the unchanged template: none, unless the code and the template differ."""
    return everything(cfn.SAM.read_text())


def noticed(text):
    """Returns, by group of checks, the checks that find problems which the unchanged template does not have."""
    return {column: sorted({name for name, _ in said - right()[column]}) for column, said in everything(text).items()}


def catch(fault, everybody):
    """Returns which checks notice a fault. The linters take seconds, so they run only if no other check notices, or if `everybody`."""
    name, changes = fault
    text = cfn.SAM.read_text()
    for old, new in changes:
        if old not in text:
            return name, {"stale": [f"the template has no text {old!r}"]}
        text = text.replace(old, new, 1)
    caught = noticed(text)
    if not everybody and any(caught.values()):
        return name, caught | {"SAM alone": ["not run"], "cfn-lint": ["not run"]}
    caught["SAM alone"] = lint(text)
    try:
        # With the defaults of the parameters, as in a deployment.
        cfn.transform(text, {})
        caught["cfn-lint"] = lint(json.dumps(cfn.transform(text)))
    except Exception as error:  # noqa: BLE001: a wrong template may break anything
        caught["cfn-lint"] = [f"transform: {type(error).__name__}"]
    return name, caught


# The same faults in the CDK construct only, as texts of its built JavaScript; and the sets of parameters that show them.
CDK_WORLDS = ("Requeue", "Traced", "Version", "Postgres")
# The same for the faults of chunks, because each set of parameters takes a second or two.
CDK_CHUNK_WORLDS = ("Chunks", "ChunksKey", "Given")
CDK_FAULTS = [
    ("the default is an architecture without zips", "parameters", 'default: "x86_64"', 'default: "arm64"'),
    ("columns as long as a parameter can be", "parameters", "maxLength: 144", "maxLength: 4096"),
    ("columns that the function may not read", "aggregator", "...(0, sink_1.grantsOfColumns)(this, this.values.sinkColumns),", ""),
    ("objects beside the columns may be read", "sink", "columns.slice('s3://'.length)}`", "columns.slice('s3://'.length)}*`"),
    ("more pollers than CloudFormation takes", "parameters", "max: 2000", "max: 10000"),
    ("more pollers at the minimum than at the maximum", "parameters", "pollersMin > pollersMax", "false"),
    ("warm writes that AWS refuses", "parameters", "lockTableWarmWrites: { default: 0, pattern: /^(0|[4-9][0-9]{3}|", "lockTableWarmWrites: { default: 0, pattern: /^([0-9]+|"),
    ("a deadline margin that is too short", "parameters", "min: 2000, max: 10000", "min: 100, max: 10000"),
    ("no version of a state machine", "parameters", "(:[A-Za-z0-9_.-]+)?|arn", "|arn"),
    ("an alias in the resource of a grant", "sink", "fields.slice(0, 7).join(':')", "arn"),
    ("every alias is granted", "sink", "const qualifier = fields[7]", "const qualifier = undefined"),
    ("an index by status alone", "aggregator", "name: 'statusShard'", "name: 'status'"),
    ("an index of whole records", "aggregator", "ProjectionType.INCLUDE,\n            nonKeyAttributes: ['source'],", "ProjectionType.ALL,"),
    ("an index that every change of the counts writes", "aggregator", "nonKeyAttributes: ['source']", "nonKeyAttributes: ['source', 'accounts']"),
    ("parts too small for a batch", "parameters", "parts > PARTS_MAX", "parts > 1000"),
    ("receives for only half an hour", "parameters", "maxReceiveCount: { default: 50", "maxReceiveCount: { default: 5"),
    ("tickets with another number of receives", "aggregator", "maxReceiveCount: values.maxReceiveCount", "maxReceiveCount: 50"),
    ("tickets that are being processed are late", "watch", "6 * values.batchProcessorTimeout + 1_800", "values.oldestMessageSeconds"),
    ("an alarm is raised at creation", "watch", "treatMissingData: 'missing'", "treatMissingData: 'breaching'"),
    ("no notification of a sweep that stopped", "watch", "tellsWithoutData: true", "tellsWithoutData: false"),
    ("waiting duplicates count as stuck", "watch", " AND FILL(duplicates, 0) + FILL(conflicts, 0) == 0, 1, 0)", ", 1, 0)"),
    ("waiting duplicates count as failures", "watch", "FILL(failed, 0) > FILL(duplicates, 0) + FILL(conflicts, 0)", "FILL(failed, 0) > FILL(duplicates, 0)"),
    ("no alarm for tickets received three times", "watch", "3 * FILL(deleted, 0)", "30 * FILL(deleted, 0)"),
    ("a sweep that cannot be invoked is lost", "aggregator", ", deadLetterQueue: this.sweepDeadLetterQueue", ""),
    ("a failed sweep is not reported", "aggregator", "onFailure: new destinations.SqsDestination(this.sweepDeadLetterQueue),", ""),
    ("a failed sweep may not be reported", "aggregator", "(0, sink_1.grant)('ReportFailedSweeps', ['sqs:SendMessage'], this.sweepDeadLetterQueue.queueArn),", ""),
]
CDK_CHUNK_FAULTS = [
    ("chunks are deleted with the stack", "chunks", "RemovalPolicy.RETAIN", "RemovalPolicy.DESTROY"),
    ("a bucket with a name", "chunks", "'ChunkBucket', {", "'ChunkBucket', { bucketName: 'chunks',"),
    ("a bucket whose policy may be public", "chunks", "BlockPublicAccess.BLOCK_ALL", "BlockPublicAccess.BLOCK_ACLS"),
    ("a bucket unencrypted with a key", "chunks", "...(key\n", "...(false\n"),
    ("a call of KMS for each chunk", "chunks", ", bucketKeyEnabled: true", ""),
    ("a bucket that takes requests without TLS", "chunks", "enforceSSL: true,", ""),
    ("chunks that nothing removes", "chunks", "lifecycleRules: [", "tags: ["),
    ("chunks for 29 days", "chunks", "Duration.days(30)", "Duration.days(29)"),
    ("a lifecycle of other objects", "chunks", "prefix: `${PREFIX}/`,", "prefix: 'bodies/',"),
    ("a lifecycle that is switched off", "chunks", "lifecycleRules: [{", "lifecycleRules: [{ enabled: false,"),
    ("former versions of chunks are kept for ever", "chunks", "enforceSSL: true,", "enforceSSL: true, versioned: true,"),
    ("the way back takes the bucket away", "aggregator", "bodies === 's3' || formerBodies === 's3'", "bodies === 's3'"),
    ("the aggregator may write beside the chunks", "chunks", "['s3:PutObject'], `${arns.below}/*`", "['s3:PutObject'], `${arns.bucket}/*`"),
    ("the aggregator may remove chunks", "chunks", "['s3:PutObject']", "['s3:PutObject', 's3:DeleteObject']"),
    ("the batch processor may write chunks", "chunks", "['s3:GetObject']", "['s3:GetObject', 's3:PutObject']"),
    ("S3 returns 403 for a lost chunk", "chunks", "(0, sink_1.grant)(`Miss${former}Chunks`, ['s3:ListBucket'], arns.bucket, below),", ""),
    ("the whole bucket of chunks can be listed", "chunks", "arns.prefix ?", "false ?"),
    ("chunks in the former place may not be read", "aggregator", "...(0, chunks_1.grantsToRead)(this, 'Former', { bodies: this.values.formerBodies, bucket: this.chunkBucket }),", ""),
    ("an aggregator that may not use the key for chunks", "aggregator", "'s3:PutObject', this.values.bodies === 's3')", "'s3:PutObject', false)"),
    ("a batch processor that may not use the key for former chunks", "aggregator", "'s3:GetObject', this.chunkBucket !== undefined)", "'s3:GetObject', this.values.bodies === 's3')"),
    ("BODIES names no bucket", "aggregator", ", BODIES: bodies }", " }"),
    ("batches of chunks that the functions refuse", "parameters", "maxBatchSize > CHUNK_BATCH_ITEMS_MAX", "false"),
    ("chunks in the bucket of large bodies", "parameters", "values.bodies.split('/')[2] === values.overflowBucket", "false"),
    ("a place of chunks with a wildcard", "parameters", 'bodies: { default: "items", pattern: /^(items|table|s3|s3:\\/\\/[a-z0-9.-]{3,63}(\\/[A-Za-z0-9!_.=-]+)', 'bodies: { default: "items", pattern: /^(items|table|s3|s3:\\/\\/[a-z0-9.-]{3,63}(\\/[^/]+)'),
]
CDK_FAULTS += CDK_CHUNK_FAULTS
# As `ONE_A_CHECK`.
ONE_A_CHECK_CDK = {"columns as long as a parameter can be", "no version of a state machine", "parts too small for a batch", "chunks for 29 days"}


def uncovered(results, few):
    """Returns the checks that notice a fault, but none of the `few`."""
    every = {check for _, checks in results for check in checks}
    return sorted(every - {check for name, checks in results if name in few for check in checks})


def worlds_cdk(fault):
    return {each: same.WORLDS[each] for each in (CDK_CHUNK_WORLDS if fault in CDK_CHUNK_FAULTS else CDK_WORLDS)}


def write_cdk(fault, folder):
    """Writes a built construct with this fault; returns where it is."""
    name, file, old, new = fault
    shutil.copytree(same.CDK / "dist", folder / "dist")
    (folder / "node_modules").symlink_to(same.CDK / "node_modules")
    (folder / "out").mkdir()
    wrong = folder / "dist" / "lib" / f"{file}.js"
    text = wrong.read_text()
    assert old in text, f"{name}: {file}.js has no text {old!r}"
    wrong.write_text(text.replace(old, new, 1))
    return folder / "dist"


def catch_cdk(fault, out):
    """Returns which checks notice a fault of the construct when it is compared with SAM."""
    try:
        said = same.check_all(cfn.SAM.read_text(), *same.synthesized(out, worlds_cdk(fault)))
    except same.SynthesisFailed as error:
        said = [("synthesis", str(error))]
    return sorted({check for check, _ in said})


# Checked last, in the same process as the faults. A difference would come from a run before it.
NO_FAULT = ("none", "index", "", "")


def table_cdk(few):
    """Returns a table of the construct's faults and the checks that notice them, and the names of faults that no check notices."""
    planted = [fault for fault in CDK_FAULTS if not few or fault[0] in ONE_A_CHECK_CDK]
    with tempfile.TemporaryDirectory() as folder:
        faults = [(fault, pathlib.Path(folder) / str(at)) for at, fault in enumerate([*planted, NO_FAULT])]
        same.synthesize_all([(each / "out", write_cdk(fault, each), worlds_cdk(fault)) for fault, each in faults])
        results = [(fault[0], catch_cdk(fault, each / "out")) for fault, each in faults]
    _, said = results.pop()
    assert not said, f"the unchanged construct: expected no problem, got {said}"
    lines = ["| wrong construct | against SAM |", "|---|---|"]
    lines += [f"| {name} | {', '.join(said) or '–'} |" for name, said in results]
    missed = [name for name, said in results if not said]
    return lines, missed + [f"ONE_A_CHECK_CDK: no fault for {each}" for each in uncovered(results, ONE_A_CHECK_CDK)]


COLUMNS = ("SAM alone", "cfn-lint", "rules", "iam", "variables")


def table(everybody, few=False):
    """Returns a table of the faults and the checks that notice them, and the names of faults that no check notices."""
    planted = [fault for fault in FAULTS if not few or fault[0] in ONE_A_CHECK]
    with multiprocessing.Pool(2) as pool:
        results = pool.map(functools.partial(catch, everybody=everybody), planted, chunksize=1)
    # `map` takes a StopIteration of a worker for the end of the list and reports no error.
    assert len(results) == len(planted), f"{len(results)} of {len(planted)} wrong templates were checked"
    lines = ["| wrong template | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    missed = []
    for name, caught in results:
        if "stale" in caught or not any(caught[column] != ["not run"] and caught[column] for column in COLUMNS[1:]):
            missed.append(f"{name}: {caught}")
        lines.append(f"| {name} | " + " | ".join(", ".join(dict.fromkeys(caught.get(column, []))) or "–" for column in COLUMNS) + " |")
    ours = [(name, {check for column in COLUMNS[2:] for check in caught.get(column, [])}) for name, caught in results]
    return lines, missed + [f"ONE_A_CHECK: no fault for {each}" for each in uncovered(ours, ONE_A_CHECK)]


if __name__ == "__main__":
    lines, missed = table(everybody=True)
    print("\n".join(lines))
    print(f"{len(FAULTS)} wrong templates, {len(missed)} of them not noticed by any check", *missed, sep="\n")
