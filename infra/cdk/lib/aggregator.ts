import { Annotations, Aws, CfnOutput, CustomResource, Duration, RemovalPolicy, type Size, Stack, Token } from 'aws-cdk-lib';
import * as autoscaling from 'aws-cdk-lib/aws-applicationautoscaling';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import type * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as events from 'aws-cdk-lib/aws-events';
import * as targets from 'aws-cdk-lib/aws-events-targets';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as assets from 'aws-cdk-lib/aws-s3-assets';
import type * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import type { Answers } from './answers';
import { type Bodies, type Completion, LockTableCapacity, OnDuplicate } from './choices';
import { charactersOf, grant, grantOfKey, grantsOfPlace, grantsToSend, isAlias, type Place, uriOf } from './grants';
import type { Sink } from './sink';
import { alarms, dashboard } from './watch';

/** The longest retention that SQS allows. */
const RETENTION_MAX = Duration.days(14);
/** The retention of queues with a dead-letter queue. It is shorter, because a message keeps its age when SQS moves it. */
const RETENTION = Duration.days(7);
/** Seconds for which Lambda collects messages for an invocation of the aggregator. */
const INPUT_WINDOW_SECS = 1;
const BATCH_INDEX = 'batchId-index';
const STATUS_INDEX = 'status-index';
/** What the names in the service's bucket begin with. */
const CHUNKS = 'chunks';
/**
 * Characters of the inline policies of a role.
 * Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html> (2026-11).
 */
const INLINE_CHARACTERS_MAX = 10_240;

/** The zips of both functions. */
export interface FunctionCode {
  /** `aggregator/bootstrap.zip`. */
  readonly aggregator: lambda.Code;
  /** `batch-processor/bootstrap.zip`. */
  readonly batchProcessor: lambda.Code;
}

/** What a service is made of. */
export interface UniqueEventBatchAggregatorProps {
  /** The zips, built for the chosen `architecture`. */
  readonly code: FunctionCode;
  /**
   * The event id of a message: `json:<JMESPath over the body>`, `attribute:<name>`, `body-hash` or `message-id`, which recognises only
   * that SQS delivers a message twice.
   */
  readonly eventId: string;
  /** Where batches go. The batch processor is granted exactly what this sink needs. */
  readonly sink: Sink;
  /** Where the consumer says what it did with events. The batch processor is granted exactly what it needs there. By default, nowhere. */
  readonly answers?: Answers;
  /**
   * The configuration file: a path on this machine, whose file is uploaded, or `file:///var/task/service.toml`, `s3://bucket/key` or
   * `ssm:/name`. By default, none.
   */
  readonly config?: string;
  /** Single variables of docs/configuration.md, which override the configuration file. By default, none. */
  readonly settings?: { readonly [variable: string]: string };
  /** What happens to a duplicate. By default, it is dropped. */
  readonly onDuplicate?: OnDuplicate;
  /** Where the bodies of new batches go. By default, where the configuration file says, or in lock items. */
  readonly bodies?: Bodies;
  /** The bucket for bodies that do not fit a DynamoDB item. Its lifecycle must keep objects for at least 30 days. By default, none. */
  readonly overflowBucket?: s3.IBucket;
  /** Where rejected records go. By default, nowhere. */
  readonly rejects?: Place;
  /** Where parts go that are too large for a call of a function or a state machine. By default, nowhere. */
  readonly payloads?: Place;
  /** The standard queue that gets a report of each duplicate that is dropped. By default, none. */
  readonly duplicatesQueue?: sqs.IQueue;
  /** Where a notice goes when a batch is complete or goes into error. By default, nowhere. */
  readonly completion?: Completion;
  /** The AWS Parameters and Secrets Lambda Extension. By default, the one that the CDK knows, if the sink has a secret. */
  readonly secretsLayer?: lambda.ILayerVersion;
  /** The key of queues, tables and the bucket of the log. By default, the services use their own keys. */
  readonly encryptionKey?: kms.IKey;
  /** The topic that alarms are sent to. By default, none. */
  readonly alarmTopic?: sns.ITopic;
  /** The topic that gets a message when an alarm clears; a new stack sends one for each alarm. By default, none. */
  readonly okTopic?: sns.ITopic;
  /** The processor of both functions. By default, `Architecture.ARM_64`. */
  readonly architecture?: lambda.Architecture;
  /** The memory of each function. By default, 1,769 MB, which is one whole vCPU. */
  readonly memorySize?: Size;
  /** The timeout of the aggregator, 15 to 180 s. By default, 60 s. */
  readonly aggregatorTimeout?: Duration;
  /** The timeout of the batch processor, 60 to 900 s. By default, 300 s. */
  readonly batchProcessorTimeout?: Duration;
  /** The largest number of concurrent aggregators; fewer of them fill larger batches. By default, 4. */
  readonly aggregatorConcurrency?: number;
  /** The largest number of batches that are delivered at the same time. By default, 2. */
  readonly batchProcessorConcurrency?: number;
  /** Whether each function reserves its largest number of concurrent executions, and one more for the sweep. By default, no. */
  readonly reserveConcurrency?: boolean;
  /** The network in which the batch processor runs. By default, none of yours. */
  readonly vpc?: ec2.IVpc;
  /** Its subnets; with `vpc`. By default, the private ones. */
  readonly vpcSubnets?: ec2.SubnetSelection;
  /** Its security groups; with `vpc`. By default, a new one. */
  readonly securityGroups?: ec2.ISecurityGroup[];
  /** The permissions boundary of all roles; it must allow `lambda:InvokeFunction` on both functions. By default, none. */
  readonly permissionsBoundary?: iam.IManagedPolicy;
  /** The capacity of the lock table and its index. By default, on demand. */
  readonly lockTableCapacity?: LockTableCapacity;
}

