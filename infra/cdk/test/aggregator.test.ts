import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { App, Duration, Size, Stack, Validations } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as events from 'aws-cdk-lib/aws-events';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import * as ssm from 'aws-cdk-lib/aws-ssm';
import * as stepfunctions from 'aws-cdk-lib/aws-stepfunctions';
import { AwsSolutionsChecks } from 'cdk-nag';
import { afterAll, describe, expect, it } from 'vitest';

import { acknowledge } from '../bin/nag';
import {
  Answers,
  Bodies,
  Completion,
  LockTableCapacity,
  OnDuplicate,
  Sink,
  UniqueEventBatchAggregator,
  type UniqueEventBatchAggregatorProps,
} from '../lib';

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'code-'));
fs.writeFileSync(path.join(directory, 'bootstrap'), '');
const file = path.join(directory, 'service.toml');
fs.writeFileSync(file, '[batches]\nmax_size = 1000\n');
afterAll(() => fs.rmSync(directory, { recursive: true }));

type Chosen = Partial<UniqueEventBatchAggregatorProps>;

function service(stack: Stack, chosen: Chosen = {}, id = 'Service'): UniqueEventBatchAggregator {
  const code = lambda.Code.fromAsset(directory);
  return new UniqueEventBatchAggregator(stack, id, {
    eventId: 'json:id',
    sink: Sink.log(),
    code: { aggregator: code, batchProcessor: code },
    ...chosen,
  });
}

/** Returns the template of a stack with the service. `choose` may create resources in the stack. */
function template(choose: Chosen | ((stack: Stack) => Chosen) = {}): Template {
  const stack = new Stack(new App(), 'Stack');
  service(stack, typeof choose === 'function' ? choose(stack) : choose);
  return Template.fromStack(stack);
}

interface Statement {
  readonly Sid: string;
  readonly Action: string | string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}

/** Returns the statements of a role's own policy, by Sid. */
function grants(made: Template, policy: 'aggregator' | 'batch-processor'): Record<string, Statement> {
  const roles = Object.values(made.findResources('AWS::IAM::Role', { Properties: { Policies: [{ PolicyName: policy }] } }));
  const statements: Statement[] = roles[0]!.Properties.Policies[0].PolicyDocument.Statement;
  return Object.fromEntries(statements.map((each) => [each.Sid, each]));
}

/** Returns the variables of a function. */
function variables(made: Template, name: 'Aggregator' | 'BatchProcessor'): Record<string, unknown> {
  const functions = Object.entries(made.findResources('AWS::Lambda::Function'));
  return functions.find(([id]) => id.startsWith(`Service${name}`))![1].Properties.Environment.Variables;
}

