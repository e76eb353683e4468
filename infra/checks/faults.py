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

HEAD = "  InputQueue:\n    Type: AWS::SQS::Queue\n    # A first deployment that fails leaves no queue behind.\n"

FAULTS = [
    ("a deployment of which one function is checked", [("      Functions: [!GetAtt Aggregator.Arn, !GetAtt BatchProcessor.Arn]\n", "      Functions: [!GetAtt BatchProcessor.Arn]\n")]),
    ("another sink that is not checked", [("        - !Ref Sink\n        - !If\n", "        - !If\n")]),
    ("a check that a deletion needs", [("    DeletionPolicy: Retain\n    UpdateReplacePolicy: Retain\n    Properties:\n      ServiceToken:", "    Properties:\n      ServiceToken:")]),
    ("another network that is not checked", [("!Ref VpcSubnetIds, !Ref VpcSecurityGroupIds, !Ref Architecture,", "!Ref Architecture,")]),
    ("another timeout that is not checked", [("!Ref Architecture,\n          !Ref BatchProcessorTimeout]", "!Ref Architecture]")]),
    ("a queue that a failed deployment leaves", [(HEAD + "    DeletionPolicy: RetainExceptOnCreate\n", HEAD + "    DeletionPolicy: Retain\n")]),
    ("files that end with an environment", [("file:///mnt(/", "file://(/")]),
    ("files that .. leads to", [(r"mnt(/\.*[ !#-\-0-\[\]-~]", r"mnt(/[ !#-.0-\[\]-~]")]),
    ("a check that CloudFormation does not wait for", [("      ServiceTimeout: 300\n", "      ServiceTimeout: 60\n")]),
    ("a check that may not invoke the aggregator", [("                Resource: [!GetAtt Aggregator.Arn, !GetAtt BatchProcessor.Arn]\n", "                Resource: !GetAtt BatchProcessor.Arn\n")]),
    ("batches of 10,000 without a window", [("            MaximumBatchingWindowInSeconds: 1\n", "")]),
    ("a window of 0 s", [("            MaximumBatchingWindowInSeconds: 1\n", "            MaximumBatchingWindowInSeconds: 0\n")]),
    ("MaximumConcurrency and provisioned pollers", [("            ScalingConfig: { MaximumConcurrency: !Ref AggregatorConcurrency }\n", "            ScalingConfig: { MaximumConcurrency: !Ref AggregatorConcurrency }\n            ProvisionedPollerConfig: { MinimumPollers: 2, MaximumPollers: 200 }\n")]),
    ("batch size 20,000", [("            BatchSize: 10000\n", "            BatchSize: 20000\n")]),
    ("the aggregator reports no failures", [("            MaximumBatchingWindowInSeconds: 1\n            FunctionResponseTypes: [ReportBatchItemFailures]\n", "            MaximumBatchingWindowInSeconds: 1\n")]),
    ("misspelt ReportBatchItemFailures", [("            BatchSize: 1\n            FunctionResponseTypes: [ReportBatchItemFailures]", "            BatchSize: 1\n            FunctionResponseTypes: [ReportBatchItemFailure]")]),
    ("ten tickets at once", [("            BatchSize: 1\n", "            BatchSize: 10\n")]),
    ("no cap on batch processors", [("            ScalingConfig: { MaximumConcurrency: !Ref BatchProcessorConcurrency }\n", "")]),
    ("MaximumConcurrency 1", [("MaximumConcurrency: !Ref BatchProcessorConcurrency", "MaximumConcurrency: 1")]),
    ("the mapping reads the wrong queue", [("            Queue: !GetAtt BatchQueue.Arn", "            Queue: !GetAtt InputQueue.Arn")]),
    ("the input queue is mapped twice", [("            ScalingConfig: { MaximumConcurrency: !Ref AggregatorConcurrency }\n", "            ScalingConfig: { MaximumConcurrency: !Ref AggregatorConcurrency }\n        InputAgain:\n          Type: SQS\n          Properties:\n            Queue: !GetAtt InputQueue.Arn\n            BatchSize: 10000\n            FunctionResponseTypes: [ReportBatchItemFailures]\n            MaximumBatchingWindowInSeconds: 1\n            ScalingConfig: { MaximumConcurrency: 2 }\n")]),
    ("visibility timeout below the rule", [("VisibilityTimeout: 361", "VisibilityTimeout: 60")]),
    ("visibility timeout left at its default", [("      VisibilityTimeout: !FindInMap [BatchQueueSeconds, !Ref BatchProcessorTimeout, Visibility]\n", "")]),
    ("a timeout without its visibility", [("AllowedValues: [60, 120, 300, 600, 900]", "AllowedValues: [60, 120, 240, 300, 600, 900]")]),
    ("a timeout over 900 s", [("AllowedValues: [60, 120, 300, 600, 900]", "AllowedValues: [60, 120, 300, 600, 960]"), ("\"900\": { Visibility: 5400, AlarmAge: 7200 }", "\"960\": { Visibility: 5760, AlarmAge: 7560 }")]),
    ("window and timeout over 900 s", [("      Timeout: 60\n", "      Timeout: 120\n"), ("VisibilityTimeout: 361", "VisibilityTimeout: 721")]),
    ("the default dedup window below the visibility timeout", [("      Timeout: 60\n", "      Timeout: 600\n"), ("VisibilityTimeout: 361", "VisibilityTimeout: 3601")]),
    ("given up at the first receive", [("        maxReceiveCount: 50\n", "        maxReceiveCount: 1\n")]),
    ("waiting duplicates are given up after 5", [("!If [Requeues, 1000,", "!If [Requeues, 5,")]),
    ("more receives than SQS allows", [("!If [Requeues, 1000,", "!If [Requeues, 5000,")]),
    ("no dead letters", [("      RedrivePolicy:\n        deadLetterTargetArn: !GetAtt BatchDeadLetterQueue.Arn\n        maxReceiveCount: 50\n", "")]),
    ("dead letters into the queue itself", [("deadLetterTargetArn: !GetAtt InputDeadLetterQueue.Arn", "deadLetterTargetArn: !GetAtt InputQueue.Arn")]),
    ("dead letters are kept no longer than their source", [("      VisibilityTimeout: 361\n      MessageRetentionPeriod: 604800", "      VisibilityTimeout: 361\n      MessageRetentionPeriod: 1209600")]),
    ("retention over 14 days", [("  QuarantineQueue:\n    Type: AWS::SQS::Queue\n    DeletionPolicy: RetainExceptOnCreate\n    UpdateReplacePolicy: Retain\n    Properties:\n      MessageRetentionPeriod: 1209600", "  QuarantineQueue:\n    Type: AWS::SQS::Queue\n    DeletionPolicy: RetainExceptOnCreate\n    UpdateReplacePolicy: Retain\n    Properties:\n      MessageRetentionPeriod: 2000000")]),
    ("a FIFO input queue", [(HEAD + "    DeletionPolicy: RetainExceptOnCreate\n    UpdateReplacePolicy: Retain\n    Properties:\n", HEAD + "    DeletionPolicy: RetainExceptOnCreate\n    UpdateReplacePolicy: Retain\n    Properties:\n      FifoQueue: true\n")]),
    ("a queue unencrypted with a key", [("      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n      KmsMasterKeyId: !If [HasKey, !Ref KmsKeyArn, !Ref \"AWS::NoValue\"]\n\n", "      MessageRetentionPeriod: 1209600\n      SqsManagedSseEnabled: !If [HasKey, !Ref \"AWS::NoValue\", true]\n\n")]),
    ("messages are deleted with the stack", [(HEAD + "    DeletionPolicy: RetainExceptOnCreate\n", HEAD + "    DeletionPolicy: Delete\n")]),
    ("a table without TTL attribute", [("      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }\n      SSESpecification: !If\n        - HasKey\n        - { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn }\n        - !Ref AWS::NoValue\n  BatchTable", "      TimeToLiveSpecification: { Enabled: true }\n      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }\n      SSESpecification: !If\n        - HasKey\n        - { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn }\n        - !Ref AWS::NoValue\n  BatchTable")]),
    ("the TTL attribute of another name", [("TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }", "TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }")]),
    ("the index holds bodies", [("{ ProjectionType: KEYS_ONLY }", "{ ProjectionType: ALL }")]),
    ("an attribute that is defined and not used", [("        - { AttributeName: seq, AttributeType: N }\n", "        - { AttributeName: seq, AttributeType: N }\n        - { AttributeName: sentAt, AttributeType: N }\n")]),
    ("an index key of the wrong type", [("{ AttributeName: dueAt, AttributeType: N }", "{ AttributeName: dueAt, AttributeType: S }")]),
    ("provisioned table", [("      BillingMode: PAY_PER_REQUEST\n", "      BillingMode: PROVISIONED\n")]),
    ("no point-in-time recovery", [("PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false")]),
    ("a warm table with a cold index", [("            - { WriteUnitsPerSecond: !Select [1, !Split [\":\", !Sub \"${LockTableCapacity}:0\"]] }\n", "            - !Ref AWS::NoValue\n")]),
    ("a runtime that does not exist", [("    Runtime: provided.al2023", "    Runtime: provided.al2024")]),
    ("a runtime of another language", [("    Runtime: provided.al2023", "    Runtime: python3.13")]),
    ("an architecture that does not exist", [("    Architectures: [!Ref Architecture]", "    Architectures: [arm65]")]),
    ("too little memory", [("    Default: 1769\n", "    Default: 64\n")]),
    ("a misspelt property", [("      BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: batchId", "      BilingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n        - { AttributeName: batchId")]),
    ("a reference to a missing resource", [("deadLetterTargetArn: !GetAtt BatchDeadLetterQueue.Arn", "deadLetterTargetArn: !GetAtt TicketDeadLetterQueue.Arn")]),
    ("a variable that no function reads", [("          ON_DUPLICATE: !Ref OnDuplicate\n", "          ON_DUPLICATES: !Ref OnDuplicate\n")]),
    ("a variable set by another's parameter", [("          EVENT_ID: !Ref EventId\n", "          EVENT_ID: !Ref OnDuplicate\n")]),
    ("a default that differs from the code", [("    Default: drop\n", "    Default: requeue\n")]),
    ("a word that the code does not know", [("AllowedValues: [drop, requeue]", "AllowedValues: [drop, requeue, wait]")]),
    ("a sink with a wildcard", [("(/[A-Za-z0-9!_.=-]+){0,6}", "(/[^/]+){0,6}")]),
    ("a missing grant", [("Action: [dynamodb:BatchGetItem, dynamodb:PutItem, dynamodb:PartiQLInsert]", "Action: [dynamodb:BatchGetItem, dynamodb:PartiQLInsert]")]),
    ("a surplus grant", [("Action: [dynamodb:BatchGetItem, dynamodb:DescribeTable, dynamodb:PartiQLUpdate, dynamodb:UpdateItem]", "Action: [dynamodb:BatchGetItem, dynamodb:DescribeTable, dynamodb:PartiQLUpdate, dynamodb:UpdateItem, dynamodb:DeleteItem]")]),
    ("a grant on every table", [("                Action: [dynamodb:BatchGetItem, dynamodb:DescribeTable, dynamodb:PartiQLUpdate, dynamodb:UpdateItem]\n                Resource: !GetAtt LockTable.Arn", "                Action: [dynamodb:BatchGetItem, dynamodb:DescribeTable, dynamodb:PartiQLUpdate, dynamodb:UpdateItem]\n                Resource: \"*\"")]),
    ("the grant of a sink that is not chosen", [("  SinkIsFunction: !Equals [!Select [2, !Split [\":\", !Sub \"${Sink}::\"]], lambda]", "  SinkIsFunction: !Not [!Equals [!Ref Sink, \"log:\"]]")]),
    ("every secret may be read", [("                  Action: secretsmanager:GetSecretValue\n                  Resource: !Ref SinkSecretArn", "                  Action: secretsmanager:GetSecretValue\n                  Resource: \"*\"")]),
    ("a secret that the function may not read", [("              - !If\n                - SecretIsParameter\n", "              - !If\n                - SecretIsInSecretsManager\n")]),
    ("the ARN of a secret with a wildcard", [(":secret:[A-Za-z0-9/_+=.@-]+", ":secret:.+")]),
    ("a secret without the extension", [("      Layers: !If [HasSecretsLayer, [!Ref SecretsLayerArn], !Ref \"AWS::NoValue\"]\n", "")]),
    ("an action that does not exist", [("Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem]", "Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItems]")]),
    ("the sweep is off", [("            Enabled: true\n", "            Enabled: false\n")]),
    ("the sweep's event is changed", [("            Enabled: true\n", "            Enabled: true\n            Input: '{\"sweep\":true}'\n")]),
    ("a Scheduler schedule instead of a rule", [("          Type: Schedule\n          Properties:\n            Schedule: rate(5 minutes)\n            Enabled: true\n", "          Type: ScheduleV2\n          Properties:\n            ScheduleExpression: rate(5 minutes)\n")]),
    ("a missing alarm", [("  BatchesInError:\n    Type: AWS::CloudWatch::Alarm\n", "  BatchesInError:\n    Type: AWS::CloudWatch::Alarm\n    Condition: HasKey\n")]),
    ("an alarm on a metric that is not emitted", [("      MetricName: BatchesOverdue", "      MetricName: OverdueBatches")]),
    ("batches that stay overdue are not seen in every period", [("      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 1800\n", "      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 600\n")]),
    ("batches count as overdue only if they are at every sweep", [("      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 1800\n", "      Statistic: Minimum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 1800\n")]),
    # The processor.
    ("the default is not the cheaper architecture", [("    Default: arm64\n", "    Default: x86_64\n")]),
    ("only one architecture is allowed", [("AllowedValues: [x86_64, arm64]", "AllowedValues: [x86_64]")]),
    # 4 KB of variables.
    ("a sink longer than the variables have room for", [("    MaxLength: 320\n", "    MaxLength: 4096\n")]),
    ("a sink of any length", [("    MaxLength: 320\n", "")]),
    ("an event id of any characters", [("json:[ -~]+)$", "json:.+)$")]),
    # What AWS refuses.
    ("more batch processors than AWS takes", [("AllowedValues: [2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100]", "AllowedValues: [2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 2000]"), ("\"100\": { Reserved: 101 }", "\"2000\": { Reserved: 2001 }")]),
    ("a single aggregator", [("    Default: 4\n    MinValue: 2\n", "    Default: 4\n    MinValue: 1\n")]),
    ("warm writes that AWS refuses", [("warm:([4-9][0-9]{3}|", "warm:([0-9]{1,4}|")]),
    ("warm writes of 10,000 and more are refused", [("warm:([4-9][0-9]{3}|[1-9][0-9]{4,6})", "warm:([4-9][0-9]{3})")]),
    ("no version of a state machine", [("stateMachine:[A-Za-z0-9_-]+(:[A-Za-z0-9_.-]+)?|", "stateMachine:[A-Za-z0-9_-]+|")]),
    ("any version of a state machine", [("stateMachine:[A-Za-z0-9_-]+(:[A-Za-z0-9_.-]+)?|", "stateMachine:[A-Za-z0-9_-]+(:.+)?|")]),
    ("an alias in the resource of a grant", [("                      - !Select [6, !Split [\":\", !Sub \"${Sink}:::::::\"]]\n", "                      - !Select [6, !Split [\":\", !Sub \"${Sink}:::::::\"]]\n                      - !Select [7, !Split [\":\", !Sub \"${Sink}:::::::\"]]\n")]),
    ("every alias is granted", [("  SinkHasQualifier: !Not [!Equals [!Select [7,", "  SinkHasQualifier: !Not [!Equals [!Select [8,")]),
    ("more can be listed than can be read", [("                    - SinkHasPrefix\n", "                    - HasKey\n")]),
    ("S3 returns 403 for a missing object", [("                    - Bucket: !Select [2, !Split [\"/\", !Sub \"${Sink}//\"]]", "                    - Bucket: !Select [2, !Split [\"/\", !Sub \"${SinkRejects}//\"]]")]),
    # Answers.
    ("answers that are not read", [("          ANSWERS_FROM: !Ref Answers\n", "")]),
    ("answers from the place of parts", [("          ANSWERS_FROM: !Ref Answers\n", "          ANSWERS_FROM: !Ref Sink\n")]),
    ("another place of answers that is not checked", [("        - !Ref Answers\n", "")]),
    ("answers that may not be read", [("                - AnswersAreInS3\n                # The wildcard", "                - SinkIsS3\n                # The wildcard")]),
    ("answers that may not be found", [("                - AnswersAreInS3\n                # Answers are", "                - SinkIsS3\n                # Answers are")]),
    ("the whole bucket of answers may be read", [("                    - arn:${AWS::Partition}:s3:::${Place}/*\n                    - Place: !Select [1, !Split [\"://\", !Sub \"${Answers}://\"]]", "                    - arn:${AWS::Partition}:s3:::${Place}/*\n                    - Place: !Select [2, !Split [\"/\", !Sub \"${Answers}//\"]]")]),
    ("more answers can be listed than can be read", [("                                - - !Select [3, !Split [\"/\", !Sub \"${Answers}//////\"]]\n                                  - !Select [4, !Split [\"/\", !Sub \"${Answers}//////\"]]\n", "                                - - !Select [3, !Split [\"/\", !Sub \"${Answers}//////\"]]\n")]),
    ("answers without a prefix", [("(/[A-Za-z0-9!_.=-]+){1,6}", "(/[A-Za-z0-9!_.=-]+){0,6}")]),
    ("answers below a prefix with a wildcard", [("(/[A-Za-z0-9!_.=-]+){1,6}", "(/[^/]+){1,6}")]),
    ("answers in a file system of the environment", [("(file:///mnt|sftp:)", "(file://|sftp:)")]),
    ("answers on a server that is not the sink's", [("(file:///mnt|sftp:)", "(file:///mnt|sftp:/?)")]),
    ("answers whose grants do not fit a role", [("    MaxLength: 256\n    Description: >-\n      Where the consumer", "    MaxLength: 1024\n    Description: >-\n      Where the consumer")]),
    ("no alarm for missing answers", [("    Condition: HasAnswers\n", "    Condition: HasKey\n")]),
    ("an alarm for answers that nobody reads", [("    Condition: HasAnswers\n", "")]),
    ("answers that cannot be used count as read", [("IF(FILL(silent, 0) + FILL(problems, 0) > 0, 1, 0)", "IF(FILL(silent, 0) > 0, 1, 0)")]),
    ("missing answers between two sweeps", [("              MetricName: EventsSilent\n              Dimensions:\n                - { Name: function, Value: !Ref BatchProcessor }\n                - { Name: source, Value: all }\n            Period: 900\n", "              MetricName: EventsSilent\n              Dimensions:\n                - { Name: function, Value: !Ref BatchProcessor }\n                - { Name: source, Value: all }\n            Period: 60\n")]),
    # The index of batches.
    ("an index by status alone", [("{ AttributeName: statusShard, AttributeType: S }", "{ AttributeName: status, AttributeType: S }"), ("{ AttributeName: statusShard, KeyType: HASH }", "{ AttributeName: status, KeyType: HASH }")]),
    ("an index of whole records", [("{ ProjectionType: INCLUDE, NonKeyAttributes: [source] }", "{ ProjectionType: ALL }")]),
    ("an index that every change of the counts writes", [("NonKeyAttributes: [source]", "NonKeyAttributes: [source, accounts]")]),
    # Tickets that are given back, and batches that are set aside.
    ("tickets that are given back wait a whole visibility timeout", [("                  - sqs:ChangeMessageVisibility\n", "")]),
    ("batches that cannot be set aside", [("              - Sid: Quarantine\n                Effect: Allow\n                Action: sqs:SendMessage\n                Resource: !GetAtt QuarantineQueue.Arn\n              # Lambda sends", "              # Lambda sends")]),
    ("a batch processor without the quarantine's URL", [("          QUARANTINE_SQS_URL: !Ref QuarantineQueue\n          CONFIG: !Ref Config\n          SINK: ", "          CONFIG: !Ref Config\n          SINK: ")]),
    # Receives.
    ("receives for only half an hour", [("!If [Requeues, 1000, 50]", "!If [Requeues, 1000, 5]")]),
    ("tickets with another number of receives", [("        maxReceiveCount: 50\n", "        maxReceiveCount: 500\n")]),
    # Alarms, and what becomes of a sweep that failed.
    ("tickets that are being processed are late", [("Threshold: !FindInMap [BatchQueueSeconds, !Ref BatchProcessorTimeout, AlarmAge]", "Threshold: 1800")]),
    ("tickets that were delayed are late", [("\"900\": { Visibility: 5400, AlarmAge: 7200 }", "\"900\": { Visibility: 5400, AlarmAge: 5460 }")]),
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
    # Objects of the log.
    ("objects are deleted with the stack", [("    Type: AWS::S3::Bucket\n    DeletionPolicy: RetainExceptOnCreate\n", "    Type: AWS::S3::Bucket\n    DeletionPolicy: Delete\n")]),
    ("objects are deleted with a bucket that is replaced", [("    Type: AWS::S3::Bucket\n    DeletionPolicy: RetainExceptOnCreate\n    UpdateReplacePolicy: Retain\n", "    Type: AWS::S3::Bucket\n    DeletionPolicy: RetainExceptOnCreate\n")]),
    ("a bucket with a name", [("      PublicAccessBlockConfiguration:\n", "      BucketName: chunks\n      PublicAccessBlockConfiguration:\n")]),
    ("a bucket whose policy may be public", [("        RestrictPublicBuckets: true\n", "")]),
    ("a bucket with public ACLs", [("        BlockPublicAcls: true\n", "        BlockPublicAcls: false\n")]),
    ("a bucket without encryption", [("      BucketEncryption:\n        ServerSideEncryptionConfiguration:\n          - !If\n            - HasKey\n            # With a bucket key, S3 calls KMS once in a while, and not for every object.\n            - ServerSideEncryptionByDefault: { SSEAlgorithm: aws:kms, KMSMasterKeyID: !Ref KmsKeyArn }\n              BucketKeyEnabled: true\n            - ServerSideEncryptionByDefault: { SSEAlgorithm: AES256 }\n", "")]),
    ("a bucket unencrypted with a key", [("{ SSEAlgorithm: aws:kms, KMSMasterKeyID: !Ref KmsKeyArn }", "{ SSEAlgorithm: AES256 }")]),
    ("a call of KMS for each object", [("              BucketKeyEnabled: true\n", "              BucketKeyEnabled: false\n")]),
    ("objects that nothing removes", [("      LifecycleConfiguration:\n        Rules:\n          # A batch may wait for 10 days until it is set aside, and then for an operator. Later batches need what the log remembers for\n          # 40 days.\n          - { Status: Enabled, Prefix: chunks/, ExpirationInDays: 40 }\n", "")]),
    ("objects for 39 days", [("ExpirationInDays: 40 }", "ExpirationInDays: 39 }")]),
    ("a lifecycle of other objects", [("Prefix: chunks/, ExpirationInDays", "Prefix: bodies/, ExpirationInDays")]),
    ("a lifecycle that is switched off", [("{ Status: Enabled, Prefix: chunks/", "{ Status: Disabled, Prefix: chunks/")]),
    ("a second lifecycle, which is shorter", [("          - { Status: Enabled, Prefix: chunks/, ExpirationInDays: 40 }\n", "          - { Status: Enabled, Prefix: chunks/, ExpirationInDays: 40 }\n          - { Status: Enabled, ExpirationInDays: 7 }\n")]),
    ("objects are moved to an archive", [(", ExpirationInDays: 40 }", ", ExpirationInDays: 40, Transitions: [{ StorageClass: GLACIER, TransitionInDays: 1 }] }")]),
    ("former versions of objects are kept for ever", [("      PublicAccessBlockConfiguration:\n", "      VersioningConfiguration: { Status: Enabled }\n      PublicAccessBlockConfiguration:\n")]),
    ("a bucket that takes requests without TLS", [("  ChunkBucketPolicy:\n    Type: AWS::S3::BucketPolicy\n    Properties:\n      Bucket: !Ref ChunkBucket\n      PolicyDocument:\n        Version: \"2012-10-17\"\n        Statement:\n          - Effect: Deny\n            Action: s3:*\n            Principal: { AWS: \"*\" }\n            Resource: [!GetAtt ChunkBucket.Arn, !Sub \"${ChunkBucket.Arn}/*\"]\n            Condition: { Bool: { \"aws:SecureTransport\": \"false\" } }\n\n", "")]),
    ("a bucket that everybody may use", [("          - Effect: Deny\n            Action: s3:*\n", "          - Effect: Allow\n            Action: s3:*\n")]),
    ("a bucket that takes TLS from nobody", [("{ \"aws:SecureTransport\": \"false\" }", "{ \"aws:SecureTransport\": \"true\" }")]),
    ("a bucket only for bodies in it", [("    Type: AWS::S3::Bucket\n", "    Type: AWS::S3::Bucket\n    Condition: LogIsInBucket\n")]),
    ("the aggregator may write beside the objects", [("                Action: s3:PutObject\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n", "                Action: s3:PutObject\n                Resource: !Sub ${ChunkBucket.Arn}/*\n")]),
    ("the aggregator may remove objects", [("                Action: s3:PutObject\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n", "                Action: [s3:PutObject, s3:DeleteObject]\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n")]),
    ("the batch processor may write beside the objects", [("              - Sid: StoreRuns\n                Effect: Allow\n                Action: s3:PutObject\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n", "              - Sid: StoreRuns\n                Effect: Allow\n                Action: s3:PutObject\n                Resource: !Sub ${ChunkBucket.Arn}/*\n")]),
    ("the batch processor may not store runs", [("              - Sid: StoreRuns\n                Effect: Allow\n                Action: s3:PutObject\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n", "")]),
    ("the batch processor may remove objects", [("                Action: s3:GetObject\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n", "                Action: [s3:GetObject, s3:DeleteObject]\n                Resource: !Sub ${ChunkBucket.Arn}/chunks/*\n")]),
    ("S3 returns 403 for a lost object", [("              - Sid: MissLoads\n                Effect: Allow\n                Action: s3:ListBucket\n                Resource: !GetAtt ChunkBucket.Arn\n                Condition: { StringLike: { s3:prefix: chunks/* } }\n", "")]),
    ("the whole bucket of objects can be listed", [("                Condition: { StringLike: { s3:prefix: chunks/* } }\n", "")]),
    ("an aggregator that may not use the key for objects", [("                        - !Sub s3.${AWS::Region}.${AWS::URLSuffix}\n", "")]),
    ("batch records and objects without TTL", [("          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n", "          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: false }\n")]),
    ("another TTL attribute of batch records and objects", [("          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: expiresAt, Enabled: true }\n", "          Projection: { ProjectionType: INCLUDE, NonKeyAttributes: [source] }\n      TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }\n")]),
    ("an aggregator without the quarantine's URL", [("          QUARANTINE_SQS_URL: !Ref QuarantineQueue\n          CONFIG: !Ref Config\n          EVENT_ID", "          CONFIG: !Ref Config\n          EVENT_ID")]),
    ("BODIES is not set", [("          BODIES: !If [LogIsInBucket, !Sub \"log:s3://${ChunkBucket}/chunks\", !Ref Bodies]\n", "")]),
    ("BODIES names a prefix without a lifecycle", [("!Sub \"log:s3://${ChunkBucket}/chunks\"", "!Sub \"log:s3://${ChunkBucket}/bodies\"")]),
    ("BODIES names no bucket of the log", [("!If [LogIsInBucket, !Sub \"log:s3://${ChunkBucket}/chunks\", !Ref Bodies]", "!Ref Bodies")]),
    ("a place of bodies that the code does not know", [("items, \"log:table\", \"log:s3\"]", "items, \"log:table\", \"log:s3\", log]")]),
    # Parameters.
    ("a sink by default", [("  Sink:\n    Type: String\n", "  Sink:\n    Type: String\n    Default: \"log:\"\n")]),
    ("a parameter that Enter does not answer", [("  AlarmTopicArn:\n    Type: String\n    Default: \"\"\n", "  AlarmTopicArn:\n    Type: String\n")]),
    ("a password in a parameter", [("  SinkSecretArn:\n    Type: String\n", "  SinkSecretArn:\n    Type: String\n    NoEcho: true\n")]),
    ("a parameter for a setting of the file", [("  AlarmTopicArn:\n    Type: String\n", "  MaxBatchSize:\n    Type: Number\n    Default: 50000\n  AlarmTopicArn:\n    Type: String\n"), ("          EVENT_ID: !Ref EventId\n", "          EVENT_ID: !Ref EventId\n          MAX_BATCH_SIZE: !Ref MaxBatchSize\n"), ("LockTableCapacity]\n", "LockTableCapacity, MaxBatchSize]\n"), ("      AlarmTopicArn: { default", "      MaxBatchSize: { default: Largest batch }\n      AlarmTopicArn: { default")]),
    ("a parameter in no group", [("        Parameters: [AlarmTopicArn]\n", "        Parameters: []\n")]),
    ("a parameter without a label", [("      AlarmTopicArn: { default: SNS topic }\n", "")]),
    ("a secret without the extension is accepted", [("Assert: !Not [!Equals [!Ref SecretsLayerArn, \"\"]]", "Assert: !Not [!Equals [!Ref SinkSecretArn, \"\"]]")]),
    ("a configuration file with a wildcard", [("s3://[a-z0-9.-]+(/[A-Za-z0-9!_.=-]+)+|ssm:", "s3://[a-z0-9.-]+(/[^/]+)+|ssm:")]),
    ("a policy that is no ARN", [("^(arn:[a-z-]+:iam::[0-9a-z]+:policy/[A-Za-z0-9/+=,.@_-]+(,", "^([A-Za-z0-9:/+=,.@_-]+(,")]),
    ("ten policies", [("){0,8})?$", "){0,9})?$")]),
    # What a parameter grants or creates.
    ("CONFIG is not set", [("          CONFIG: !Ref Config\n          EVENT_ID", "          EVENT_ID")]),
    ("a configuration file that the aggregator may not read", [("              - !If\n                - ConfigIsInS3\n                - Sid: ReadConfig\n", "              - !If\n                - ConfigIsParameter\n                - Sid: ReadConfig\n")]),
    ("objects beside the configuration file may be read", [("s3:::${Object}\n", "s3:::${Object}*\n")]),
    ("a configuration parameter that may not be read", [("parameter${Name}\n", "parameter/${Name}\n")]),
    ("a secret that is not named", [("            - !Sub ssm:${SinkSecretArn}\n", "            - !Sub ssm:${Config}\n")]),
    ("a role without the policies", [("      ManagedPolicyArns: !If [HasPolicies, !Split [\",\", !Ref PolicyArns], !Ref \"AWS::NoValue\"]\n", "")]),
    ("a role in a network without the policies", [("          - !Split [\",\", !Sub \"arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole,${PolicyArns}\"]\n", "          - [!Sub \"arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole\"]\n")]),
    ("a role that cannot use a network", [("        - HasVpc\n        # AWS's", "        - Reserves\n        # AWS's")]),
    ("a role without its boundary", [("      PermissionsBoundary: !If [HasBoundary, !Ref PermissionsBoundaryArn, !Ref \"AWS::NoValue\"]\n", "")]),
    ("a batch processor outside its network", [("      VpcConfig: !If\n        - HasVpc\n        - SubnetIds: !Split [\",\", !Ref VpcSubnetIds]\n          SecurityGroupIds: !Split [\",\", !Ref VpcSecurityGroupIds]\n        - !Ref AWS::NoValue\n", "")]),
    ("a policy that does not fit a role", [("    MaxLength: 512\n", "    MaxLength: 6000\n")]),
    ("a sink in S3 that does not fit a role", [("    MaxLength: 128\n    Description: >-\n      KMS key", "    MaxLength: 2048\n    Description: >-\n      KMS key")]),
    ("no concurrency for the sweep", [("\"2\": { Reserved: 3 }", "\"2\": { Reserved: 2 }")]),
    ("concurrency that is always reserved", [("ReservedConcurrentExecutions: !If [Reserves, !Ref AggregatorConcurrency, !Ref \"AWS::NoValue\"]", "ReservedConcurrentExecutions: !Ref AggregatorConcurrency")]),
    ("a table that can be deleted", [("      DeletionProtectionEnabled: true\n", "")]),
    ("an index without a cap", [("            - { MaxWriteRequestUnits: !Select [1, !Split [\":\", !Sub \"${LockTableCapacity}:0\"]] }\n", "            - !Ref AWS::NoValue\n")]),
    ("an index that is not scaled", [("      ResourceId: !Sub table/${LockTable}/index/batchId-index\n", "      ResourceId: !Sub table/${LockTable}\n")]),
    ("capacity that is scaled down only", [("      MaxCapacity: !Select [1,", "      MaxCapacity: !Select [0,")]),
    ("reads that are scaled by writes", [("PredefinedMetricType: DynamoDBReadCapacityUtilization", "PredefinedMetricType: DynamoDBWriteCapacityUtilization")]),
    ("a message for every new alarm", [("      TreatMissingData: notBreaching\n", "      TreatMissingData: notBreaching\n      OKActions: !If [HasTopic, [!Ref AlarmTopicArn], !Ref \"AWS::NoValue\"]\n")]),
    ("a sweep that was set aside pages for ever", [("  InputQueueAge:\n", "  SweepDeadLetterNotEmpty:\n    Type: AWS::CloudWatch::Alarm\n    Properties:\n      AlarmDescription: Sweeps failed.\n      Namespace: AWS/SQS\n      MetricName: ApproximateNumberOfMessagesVisible\n      Dimensions:\n        - { Name: QueueName, Value: !GetAtt SweepDeadLetterQueue.QueueName }\n      Statistic: Maximum\n      ComparisonOperator: GreaterThanThreshold\n      Threshold: 0\n      Period: 60\n      EvaluationPeriods: 1\n      TreatMissingData: notBreaching\n      AlarmActions: !If [HasTopic, [!Ref AlarmTopicArn], !Ref \"AWS::NoValue\"]\n  InputQueueAge:\n")]),
]