/**
 * The service: queues, tables, functions, alarms and a dashboard.
 *
 * It makes the same stack as infra/sam/template.yaml; infra/checks compares every resource and property.
 */
export class UniqueEventBatchAggregator extends Construct {
  /** The queue to send events to. */
  public readonly inputQueue: sqs.Queue;
  /** The queue of tickets. An operator sends a ticket to it for a batch in error. */
  public readonly batchQueue: sqs.Queue;
  /** The queue of messages that were received too often. */
  public readonly inputDeadLetterQueue: sqs.Queue;
  /** The queue of tickets that were received too often. */
  public readonly batchDeadLetterQueue: sqs.Queue;
  /** The queue of messages that cannot be processed. */
  public readonly quarantineQueue: sqs.Queue;
  /** The queue of sweeps that could not be invoked, or failed. */
  public readonly sweepDeadLetterQueue: sqs.Queue;
  /** The table of claims and of recently delivered event ids. */
  public readonly lockTable: dynamodb.Table;
  /** The table of batches. It keeps complete ones for 14 days; those of the log for 22 days and `DEDUP_WINDOW`. */
  public readonly batchTable: dynamodb.Table;
  /** The bucket of the log, which keeps each object for 40 days. */
  public readonly chunkBucket: s3.Bucket;
  /** The function that claims events. */
  public readonly aggregator: lambda.Function;
  /** The function that delivers batches. Grant it what a sink of your own needs. */
  public readonly batchProcessor: lambda.Function;

  private readonly props: UniqueEventBatchAggregatorProps;
  private readonly configUri: string;
  private readonly capacity: LockTableCapacity;

