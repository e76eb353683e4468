import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as events from 'aws-cdk-lib/aws-events';
import * as targets from 'aws-cdk-lib/aws-events-targets';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as destinations from 'aws-cdk-lib/aws-lambda-destinations';
import * as logs from 'aws-cdk-lib/aws-logs';
import type * as s3 from 'aws-cdk-lib/aws-s3';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { bodiesVariable, chunkBucket, grantsToRead, grantsToStore } from './chunks';
import { resolve, type Values, variables } from './parameters';
import { grant, grantsOfColumns, grantsOfCompletion, grantsOfDuplicates, grantsOfPayloads, grantsOfRejects, grantsOfSecret, grantsOfSink } from './sink';
import { alarms, dashboard, type WatchedService } from './watch';

/** The longest retention that SQS allows. */
const RETENTION_MAX = Duration.days(14);
/** The retention of queues with a dead-letter queue. It is shorter, because a message keeps its age when SQS moves it. */
const RETENTION = Duration.days(7);
const BATCH_INDEX = 'batchId-index';
const STATUS_INDEX = 'status-index';

export interface UniqueEventBatchAggregatorProps extends Partial<Values> {
  /** The zips of `cargo lambda build`, built for the chosen `architecture`. */
  readonly code: { readonly aggregator: lambda.Code; readonly batchProcessor: lambda.Code };
}

/**
 * The service: queues, tables, functions, alarms and a dashboard.
 *
 * It makes the same stack as infra/sam/template.yaml; infra/checks compares every resource and property.
 */
export class UniqueEventBatchAggregator extends Construct implements WatchedService {
  /** The queue to send events to. */
  readonly inputQueue: sqs.Queue;
  /** The queue of tickets. An operator sends a ticket to it for a batch in error. */
  readonly batchQueue: sqs.Queue;
  /** The queue of messages that were received too often. */
  readonly inputDeadLetterQueue: sqs.Queue;
  /** The queue of tickets that were received too often. */
  readonly batchDeadLetterQueue: sqs.Queue;
  /** The queue of messages that cannot be processed. */
  readonly quarantineQueue: sqs.Queue;
  /** The queue of sweeps that could not be invoked, or failed. */
  readonly sweepDeadLetterQueue: sqs.Queue;
  /** The table of claims and of recently delivered event ids. */
  readonly lockTable: dynamodb.Table;
  /** The table of batches. It keeps complete ones for 14 days; batches of chunks for 16 days and `dedupWindow`. */
  readonly batchTable: dynamodb.Table;
  /** The bucket of chunks, which keeps each for 30 days; only if `bodies` or `formerBodies` is `s3`. */
  readonly chunkBucket?: s3.Bucket;
  readonly aggregator: lambda.Function;
  readonly batchProcessor: lambda.Function;
  /** The role of the batch processor. Grant it what your own sink needs. */
  readonly batchProcessorRole: iam.Role;
  /** The parameter `sink`. */
  readonly sink: string;
  /** Every `bucket` or `bucket/prefix`, not of this stack, that the service writes objects to or reads them from. */
  readonly places: readonly string[];

  private readonly values: Values;
  private readonly key?: kms.IKey;

