-- The tables of the sink `postgres:`, for `SINK_TABLE=events`; another table has its ledger, its reject list and its
-- staging table beside it under its own name. With `SINK_COLUMNS` the first of them may be any table that has those
-- columns. The function's user needs INSERT on the first and on the reject list; SELECT, INSERT and UPDATE on the
-- ledger; SELECT, INSERT, UPDATE and DELETE on the staging table.
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

-- What was sent of parts that are not delivered yet, so that an attempt goes on where the one before it ended. The
-- transaction that inserts a part's rows into the first table deletes them here. Rows of a part that nobody delivers any
-- more, because an operator disposed of its batch, stay: they may be deleted at any time, and what is still needed of
-- them is sent again.
--
-- It is logged, so that what was sent survives a crash or a failover of the database. UNLOGGED would be safe as well, for
-- rows are counted and compared before they are relied on, and what is missing is sent again: it saves the write-ahead
-- log of these rows and costs the progress that was made.
CREATE TABLE events_staging (
    batch_id  uuid        NOT NULL,
    part      integer     NOT NULL,
    seq       bigint      NOT NULL,
    chunk     bytea       NOT NULL, -- hash of the rows that were sent together
    fields    bytea[]     NOT NULL, -- the row's columns, as UTF-8; they get their types on the way to the first table
    refused   text,                 -- the database's words, until the transaction has written the reject list
    staged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, part, seq)
);