  constructor(scope: Construct, id: string, props: UniqueEventBatchAggregatorProps) {
    super(scope, id);
    const problems = problemsOf(props);
    if (problems.length > 0) throw new Error(problems.join('; '));
    this.props = props;
    this.capacity = props.lockTableCapacity ?? LockTableCapacity.onDemand();
    const aggregatorTimeout = props.aggregatorTimeout ?? Duration.seconds(60);
    const batchProcessorTimeout = props.batchProcessorTimeout ?? Duration.seconds(300);

    this.inputDeadLetterQueue = this.queue('InputDeadLetterQueue', { retentionPeriod: RETENTION_MAX });
    this.batchDeadLetterQueue = this.queue('BatchDeadLetterQueue', { retentionPeriod: RETENTION_MAX });
    this.quarantineQueue = this.queue('QuarantineQueue', { retentionPeriod: RETENTION_MAX });
    // Always encrypted by SQS: EventBridge could use the key only if its policy allowed that, and the queue never contains
    // events of the input queue.
    this.sweepDeadLetterQueue = new sqs.Queue(this, 'SweepDeadLetterQueue', {
      retentionPeriod: RETENTION_MAX,
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    });
    const requeues = props.onDuplicate === OnDuplicate.REQUEUE;
    // A waiting duplicate is received once per visibility timeout. SQS allows at most 1,000 receives, and a message must be a dead
    // letter a day before the queue would remove it.
    const receivesMax = Math.floor(RETENTION.minus(Duration.days(1)).toSeconds() / visibilityTimeout(aggregatorTimeout, INPUT_WINDOW_SECS).toSeconds());
    this.inputQueue = this.sourceQueue('InputQueue', aggregatorTimeout, INPUT_WINDOW_SECS, {
      queue: this.inputDeadLetterQueue,
      maxReceiveCount: requeues ? Math.min(1_000, receivesMax) : 50,
    });
    this.batchQueue = this.sourceQueue('BatchQueue', batchProcessorTimeout, 0, { queue: this.batchDeadLetterQueue, maxReceiveCount: 50 });
    this.lockTable = this.table('LockTable', 'messageId', this.capacity);
    this.lockTable.addGlobalSecondaryIndex({
      indexName: BATCH_INDEX,
      partitionKey: { name: 'batchId', type: dynamodb.AttributeType.STRING },
      sortKey: { name: 'seq', type: dynamodb.AttributeType.NUMBER },
      projectionType: dynamodb.ProjectionType.KEYS_ONLY,
      ...throughputOf(this.capacity),
    });
    this.scaling();
    this.batchTable = this.table('BatchTable', 'batchId', LockTableCapacity.onDemand());
    this.batchTable.addGlobalSecondaryIndex({
      indexName: STATUS_INDEX,
      partitionKey: { name: 'statusShard', type: dynamodb.AttributeType.STRING },
      sortKey: { name: 'dueAt', type: dynamodb.AttributeType.NUMBER },
      // Only `source` is projected: each projected attribute costs a write when it changes, and a projection cannot be changed later.
      projectionType: dynamodb.ProjectionType.INCLUDE,
      nonKeyAttributes: ['source'],
    });
    this.chunkBucket = this.bucket();

    const config = this.config();
    this.configUri = config.uri;
    const aggregatorLogs = this.logGroup('AggregatorLogGroup');
    this.aggregator = this.function('Aggregator', {
      code: props.code.aggregator,
      description: 'Claims each event once, and groups the claims into batches.',
      timeout: aggregatorTimeout,
      logGroup: aggregatorLogs,
      role: this.role('AggregatorRole', 'aggregator', [...this.grantsOfAggregator(aggregatorLogs), ...config.grants]),
      environment: { ...this.resourceVariables(), ...this.variablesOfAggregator(), CONFIG: config.uri, ...props.settings },
      reservedConcurrentExecutions: props.reserveConcurrency ? this.aggregators : undefined,
    });
    const batchProcessorLogs = this.logGroup('BatchProcessorLogGroup');
    const batchProcessorRole = this.role('BatchProcessorRole', 'batch-processor', [
      ...this.grantsOfBatchProcessor(batchProcessorLogs),
      ...config.grants,
    ]);
    if (props.vpc) {
      batchProcessorRole.addManagedPolicy(iam.ManagedPolicy.fromAwsManagedPolicyName('service-role/AWSLambdaVPCAccessExecutionRole'));
    }
    this.batchProcessor = this.function('BatchProcessor', {
      code: props.code.batchProcessor,
      description: 'Delivers batches in parts, remembers delivered events, and sends overdue batches another ticket.',
      timeout: batchProcessorTimeout,
      logGroup: batchProcessorLogs,
      role: batchProcessorRole,
      environment: {
        ...this.resourceVariables(),
        DDB_BATCH_INDEX: BATCH_INDEX,
        ...this.variablesOfBatchProcessor(),
        CONFIG: config.uri,
        ...props.settings,
      },
      // One more, because a sweep may run while batches are delivered.
      reservedConcurrentExecutions: props.reserveConcurrency ? this.processors + 1 : undefined,
      vpc: props.vpc,
      vpcSubnets: props.vpcSubnets,
      securityGroups: props.securityGroups,
      ...this.secretsExtension(),
    });
    this.mappings();
    this.check();
    alarms(this, { ...props, requeues, batchProcessorTimeout });
    dashboard(this);
  }

  /**
   * Adds outputs to the stack. From them, `batchctl --stack` and `loadgen --stack` read where everything is and how the service is
   * configured, but for `settings`. Their names are fixed, so a stack has the outputs of one service.
   */
  public addOutputs(): void {
    const { EVENT_ID, ON_DUPLICATE, BODIES } = this.variablesOfAggregator();
    for (const [name, value] of Object.entries({
      InputQueueUrl: this.inputQueue.queueUrl,
      InputQueueArn: this.inputQueue.queueArn,
      BatchQueueUrl: this.batchQueue.queueUrl,
      QuarantineQueueUrl: this.quarantineQueue.queueUrl,
      InputDeadLetterQueueUrl: this.inputDeadLetterQueue.queueUrl,
      BatchDeadLetterQueueUrl: this.batchDeadLetterQueue.queueUrl,
      LockTableName: this.lockTable.tableName,
      BatchTableName: this.batchTable.tableName,
      ChunkBucketName: this.chunkBucket.bucketName,
      AggregatorName: this.aggregator.functionName,
      BatchProcessorName: this.batchProcessor.functionName,
      EventId: EVENT_ID,
      OnDuplicate: ON_DUPLICATE,
      Bodies: BODIES,
      Sink: this.props.sink.uri,
      Answers: this.props.answers?.uri,
      Config: this.configUri,
    })) {
      if (value) new CfnOutput(this, `${name}Output`, { value }).overrideLogicalId(name);
    }
  }

