"""The bucket of the log: whether it exists, and that it is private, encrypted, kept and forgets in time."""

import math
import re

from rules import rule
from world import SOURCE

# What the names in the stack's bucket begin with; drift.py compares it with BODIES.
PREFIX = "chunks/"


def retention_days():
    """Returns for how many days the code relies on an object of the bucket."""
    texts = re.findall(r"const LOG_RETENTION: Duration = Duration::from_secs\(([\d_ *]+)\);", SOURCE.read("protocol/src/limits.rs"))
    assert len(texts) == 1, f"limits.rs: retention of the log: got {texts}, expected one"
    return math.prod(int(factor) for factor in texts[0].split("*")) // 86_400


@rule
def bucket_of_the_log(world):
    """There is always a bucket for the log, which costs nothing while it is empty, and no other bucket."""
    if (found := sorted(world.kind("AWS::S3::Bucket"))) != ["ChunkBucket"]:
        yield f"buckets: got {found}, expected ['ChunkBucket']"


@rule
def buckets_are_private_and_encrypted(world):
    """No public access of any kind; encryption by S3, or by the key with a bucket key."""
    key = world.parameter("KmsKeyArn")
    by_key = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}, "BucketKeyEnabled": "true"}
    wanted = by_key if key else {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    for name, bucket in world.kind("AWS::S3::Bucket").items():
        blocks = bucket.get("PublicAccessBlockConfiguration", {})
        for block in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"):
            if str(blocks.get(block)).lower() != "true":
                yield f"{name}: {block}: got {blocks.get(block)}, expected true"
        said = [
            each | ({"BucketKeyEnabled": str(each["BucketKeyEnabled"]).lower()} if "BucketKeyEnabled" in each else {})
            for each in bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
        ]
        if said != [wanted]:
            yield f"{name}: wrong encryption: got {said}, expected {wanted}"
        if "AccessControl" in bucket or "WebsiteConfiguration" in bucket:
            yield f"{name}: has an ACL or a website, expected neither"


@rule
def objects_last_long_enough(world):
    """A lifecycle removes objects, and none before the code can do without them. Nothing moves them or keeps former versions."""
    least = retention_days()
    for name, bucket in world.kind("AWS::S3::Bucket").items():
        rules = [each for each in bucket.get("LifecycleConfiguration", {}).get("Rules", []) if each.get("Status") == "Enabled"]
        if not any(each.get("Prefix") == PREFIX and int(each.get("ExpirationInDays", 0)) >= least for each in rules):
            yield f"{name}: no rule removes objects: expected one that is enabled, for {PREFIX}, after {least} days or more"
        for each in rules:
            prefix = each.get("Prefix", "")
            reaches = prefix.startswith(PREFIX) or PREFIX.startswith(prefix)
            if reaches and ("ExpirationDate" in each or int(each.get("ExpirationInDays", least)) < least):
                yield f"{name}: a rule removes objects too early: got {each}, expected {least} days or more"
            if reaches and ("Transitions" in each or "Transition" in each):
                yield f"{name}: a rule moves objects to another class, from which reading is slow or costs more"
        if "VersioningConfiguration" in bucket or "ObjectLockEnabled" in bucket:
            yield f"{name}: keeps former versions, which no rule removes"


@rule
def buckets_take_tls_only(world):
    """The one policy of a bucket denies requests without TLS, and grants nothing."""
    policies = {policy["Bucket"]: policy["PolicyDocument"]["Statement"] for policy in world.kind("AWS::S3::BucketPolicy").values()}
    for name in world.kind("AWS::S3::Bucket"):
        wanted = {
            "Effect": "Deny",
            "Action": "s3:*",
            "Principal": {"AWS": "*"},
            "Resource": [f"<{name}.Arn>", f"<{name}.Arn>/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        if (found := policies.pop(f"<{name}>", None)) != [wanted]:
            yield f"{name}: wrong policy: got {found}, expected one that denies requests without TLS"
    if policies:
        yield f"bucket policies: got policies of {sorted(policies)}, expected those of the stack's buckets only"
