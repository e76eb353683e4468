/**
 * Synthesizes stacks for infra/checks. Reads a list of runs from stdin: `[{"lib", "outdir", "worlds", "refused"}]`. `lib` is the
 * folder of the built construct, so that one process, which loads the CDK once, can check many variants of it. `worlds` and `refused`
 * are sets of parameters of the SAM template, `{"name": {"Parameter": "value"}}`.
 *
 * Writes to `outdir` a template for each of the `worlds` and the error for each of the `refused`; or, if that fails, `error.txt`.
 */
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as ssm from 'aws-cdk-lib/aws-ssm';
import * as stepfunctions from 'aws-cdk-lib/aws-stepfunctions';

type Library = typeof import('../lib');
type Props = ConstructorParameters<Library['UniqueEventBatchAggregator']>[2];
type Writable<T> = { -readonly [N in keyof T]: T[N] };
type Parameters = Record<string, string>;
type Worlds = Record<string, Parameters>;
interface Run {
  readonly lib: string;
  readonly outdir: string;
  readonly worlds: Worlds;
  readonly refused: Worlds;
}

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'code-'));
fs.writeFileSync(path.join(directory, 'bootstrap'), '');

/** Returns the sink that the parameters `Sink` and `SinkSecretArn` choose. */
function sinkOf({ Sink }: Library, stack: Stack, uri: string, secretArn?: string) {
  const secret = secretArn?.includes(':secretsmanager:')
    ? { secret: secretsmanager.Secret.fromSecretCompleteArn(stack, 'Secret', secretArn) }
    : secretArn && { parameter: ssm.StringParameter.fromStringParameterArn(stack, 'Parameter', secretArn) };
  const fields = uri.split(':');
  switch (fields[0] === 'arn' ? fields[2] : fields[0]) {
    case 's3': {
      const [, , bucket, ...prefix] = uri.split('/');
      return Sink.s3(s3.Bucket.fromBucketName(stack, 'SinkBucket', bucket!), prefix.length > 0 ? { prefix: prefix.join('/') } : {});
    }
    case 'https':
      return Sink.http(uri, secret || {});
    case 'postgres':
      return Sink.postgres(uri, secret || {});
    case 'sftp':
      return Sink.sftp(uri, secret || {});
    case 'file':
      return Sink.file(uri.slice('file://'.length));
    case 'lambda':
      return Sink.lambda(lambda.Function.fromFunctionArn(stack, 'SinkFunction', uri));
    case 'states': {
      const machine = stepfunctions.StateMachine.fromStateMachineArn(stack, 'SinkMachine', fields.slice(0, 7).join(':'));
      return Sink.stateMachine(machine, { qualifier: fields[7] });
    }
    default:
      return Sink.log();
  }
}

function answersOf({ Answers }: Library, stack: Stack, uri: string) {
  if (uri.startsWith('sftp:')) return Answers.sftp(uri.slice('sftp:'.length));
  if (uri.startsWith('file:')) return Answers.file(uri.slice('file://'.length));
  const [, , bucket, ...prefix] = uri.split('/');
  return Answers.s3(s3.Bucket.fromBucketName(stack, 'AnswersBucket', bucket!), prefix.join('/'));
}

function capacityOf({ LockTableCapacity }: Library, text: string) {
  const [kind, units = ''] = text.split(':');
  const [min, max] = units.split('-').map(Number);
  if (kind === 'at-most') return LockTableCapacity.atMost(min!);
  if (kind === 'warm') return LockTableCapacity.warm(min!);
  return kind === 'provisioned' ? LockTableCapacity.provisioned({ min: min!, max: max! }) : LockTableCapacity.onDemand();
}

function bodiesOf({ Bodies }: Library, value: string) {
  if (value === 'log:table') return Bodies.logTable();
  return value === 'log:s3' ? Bodies.logS3() : Bodies.items();
}