  private get aggregators(): number {
    return this.props.aggregatorConcurrency ?? 4;
  }

  private get processors(): number {
    return this.props.batchProcessorConcurrency ?? 2;
  }

  private queue(id: string, props: sqs.QueueProps): sqs.Queue {
    const key = this.props.encryptionKey;
    return new sqs.Queue(this, id, {
      ...props,
      ...(key
        ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: key }
        : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
      // A first deployment that fails leaves no queue behind.
      removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    });
  }

  /** A queue that a function reads. */
  private sourceQueue(id: string, timeout: Duration, windowSecs: number, deadLetterQueue: sqs.DeadLetterQueue): sqs.Queue {
    return this.queue(id, {
      visibilityTimeout: visibilityTimeout(timeout, windowSecs),
      retentionPeriod: RETENTION,
      receiveMessageWaitTime: Duration.seconds(20),
      deadLetterQueue,
    });
  }

  private table(id: string, key: string, capacity: LockTableCapacity): dynamodb.Table {
    const { encryptionKey } = this.props;
    return new dynamodb.Table(this, id, {
      partitionKey: { name: key, type: dynamodb.AttributeType.STRING },
      billingMode: capacity._provisioned ? dynamodb.BillingMode.PROVISIONED : dynamodb.BillingMode.PAY_PER_REQUEST,
      timeToLiveAttribute: 'expiresAt',
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      // A first deployment that fails leaves the tables behind: CloudFormation could not delete them.
      deletionProtection: true,
      removalPolicy: RemovalPolicy.RETAIN,
      ...throughputOf(capacity),
      ...(encryptionKey && { encryption: dynamodb.TableEncryption.CUSTOMER_MANAGED, encryptionKey }),
    });
  }

  /** Scales a lock table with provisioned capacity: the table and its index, reads and writes. */
  private scaling(): void {
    const units = this.capacity._provisioned;
    if (!units) return;
    const table = `table/${this.lockTable.tableName}`;
    for (const [id, resourceId, what, dimension] of [
      ['LockTableReads', table, 'table', 'Read'],
      ['LockTableWrites', table, 'table', 'Write'],
      ['LockIndexReads', `${table}/index/${BATCH_INDEX}`, 'index', 'Read'],
      ['LockIndexWrites', `${table}/index/${BATCH_INDEX}`, 'index', 'Write'],
    ] as const) {
      const target = new autoscaling.CfnScalableTarget(this, id, {
        serviceNamespace: 'dynamodb',
        resourceId,
        scalableDimension: `dynamodb:${what}:${dimension}CapacityUnits`,
        minCapacity: units.min,
        maxCapacity: units.max,
      });
      new autoscaling.CfnScalingPolicy(this, `${id}Scaling`, {
        policyName: id,
        policyType: 'TargetTrackingScaling',
        scalingTargetId: target.ref,
        targetTrackingScalingPolicyConfiguration: {
          targetValue: 70,
          predefinedMetricSpecification: { predefinedMetricType: `DynamoDB${dimension}CapacityUtilization` },
        },
      });
    }
  }

  /**
   * The bucket of the log. It has a generated name, as the tables have, and no versions: an object is written once, and its former
   * version would only keep the bodies for longer.
   */
  private bucket(): s3.Bucket {
    const key = this.props.encryptionKey;
    return new s3.Bucket(this, 'ChunkBucket', {
      // With a bucket key, S3 calls KMS once in a while, and not for every object.
      ...(key
        ? { encryption: s3.BucketEncryption.KMS, encryptionKey: key, bucketKeyEnabled: true }
        : { encryption: s3.BucketEncryption.S3_MANAGED }),
      blockPublicAccess: s3.BlockPublicAccess.BLOCK_ALL,
      enforceSSL: true,
      // A batch may wait for 10 days until it is set aside, and then for an operator. Later batches need what the log remembers for
      // 40 days.
      lifecycleRules: [{ prefix: `${CHUNKS}/`, expiration: Duration.days(40) }],
      removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    });
  }

  private logGroup(id: string): logs.LogGroup {
    return new logs.LogGroup(this, id, { retention: logs.RetentionDays.ONE_MONTH, removalPolicy: RemovalPolicy.DESTROY });
  }

