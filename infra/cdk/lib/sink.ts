import { Token } from 'aws-cdk-lib';
import type * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as s3 from 'aws-cdk-lib/aws-s3';
import type * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import type * as ssm from 'aws-cdk-lib/aws-ssm';
import type * as stepfunctions from 'aws-cdk-lib/aws-stepfunctions';

import { grant, grantOfKey, grantsOfPlace, uriOf } from './grants';

/** Options of `Sink.s3`. */
export interface S3SinkOptions {
  /** What the names of parts begin with, without a slash at the end. By default, nothing. */
  readonly prefix?: string;
}

/** Options of sinks that need a secret: a password, a private key or the value of a header. */
export interface SecretOptions {
  /** The secret, in Secrets Manager. */
  readonly secret?: secretsmanager.ISecret;
  /** The secret, in the parameter store. Not together with `secret`. */
  readonly parameter?: ssm.IParameter;
}

/** Options of `Sink.stateMachine`. */
export interface StateMachineSinkOptions {
  /** A version or an alias of the state machine. By default, its latest revision. */
  readonly qualifier?: string;
}

/** Where batches go. docs/sinks.md describes each sink. */
export class Sink {
  /** Parts are objects of a bucket. */
  public static s3(bucket: s3.IBucket, options: S3SinkOptions = {}): Sink {
    const place = { bucket, prefix: options.prefix };
    return new Sink(uriOf(place), () => grantsOfPlace('DeliverToS3', 'MissInS3', ['s3:GetObject', 's3:PutObject'], place));
  }

  /** Parts are requests to an HTTPS endpoint. */
  public static http(url: string, options: SecretOptions = {}): Sink {
    return Sink.elsewhere(url, /^https:\/\/./, 'https://host/path', options);
  }

  /** Parts are rows of a PostgreSQL table; `url` has no password. */
  public static postgres(url: string, options: SecretOptions = {}): Sink {
    return Sink.elsewhere(url, /^postgres:\/\/[^:@/]+@./, 'postgres://user@host/database, without a password', options);
  }

  /** Parts are files on an SFTP server; `url` has no password. */
  public static sftp(url: string, options: SecretOptions = {}): Sink {
    return Sink.elsewhere(url, /^sftp:\/\/[^:@/]+@./, 'sftp://user@host/path, without a password', options);
  }

  /** Parts are invocations of a function, a version or an alias. */
  public static lambda(handler: lambda.IFunction): Sink {
    return new Sink(handler.functionArn, () => [grant('DeliverToFunction', ['lambda:InvokeFunction'], handler.functionArn)]);
  }

  /** Parts are executions of a STANDARD state machine. */
  public static stateMachine(stateMachine: stepfunctions.IStateMachine, options: StateMachineSinkOptions = {}): Sink {
    const arn = stateMachine.stateMachineArn;
    const { qualifier } = options;
    // For a version or an alias, the resource is the state machine, and a condition key has the version or alias.
    const only = qualifier ? { 'ForAnyValue:StringEquals': { 'states:StateMachineQualifier': qualifier } } : undefined;
    return new Sink(qualifier ? `${arn}:${qualifier}` : arn, () => [grant('DeliverToStateMachine', ['states:StartExecution'], arn, only)]);
  }

  /**
   * Parts are files of a file system, which you mount on the batch processor; `path` begins with `/mnt/`, where Lambda mounts. Everything
   * else ends with an environment.
   */
  public static file(path: string): Sink {
    return Sink.elsewhere(`file://${path}`, /^file:\/\/\/mnt\/(?!(.*\/)?\.\.(\/|$))./, 'a path that begins with /mnt/, without ..');
  }

  /** Batches are counted and go nowhere. For trying out. */
  public static log(): Sink {
    return new Sink('log:', () => []);
  }

  private static elsewhere(uri: string, allowed: RegExp, expected: string, { secret, parameter }: SecretOptions = {}): Sink {
    if (!Token.isUnresolved(uri) && !allowed.test(uri)) throw new Error(`sink is ${JSON.stringify(uri)}, expected ${expected}`);
    if (secret && parameter) throw new Error('secret and parameter are both set, expected one of them');
    if (secret) {
      // Secrets Manager appends a dash and six characters to the name in an ARN.
      const arn = secret.secretFullArn ?? `${secret.secretArn}-??????`;
      const grants = () => [
        grant('ReadSecret', ['secretsmanager:GetSecretValue'], arn),
        ...grantOfKey('SecretKey', ['kms:Decrypt'], 'secretsmanager', secret.encryptionKey),
      ];
      return new Sink(uri, grants, `secretsmanager:${secret.secretArn}`);
    }
    if (parameter) {
      const arn = parameter.parameterArn;
      return new Sink(uri, () => [grant('ReadParameter', ['ssm:GetParameter'], arn)], `ssm:${arn}`);
    }
    return new Sink(uri, () => []);
  }

  private constructor(
    /** The value of SINK. */
    public readonly uri: string,
    private readonly grants: () => iam.PolicyStatement[],
    private readonly secret: string = '',
  ) {}

  /**
   * Returns the value of SINK_SECRET; empty without a secret.
   * @internal
   */
  public get _secret(): string {
    return this.secret;
  }

  /**
   * Returns the grants of the batch processor.
   * @internal
   */
  public _grants(): iam.PolicyStatement[] {
    return this.grants();
  }
}