# Faults that together are noticed by every check: the ones that `main.py --few` plants.
ONE_A_CHECK = {
    "another sink that is not checked",
    "a secret without the extension is accepted",
    "an alarm on a metric that is not emitted",
    "visibility timeout left at its default",
    "a Scheduler schedule instead of a rule",
    "no cap on batch processors",
    "a timeout over 900 s",
    "a bucket that everybody may use",
    "batch size 20,000",
    "the aggregator reports no failures",
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
    "a bucket whose policy may be public",
    "objects that nothing removes",
    "S3 returns 403 for a missing object",
    "batches of 10,000 without a window",
    "ten tickets at once",
    "more batch processors than AWS takes",
    "a bucket only for bodies in it",
    "an aggregator that may not use the key for objects",
    "no concurrency for the sweep",
    "a table that can be deleted",
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


def stale(changes, text):
    """Returns what the template lacks that a fault replaces, if it lacks anything."""
    for old, new in changes:
        if old not in text:
            return f"the template has no text {old!r}"
        text = text.replace(old, new, 1)
    return None


def catch(fault, everybody):
    """Returns which checks notice a fault. The linters take seconds, so they run only if no other check notices, or if `everybody`."""
    name, changes = fault
    text = cfn.SAM.read_text()
    for old, new in changes:
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
CDK_WORLDS = ("Requeue", "X86", "Version", "Postgres", "ConfigObject", "Many", "AnswersBucket")
# The same for other faults, because each set of parameters takes a second or two.
CDK_OTHER_WORLDS = ("Default", "Key", "Log", "Provisioned", "AtMost", "NetworkBounded", "ConfigParameter")
CDK_FAULTS = [
    ("the default is not the cheaper architecture", "aggregator", "?? lambda.Architecture.ARM_64", "?? lambda.Architecture.X86_64"),
    ("the aggregator starts with other concurrency", "aggregator", "aggregatorConcurrency ?? 4", "aggregatorConcurrency ?? 50"),
    ("little memory by default", "aggregator", "?? 1_769", "?? 512"),
    ("a configuration file that may not be read", "aggregator", "config.startsWith('s3://'))\n            return { uri: config, grants: read(", "config.startsWith('s3://'))\n            return { uri: config, grants: [] ?? read("),
    ("objects beside the configuration file may be read", "aggregator", "config.slice('s3://'.length)}`", "config.slice('s3://'.length)}*`"),
    ("no concurrency for the sweep", "aggregator", "this.processors + 1", "this.processors"),
    ("concurrency that is never reserved", "aggregator", "props.reserveConcurrency ? this.aggregators", "false ? this.aggregators"),
    ("a single aggregator", "aggregator", "props.aggregatorConcurrency, 2, 1_000", "props.aggregatorConcurrency, 1, 1_000"),
    ("warm writes that AWS refuses", "choices", "whole('writes', writes, 4_000)", "whole('writes', writes, 1)"),
    ("more units at the minimum than at the maximum", "choices", "whole('max', units.max, units.min)", "whole('max', units.max, 1)"),
    ("a prefix with a wildcard", "grants", "/^[A-Za-z0-9!_.=-]+(\\/", "/^.+(\\/"),
    ("answers below no prefix", "grants", "/^[A-Za-z0-9!_.=-]+(\\/", "/^[A-Za-z0-9!_.=-]*(\\/"),
    ("answers that may not be read", "answers", "'ListAnswers', ['s3:GetObject']", "'ListAnswers', ['s3:GetObjectVersion']"),
    ("answers on a server that the sink does not use", "aggregator", "startsWith('sftp:') && !aws_cdk_lib_1", "startsWith('ftp:') && !aws_cdk_lib_1"),
    ("no alarm for missing answers", "watch", "if (answers) {", "if (false) {"),
    ("answers that cannot be used count as read", "watch", "FILL(silent, 0) + FILL(problems, 0)", "FILL(silent, 0)"),
    ("another place of answers that is not checked", "aggregator", "SINK_SECRET, ANSWERS_FROM]", "SINK_SECRET]"),
    ("a password in a sink", "sink", "/^sftp:\\/\\/[^:@/]+@./", "/^sftp:\\/\\/.+@./"),
    ("an alias in the resource of a grant", "sink", "['states:StartExecution'], arn, only", "['states:StartExecution'], `${arn}:${qualifier}`, only"),
    ("every alias is granted", "sink", "const only = qualifier ?", "const only = false ?"),
    ("a secret that the function may not read", "sink", "['ssm:GetParameter'], arn", "['ssm:GetParameters'], arn"),
    ("an index by status alone", "aggregator", "name: 'statusShard'", "name: 'status'"),
    ("an index of whole records", "aggregator", "ProjectionType.INCLUDE,\n            nonKeyAttributes: ['source'],", "ProjectionType.ALL,"),
    ("an index that every change of the counts writes", "aggregator", "nonKeyAttributes: ['source']", "nonKeyAttributes: ['source', 'accounts']"),
    ("receives for only half an hour", "aggregator", "receivesMax) : 50", "receivesMax) : 5"),
    ("waiting duplicates are given up after 50", "aggregator", "requeues ? Math.min(1_000, receivesMax) : 50", "50"),
    ("tickets with another number of receives", "aggregator", "queue: this.batchDeadLetterQueue, maxReceiveCount: 50", "queue: this.batchDeadLetterQueue, maxReceiveCount: 500"),
    ("tickets that are being processed are late", "watch", "6 * batchProcessorTimeout.toSeconds() + 1_800", "1_800"),
    ("an alarm is raised at creation", "watch", "treatMissingData: 'missing'", "treatMissingData: 'breaching'"),
    ("no notification of a sweep that stopped", "watch", "tellsWithoutData: true", "tellsWithoutData: false"),
    ("a message for every new alarm", "watch", "...(okTopic && { okActions: [okTopic.topicArn] })", "...(alarmTopic && { okActions: [alarmTopic.topicArn] })"),
    ("waiting duplicates count as stuck", "watch", " AND FILL(duplicates, 0) + FILL(conflicts, 0) == 0, 1, 0)", ", 1, 0)"),
    ("waiting duplicates count as failures", "watch", "FILL(failed, 0) > FILL(duplicates, 0) + FILL(conflicts, 0)", "FILL(failed, 0) > FILL(duplicates, 0)"),
    ("no alarm for tickets received three times", "watch", "3 * FILL(deleted, 0)", "30 * FILL(deleted, 0)"),
    ("a sweep that cannot be invoked is lost", "aggregator", ", deadLetterQueue: this.sweepDeadLetterQueue", ""),
    ("a failed sweep is not reported", "aggregator", "onFailure: { bind: () => ({ destination: this.sweepDeadLetterQueue.queueArn }) },", ""),
    ("a failed sweep may not be reported", "aggregator", "(0, grants_1.grant)('ReportFailedSweeps', ['sqs:SendMessage'], this.sweepDeadLetterQueue.queueArn),", ""),
]
CDK_OTHER_FAULTS = [
    ("objects are deleted with the stack", "aggregator", "expiration: aws_cdk_lib_1.Duration.days(40) }],\n            removalPolicy: aws_cdk_lib_1.RemovalPolicy.RETAIN", "expiration: aws_cdk_lib_1.Duration.days(40) }],\n            removalPolicy: aws_cdk_lib_1.RemovalPolicy.DESTROY"),
    ("a bucket with a name", "aggregator", "'ChunkBucket', {", "'ChunkBucket', { bucketName: 'chunks',"),
    ("a bucket whose policy may be public", "aggregator", "BlockPublicAccess.BLOCK_ALL", "BlockPublicAccess.BLOCK_ACLS"),
    ("a bucket unencrypted with a key", "aggregator", "{ encryption: s3.BucketEncryption.KMS, encryptionKey: key, bucketKeyEnabled: true }", "{ encryption: s3.BucketEncryption.S3_MANAGED }"),
    ("a call of KMS for each object", "aggregator", ", bucketKeyEnabled: true", ""),
    ("a bucket that takes requests without TLS", "aggregator", "enforceSSL: true,", ""),
    ("objects that nothing removes", "aggregator", "lifecycleRules: [", "tags: ["),
    ("objects for 39 days", "aggregator", "expiration: aws_cdk_lib_1.Duration.days(40)", "expiration: aws_cdk_lib_1.Duration.days(39)"),
    ("a lifecycle of other objects", "aggregator", "prefix: `${CHUNKS}/`,", "prefix: 'bodies/',"),
    ("a lifecycle that is switched off", "aggregator", "lifecycleRules: [{", "lifecycleRules: [{ enabled: false,"),
    ("former versions of objects are kept for ever", "aggregator", "enforceSSL: true,", "enforceSSL: true, versioned: true,"),
    ("the aggregator may write beside the objects", "aggregator", "'StoreLoads', ['s3:PutObject'], this.chunkBucket.arnForObjects(`${CHUNKS}/*`)", "'StoreLoads', ['s3:PutObject'], this.chunkBucket.arnForObjects('*')"),
    ("the aggregator may remove objects", "aggregator", "'StoreLoads', ['s3:PutObject']", "'StoreLoads', ['s3:PutObject', 's3:DeleteObject']"),
    ("the batch processor may write beside the objects", "aggregator", "'StoreRuns', ['s3:PutObject'], this.chunkBucket.arnForObjects(`${CHUNKS}/*`)", "'StoreRuns', ['s3:PutObject'], this.chunkBucket.arnForObjects('*')"),
    ("the batch processor may remove objects", "aggregator", "'ReadLoads', ['s3:GetObject']", "'ReadLoads', ['s3:GetObject', 's3:DeleteObject']"),
    ("S3 returns 403 for a lost object", "aggregator", "(0, grants_1.grant)('MissLoads', ['s3:ListBucket'], this.chunkBucket.bucketArn, { StringLike: { 's3:prefix': `${CHUNKS}/*` } }),", ""),
    ("the whole bucket of objects can be listed", "aggregator", "this.chunkBucket.bucketArn, { StringLike: { 's3:prefix': `${CHUNKS}/*` } }", "this.chunkBucket.bucketArn"),
    ("functions that may not use the key for objects", "aggregator", "['sqs', 'dynamodb', 's3']", "['sqs', 'dynamodb']"),
    ("BODIES names no bucket of the log", "choices", "return this.kind === 'log:s3' ? `log:${uri}` : this.kind", "return this.kind"),
    ("a table that can be deleted", "aggregator", "deletionProtection: true,", ""),
    ("another sink that is not checked", "aggregator", "this.configUri, SINK, SINK_SECRET, ANSWERS_FROM]", "this.configUri, SINK_SECRET, ANSWERS_FROM]"),
    ("an index that is not scaled", "aggregator", "`${table}/index/${BATCH_INDEX}`, 'index', 'Write'", "table, 'index', 'Write'"),
    ("an index without a cap", "aggregator", "projectionType: dynamodb.ProjectionType.KEYS_ONLY,\n            ...throughputOf(this.capacity),", "projectionType: dynamodb.ProjectionType.KEYS_ONLY,"),
    ("a batch processor outside its network", "aggregator", "vpc: props.vpc,\n            vpcSubnets: props.vpcSubnets,\n            securityGroups: props.securityGroups,", ""),
    ("a role that cannot use a network", "aggregator", "if (props.vpc) {", "if (false) {"),
    ("a role without its boundary", "aggregator", "permissionsBoundary: this.props.permissionsBoundary,", ""),
]
CDK_FAULTS += CDK_OTHER_FAULTS
# As `ONE_A_CHECK`.
ONE_A_CHECK_CDK = {"no concurrency for the sweep", "a single aggregator", "objects for 39 days"}


def uncovered(results, few):
    """Returns the checks that notice a fault, but none of the `few`."""
    every = {check for _, checks in results for check in checks}
    return sorted(every - {check for name, checks in results if name in few for check in checks})


def worlds_cdk(fault):
    return {each: same.WORLDS[each] for each in (CDK_OTHER_WORLDS if fault in CDK_OTHER_FAULTS else CDK_WORLDS)}


def write_cdk(fault, folder):
    """Writes a built construct with this fault; returns where it is."""
    _, file, old, new = fault
    shutil.copytree(same.CDK / "dist", folder / "dist")
    (folder / "node_modules").symlink_to(same.CDK / "node_modules")
    (folder / "out").mkdir()
    wrong = folder / "dist" / "lib" / f"{file}.js"
    wrong.write_text(wrong.read_text().replace(old, new, 1))
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
    # Those that a short run leaves out, too.
    for name, file, old, _ in CDK_FAULTS:
        assert old in (same.CDK / "dist" / "lib" / f"{file}.js").read_text(), f"{name}: {file}.js has no text {old!r}"
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
    # Those that a short run leaves out, too: they must not wait for a long one to be found stale.
    text = cfn.SAM.read_text()
    missed = [f"{name}: {problem}" for name, changes in FAULTS if (problem := stale(changes, text))]
    fresh = [fault for fault in FAULTS if not stale(fault[1], text)]
    planted = [fault for fault in fresh if not few or fault[0] in ONE_A_CHECK]
    with multiprocessing.Pool(2) as pool:
        results = pool.map(functools.partial(catch, everybody=everybody), planted, chunksize=1)
    # `map` takes a StopIteration of a worker for the end of the list and reports no error.
    assert len(results) == len(planted), f"{len(results)} of {len(planted)} wrong templates were checked"
    lines = ["| wrong template | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, caught in results:
        if not any(caught[column] != ["not run"] and caught[column] for column in COLUMNS[1:]):
            missed.append(f"{name}: {caught}")
        lines.append(f"| {name} | " + " | ".join(", ".join(dict.fromkeys(caught.get(column, []))) or "–" for column in COLUMNS) + " |")
    ours = [(name, {check for column in COLUMNS[2:] for check in caught.get(column, [])}) for name, caught in results]
    return lines, missed + [f"ONE_A_CHECK: no fault for {each}" for each in uncovered(ours, ONE_A_CHECK)]


if __name__ == "__main__":
    lines, missed = table(everybody=True)
    print("\n".join(lines))
    print(f"{len(FAULTS)} wrong templates, {len(missed)} of them not noticed by any check", *missed, sep="\n")
