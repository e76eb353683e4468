-- The tables of the sink `postgres:`, for `SINK_TABLE=events`; another table has its ledger and reject list beside it
-- under its own name. With `SINK_COLUMNS` the first of them may be any table that has those columns.
CREATE TABLE events (
    batch_id       uuid    NOT NULL,
    part           integer NOT NULL,
    seq            bigint  NOT NULL,
    event_id       text    NOT NULL,
    sqs_message_id text    NOT NULL,
    source         text    NOT NULL,
    sent_at        bigint  NOT NULL, -- milliseconds since 1970, by SQS's clock
    body           text    NOT NULL,
    PRIMARY KEY (batch_id, part, seq)
);

-- A row for each part, written with its events in one transaction.
CREATE TABLE events_parts (
    batch_id     uuid        NOT NULL,
    part         integer     NOT NULL,
    source       text        NOT NULL,
    batch_key    text,
    content_hash text        NOT NULL,
    count        bigint      NOT NULL, -- the rejected ones among them
    rejected     bigint      NOT NULL,
    delivered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, part)
);

-- What could not be a row of the first, with the reason; the record as an envelope.
CREATE TABLE events_rejects (
    batch_id uuid    NOT NULL,
    part     integer NOT NULL,
    seq      bigint  NOT NULL,
    reason   text    NOT NULL,
    record   text    NOT NULL,
    PRIMARY KEY (batch_id, part, seq)
);
