import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { App, Stack, Validations } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';
import { afterAll, describe, expect, it } from 'vitest';

import { parse, UniqueEventBatchAggregator, type UniqueEventBatchAggregatorProps } from '../lib';
import { acknowledge } from '../lib/nag';

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'code-'));
fs.writeFileSync(path.join(directory, 'bootstrap'), '');
afterAll(() => fs.rmSync(directory, { recursive: true }));

type Chosen = Omit<UniqueEventBatchAggregatorProps, 'code'>;

function service(stack: Stack, chosen: Chosen = {}, id = 'Service'): UniqueEventBatchAggregator {
  const code = lambda.Code.fromAsset(directory);
  return new UniqueEventBatchAggregator(stack, id, { ...chosen, code: { aggregator: code, batchProcessor: code } });
}

function template(chosen: Chosen = {}): Template {
  const stack = new Stack(new App(), 'Stack');
  service(stack, chosen);
  return Template.fromStack(stack);
}

describe('the stack', () => {
  it('has the resources of the template, and no others', () => {
    const counts: Record<string, number> = {};
    for (const { Type } of Object.values<{ Type: string }>(template().toJSON().Resources)) counts[Type] = (counts[Type] ?? 0) + 1;
    expect(counts).toEqual({
      'AWS::SQS::Queue': 6,
      'AWS::SQS::QueuePolicy': 1,
      'AWS::DynamoDB::Table': 2,
      'AWS::Logs::LogGroup': 2,
      'AWS::IAM::Role': 2,
      'AWS::Lambda::Function': 2,
      'AWS::Lambda::EventSourceMapping': 2,
      'AWS::Lambda::EventInvokeConfig': 1,
      'AWS::Lambda::Permission': 1,
      'AWS::Events::Rule': 1,
      'AWS::CloudWatch::Alarm': 17,
      'AWS::CloudWatch::Dashboard': 1,
    });
  });

  it('has a bucket only for chunks of its own', () => {
    for (const chosen of [{ bodies: 's3' }, { formerBodies: 's3' }, { bodies: 's3', formerBodies: 's3' }]) {
      template(chosen).resourceCountIs('AWS::S3::Bucket', 1);
    }
    for (const chosen of [{}, { bodies: 'table' }, { bodies: 's3://bucket/prefix', formerBodies: 's3://former' }]) {
      template(chosen).resourceCountIs('AWS::S3::Bucket', 0);
    }
  });

  it('has visibility timeouts that follow from the timeouts', () => {
    const made = template({ aggregatorTimeout: 120, inputBatchingWindow: 20, batchProcessorTimeout: 600 });
    made.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 740 });
    made.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 3600 });
  });

  it('scales by a maximum concurrency or by pollers, not both', () => {
    const mapping = (chosen: Chosen) => {
      const found = template(chosen).findResources('AWS::Lambda::EventSourceMapping', { Properties: { BatchSize: 10_000 } });
      return Object.values(found)[0]?.Properties;
    };
    expect(mapping({})).toMatchObject({ ScalingConfig: { MaximumConcurrency: 50 } });
    expect(mapping({})).not.toHaveProperty('ProvisionedPollerConfig');
    const provisioned = mapping({ inputScaling: 'provisioned' });
    expect(provisioned).toMatchObject({ ProvisionedPollerConfig: { MinimumPollers: 2, MaximumPollers: 200 } });
    expect(provisioned).not.toHaveProperty('ScalingConfig');
  });

  it('can be deployed without the mapping, to change back from pollers', () => {
    const stack = new Stack(new App(), 'Stack');
    expect(service(stack, { inputScaling: 'provisioned' }).node.tryRemoveChild('AggregatorInput')).toBe(true);
    Template.fromStack(stack).resourceCountIs('AWS::Lambda::EventSourceMapping', 1);
  });

  it('allows 1,000 receives only for waiting duplicates', () => {
    const receives = (made: Template) =>
      Object.values(made.findResources('AWS::SQS::Queue'))
        .map(({ Properties }) => Properties.RedrivePolicy?.maxReceiveCount)
        .filter(Boolean)
        .sort();
    expect(receives(template())).toEqual([50, 50]);
    expect(receives(template({ onDuplicate: 'requeue', maxReceiveCount: 9 }))).toEqual([1000, 9]);
  });

  it('retains queues, tables and the bucket when the stack is deleted', () => {
    for (const kind of ['AWS::SQS::Queue', 'AWS::DynamoDB::Table', 'AWS::S3::Bucket']) {
      template({ bodies: 's3' }).allResources(kind, { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
    }
  });

  it('grants what the sink needs, and only that', () => {
    const sids = (sink: string) =>
      Object.values(template({ sink }).findResources('AWS::IAM::Role'))
        .flatMap(({ Properties }) => Properties.Policies[0].PolicyDocument.Statement)
        .map(({ Sid }) => Sid)
        .filter((sid: string) => /^(Deliver|Miss)/.test(sid));
    expect(sids('log:')).toEqual([]);
    expect(sids('https://legacy.example/states')).toEqual([]);
    expect(sids('s3://bucket')).toEqual(['DeliverToS3', 'MissInS3']);
    expect(sids('arn:aws:states:eu-west-1:123456789012:stateMachine:legacy')).toEqual(['DeliverToStateMachine']);
    expect(sids('arn:aws:lambda:eu-west-1:123456789012:function:legacy')).toEqual(['DeliverToFunction']);
  });

  it('may store chunks in their place, and read them there and in the former place', () => {
    const granted = (chosen: Chosen) =>
      Object.values(template(chosen).findResources('AWS::IAM::Role'))
        .flatMap(({ Properties }) => Properties.Policies[0].PolicyDocument.Statement)
        .filter(({ Sid }) => /Chunks$/.test(Sid))
        .map(({ Sid, Action, Condition }) => [Sid, Action, Condition?.StringLike['s3:prefix']]);
    expect(granted({})).toEqual([]);
    expect(granted({ bodies: 'table' })).toEqual([]);
    expect(granted({ bodies: 's3', formerBodies: 's3://former/a/b' })).toEqual([
      ['StoreChunks', 's3:PutObject', undefined],
      ['ReadChunks', 's3:GetObject', undefined],
      ['MissChunks', 's3:ListBucket', 'chunks/*'],
      ['ReadFormerChunks', 's3:GetObject', undefined],
      ['MissFormerChunks', 's3:ListBucket', 'a/b/*'],
    ]);
    expect(granted({ bodies: 's3://chunks', formerBodies: 's3' })).toEqual([
      ['StoreChunks', 's3:PutObject', undefined],
      ['ReadChunks', 's3:GetObject', undefined],
      ['MissChunks', 's3:ListBucket', undefined],
      ['ReadFormerChunks', 's3:GetObject', undefined],
      ['MissFormerChunks', 's3:ListBucket', 'chunks/*'],
    ]);
  });

  it('may list only below the prefix, and start only the given version', () => {
    const granted = (chosen: Chosen, sid: string) =>
      Object.values(template(chosen).findResources('AWS::IAM::Role'))
        .flatMap(({ Properties }) => Properties.Policies[0].PolicyDocument.Statement)
        .find(({ Sid }) => Sid === sid);
    expect(granted({ sink: 's3://bucket' }, 'MissInS3')).not.toHaveProperty('Condition');
    expect(granted({ sink: 's3://bucket/a/b' }, 'MissInS3').Condition).toEqual({ StringLike: { 's3:prefix': 'a/b/*' } });
    const machine = 'arn:aws:states:eu-west-1:123456789012:stateMachine:legacy';
    expect(granted({ sink: machine }, 'DeliverToStateMachine')).not.toHaveProperty('Condition');
    expect(granted({ sink: `${machine}:3` }, 'DeliverToStateMachine')).toMatchObject({
      Resource: machine,
      Condition: { 'ForAnyValue:StringEquals': { 'states:StateMachineQualifier': '3' } },
    });
  });

  it('may read only the given object with columns', () => {
    const made = template({ sinkFormat: 'csv', sinkColumns: 's3://columns/legacy/orders.json' });
    const read = Match.objectLike({ Sid: 'ReadColumns', Action: 's3:GetObject' });
    made.hasResourceProperties('AWS::IAM::Role', { Policies: [{ PolicyDocument: { Statement: Match.arrayWith([read]) } }] });
    expect(JSON.stringify(made.toJSON())).toContain(':s3:::columns/legacy/orders.json"');
  });

  it('may read the given secret, and has the given layer', () => {
    const layer = 'arn:aws:lambda:eu-west-1:015030872274:layer:AWS-Parameters-and-Secrets-Lambda-Extension-Arm64:12';
    const secret = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:key-a1B2c3';
    const made = template({ sink: 'https://legacy.example', sinkSecret: 'secretsmanager:key', sinkSecretArn: secret, secretsLayerArn: layer });
    made.hasResourceProperties('AWS::Lambda::Function', {
      Layers: [layer],
      Environment: { Variables: Match.objectLike({ SINK_SECRET: 'secretsmanager:key', SINK_SECRET_HEADER: 'authorization' }) },
    });
    made.hasResourceProperties('AWS::IAM::Role', {
      Policies: [{ PolicyDocument: { Statement: Match.arrayWith([Match.objectLike({ Action: 'secretsmanager:GetSecretValue', Resource: secret })]) } }],
    });
    // The function refuses a header without a secret at a cold start.
    template().hasResourceProperties('AWS::Lambda::Function', {
      Layers: Match.absent(),
      Environment: { Variables: Match.objectLike({ SINK: 'log:', SINK_SECRET_HEADER: '' }) },
    });
  });

  it('can be put into a VPC, as docs/deploying.md says', () => {
    const stack = new Stack(new App(), 'Stack');
    const one = service(stack, { sink: 'postgres://aggregator@db.example/legacy' });
    const cfn = one.batchProcessor.node.defaultChild as lambda.CfnFunction;
    cfn.vpcConfig = { subnetIds: ['subnet-0a1b2c3d'], securityGroupIds: ['sg-0a1b2c3d'] };
    one.batchProcessorRole.addManagedPolicy(iam.ManagedPolicy.fromAwsManagedPolicyName('service-role/AWSLambdaVPCAccessExecutionRole'));
    one.batchProcessor.addEnvironment('SSL_CERT_FILE', '/opt/roots.pem');
    const made = Template.fromStack(stack);
    made.hasResourceProperties('AWS::Lambda::Function', {
      VpcConfig: { SubnetIds: ['subnet-0a1b2c3d'], SecurityGroupIds: ['sg-0a1b2c3d'] },
      Environment: { Variables: Match.objectLike({ SINK: 'postgres://aggregator@db.example/legacy', SSL_CERT_FILE: '/opt/roots.pem' }) },
    });
    made.hasResourceProperties('AWS::IAM::Role', { ManagedPolicyArns: Match.anyValue() });
  });

  it('accepts grants for a custom sink', () => {
    const stack = new Stack(new App(), 'Stack');
    const bucket = new s3.Bucket(stack, 'Bucket');
    bucket.grantPut(service(stack).batchProcessorRole);
    Template.fromStack(stack).hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: { Statement: Match.arrayWith([Match.objectLike({ Effect: 'Allow' })]) },
    });
  });

  it('can be used twice in a stack', () => {
    const stack = new Stack(new App(), 'Stack');
    service(stack, {}, 'One');
    service(stack, { sink: 's3://bucket' }, 'Two');
    const made = Template.fromStack(stack);
    made.resourceCountIs('AWS::Lambda::Function', 4);
    // A fixed name would be used twice.
    made.allResourcesProperties('AWS::CloudWatch::Dashboard', { DashboardName: Match.absent() });
  });
});

