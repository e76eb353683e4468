import { Token } from 'aws-cdk-lib';
import type * as iam from 'aws-cdk-lib/aws-iam';
import type * as s3 from 'aws-cdk-lib/aws-s3';

import { grantsOfPlace, uriOf } from './grants';

/** A path without steps of dots only, such as `..`, and without empty ones. */
const PATH = /^(\/\.*[^./][^/]*)+\/?$/;

/** Where the consumer says what it did with events. docs/answers.md describes answers. */
export class Answers {
  /** Answers are objects of a bucket, below a prefix without a slash at the end. The bucket's lifecycle removes them: nothing else does. */
  public static s3(bucket: s3.IBucket, prefix: string): Answers {
    const place = { bucket, prefix };
    return new Answers(uriOf(place), () => grantsOfPlace('ReadAnswers', 'ListAnswers', ['s3:GetObject'], place));
  }

  /** Answers are files of a directory on the server of the sink, which is `Sink.sftp`. */
  public static sftp(path: string): Answers {
    return Answers.elsewhere('sftp:', path, PATH, 'a path on the server of the sink, without ..');
  }

  /** Answers are files of a file system, which you mount on the batch processor; `path` begins with `/mnt/`, where Lambda mounts. */
  public static file(path: string): Answers {
    return Answers.elsewhere('file://', path, /^\/mnt\/./, 'a path that begins with /mnt/, without ..');
  }

  private static elsewhere(scheme: string, path: string, allowed: RegExp, expected: string): Answers {
    if (!Token.isUnresolved(path) && !(PATH.test(path) && allowed.test(path))) {
      throw new Error(`answers is ${JSON.stringify(path)}, expected ${expected}`);
    }
    return new Answers(scheme + path, () => []);
  }

  private constructor(
    /** The value of ANSWERS_FROM. */
    public readonly uri: string,
    private readonly grants: () => iam.PolicyStatement[],
  ) {}

  /**
   * Returns the grants of the batch processor to read answers.
   * @internal
   */
  public _grants(): iam.PolicyStatement[] {
    return this.grants();
  }
}
