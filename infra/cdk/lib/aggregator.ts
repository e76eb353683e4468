import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as events from 'aws-cdk-lib/aws-events';
import * as targets from 'aws-cdk-lib/aws-events-targets';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as destinations from 'aws-cdk-lib/aws-lambda-destinations';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { resolve, type Values, variables } from './parameters';
import { grant, grantsOfColumns, grantsOfPayloads, grantsOfRejects, grantsOfSecret, grantsOfSink } from './sink';
import { alarms, dashboard, type WatchedService } from './watch';

/** Longest retention of a queue. */
const RETENTION_MAX = Duration.days(14);
/** Of queues with dead letters: a message keeps its age when it is moved, so it must be shorter. */
const RETENTION = Duration.days(7);
const BATCH_INDEX = 'batchId-index';
const STATUS_INDEX = 'status-index';

export interface UniqueEventBatchAggregatorProps extends Partial<Values> {
  /** What `cargo lambda build` made, for the `architecture` chosen. */
  readonly code: { readonly aggregator: lambda.Code; readonly batchProcessor: lambda.Code };
}

/**
 * The service: queues, tables, functions, and what watches them.
 *
 * The same stack as infra/sam/template.yaml; infra/checks compares every resource and property.
 */
export class UniqueEventBatchAggregator extends Construct implements WatchedService {
  /** Where events are sent. */
  readonly inputQueue: sqs.Queue;
  /** Where tickets go; an operator sends one for a batch in error. */
  readonly batchQueue: sqs.Queue;
  /** Messages that came back too often. */
  readonly inputDeadLetterQueue: sqs.Queue;
  /** Tickets that came back too often. */
  readonly batchDeadLetterQueue: sqs.Queue;
  /** Messages that cannot be processed. */
  readonly quarantineQueue: sqs.Queue;
  /** Sweeps that could not be called, or failed. */
  readonly sweepDeadLetterQueue: sqs.Queue;
  /** Claims, and what was delivered lately. */
  readonly lockTable: dynamodb.Table;
  /** Every batch of the last 14 days. */
  readonly batchTable: dynamodb.Table;
  readonly aggregator: lambda.Function;
  readonly batchProcessor: lambda.Function;
  /** For what a sink of your own needs. */
  readonly batchProcessorRole: iam.Role;
  /** Where batches go. */
  readonly sink: string;
  /** `bucket` or `bucket/prefix`, wherever objects go. */
  readonly places: readonly string[];

  private readonly values: Values;
  private readonly key?: kms.IKey;

