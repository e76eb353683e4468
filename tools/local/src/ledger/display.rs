//! The cost of a run as lines for people.

use std::fmt;

use emulators::proxy::Service;

use super::{Ledger, S3Usage};

/// Lines for people, each with its line break.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.units(f)?;
        self.requests(f)?;
        self.gb_seconds(f)?;
        self.price(f)
    }
}

impl Ledger {
    fn units(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (each, unique) = (&self.per_message, &self.per_unique);
        writeln!(
            f,
            "units       {:.3} written, {:.3} read a unique message; {:.3} and {:.3} a message sent",
            unique.write_units, unique.read_units, each.write_units, each.read_units
        )?;
        for one in &self.units {
            let name = format!("{}, {}", one.table, one.part);
            writeln!(
                f,
                "  {name:<32} {:>10} written, {:>10} read; {:.4} and {:.4} a unique message",
                one.units.writes, one.units.reads, one.per_unique.writes, one.per_unique.reads
            )?;
        }
        if self.unreported_write_units > 0.0 {
            writeln!(
                f,
                "  {:<32} {:>10} written: failed conditions that DynamoDB did not report, one unit each",
                "of these, estimated", self.unreported_write_units
            )?;
        }
        Ok(())
    }

    fn requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = &self.per_message;
        for (service, name, share) in [
            (Service::DynamoDb, "DynamoDB", each.dynamodb_requests),
            (Service::Sqs, "SQS", each.sqs_requests),
        ] {
            let requests = self.requests.iter().filter(|one| one.service == service);
            let each = requests.map(|one| format!("{} {}", one.operation, one.requests.count));
            let all = Vec::from_iter(each).join(", ");
            writeln!(f, "requests    {name} {share:.3} a message sent: {all}")?;
        }
        for S3Usage { key, requests } in &self.s3 {
            writeln!(
                f,
                "requests    S3 {} by {}, bucket {}: {}, {:.2} MB",
                key.operation,
                key.function,
                key.bucket,
                requests.count,
                requests.bytes as f64 / 1e6
            )?;
        }
        Ok(())
    }

    fn gb_seconds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = self.functions.iter();
        let each = functions.map(|one| format!("{} {:.1}", one.name, one.gb_seconds));
        writeln!(f, "GB-seconds  {}", Vec::from_iter(each).join(", "))
    }

    fn price(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let price = &self.per_unique.dollars_per_million;
        let of_log = match (price.s3_requests, price.storage) {
            (0.0, 0.0) => String::new(),
            (0.0, storage) => format!("storage {storage:.2}, "),
            (s3, storage) => format!("S3 requests {s3:.3}, storage {storage:.2}, "),
        };
        writeln!(
            f,
            "price       ${:.2} a million unique messages: writes {:.2}, reads {:.2}, queues {:.2}, {}functions {:.2}; ${:.2} a million sent",
            price.total,
            price.write_units,
            price.read_units,
            price.sqs_requests,
            of_log,
            price.lambda_requests + price.lambda_gb_seconds,
            self.per_message.dollars_per_million.total
        )?;
        writeln!(
            f,
            "            (the public proof of concept: ${:.2} for the writes of a million unique messages)",
            self.proof_of_concept_dollars_per_million
        )
    }
}