describe('the stack', () => {
  it('has the resources of the template, and no others', () => {
    const counts: Record<string, number> = {};
    for (const { Type } of Object.values<{ Type: string }>(template().toJSON().Resources)) counts[Type] = (counts[Type] ?? 0) + 1;
    expect(counts).toEqual({
      'AWS::SQS::Queue': 6,
      'AWS::SQS::QueuePolicy': 1,
      'AWS::DynamoDB::Table': 2,
      'AWS::S3::Bucket': 1,
      'AWS::S3::BucketPolicy': 1,
      'AWS::Logs::LogGroup': 3,
      'AWS::IAM::Role': 3,
      'AWS::Lambda::Function': 3,
      'AWS::Lambda::EventSourceMapping': 2,
      'AWS::Lambda::EventInvokeConfig': 1,
      'AWS::Lambda::Permission': 1,
      'AWS::Events::Rule': 1,
      'AWS::CloudWatch::Alarm': 18,
      'AWS::CloudWatch::Dashboard': 1,
      'Custom::DeploymentCheck': 1,
    });
  });

  it('has visibility timeouts that follow from the timeouts', () => {
    const made = template({ aggregatorTimeout: Duration.minutes(2), batchProcessorTimeout: Duration.minutes(10), memorySize: Size.gibibytes(2) });
    made.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 721 });
    made.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 3600 });
    made.allResourcesProperties('AWS::Lambda::Function', { MemorySize: 2048 });
  });

  it('has dead letters before a queue removes what waits, whatever the timeout is', () => {
    const receives = (aggregatorTimeout: Duration) => {
      const queues = Object.values(template({ aggregatorTimeout, onDuplicate: OnDuplicate.REQUEUE }).findResources('AWS::SQS::Queue'));
      return Math.max(...queues.map(({ Properties }) => Properties.RedrivePolicy?.maxReceiveCount ?? 0));
    };
    expect(receives(Duration.seconds(60))).toBe(1000);
    expect(receives(Duration.seconds(180)) * 1081).toBeLessThan(Duration.days(7).toSeconds());
  });

  it('retains queues, tables and the bucket when the stack is deleted', () => {
    template().allResources('AWS::DynamoDB::Table', { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
    // A first deployment that fails leaves none of these behind.
    for (const kind of ['AWS::SQS::Queue', 'AWS::S3::Bucket']) {
      template().allResources(kind, { DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' });
    }
  });

  it('tells nobody that an alarm clears, unless that is asked for', () => {
    const chosen = (stack: Stack) => ({ alarmTopic: new sns.Topic(stack, 'Topic') });
    template(chosen).allResourcesProperties('AWS::CloudWatch::Alarm', { AlarmActions: Match.anyValue(), OKActions: Match.absent() });
    const asked = template((stack) => ({ okTopic: new sns.Topic(stack, 'Topic') }));
    asked.allResourcesProperties('AWS::CloudWatch::Alarm', { AlarmActions: Match.absent(), OKActions: [{ Ref: 'TopicBFC7AF6E' }] });
  });

  it('can be used twice in a stack', () => {
    const stack = new Stack(new App(), 'Stack');
    service(stack, {}, 'One');
    service(stack, { sink: Sink.s3(new s3.Bucket(stack, 'Bucket')) }, 'Two');
    const made = Template.fromStack(stack);
    made.resourceCountIs('AWS::Lambda::Function', 6);
    // A fixed name would be used twice.
    made.allResourcesProperties('AWS::CloudWatch::Dashboard', { DashboardName: Match.absent() });
  });

  it('has outputs for batchctl if they are asked for', () => {
    const stack = new Stack(new App(), 'Stack');
    // A resource of the app may have the name of an output.
    new s3.Bucket(stack, 'Sink');
    service(stack, { config: 'ssm:/events', onDuplicate: OnDuplicate.REQUEUE }).addOutputs();
    const outputs = Object.entries(Template.fromStack(stack).findOutputs('*')).map(([name, { Value }]) => [name, Value]);
    expect(Object.fromEntries(outputs)).toMatchObject({ EventId: 'json:id', OnDuplicate: 'requeue', Config: 'ssm:/events', Sink: 'log:' });
    // An output may not be empty.
    expect(outputs.map(([name]) => name)).not.toContain('Bodies');
    expect(outputs).toHaveLength(15);
    template().templateMatches({ Outputs: Match.absent() });
    const answering = new Stack(new App(), 'Stack');
    service(answering, { answers: Answers.file('/mnt/answers') }).addOutputs();
    expect(Template.fromStack(answering).findOutputs('Answers')).toEqual({ Answers: { Value: 'file:///mnt/answers' } });
  });

  it('is checked again when a place that the functions use changes', () => {
    const checked = (made: Template) => Object.values(made.findResources('Custom::DeploymentCheck'))[0]!.Properties;
    expect(checked(template())).not.toHaveProperty('Variables');
    const place = (stack: Stack) => ({ bucket: new s3.Bucket(stack, 'Bucket') });
    const made = template((stack) => ({ rejects: place(stack), settings: { DEDUP_WINDOW: '7200' } }));
    expect(checked(made).Variables).toEqual({
      SINK_REJECTS: { 'Fn::Join': ['', ['s3://', { Ref: 'Bucket83908E77' }]] },
      DEDUP_WINDOW: '7200',
    });
    const inNetwork = (count: number) =>
      checked(
        template((stack) => {
          const vpc = new ec2.Vpc(stack, 'Vpc');
          return { vpc, vpcSubnets: { subnets: vpc.privateSubnets.slice(0, count) } };
        }),
      ).Access;
    expect(inNetwork(1)).not.toEqual(inNetwork(2));
  });

  it('is checked again when the code or a timeout changes', () => {
    const checked = (chosen: Chosen) => Object.values(template(chosen).findResources('Custom::DeploymentCheck'))[0]!.Properties;
    const zip = (name: string) => {
      const each = path.join(directory, `${name}.zip`);
      fs.writeFileSync(each, name);
      return lambda.Code.fromAsset(each);
    };
    const withProcessor = (name: string) => checked({ code: { aggregator: zip('present'), batchProcessor: zip(name) } });
    expect(withProcessor('present')).toEqual(withProcessor('present'));
    expect(withProcessor('other').Code).not.toEqual(withProcessor('present').Code);
    const app = new App();
    const bucket = new s3.Bucket(new Stack(app, 'Elsewhere'), 'Bucket');
    const stack = new Stack(app, 'Stack');
    const code = lambda.Code.fromBucket(bucket, 'bootstrap.zip');
    service(stack, { code: { aggregator: code, batchProcessor: code } });
    const [aggregator] = Object.values(Template.fromStack(stack).findResources('Custom::DeploymentCheck'))[0]!.Properties.Code;
    expect(aggregator).toEqual({ s3Bucket: { 'Fn::ImportValue': expect.anything() }, s3Key: 'bootstrap.zip' });
    const access = (chosen: Chosen) => checked(chosen).Access;
    expect(access({ aggregatorTimeout: Duration.seconds(61) })).not.toEqual(access({}));
    expect(access({ batchProcessorTimeout: Duration.seconds(301) })).not.toEqual(access({}));
  });

  it('delivers files only where Lambda mounts file systems', () => {
    expect(Sink.file('/mnt/batches').uri).toBe('file:///mnt/batches');
    expect(() => Sink.file('/tmp/batches')).toThrow('sink is "file:///tmp/batches", expected a path that begins with /mnt/');
    expect(() => Sink.file('/mnt/a/../../tmp')).toThrow('without ..');
  });
});

describe('resources of the same app', () => {
  it('can be a topic, a key, a bucket, a queue, a secret, a function and a state machine', () => {
    const made = template((stack) => {
      const code = lambda.Code.fromAsset(directory);
      return {
        alarmTopic: new sns.Topic(stack, 'Topic'),
        encryptionKey: new kms.Key(stack, 'Key'),
        overflowBucket: new s3.Bucket(stack, 'Bucket'),
        duplicatesQueue: new sqs.Queue(stack, 'Queue'),
        sink: Sink.lambda(new lambda.Function(stack, 'Legacy', { code, handler: 'x', runtime: lambda.Runtime.PROVIDED_AL2023 })),
      };
    });
    expect(variables(made, 'Aggregator')).toMatchObject({ OVERFLOW_BUCKET: { Ref: 'Bucket83908E77' }, DUPLICATES_SQS_URL: { Ref: 'Queue4A7E3555' } });
    expect(variables(made, 'BatchProcessor')).toMatchObject({
      SINK: { 'Fn::GetAtt': ['LegacyFA07BB5D', 'Arn'] },
      DUPLICATES_SQS_URL: { Ref: 'Queue4A7E3555' },
    });
    expect(grants(made, 'batch-processor').DeliverToFunction).toMatchObject({
      Action: 'lambda:InvokeFunction',
      Resource: { 'Fn::GetAtt': ['LegacyFA07BB5D', 'Arn'] },
    });
    expect(grants(made, 'aggregator')).toHaveProperty('ReportDuplicates');
    expect(grants(made, 'batch-processor')).toHaveProperty('ReportDuplicates');
    const secret = template((stack) => ({ sink: Sink.http('https://legacy.example', { secret: new secretsmanager.Secret(stack, 'Secret') }) }));
    expect(grants(secret, 'batch-processor').ReadSecret).toMatchObject({
      Action: 'secretsmanager:GetSecretValue',
      Resource: { Ref: 'SecretA720EF05' },
    });
    expect(variables(secret, 'BatchProcessor').SINK_SECRET).toEqual({ 'Fn::Join': ['', ['secretsmanager:', { Ref: 'SecretA720EF05' }]] });
    const machine = template((stack) => {
      const definitionBody = stepfunctions.DefinitionBody.fromString('{}');
      return { sink: Sink.stateMachine(new stepfunctions.StateMachine(stack, 'Machine', { definitionBody }), { qualifier: 'PROD' }) };
    });
    const condition = { 'ForAnyValue:StringEquals': { 'states:StateMachineQualifier': 'PROD' } };
    expect(grants(machine, 'batch-processor').DeliverToStateMachine).toMatchObject({ Action: 'states:StartExecution', Condition: condition });
    const bucket = template((stack) => ({ sink: Sink.s3(new s3.Bucket(stack, 'Bucket'), { prefix: 'legacy/parts' }) }));
    expect(grants(bucket, 'batch-processor').MissInS3).toMatchObject({
      Resource: { 'Fn::GetAtt': ['Bucket83908E77', 'Arn'] },
      Condition: { StringLike: { 's3:prefix': 'legacy/parts/*' } },
    });
  });

  it('can be what notices, rejects, payloads and loads go to, with exact grants', () => {
    const made = template((stack) => {
      const bucket = new s3.Bucket(stack, 'Bucket', { encryption: s3.BucketEncryption.KMS });
      return {
        completion: Completion.eventBus(new events.EventBus(stack, 'Bus')),
        rejects: { bucket, prefix: 'rejects' },
        payloads: { bucket },
        bodies: Bodies.logBucket(bucket, { prefix: 'loads' }),
      };
    });
    const processor = grants(made, 'batch-processor');
    expect(processor.PutNotices).toMatchObject({ Action: 'events:PutEvents', Resource: { 'Fn::GetAtt': ['BusEA82B648', 'Arn'] } });
    expect(processor.KeepRejectsInS3!.Resource).toEqual({ 'Fn::Join': ['', [{ 'Fn::GetAtt': ['Bucket83908E77', 'Arn'] }, '/rejects/*']] });
    expect(processor.MissPayloadsInS3).not.toHaveProperty('Condition');
    expect(processor.KeepRejectsInS3Key).toMatchObject({ Action: ['kms:Decrypt', 'kms:GenerateDataKey'] });
    expect(processor.ReadLoadsInPlace!.Action).toEqual('s3:GetObject');
    expect(processor.StoreRunsInPlace!.Action).toEqual('s3:PutObject');
    expect(grants(made, 'aggregator').StoreLoadsInPlace!.Action).toEqual('s3:PutObject');
    expect(grants(made, 'aggregator').StoreLoadsInPlaceKey!.Action).toEqual('kms:GenerateDataKey');
    const queue = template((stack) => ({ completion: Completion.queue(new sqs.Queue(stack, 'Queue')) }));
    expect(grants(queue, 'batch-processor').SendNotices).toMatchObject({ Action: 'sqs:SendMessage', Resource: { 'Fn::GetAtt': ['Queue4A7E3555', 'Arn'] } });
  });

  it('can be the bucket of the log, in which the batch processor stores runs', () => {
    const made = template((stack) => ({
      bodies: Bodies.logBucket(new s3.Bucket(stack, 'Bucket', { encryption: s3.BucketEncryption.KMS }), { prefix: 'log' }),
    }));
    expect(variables(made, 'Aggregator').BODIES).toEqual({ 'Fn::Join': ['', ['log:s3://', { Ref: 'Bucket83908E77' }, '/log']] });
    const below = { 'Fn::Join': ['', [{ 'Fn::GetAtt': ['Bucket83908E77', 'Arn'] }, '/log/*']] };
    expect(grants(made, 'aggregator').StoreLoadsInPlace).toMatchObject({ Action: 's3:PutObject', Resource: below });
    const processor = grants(made, 'batch-processor');
    expect(processor.ReadLoadsInPlace).toMatchObject({ Action: 's3:GetObject', Resource: below });
    expect(processor.StoreRunsInPlace).toMatchObject({ Action: 's3:PutObject', Resource: below });
    expect(processor.StoreRunsInPlaceKey!.Action).toEqual('kms:GenerateDataKey');
  });

  it('are warned of if the grants may not fit the inline policies of a role', () => {
    const warnings = (prefix: string) => {
      const stack = new Stack(new App(), 'Stack');
      const bucket = (id: string) => new s3.Bucket(stack, id, { encryption: s3.BucketEncryption.KMS });
      const encryptionKey = new kms.Key(stack, 'Key');
      const queue = (id: string) => new sqs.Queue(stack, id, { encryptionMasterKey: encryptionKey });
      service(stack, {
        bodies: Bodies.logBucket(bucket('Log'), { prefix }),
        completion: Completion.queue(queue('Notices')),
        duplicatesQueue: queue('Duplicates'),
        encryptionKey,
        overflowBucket: bucket('Overflow'),
        payloads: { bucket: bucket('Payloads'), prefix },
        rejects: { bucket: bucket('Rejects'), prefix },
        sink: Sink.http('https://legacy.example', { secret: new secretsmanager.Secret(stack, 'Secret', { encryptionKey }) }),
      });
      return Annotations.fromStack(stack).findWarning('/Stack/Service', Match.stringLikeRegexp('the grants of batch-processor take about'));
    };
    expect(warnings('p')).toHaveLength(0);
    expect(warnings('p'.repeat(200))).toHaveLength(1);
  });

  it('can be a network, in which other resources let the batch processor in', () => {
    const stack = new Stack(new App(), 'Stack');
    const vpc = new ec2.Vpc(stack, 'Vpc');
    const one = service(stack, { vpc });
    new ec2.SecurityGroup(stack, 'Database', { vpc }).connections.allowFrom(one.batchProcessor, ec2.Port.tcp(5432));
    const made = Template.fromStack(stack);
    made.resourceCountIs('AWS::EC2::SecurityGroupIngress', 1);
    made.resourcePropertiesCountIs('AWS::Lambda::Function', { VpcConfig: Match.anyValue() }, 1);
    made.resourcePropertiesCountIs('AWS::IAM::Role', { ManagedPolicyArns: Match.anyValue() }, 1);
  });

  it('can be a parameter, whatever its name begins with', () => {
    const resources = (config: string) => JSON.stringify(grants(template({ config }), 'aggregator').ReadConfigParameter!.Resource);
    expect(resources('ssm:/events')).toContain(':parameter/events"');
    expect(resources('ssm:events')).toContain(':parameter/events"');
    const made = template((stack) => ({ config: `ssm:${new ssm.StringParameter(stack, 'Parameter', { stringValue: 'x' }).parameterName}` }));
    expect(grants(made, 'aggregator')).toHaveProperty('ReadNamedConfigParameter');
  });

  it('can be an encrypted topic, but no alias of a key', () => {
    const made = template((stack) => ({ alarmTopic: new sns.Topic(stack, 'Topic', { masterKey: new kms.Key(stack, 'Key') }) }));
    const statement = { Principal: { Service: 'cloudwatch.amazonaws.com' }, Action: ['kms:Decrypt', 'kms:GenerateDataKey*'] };
    made.hasResourceProperties('AWS::KMS::Key', { KeyPolicy: { Statement: Match.arrayWith([Match.objectLike(statement)]) } });
    const alias = (stack: Stack) => kms.Alias.fromAliasName(stack, 'Alias', 'alias/events');
    expect(() => template((stack) => ({ encryptionKey: alias(stack) }))).toThrow('encryptionKey is an alias');
    const bucket = (stack: Stack) => new s3.Bucket(stack, 'Bucket', { encryptionKey: alias(stack) });
    expect(() => template((stack) => ({ sink: Sink.s3(bucket(stack)) }))).toThrow('is the alias');
  });

  it('can be granted to the functions, whose roles take further statements', () => {
    const stack = new Stack(new App(), 'Stack');
    const one = service(stack);
    new s3.Bucket(stack, 'Bucket').grantPut(one.batchProcessor);
    one.aggregator.addToRolePolicy(new iam.PolicyStatement({ actions: ['sns:Publish'], resources: ['*'] }));
    const made = Template.fromStack(stack);
    made.resourceCountIs('AWS::IAM::Policy', 2);
    made.hasResourceProperties('AWS::IAM::Policy', { PolicyDocument: { Statement: [Match.objectLike({ Action: 'sns:Publish' })] } });
    // Nothing else adds to a role.
    template().resourceCountIs('AWS::IAM::Policy', 0);
  });
});

describe('answers', () => {
  const settings = (made: Template) => Object.values(made.findResources('Custom::DeploymentCheck'))[0]!.Properties.Settings;
  const alarms = (made: Template) => Object.keys(made.findResources('AWS::CloudWatch::Alarm')).filter((id) => id.startsWith('ServiceAnswersMissing'));

  it('may be listed and read below their prefix only, with the key of their bucket', () => {
    const made = template((stack) => {
      const bucket = new s3.Bucket(stack, 'Bucket', { encryption: s3.BucketEncryption.KMS });
      return { answers: Answers.s3(bucket, 'legacy/answers') };
    });
    const uri = { 'Fn::Join': ['', ['s3://', { Ref: 'Bucket83908E77' }, '/legacy/answers']] };
    expect(variables(made, 'BatchProcessor').ANSWERS_FROM).toEqual(uri);
    expect(variables(made, 'Aggregator')).not.toHaveProperty('ANSWERS_FROM');
    expect(settings(made)).toContainEqual(uri);
    const processor = grants(made, 'batch-processor');
    expect(processor.ReadAnswers).toMatchObject({
      Action: 's3:GetObject',
      Resource: { 'Fn::Join': ['', [{ 'Fn::GetAtt': ['Bucket83908E77', 'Arn'] }, '/legacy/answers/*']] },
    });
    expect(processor.ListAnswers).toMatchObject({
      Action: 's3:ListBucket',
      Resource: { 'Fn::GetAtt': ['Bucket83908E77', 'Arn'] },
      Condition: { StringLike: { 's3:prefix': 'legacy/answers/*' } },
    });
    expect(processor.ReadAnswersKey!.Action).toEqual('kms:Decrypt');
    expect(grants(made, 'aggregator')).not.toHaveProperty('ReadAnswers');
  });

  it('need no grant on a server or a file system', () => {
    const onServer = template({ sink: Sink.sftp('sftp://user@host/in'), answers: Answers.sftp('/in/answers/') });
    expect(variables(onServer, 'BatchProcessor').ANSWERS_FROM).toBe('sftp:/in/answers/');
    const mounted = template({ answers: Answers.file('/mnt/answers') });
    expect(variables(mounted, 'BatchProcessor').ANSWERS_FROM).toBe('file:///mnt/answers');
    for (const made of [onServer, mounted]) expect(grants(made, 'batch-processor')).not.toHaveProperty('ReadAnswers');
  });

  it('have an alarm, and without them there is none', () => {
    expect(alarms(template({ answers: Answers.file('/mnt/answers') }))).toHaveLength(1);
    expect(alarms(template())).toHaveLength(0);
    expect(variables(template(), 'BatchProcessor').ANSWERS_FROM).toBe('');
  });

  it('are refused where the function would not find them', () => {
    expect(() => Answers.s3({} as s3.IBucket, '')).toThrow('prefix is "", expected parts of letters');
    expect(() => Answers.sftp('in/answers')).toThrow('answers is "in/answers", expected a path on the server of the sink, without ..');
    expect(() => Answers.sftp('/in//answers')).toThrow('expected a path on the server of the sink');
    expect(() => Answers.sftp('/')).toThrow('expected a path on the server of the sink');
    expect(() => Answers.file('/mnt/../tmp')).toThrow('expected a path that begins with /mnt/, without ..');
    const elsewhere = () => template({ answers: Answers.sftp('/in/answers') });
    expect(elsewhere).toThrow('answers is "sftp:/in/answers", a directory on the server of the sink, expected a sink sftp://user@host/path');
    expect(() => template({ settings: { ANSWERS_FROM: 's3://bucket/answers' } })).toThrow('settings has ANSWERS_FROM, expected the prop answers');
  });
});

describe('the configuration', () => {
  it('is a file that is uploaded, and that both functions may read', () => {
    const made = template({ config: file });
    for (const name of ['Aggregator', 'BatchProcessor'] as const) {
      expect(JSON.stringify(variables(made, name).CONFIG)).toMatch(/s3:\/\/.*[0-9a-f]{64}\.toml/);
    }
    for (const policy of ['aggregator', 'batch-processor'] as const) {
      expect(JSON.stringify(grants(made, policy).ReadConfig)).toMatch(/"Action":"s3:GetObject".*[0-9a-f]{64}\.toml/);
    }
    expect(() => template({ config: path.join(directory, 'missing.toml') })).toThrow(/missing\.toml/);
  });

  it('is single variables, but none that the construct sets', () => {
    const made = template({ settings: { MAX_BATCH_SIZE: '1000' } });
    expect(variables(made, 'Aggregator')).toMatchObject({ MAX_BATCH_SIZE: '1000' });
    expect(variables(made, 'BatchProcessor')).toMatchObject({ MAX_BATCH_SIZE: '1000' });
    expect(() => template({ settings: { SINK: 'log:', DDB_LOCK_TABLE: 'x' } })).toThrow(
      'settings has SINK, expected the prop sink; settings has DDB_LOCK_TABLE, expected no variable of a resource of the construct',
    );
  });

  it('has all problems in one error', () => {
    const wrong = { eventId: 'id', memorySize: Size.mebibytes(128), aggregatorTimeout: Duration.seconds(3), batchProcessorConcurrency: 1.5 };
    expect(() => template(wrong)).toThrow(
      'eventId is "id", expected json:<JMESPath>, attribute:<name>, body-hash or message-id; memorySize is 128 MB, expected 512 to 10240 MB; ' +
        'aggregatorTimeout is 3 s, expected 15 to 180 s; batchProcessorConcurrency is 1.5, expected 2 to 1000',
    );
    expect(() => Sink.s3({} as s3.IBucket, { prefix: 'a/*' })).toThrow('prefix is "a/*", expected parts of letters, digits');
    expect(() => Sink.sftp('sftp://user:word@host/path')).toThrow('without a password');
    expect(() => LockTableCapacity.provisioned({ min: 5, max: 4 })).toThrow('lockTableCapacity: max is 4, expected a whole number from 5 on');
  });
});

describe('choices', () => {
  it('are in the variables', () => {
    const made = template({ onDuplicate: OnDuplicate.REQUEUE, bodies: Bodies.items() });
    expect(variables(made, 'Aggregator')).toMatchObject({ ON_DUPLICATE: 'requeue', EVENT_ID: 'json:id', CONFIG: '' });
    expect(variables(made, 'Aggregator').BODIES).toEqual('items');
    expect(variables(template(), 'Aggregator').BODIES).toEqual('');
    expect(variables(template({ bodies: Bodies.logTable() }), 'Aggregator').BODIES).toEqual('log:table');
    expect(JSON.stringify(variables(template({ bodies: Bodies.logS3() }), 'Aggregator').BODIES)).toMatch(/"log:s3:\/\/".*"\/chunks"/);
    made.hasResourceProperties('AWS::SQS::Queue', { RedrivePolicy: Match.objectLike({ maxReceiveCount: 1000 }) });
  });

  it('reserve concurrency, with one more execution for the sweep', () => {
    const reserved = (chosen: Chosen) =>
      Object.values(template(chosen).findResources('AWS::Lambda::Function', { Properties: { Handler: 'bootstrap' } })).map(
        ({ Properties }) => Properties.ReservedConcurrentExecutions,
      );
    expect(reserved({})).toEqual([undefined, undefined]);
    expect(reserved({ reserveConcurrency: true }).sort()).toEqual([3, 4]);
    expect(reserved({ reserveConcurrency: true, aggregatorConcurrency: 9, batchProcessorConcurrency: 20 }).sort()).toEqual([21, 9]);
  });

  it('add the extension that reads secrets, for the processor', () => {
    const made = template((stack) => ({ sink: Sink.sftp('sftp://user@host/path', { secret: new secretsmanager.Secret(stack, 'Secret') }) }));
    made.resourcePropertiesCountIs('AWS::Lambda::Function', { Layers: Match.anyValue() }, 1);
    expect(JSON.stringify(made.toJSON())).toMatch(/AWS-Parameters-and-Secrets-Lambda-Extension-Arm64:\d+/);
    template().allResourcesProperties('AWS::Lambda::Function', { Layers: Match.absent() });
  });
});

describe('cdk-nag', () => {
  const everything = (stack: Stack): Chosen => ({
    encryptionKey: kms.Key.fromKeyArn(stack, 'Key', 'arn:aws:kms:eu-west-1:123456789012:key/0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d'),
    sink: Sink.s3(s3.Bucket.fromBucketName(stack, 'Bucket', 'bucket'), { prefix: 'prefix' }),
    // No sink uses all of these; this test needs only their grants.
    rejects: { bucket: s3.Bucket.fromBucketName(stack, 'Rejects', 'rejects') },
    payloads: { bucket: s3.Bucket.fromBucketName(stack, 'Payloads', 'payloads'), prefix: 'prefix' },
    overflowBucket: s3.Bucket.fromBucketName(stack, 'Overflow', 'bodies'),
    bodies: Bodies.logBucket(s3.Bucket.fromBucketName(stack, 'Loads', 'loads')),
    answers: Answers.s3(s3.Bucket.fromBucketName(stack, 'Answers', 'legacy'), 'answers'),
    lockTableCapacity: LockTableCapacity.provisioned({ min: 5, max: 1000 }),
  });
  const places = ['bucket/prefix', 'rejects', 'payloads/prefix', 'bodies', 'loads', 'legacy/answers'];

  /** Returns the findings that are not acknowledged. A synthesis with any of them fails. */
  function findings(choose: (stack: Stack) => Chosen, acknowledged: boolean): string[] {
    const app = new App();
    const stack = new Stack(app, 'Stack');
    const one = service(stack, choose(stack));
    if (acknowledged) acknowledge(one, places);
    Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
    try {
      app.synth();
      return [];
    } catch (error) {
      const found = String(error).match(/Acknowledge with '[^']+'/g);
      if (!found) throw error;
      return [...new Set(found)].sort().map((text) => text.slice("Acknowledge with 'AwsSolutions::AwsSolutions-".length, -1));
    }
  }

  it('has no findings that are not acknowledged', () => {
    expect(findings(() => ({}), true)).toEqual([]);
    expect(findings(everything, true)).toEqual([]);
  });

  it('has these findings without the acknowledgements', () => {
    const always = ['IAM5[Resource::<ServiceChunkBucket6C2CAF0A.Arn>/chunks/*]', 'S1', 'SQS3', 'SQS4'];
    expect(findings(() => ({}), false)).toEqual(always);
    expect(findings(everything, false)).toEqual(
      [
        ...always,
        'IAM5[Action::kms:GenerateDataKey*]',
        'IAM5[Action::kms:ReEncrypt*]',
        ...places.map((place) => `IAM5[Resource::arn:<AWS::Partition>:s3:::${place}/*]`),
      ].sort(),
    );
  });
});