  constructor(scope: Construct, id: string, { code, ...chosen }: UniqueEventBatchAggregatorProps) {
    super(scope, id);
    const values = resolve(chosen);
    this.values = values;
    this.sink = values.sink;
    const uris = [values.sink, values.sinkRejects, values.sinkPayloads, values.overflowBucket && `s3://${values.overflowBucket}`];
    this.places = uris.filter((uri) => uri.startsWith('s3://')).map((uri) => uri.slice('s3://'.length));
    if (values.kmsKeyArn) this.key = kms.Key.fromKeyArn(this, 'Key', values.kmsKeyArn);

    this.inputDeadLetterQueue = this.queue('InputDeadLetterQueue', { retentionPeriod: RETENTION_MAX });
    this.batchDeadLetterQueue = this.queue('BatchDeadLetterQueue', { retentionPeriod: RETENTION_MAX });
    this.quarantineQueue = this.queue('QuarantineQueue', { retentionPeriod: RETENTION_MAX });
    // EventBridge could use the key only if its policy admitted that, and no event of yours comes here.
    this.sweepDeadLetterQueue = new sqs.Queue(this, 'SweepDeadLetterQueue', {
      retentionPeriod: RETENTION_MAX,
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      removalPolicy: RemovalPolicy.RETAIN,
    });
    // A duplicate that waits is received once every visibility timeout; 1,000 is the most SQS allows.
    const receives = values.onDuplicate === 'requeue' ? 1_000 : values.maxReceiveCount;
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
      // No more: what is projected is written again whenever it changes, and a projection cannot be changed later.
      projectionType: dynamodb.ProjectionType.INCLUDE,
      nonKeyAttributes: ['source'],
    });

    const aggregatorLogs = this.logGroup('AggregatorLogGroup');
    this.aggregator = this.function('Aggregator', {
      code: code.aggregator,
      description: 'Claims each event once, and collects the claims in batches.',
      timeout: Duration.seconds(values.aggregatorTimeout),
      logGroup: aggregatorLogs,
      role: this.role('AggregatorRole', 'aggregator', this.grantsOfAggregator(aggregatorLogs)),
      environment: this.variablesOfAggregator(),
    });
    const batchProcessorLogs = this.logGroup('BatchProcessorLogGroup');
    this.batchProcessorRole = this.role('BatchProcessorRole', 'batch-processor', this.grantsOfBatchProcessor(batchProcessorLogs));
    this.batchProcessor = this.function('BatchProcessor', {
      code: code.batchProcessor,
      description: 'Delivers batches in parts, remembers what was delivered, and sweeps up what is overdue.',
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

  /** A queue that a function takes from: its visibility timeout is 6 times the function's and the window. */
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
      // What it may do is written down below, whole; nothing is added in passing.
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
    // A rule, not a Scheduler schedule: the batch processor knows the sweep by the rule's `detail-type`. A sweep that failed, or
    // did not get as far as Lambda, is not tried again: the next one makes up for it.
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

  /** The variables of both functions that are resources. */
  private resourceVariables(): Record<string, string> {
    return {
      DDB_LOCK_TABLE: this.lockTable.tableName,
      DDB_BATCH_TABLE: this.batchTable.tableName,
      BATCH_QUEUE_URL: this.batchQueue.queueUrl,
      QUARANTINE_SQS_URL: this.quarantineQueue.queueUrl,
    };
  }

  private variablesOfAggregator(): Record<string, string> {
    return { ...this.resourceVariables(), ...variables(this.values, 'aggregator') };
  }

  private variablesOfBatchProcessor(): Record<string, string> {
    const { values } = this;
    return {
      ...this.resourceVariables(),
      DDB_BATCH_INDEX: BATCH_INDEX,
      ...variables(values, 'batchProcessor'),
      // A header without a secret is refused.
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
      // PutItem in either mode: it is also how a claim takes the place of another item.
      grant(
        'Claim',
        ['dynamodb:BatchGetItem', 'dynamodb:PutItem', ...(byPartiql ? ['dynamodb:PartiQLInsert'] : [])],
        this.lockTable.tableArn,
      ),
      grant('KeepBatches', ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], this.batchTable.tableArn),
      ...this.grantsOfBoth(logGroup, 's3:PutObject'),
      // A lifecycle that is too short is told when the function starts.
      ...this.grantOfOverflow('SeeLifecycle', 's3:GetLifecycleConfiguration'),
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
      // Lambda does, with this role, when a sweep failed.
      grant('ReportFailedSweeps', ['sqs:SendMessage'], this.sweepDeadLetterQueue.queueArn),
      // A release writes a tombstone. It would delete with no dedup window, which `dedupWindow` does not allow.
      grant(
        'CollectAndRelease',
        ['dynamodb:BatchGetItem', byPartiql ? 'dynamodb:PartiQLUpdate' : 'dynamodb:UpdateItem'],
        this.lockTable.tableArn,
      ),
      grant('FindClaims', ['dynamodb:Query'], `${this.lockTable.tableArn}/index/${BATCH_INDEX}`),
      grant('KeepBatches', ['dynamodb:GetItem', 'dynamodb:UpdateItem'], this.batchTable.tableArn),
      grant('FindOverdueBatches', ['dynamodb:Query'], `${this.batchTable.tableArn}/index/${STATUS_INDEX}`),
      ...this.grantsOfBoth(logGroup, 's3:GetObject'),
      // Who may not list is told of a missing object that it is forbidden (403), not that it is missing (404).
      ...this.grantOfOverflow('MissOverflow', 's3:ListBucket'),
      ...grantsOfSink(this, this.values.sink),
      ...grantsOfRejects(this, this.values.sinkRejects),
      ...grantsOfPayloads(this, this.values.sinkPayloads),
      ...grantsOfColumns(this, this.values.sinkColumns),
      ...grantsOfSecret(this.values.sinkSecretArn),
    ];
  }

  /** One action on the bucket of bodies, if there is one. */
  private grantOfOverflow(sid: string, action: string): iam.PolicyStatement[] {
    const { overflowBucket } = this.values;
    return overflowBucket ? [grant(sid, [action], `arn:${Stack.of(this).partition}:s3:::${overflowBucket}`)] : [];
  }

  private grantsOfBoth(logGroup: logs.LogGroup, onOverflow: string): iam.PolicyStatement[] {
    const { partition, region, urlSuffix } = Stack.of(this);
    const grants = [grant('Log', ['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn)];
    if (this.values.overflowBucket !== '') {
      // The wildcard is the claim: <batchId>/<seq>. Deleted is what is released, or was put for a claim that another had made.
      const bodies = `arn:${partition}:s3:::${this.values.overflowBucket}/*`;
      grants.push(grant('Overflow', [onOverflow, 's3:DeleteObject'], bodies));
    }
    if (this.key) {
      // Through SQS and DynamoDB alone. The wildcards stand for the variants of one action, which the services choose.
      const actions = ['kms:Decrypt', 'kms:Encrypt', 'kms:DescribeKey', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];
      const use = grant('UseKey', actions, this.key.keyArn);
      use.addCondition('StringEquals', {
        'kms:ViaService': [`sqs.${region}.${urlSuffix}`, `dynamodb.${region}.${urlSuffix}`],
      });
      grants.push(use);
    }
    // X-Ray has no resources to name.
    if (this.values.tracing === 'Active') grants.push(grant('Trace', ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], '*'));
    return grants;
  }
}