describe('parameters', () => {
  it('are all checked, with all problems in one error', () => {
    const wrong = { dedupWindow: 60, aggregatorTimeout: 17, sink: 'ftp://x', inputBatchSize: 1.5, nonsense: 1 };
    expect(() => template(wrong as unknown as Chosen)).toThrow(
      /no parameter nonsense.*aggregatorTimeout is 17, expected one of.*inputBatchSize is 1.5.*dedupWindow is 60.*sink is "ftp:\/\/x"/,
    );
  });

  it('are checked together', () => {
    const pollers: Chosen = { inputScaling: 'provisioned', pollersMin: 20, pollersMax: 19 };
    expect(() => template(pollers)).toThrow('pollersMin is 20, expected at most pollersMax, which is 19');
    template({ ...pollers, pollersMax: 20 });
    const mib = 1 << 20;
    // 90 parts, each three quarters full, hold 67.5 MiB, of which each event takes 256 bytes in addition to its body.
    const events = 1 << 12;
    template({ maxPartBytes: mib, maxBatchSize: events, maxBatchBytes: 67.5 * mib - 256 * events });
    expect(() => template({ maxPartBytes: mib, maxBatchSize: events, maxBatchBytes: 67.5 * mib - 256 * events + 1 })).toThrow(
      /maxPartBytes is 1048576, with which .* needs 91 parts, expected at most 90/,
    );
  });

  it('are checked together with bodies in chunks', () => {
    template({ bodies: 's3', maxBatchSize: 100_000, overflowBucket: 'bodies' });
    expect(() => template({ bodies: 'table', maxBatchSize: 100_001 })).toThrow('expected at most 100000 with bodies table');
    expect(() => template({ bodies: 's3://bodies/chunks', overflowBucket: 'bodies' })).toThrow('expected another bucket than overflowBucket');
  });

  it('can be parsed from texts', () => {
    const texts: Record<string, unknown> = { maxBatchSize: '100', sink: 'log:' };
    expect(parse((name) => texts[name])).toEqual({ maxBatchSize: 100, sink: 'log:' });
    expect(() => template(parse((name) => (name === 'maxBatchSize' ? 'many' : undefined)))).toThrow(/maxBatchSize is null, expected a whole number/);
  });
});

