import { Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/** One statement, by name: what may be done to what. */
export function grant(sid: string, actions: string[], resource: string): iam.PolicyStatement {
  return new iam.PolicyStatement({ sid, actions, resources: [resource] });
}

/** What the batch processor may do where `sink` points, and nothing for sinks that need nothing of AWS. */
export function grantsOfSink(scope: Construct, sink: string): iam.PolicyStatement[] {
  if (sink.startsWith('s3://')) return [grantOfPlace(scope, 'DeliverToS3', sink)];
  const service = sink.split(':')[2];
  if (service === 'states') return [grant('DeliverToStateMachine', ['states:StartExecution'], sink)];
  if (service === 'lambda') return [grant('DeliverToFunction', ['lambda:InvokeFunction'], sink)];
  return [];
}

/** What it may do where `rejects` points. */
export function grantsOfRejects(scope: Construct, rejects: string): iam.PolicyStatement[] {
  return rejects.startsWith('s3://') ? [grantOfPlace(scope, 'KeepRejectsInS3', rejects)] : [];
}

/** What it may do where `payloads` points. */
export function grantsOfPayloads(scope: Construct, payloads: string): iam.PolicyStatement[] {
  return payloads.startsWith('s3://') ? [grantOfPlace(scope, 'KeepPayloadsInS3', payloads)] : [];
}

/** What the extension, which has the function's role, may do with the secret of this ARN. */
export function grantsOfSecret(arn: string): iam.PolicyStatement[] {
  const service = arn.split(':')[2];
  if (service === 'secretsmanager') return [grant('ReadSecret', ['secretsmanager:GetSecretValue'], arn)];
  if (service === 'ssm') return [grant('ReadParameter', ['ssm:GetParameter'], arn)];
  return [];
}

/**
 * The wildcard is the batch: <prefix>/<batchId>/<part>.<ext>, and with BATCH_KEY <prefix>/<key>/<batchId>/<part>.<ext>.
 * GetObject tells whether what is there is this part.
 */
function grantOfPlace(scope: Construct, sid: string, uri: string): iam.PolicyStatement {
  const place = uri.slice('s3://'.length);
  return grant(sid, ['s3:GetObject', 's3:PutObject'], `arn:${Stack.of(scope).partition}:s3:::${place}/*`);
}