/** How each parameter of the template is written in CDK. `Sink` and `SinkSecretArn` are one prop; `PolicyArns` is none: see `service`. */
const PROPS: Record<string, (props: Writable<Props>, value: string, stack: Stack, library: Library) => void> = {
  EventId: (props, value) => (props.eventId = value),
  Answers: (props, value, stack, library) => (props.answers = answersOf(library, stack, value)),
  Config: (props, value) => (props.config = value),
  OnDuplicate: (props, value, _, { OnDuplicate }) => (props.onDuplicate = value === 'requeue' ? OnDuplicate.REQUEUE : OnDuplicate.DROP),
  Bodies: (props, value, _, library) => (props.bodies = bodiesOf(library, value)),
  SecretsLayerArn: (props, value, stack) => (props.secretsLayer = lambda.LayerVersion.fromLayerVersionArn(stack, 'Layer', value)),
  KmsKeyArn: (props, value, stack) => (props.encryptionKey = kms.Key.fromKeyArn(stack, 'Key', value)),
  AlarmTopicArn: (props, value, stack) => (props.alarmTopic = sns.Topic.fromTopicArn(stack, 'Topic', value)),
  PermissionsBoundaryArn: (props, value, stack) =>
    (props.permissionsBoundary = iam.ManagedPolicy.fromManagedPolicyArn(stack, 'Boundary', value)),
  Architecture: (props, value) => (props.architecture = value === 'arm64' ? lambda.Architecture.ARM_64 : lambda.Architecture.X86_64),
  MemorySize: (props, value) => (props.memorySize = Size.mebibytes(Number(value))),
  BatchProcessorTimeout: (props, value) => (props.batchProcessorTimeout = Duration.seconds(Number(value))),
  AggregatorConcurrency: (props, value) => (props.aggregatorConcurrency = Number(value)),
  BatchProcessorConcurrency: (props, value) => (props.batchProcessorConcurrency = Number(value)),
  ReserveConcurrency: (props, value) => (props.reserveConcurrency = value === 'on'),
  LockTableCapacity: (props, value, _, library) => (props.lockTableCapacity = capacityOf(library, value)),
  VpcSubnetIds: (props, value, stack) => {
    const subnetIds = value.split(',');
    props.vpc = ec2.Vpc.fromVpcAttributes(stack, 'Vpc', { vpcId: 'vpc-1', availabilityZones: subnetIds });
    props.vpcSubnets = { subnets: subnetIds.map((id) => ec2.Subnet.fromSubnetId(stack, id, id)) };
  },
  VpcSecurityGroupIds: (props, value, stack) =>
    (props.securityGroups = value.split(',').map((id) => ec2.SecurityGroup.fromSecurityGroupId(stack, id, id))),
};

function service(library: Library, stack: Stack, { Sink, SinkSecretArn, PolicyArns, ...others }: Parameters) {
  const code = lambda.Code.fromAsset(directory);
  const props: Writable<Props> = {
    eventId: '',
    sink: sinkOf(library, stack, Sink ?? '', SinkSecretArn),
    code: { aggregator: code, batchProcessor: code },
  };
  for (const [name, value] of Object.entries(others)) {
    const set = PROPS[name];
    if (!set) throw new Error(`parameter ${name}: unknown, expected one of the SAM template`);
    set(props, value, stack, library);
  }
  const made = new library.UniqueEventBatchAggregator(stack, 'Service', props);
  for (const [at, arn] of Object.entries(PolicyArns?.split(',') ?? [])) {
    const policy = iam.ManagedPolicy.fromManagedPolicyArn(stack, `Policy${at}`, arn);
    for (const each of [made.aggregator, made.batchProcessor]) each.role!.addManagedPolicy(policy);
  }
}

function synthesize({ lib, outdir, worlds, refused }: Run) {
  const library = require(lib) as Library;
  const app = new App({ outdir, context: { 'aws:cdk:enable-path-metadata': true } });
  for (const [name, chosen] of Object.entries(worlds)) service(library, new Stack(app, name), chosen);
  app.synth();
  const said = Object.entries(refused).map(([name, chosen]) => {
    try {
      service(library, new Stack(new App(), name), chosen);
      return [name, ''];
    } catch (error) {
      return [name, String(error)];
    }
  });
  fs.writeFileSync(path.join(outdir, 'refused.json'), JSON.stringify(Object.fromEntries(said)));
}

for (const run of JSON.parse(fs.readFileSync(0, 'utf8')) as Run[]) {
  try {
    synthesize(run);
  } catch (error) {
    fs.writeFileSync(path.join(run.outdir, 'error.txt'), String(error));
  }
}
fs.rmSync(directory, { recursive: true });