describe('cdk-nag', () => {
  const everything: Chosen = {
    tracing: 'Active',
    kmsKeyArn: 'arn:aws:kms:eu-west-1:123456789012:key/0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d',
    sink: 's3://bucket/prefix',
    // No sink uses all of these; this test needs only their grants.
    sinkRejects: 's3://rejects',
    sinkPayloads: 's3://payloads/prefix',
    sinkColumns: 's3://columns/orders.json',
    overflowBucket: 'bodies',
    bodies: 's3',
    formerBodies: 's3://former/chunks',
    sinkSecretArn: 'arn:aws:ssm:eu-west-1:123456789012:parameter/key',
  };

  /** Returns the findings that are not acknowledged. A synthesis with any of them fails. */
  function findings(chosen: Chosen, acknowledged: boolean): string[] {
    const app = new App();
    const one = service(new Stack(app, 'Stack'), chosen);
    if (acknowledged) acknowledge(one);
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
    expect(findings({}, true)).toEqual([]);
    expect(findings(everything, true)).toEqual([]);
  });

  it('has these findings without the acknowledgements', () => {
    expect(findings({}, false)).toEqual(['SQS3', 'SQS4']);
    expect(findings(everything, false)).toEqual([
      'IAM5[Action::kms:GenerateDataKey*]',
      'IAM5[Action::kms:ReEncrypt*]',
      'IAM5[Resource::*]',
      'IAM5[Resource::<ServiceChunkBucket6C2CAF0A.Arn>/chunks/*]',
      'IAM5[Resource::arn:<AWS::Partition>:s3:::bodies/*]',
      'IAM5[Resource::arn:<AWS::Partition>:s3:::bucket/prefix/*]',
      'IAM5[Resource::arn:<AWS::Partition>:s3:::former/chunks/*]',
      'IAM5[Resource::arn:<AWS::Partition>:s3:::payloads/prefix/*]',
      'IAM5[Resource::arn:<AWS::Partition>:s3:::rejects/*]',
      'S1',
      'SQS3',
      'SQS4',
    ]);
  });
});