  /** A role. Its own grants are one policy; what a user adds is another. */
  private role(id: string, policy: string, statements: iam.PolicyStatement[]): iam.Role {
    const document = new iam.PolicyDocument({ statements });
    const characters = charactersOf(Stack.of(this).resolve(document));
    if (characters > INLINE_CHARACTERS_MAX) {
      const problem = `the grants of ${policy} take about ${characters} characters, and IAM takes ${INLINE_CHARACTERS_MAX}`;
      Annotations.of(this).addWarningV2('unique-event-batch-aggregator:policySize', `${problem}: use one bucket for several purposes, or shorter prefixes`);
    }
    return new iam.Role(this, id, {
      assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
      inlinePolicies: { [policy]: document },
      permissionsBoundary: this.props.permissionsBoundary,
    });
  }

  private function(id: string, props: Omit<lambda.FunctionProps, 'runtime' | 'handler'>, handler = 'bootstrap'): lambda.Function {
    return new lambda.Function(this, id, {
      ...props,
      runtime: lambda.Runtime.PROVIDED_AL2023,
      handler,
      architecture: this.props.architecture ?? lambda.Architecture.ARM_64,
      memorySize: this.props.memorySize?.toMebibytes() ?? 1_769,
    });
  }

  /**
   * The check of a deployment: CloudFormation calls it when it has created or updated both functions, and rolls the stack back with the
   * reason if one of them does not start or cannot use a place. It runs in no network of yours, so that it can always reply.
   */
  private check(): void {
    const functions = [this.aggregator.functionArn, this.batchProcessor.functionArn];
    const logGroup = this.logGroup('DeploymentCheckLogGroup');
    const tryOut = new iam.PolicyStatement({ sid: 'TryOut', actions: ['lambda:InvokeFunction'], resources: functions });
    const check = this.function(
      'DeploymentCheck',
      {
        code: this.props.code.batchProcessor,
        description: 'Checks a deployment by invoking both functions without messages.',
        timeout: Duration.seconds(180),
        logGroup,
        role: this.role('DeploymentCheckRole', 'deployment-check', [tryOut, grantOfLog(logGroup)]),
      },
      'deployment-check',
    );
    const variables = { ...this.variablesOfAggregator(), ...this.variablesOfBatchProcessor(), ...this.props.settings };
    const { EVENT_ID, ON_DUPLICATE, BODIES, SINK, SINK_SECRET, ANSWERS_FROM, ...others } = variables;
    const checked = new CustomResource(this, 'CheckedDeployment', {
      resourceType: 'Custom::DeploymentCheck',
      serviceToken: check.functionArn,
      serviceTimeout: Duration.seconds(300),
      // There is nothing to delete. CloudFormation would call the function for it, which may be what does not work.
      removalPolicy: RemovalPolicy.RETAIN,
      properties: {
        Functions: functions,
        // CloudFormation calls the check again when one of these has changed.
        Access: this.access(),
        Code: [this.aggregator, this.batchProcessor].map(codeOf),
        Settings: [EVENT_ID, ON_DUPLICATE, BODIES, this.configUri, SINK, SINK_SECRET, ANSWERS_FROM],
        ...(Object.keys(others).length > 0 && { Variables: others }),
      },
    });
    // What a user grants the functions is there before they are tried out.
    checked.node.addDependency(this.aggregator, this.batchProcessor);
  }

  /** Returns texts that change with what the functions may do and reach. */
  private access(): string[] {
    const { architecture, encryptionKey, permissionsBoundary, secretsLayer, securityGroups, vpc, vpcSubnets } = this.props;
    const arns = [secretsLayer?.layerVersionArn, encryptionKey?.keyArn, permissionsBoundary?.managedPolicyArn, vpc?.vpcId];
    const groups = securityGroups?.map((each) => each.securityGroupId) ?? [];
    const subnets = vpc?.selectSubnets(vpcSubnets).subnetIds ?? [];
    // The functions check settings against the time that they have.
    const timeouts = [this.aggregator, this.batchProcessor].map(({ timeout }) => String(timeout?.toSeconds()));
    return [...arns.map((each) => each ?? ''), ...subnets, ...groups, (architecture ?? lambda.Architecture.ARM_64).name, ...timeouts];
  }

  private secretsExtension(): Partial<lambda.FunctionProps> {
    const { secretsLayer, sink } = this.props;
    if (secretsLayer) return { layers: [secretsLayer] };
    if (!sink._secret) return {};
    return { paramsAndSecrets: lambda.ParamsAndSecretsLayerVersion.fromVersion(lambda.ParamsAndSecretsVersions.V1_0_103) };
  }