  constructor(scope: Construct, id: string, { code, ...chosen }: UniqueEventBatchAggregatorProps) {
    super(scope, id);
    const values = resolve(chosen);
    this.values = values;
    this.sink = values.sink;
    const { sink, sinkRejects, sinkPayloads, overflowBucket, bodies, formerBodies } = values;
    const uris = [sink, sinkRejects, sinkPayloads, bodies, formerBodies, overflowBucket && `s3://${overflowBucket}`];
    this.places = uris.filter((uri) => uri.startsWith('s3://')).map((uri) => uri.slice('s3://'.length));
    if (values.kmsKeyArn) this.key = kms.Key.fromKeyArn(this, 'Key', values.kmsKeyArn);

    this.inputDeadLetterQueue = this.queue('InputDeadLetterQueue', { retentionPeriod: RETENTION_MAX });
    this.batchDeadLetterQueue = this.queue('BatchDeadLetterQueue', { retentionPeriod: RETENTION_MAX });
    this.quarantineQueue = this.queue('QuarantineQueue', { retentionPeriod: RETENTION_MAX });
    // Always encrypted by SQS: EventBridge could use the key only if its policy allowed that, and the queue never contains
    // events of the input queue.
    this.sweepDeadLetterQueue = new sqs.Queue(this, 'SweepDeadLetterQueue', {
      retentionPeriod: RETENTION_MAX,
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      removalPolicy: RemovalPolicy.RETAIN,
    });
    // A waiting duplicate is received once per visibility timeout. SQS allows at most 1,000 receives.
    const waits = values.onDuplicate === 'requeue' || values.quotaBeyond === 'wait';
    const receives = waits ? 1_000 : values.maxReceiveCount;
    this.inputQueue = this.sourceQueue('InputQueue', values.aggregatorTimeout, values.inputBatchingWindow, {
      queue: this.inputDeadLetterQueue,
      maxReceiveCount: receives,
    });
    this.batchQueue = this.sourceQueue('BatchQueue', values.batchProcessorTimeout, 0, {
      queue: this.batchDeadLetterQueue,
      maxReceiveCount: values.maxReceiveCount,
    });
    this.lockTable = this.table('LockTable', 'messageId');
    const warm = this.warmth();
    this.lockTable.addGlobalSecondaryIndex({
      indexName: BATCH_INDEX,
      partitionKey: { name: 'batchId', type: dynamodb.AttributeType.STRING },
      sortKey: { name: 'seq', type: dynamodb.AttributeType.NUMBER },
      projectionType: dynamodb.ProjectionType.KEYS_ONLY,
      ...(warm && { warmThroughput: warm }),
    });
    this.batchTable = this.table('BatchTable', 'batchId');
    this.batchTable.addGlobalSecondaryIndex({
      indexName: STATUS_INDEX,
      partitionKey: { name: 'statusShard', type: dynamodb.AttributeType.STRING },
      sortKey: { name: 'dueAt', type: dynamodb.AttributeType.NUMBER },
      // Only `source` is projected: each projected attribute costs a write when it changes, and a projection cannot be changed later.
      projectionType: dynamodb.ProjectionType.INCLUDE,
      nonKeyAttributes: ['source'],
    });
    if (bodies === 's3' || formerBodies === 's3') this.chunkBucket = chunkBucket(this, this.key);

    const aggregatorLogs = this.logGroup('AggregatorLogGroup');
    this.aggregator = this.function('Aggregator', {
      code: code.aggregator,
      description: 'Claims each event once, and groups the claims into batches.',
      timeout: Duration.seconds(values.aggregatorTimeout),
      logGroup: aggregatorLogs,
      role: this.role('AggregatorRole', 'aggregator', this.grantsOfAggregator(aggregatorLogs)),
      environment: this.variablesOfAggregator(),
    });
    const batchProcessorLogs = this.logGroup('BatchProcessorLogGroup');
    this.batchProcessorRole = this.role('BatchProcessorRole', 'batch-processor', this.grantsOfBatchProcessor(batchProcessorLogs));
    this.batchProcessor = this.function('BatchProcessor', {
      code: code.batchProcessor,
      description: 'Delivers batches in parts, remembers delivered events, and sends overdue batches another ticket.',
      timeout: Duration.seconds(values.batchProcessorTimeout),
      logGroup: batchProcessorLogs,
      role: this.batchProcessorRole,
      environment: this.variablesOfBatchProcessor(),
      ...(values.secretsLayerArn && {
        layers: [lambda.LayerVersion.fromLayerVersionArn(this, 'SecretsLayer', values.secretsLayerArn)],
      }),
    });
    this.mappings();
    alarms(this, values);
    dashboard(this);
  }

  private queue(id: string, props: sqs.QueueProps): sqs.Queue {
    return new sqs.Queue(this, id, {
      ...props,
      ...(this.key
        ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: this.key }
        : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
      removalPolicy: RemovalPolicy.RETAIN,
    });
  }

  /** A queue that a function reads: its visibility timeout is 6 times the function's timeout plus the window. */
  private sourceQueue(id: string, timeout: number, window: number, deadLetterQueue: sqs.DeadLetterQueue): sqs.Queue {
    return this.queue(id, {
      visibilityTimeout: Duration.seconds(6 * timeout + window),
      retentionPeriod: RETENTION,
      receiveMessageWaitTime: Duration.seconds(20),
      deadLetterQueue,
    });
  }

  private warmth(): dynamodb.WarmThroughput | undefined {
    const { lockTableWarmReads, lockTableWarmWrites } = this.values;
    if (lockTableWarmWrites === 0) return undefined;
    return { readUnitsPerSecond: lockTableWarmReads, writeUnitsPerSecond: lockTableWarmWrites };
  }

  private table(id: string, key: string): dynamodb.Table {
    const warm = id === 'LockTable' ? this.warmth() : undefined;
    return new dynamodb.Table(this, id, {
      partitionKey: { name: key, type: dynamodb.AttributeType.STRING },
      billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
      timeToLiveAttribute: 'expiresAt',
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      removalPolicy: RemovalPolicy.RETAIN,
      ...(warm && { warmThroughput: warm }),
      ...(this.key && { encryption: dynamodb.TableEncryption.CUSTOMER_MANAGED, encryptionKey: this.key }),
    });
  }

