-- The tables of the sink `postgres:` for `SINK_TABLE=events`. For another table, the names of the other three begin with
-- the name of that table. With `SINK_COLUMNS`, the table of events may be any table that has those columns. The
-- function's user needs INSERT on the table of events; INSERT, and SELECT of the columns batch_id, part and seq, on the
-- table of rejects; SELECT, INSERT and UPDATE on the ledger; and SELECT, INSERT, UPDATE and DELETE on the staging table.
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

-- The ledger: a row for each part, written in the same transaction as its events.
CREATE TABLE events_parts (
    batch_id     uuid        NOT NULL,
    part         integer     NOT NULL,
    source       text        NOT NULL,
    batch_key    text,
    content_hash text        NOT NULL,
    count        bigint      NOT NULL, -- including rejected records
    rejected     bigint      NOT NULL,
    delivered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, part)
);

-- Rejected records, as envelopes, with the reason.
CREATE TABLE events_rejects (
    batch_id uuid    NOT NULL,
    part     integer NOT NULL,
    seq      bigint  NOT NULL,
    reason   text    NOT NULL,
    record   text    NOT NULL,
    PRIMARY KEY (batch_id, part, seq)
);

-- The staging table: rows that were sent of parts that are not delivered yet, so that an attempt continues where the
-- previous one ended. The transaction that inserts a part's rows into the table of events deletes them here. If an
-- operator sets a batch aside, the staged rows of its undelivered parts stay. You may delete staged rows at any time: the
-- sink sends missing rows again.
--
-- This table is logged, so staged rows survive a crash or a failover of the database. UNLOGGED would be safe as well,
-- because the sink checks the staged rows before it uses them and sends missing ones again. It would save the write-ahead
-- log of these rows, but after a crash the progress of unfinished parts would be lost.
CREATE TABLE events_staging (
    batch_id  uuid        NOT NULL,
    part      integer     NOT NULL,
    seq       bigint      NOT NULL,
    chunk     bytea       NOT NULL, -- hash of the chunk: the rows that were sent together
    fields    bytea[]     NOT NULL, -- the row's columns as UTF-8, converted when they are inserted into the table of events
    refused   text,                 -- the database's error, until the transaction has written the rejects
    staged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, part, seq)
);