  /** Returns the value of CONFIG, and the grants to read what it names. */
  private config(): { readonly uri: string; readonly grants: iam.PolicyStatement[] } {
    const { config } = this.props;
    if (config === undefined) return { uri: '', grants: [] };
    if (config.startsWith('file:///')) return { uri: config, grants: [] };
    const { partition } = Stack.of(this);
    if (config.startsWith('ssm:')) {
      const name = config.slice('ssm:'.length);
      const read = (sid: string, path: string) =>
        grant(sid, ['ssm:GetParameter'], `arn:${partition}:ssm:${Aws.REGION}:${Aws.ACCOUNT_ID}:parameter${path}`);
      // Of a parameter of the same app, only CloudFormation knows whether its name begins with a slash. No parameter has the other ARN.
      if (Token.isUnresolved(name)) return { uri: config, grants: [read('ReadConfigParameter', name), read('ReadNamedConfigParameter', `/${name}`)] };
      return { uri: config, grants: [read('ReadConfigParameter', name.startsWith('/') ? name : `/${name}`)] };
    }
    const read = (arn: string, key?: kms.IKey) => [
      grant('ReadConfig', ['s3:GetObject'], arn),
      ...grantOfKey('ReadConfigKey', ['kms:Decrypt'], 's3', key),
    ];
    if (config.startsWith('s3://')) return { uri: config, grants: read(`arn:${partition}:s3:::${config.slice('s3://'.length)}`) };
    const { bucket, s3ObjectKey } = new assets.Asset(this, 'Config', { path: config });
    return { uri: `s3://${bucket.bucketName}/${s3ObjectKey}`, grants: read(bucket.arnForObjects(s3ObjectKey), bucket.encryptionKey) };
  }