  private logGroup(id: string): logs.LogGroup {
    return new logs.LogGroup(this, id, { retention: this.values.logRetentionDays, removalPolicy: RemovalPolicy.DESTROY });
  }

  private role(id: string, policy: string, statements: iam.PolicyStatement[]): iam.Role {
    return new iam.Role(this, id, {
      assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
      inlinePolicies: { [policy]: new iam.PolicyDocument({ statements }) },
    });
  }

  private function(id: string, { role, ...props }: Omit<lambda.FunctionProps, 'runtime' | 'handler'> & { role: iam.Role }): lambda.Function {
    const { architecture, memorySize, tracing } = this.values;
    return new lambda.Function(this, id, {
      ...props,
      runtime: lambda.Runtime.PROVIDED_AL2023,
      handler: 'bootstrap',
      architecture: architecture === 'arm64' ? lambda.Architecture.ARM_64 : lambda.Architecture.X86_64,
      memorySize,
      tracing: tracing === 'Active' ? lambda.Tracing.ACTIVE : lambda.Tracing.PASS_THROUGH,
      // The grants are listed below in full; other constructs must not add to them.
      role: role.withoutPolicyUpdates(),
    });
  }

  private mappings(): void {
    const { values } = this;
    new lambda.EventSourceMapping(this, 'AggregatorInput', {
      target: this.aggregator,
      eventSourceArn: this.inputQueue.queueArn,
      batchSize: values.inputBatchSize,
      maxBatchingWindow: Duration.seconds(values.inputBatchingWindow),
      reportBatchItemFailures: true,
      ...(values.inputScaling === 'provisioned'
        ? { provisionedPollerConfig: { minimumPollers: values.pollersMin, maximumPollers: values.pollersMax } }
        : { maxConcurrency: values.aggregatorConcurrency }),
    });
    new lambda.EventSourceMapping(this, 'BatchProcessorTickets', {
      target: this.batchProcessor,
      eventSourceArn: this.batchQueue.queueArn,
      batchSize: 1,
      reportBatchItemFailures: true,
      maxConcurrency: values.batchProcessorConcurrency,
    });
    // A rule and not a Scheduler schedule, because the batch processor recognises a sweep by the rule's `detail-type`. A sweep
    // that failed, or did not reach Lambda, is not retried: the next scheduled sweep does the same work.
    const once = { retryAttempts: 0, maxEventAge: Duration.seconds(60) };
    new events.Rule(this, 'BatchProcessorSweep', {
      schedule: events.Schedule.rate(Duration.minutes(values.sweepMinutes)),
      targets: [new targets.LambdaFunction(this.batchProcessor, { ...once, deadLetterQueue: this.sweepDeadLetterQueue })],
    });
    new lambda.EventInvokeConfig(this, 'BatchProcessorEventInvokeConfig', {
      ...once,
      function: this.batchProcessor,
      onFailure: new destinations.SqsDestination(this.sweepDeadLetterQueue),
    });
  }

  /** The variables of both functions that name resources. */
  private resourceVariables(): Record<string, string> {
    return {
      DDB_LOCK_TABLE: this.lockTable.tableName,
      DDB_BATCH_TABLE: this.batchTable.tableName,
      BATCH_QUEUE_URL: this.batchQueue.queueUrl,
      QUARANTINE_SQS_URL: this.quarantineQueue.queueUrl,
    };
  }

  private variablesOfAggregator(): Record<string, string> {
    const bodies = bodiesVariable({ bodies: this.values.bodies, bucket: this.chunkBucket });
    return { ...this.resourceVariables(), ...variables(this.values, 'aggregator'), BODIES: bodies };
  }

  private variablesOfBatchProcessor(): Record<string, string> {
    const { values } = this;
    return {
      ...this.resourceVariables(),
      DDB_BATCH_INDEX: BATCH_INDEX,
      ...variables(values, 'batchProcessor'),
      // The function refuses a header without a secret.
      SINK_SECRET_HEADER: values.sinkSecret && values.sinkSecretHeader,
    };
  }