  private mappings(): void {
    new lambda.EventSourceMapping(this, 'AggregatorInput', {
      target: this.aggregator,
      eventSourceArn: this.inputQueue.queueArn,
      batchSize: 10_000,
      maxBatchingWindow: Duration.seconds(INPUT_WINDOW_SECS),
      reportBatchItemFailures: true,
      maxConcurrency: this.aggregators,
    });
    new lambda.EventSourceMapping(this, 'BatchProcessorTickets', {
      target: this.batchProcessor,
      eventSourceArn: this.batchQueue.queueArn,
      batchSize: 1,
      reportBatchItemFailures: true,
      maxConcurrency: this.processors,
    });
    // A rule and not a Scheduler schedule, because the batch processor recognises a sweep by the rule's `detail-type`. A sweep
    // that failed, or did not reach Lambda, is not retried: the next scheduled sweep does the same work.
    const once = { retryAttempts: 0, maxEventAge: Duration.seconds(60) };
    new events.Rule(this, 'BatchProcessorSweep', {
      schedule: events.Schedule.rate(Duration.minutes(5)),
      targets: [new targets.LambdaFunction(this.batchProcessor, { ...once, deadLetterQueue: this.sweepDeadLetterQueue })],
    });
    new lambda.EventInvokeConfig(this, 'BatchProcessorEventInvokeConfig', {
      ...once,
      function: this.batchProcessor,
      // SqsDestination would add a second grant to the role.
      onFailure: { bind: () => ({ destination: this.sweepDeadLetterQueue.queueArn }) },
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
    const { bodies, duplicatesQueue, eventId, onDuplicate, overflowBucket } = this.props;
    return {
      EVENT_ID: eventId,
      ON_DUPLICATE: onDuplicate ?? OnDuplicate.DROP,
      BODIES: bodies?._variable(`s3://${this.chunkBucket.bucketName}/${CHUNKS}`) ?? '',
      ...(overflowBucket && { OVERFLOW_BUCKET: overflowBucket.bucketName }),
      ...(duplicatesQueue && { DUPLICATES_SQS_URL: duplicatesQueue.queueUrl }),
    };
  }

  private variablesOfBatchProcessor(): Record<string, string> {
    const { answers, completion, duplicatesQueue, payloads, rejects, sink } = this.props;
    return {
      SINK: sink.uri,
      SINK_SECRET: sink._secret,
      ANSWERS_FROM: answers?.uri ?? '',
      ...(rejects && { SINK_REJECTS: uriOf(rejects) }),
      ...(payloads && { SINK_PAYLOADS: uriOf(payloads) }),
      ...(completion && { COMPLETION: completion.target }),
      // In the log, duplicates are found when a batch is closed.
      ...(duplicatesQueue && { DUPLICATES_SQS_URL: duplicatesQueue.queueUrl }),
    };
  }

  private grantsOfAggregator(logGroup: logs.LogGroup): iam.PolicyStatement[] {
    const { bodies, duplicatesQueue, overflowBucket } = this.props;
    return [
      grant(
        'ReceiveEvents',
        ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:GetQueueUrl'],
        this.inputQueue.queueArn,
      ),
      grant('SendTickets', ['sqs:SendMessage'], this.batchQueue.queueArn),
      grant('Quarantine', ['sqs:SendMessage'], this.quarantineQueue.queueArn),
      // In each write mode some of these.
      grant('Claim', ['dynamodb:BatchGetItem', 'dynamodb:PutItem', 'dynamodb:PartiQLInsert'], this.lockTable.tableArn),
      grant('KeepBatches', ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], this.batchTable.tableArn),
      // The wildcard stands for the name of a load.
      grant('StoreLoads', ['s3:PutObject'], this.chunkBucket.arnForObjects(`${CHUNKS}/*`)),
      ...this.grantsOfBoth(logGroup),
      ...(bodies?._grantsOfAggregator() ?? []),
      ...(duplicatesQueue ? grantsToSend('ReportDuplicates', duplicatesQueue) : []),
      ...this.grantsOfOverflow('s3:PutObject'),
      // The function checks the lifecycle at a cold start, and logs an error if it removes bodies too soon.
      ...(overflowBucket ? [grant('SeeLifecycle', ['s3:GetLifecycleConfiguration'], overflowBucket.bucketArn)] : []),
    ];
  }

  private grantsOfBatchProcessor(logGroup: logs.LogGroup): iam.PolicyStatement[] {
    const { answers, bodies, completion, duplicatesQueue, payloads, rejects, sink } = this.props;
    const keep = ['s3:GetObject', 's3:PutObject'];
    return [
      grant(
        'ReceiveAndSendTickets',
        ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:GetQueueAttributes', 'sqs:SendMessage'],
        this.batchQueue.queueArn,
      ),
      grant('Quarantine', ['sqs:SendMessage'], this.quarantineQueue.queueArn),
      // Lambda sends a failed sweep to this queue with the function's role.
      grant('ReportFailedSweeps', ['sqs:SendMessage'], this.sweepDeadLetterQueue.queueArn),
      // A release writes a tombstone. It would delete the item only with DEDUP_WINDOW=0, which these grants exclude.
      // An answer marks the tombstone of an event that it rejects.
      // DescribeTable is for the first batch of the log: it needs an index that knows the events in the table.
      grant(
        'CollectAndRelease',
        ['dynamodb:BatchGetItem', 'dynamodb:DescribeTable', 'dynamodb:PartiQLUpdate', 'dynamodb:UpdateItem'],
        this.lockTable.tableArn,
      ),
      grant('FindClaims', ['dynamodb:Query'], `${this.lockTable.tableArn}/index/${BATCH_INDEX}`),
      // BatchGetItem and PutItem are for slots, and PutItem is for small runs of the log too.
      grant(
        'KeepBatches',
        ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'],
        this.batchTable.tableArn,
      ),
      grant('FindOverdueBatches', ['dynamodb:Query'], `${this.batchTable.tableArn}/index/${STATUS_INDEX}`),
      // The wildcard stands for a load, a run or a list of runs. A load that is missing is lost, one that may not be read is not.
      grant('ReadLoads', ['s3:GetObject'], this.chunkBucket.arnForObjects(`${CHUNKS}/*`)),
      grant('MissLoads', ['s3:ListBucket'], this.chunkBucket.bucketArn, { StringLike: { 's3:prefix': `${CHUNKS}/*` } }),
      // Runs of the log, and lists of runs. The wildcard stands for their names.
      grant('StoreRuns', ['s3:PutObject'], this.chunkBucket.arnForObjects(`${CHUNKS}/*`)),
      ...this.grantsOfBoth(logGroup),
      ...(bodies?._grantsOfBatchProcessor() ?? []),
      ...(duplicatesQueue ? grantsToSend('ReportDuplicates', duplicatesQueue) : []),
      ...this.grantsOfOverflow('s3:GetObject'),
      ...sink._grants(),
      ...(answers?._grants() ?? []),
      ...(rejects ? grantsOfPlace('KeepRejectsInS3', 'MissRejectsInS3', keep, rejects) : []),
      ...(payloads ? grantsOfPlace('KeepPayloadsInS3', 'MissPayloadsInS3', keep, payloads) : []),
      ...(completion?._grants() ?? []),
    ];
  }

  /** The wildcard stands for the claim, <batchId>/<seq>. DeleteObject removes the body of a claim that was released, or not made. */
  private grantsOfOverflow(action: string): iam.PolicyStatement[] {
    const { overflowBucket } = this.props;
    return overflowBucket ? grantsOfPlace('Overflow', 'MissOverflow', [action, 's3:DeleteObject'], { bucket: overflowBucket }) : [];
  }

  private grantsOfBoth(logGroup: logs.LogGroup): iam.PolicyStatement[] {
    const key = this.props.encryptionKey;
    const grants = [grantOfLog(logGroup)];
    if (key) {
      // Only through the services of encrypted resources. The wildcards stand for variants of one action, which the services choose.
      const actions = ['kms:Decrypt', 'kms:Encrypt', 'kms:DescribeKey', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];
      const via = ['sqs', 'dynamodb', 's3'].map((service) => `${service}.${Aws.REGION}.${Aws.URL_SUFFIX}`);
      grants.push(grant('UseKey', actions, key.keyArn, { StringEquals: { 'kms:ViaService': via } }));
    }
    return grants;
  }
}

/** Returns the visibility timeout of a queue that a function reads: 6 times the function's timeout, and the window. */
function visibilityTimeout(timeout: Duration, windowSecs: number): Duration {
  return Duration.seconds(6 * timeout.toSeconds() + windowSecs);
}

/** Returns what names the zip of a function. */
function codeOf(of: lambda.Function): unknown {
  return (of.node.defaultChild as lambda.CfnFunction).code;
}

function grantOfLog(logGroup: logs.LogGroup): iam.PolicyStatement {
  return grant('Log', ['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn);
}

/** Returns the throughput of the lock table and of its index, which must not throttle the table. */
function throughputOf({ _most: most, _warm: warm, _provisioned: units }: LockTableCapacity): Partial<dynamodb.GlobalSecondaryIndexProps> {
  return {
    ...(most !== undefined && { maxWriteRequestUnits: most }),
    ...(warm !== undefined && { warmThroughput: { writeUnitsPerSecond: warm } }),
    ...(units && { readCapacity: units.min, writeCapacity: units.min }),
  };
}

/** The variables that the construct sets: a prop has to be used, because it also grants or computes something. */
const OWN_VARIABLES: Record<string, string> = {
  ANSWERS_FROM: 'answers',
  BATCH_QUEUE_URL: 'none',
  BODIES: 'bodies',
  COMPLETION: 'completion',
  CONFIG: 'config',
  DDB_BATCH_INDEX: 'none',
  DDB_BATCH_TABLE: 'none',
  DDB_LOCK_TABLE: 'none',
  DUPLICATES_SQS_URL: 'duplicatesQueue',
  EVENT_ID: 'eventId',
  ON_DUPLICATE: 'onDuplicate',
  OVERFLOW_BUCKET: 'overflowBucket',
  QUARANTINE_SQS_URL: 'none',
  SINK: 'sink',
  SINK_PAYLOADS: 'payloads',
  SINK_REJECTS: 'rejects',
  SINK_SECRET: 'sink',
};

/** Returns everything that is wrong with the props. Values that are known only when the stack is deployed are not looked at. */
function problemsOf(props: UniqueEventBatchAggregatorProps): string[] {
  const problems: string[] = [];
  const bounds = (name: string, value: number | undefined, min: number, max: number, unit = '') => {
    if (value === undefined || Token.isUnresolved(value) || (Number.isSafeInteger(value) && value >= min && value <= max)) return;
    problems.push(`${name} is ${value}${unit}, expected ${min} to ${max}${unit}`);
  };
  if (!Token.isUnresolved(props.eventId) && !/^(message-id|body-hash|attribute:[ -~]+|json:[ -~]+)$/.test(props.eventId)) {
    problems.push(`eventId is ${JSON.stringify(props.eventId)}, expected json:<JMESPath>, attribute:<name>, body-hash or message-id`);
  }
  const { answers, sink } = props;
  if (answers?.uri.startsWith('sftp:') && !Token.isUnresolved(sink.uri) && !sink.uri.startsWith('sftp:')) {
    problems.push(`answers is ${JSON.stringify(answers.uri)}, a directory on the server of the sink, expected a sink sftp://user@host/path`);
  }
  if (isAlias(props.encryptionKey)) problems.push('encryptionKey is an alias, for which IAM grants nothing, expected the key itself');
  bounds('memorySize', props.memorySize?.toMebibytes(), 512, 10_240, ' MB');
  bounds('aggregatorTimeout', props.aggregatorTimeout?.toSeconds(), 15, 180, ' s');
  bounds('batchProcessorTimeout', props.batchProcessorTimeout?.toSeconds(), 60, 900, ' s');
  bounds('aggregatorConcurrency', props.aggregatorConcurrency, 2, 1_000);
  bounds('batchProcessorConcurrency', props.batchProcessorConcurrency, 2, 1_000);
  if (!props.vpc && (props.vpcSubnets || props.securityGroups)) problems.push('vpcSubnets or securityGroups is set, expected vpc as well');
  for (const name of Object.keys(props.settings ?? {})) {
    const prop = OWN_VARIABLES[name];
    if (prop) problems.push(`settings has ${name}, expected ${prop === 'none' ? 'no variable of a resource of the construct' : `the prop ${prop}`}`);
  }
  return problems;
}