  private grantsOfAggregator(logGroup: logs.LogGroup): iam.PolicyStatement[] {
    const byPartiql = this.values.writeMode === 'batch';
    const whenDrained = this.values.sealWhenDrained === 'on';
    return [
      grant(
        'ReceiveEvents',
        ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes', ...(whenDrained ? ['sqs:GetQueueUrl'] : [])],
        this.inputQueue.queueArn,
      ),
      grant('SendTickets', ['sqs:SendMessage'], this.batchQueue.queueArn),
      grant('Quarantine', ['sqs:SendMessage'], this.quarantineQueue.queueArn),
      ...grantsOfDuplicates(this, this.values.duplicatesSqsUrl),
      // PutItem is needed in both write modes, because a claim replaces another item with it.
      grant(
        'Claim',
        ['dynamodb:BatchGetItem', 'dynamodb:PutItem', ...(byPartiql ? ['dynamodb:PartiQLInsert'] : [])],
        this.lockTable.tableArn,
      ),
      grant('KeepBatches', ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], this.batchTable.tableArn),
      ...this.grantsOfBoth(logGroup, 's3:PutObject', this.values.bodies === 's3'),
      // The function checks the lifecycle at a cold start, and logs an error if it removes bodies too soon.
      ...this.grantOfOverflow('SeeLifecycle', 's3:GetLifecycleConfiguration'),
      ...grantsToStore(this, { bodies: this.values.bodies, bucket: this.chunkBucket }),
    ];
  }

  private grantsOfBatchProcessor(logGroup: logs.LogGroup): iam.PolicyStatement[] {
    const byPartiql = this.values.writeMode === 'batch';
    return [
      grant(
        'ReceiveAndSendTickets',
        ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:GetQueueAttributes', 'sqs:SendMessage'],
        this.batchQueue.queueArn,
      ),
      grant('Quarantine', ['sqs:SendMessage'], this.quarantineQueue.queueArn),
      // Lambda sends a failed sweep to this queue with the function's role.
      grant('ReportFailedSweeps', ['sqs:SendMessage'], this.sweepDeadLetterQueue.queueArn),
      // A release writes a tombstone. It would delete the item only without a dedup window, which `dedupWindow` excludes.
      grant(
        'CollectAndRelease',
        ['dynamodb:BatchGetItem', byPartiql ? 'dynamodb:PartiQLUpdate' : 'dynamodb:UpdateItem'],
        this.lockTable.tableArn,
      ),
      grant('FindClaims', ['dynamodb:Query'], `${this.lockTable.tableArn}/index/${BATCH_INDEX}`),
      grant('KeepBatches', ['dynamodb:GetItem', 'dynamodb:UpdateItem'], this.batchTable.tableArn),
      grant('FindOverdueBatches', ['dynamodb:Query'], `${this.batchTable.tableArn}/index/${STATUS_INDEX}`),
      ...this.grantsOfBoth(logGroup, 's3:GetObject', this.chunkBucket !== undefined),
      // Without ListBucket, S3 returns 403 for a missing object instead of 404.
      ...this.grantOfOverflow('MissOverflow', 's3:ListBucket'),
      ...grantsToRead(this, '', { bodies: this.values.bodies, bucket: this.chunkBucket }),
      ...grantsToRead(this, 'Former', { bodies: this.values.formerBodies, bucket: this.chunkBucket }),
      ...grantsOfCompletion(this, this.values.completion),
      ...grantsOfSink(this, this.values.sink),
      ...grantsOfRejects(this, this.values.sinkRejects),
      ...grantsOfPayloads(this, this.values.sinkPayloads),
      ...grantsOfColumns(this, this.values.sinkColumns),
      ...grantsOfSecret(this.values.sinkSecretArn),
    ];
  }

  /** Grants one action on the overflow bucket, if there is one. */
  private grantOfOverflow(sid: string, action: string): iam.PolicyStatement[] {
    const { overflowBucket } = this.values;
    return overflowBucket ? [grant(sid, [action], `arn:${Stack.of(this).partition}:s3:::${overflowBucket}`)] : [];
  }

  /** `keyForChunks` says whether the function uses the key for the stack's bucket of chunks. */
  private grantsOfBoth(logGroup: logs.LogGroup, onOverflow: string, keyForChunks: boolean): iam.PolicyStatement[] {
    const { partition, region, urlSuffix } = Stack.of(this);
    const grants = [grant('Log', ['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn)];
    if (this.values.overflowBucket !== '') {
      // The wildcard stands for the claim, <batchId>/<seq>. DeleteObject removes the body of a claim that was released, or that
      // was not made.
      const bodies = `arn:${partition}:s3:::${this.values.overflowBucket}/*`;
      grants.push(grant('Overflow', [onOverflow, 's3:DeleteObject'], bodies));
    }
    if (this.key) {
      // Only through the services of encrypted resources. The wildcards stand for variants of one action, which the services choose.
      const actions = ['kms:Decrypt', 'kms:Encrypt', 'kms:DescribeKey', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];
      const use = grant('UseKey', actions, this.key.keyArn);
      const services = ['sqs', 'dynamodb', ...(keyForChunks ? ['s3'] : [])];
      use.addCondition('StringEquals', { 'kms:ViaService': services.map((service) => `${service}.${region}.${urlSuffix}`) });
      grants.push(use);
    }
    // X-Ray actions have no resources.
    if (this.values.tracing === 'Active') grants.push(grant('Trace', ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], '*'));
    return grants;
  }
}
