-- The catalog of an lmkrag index: the single source of truth. Format version 1.
-- A segment file that no row names does not exist; a document whose row is gone is gone.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE document (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    doc_id         TEXT NOT NULL UNIQUE,
    path           TEXT NOT NULL,     -- where it was read from
    root           TEXT NOT NULL,     -- the directory that was added, '' for documents given as values
    title          TEXT NOT NULL,
    kind           TEXT NOT NULL,     -- markdown, pdf, ...
    meta           TEXT NOT NULL,     -- JSON object
    page_starts    TEXT NOT NULL,     -- JSON array of character offsets
    fingerprint    TEXT NOT NULL,     -- hash of the source's bytes
    size           INTEGER NOT NULL,  -- of the source in bytes; with mtime_ns, what "unchanged" is judged by
    mtime_ns       INTEGER NOT NULL,
    length         INTEGER NOT NULL,  -- characters of text
    first_sentence INTEGER NOT NULL,  -- id of its sentence 0; the others follow
    sentences      INTEGER NOT NULL,
    checksum       TEXT NOT NULL      -- of text, sentence borders and the columns above
);

CREATE TABLE text_block (
    document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    start    INTEGER NOT NULL,        -- character offset of its first character
    data     BLOB NOT NULL,           -- zlib of UTF-8 (lone surrogates passed)
    PRIMARY KEY (document, start)
) WITHOUT ROWID;

CREATE TABLE sentence (
    id       INTEGER PRIMARY KEY,     -- never used twice
    document INTEGER NOT NULL,
    start    INTEGER NOT NULL,
    "end"    INTEGER NOT NULL,
    kind     INTEGER NOT NULL         -- position in lmkrag.types.SENTENCE_KINDS
);

-- Row i of a segment is the vector of one sentence; runs say of which. Rows that no run covers are dead.
CREATE TABLE segment (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT NOT NULL UNIQUE,      -- file name under segments/
    rows   INTEGER NOT NULL,
    bytes  INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    recipe TEXT NOT NULL              -- JSON: how it was built and is searched
);

CREATE TABLE run (
    segment  INTEGER NOT NULL REFERENCES segment (id) ON DELETE CASCADE,
    row      INTEGER NOT NULL,
    sentence INTEGER NOT NULL,        -- id of the first; the others follow
    count    INTEGER NOT NULL,
    PRIMARY KEY (segment, row)
) WITHOUT ROWID;

CREATE INDEX run_sentence ON run (sentence);

-- Contentless: the text is in text_block, and deleting passes it again.
CREATE VIRTUAL TABLE lexical USING fts5 (
    text, content = '', tokenize = "porter unicode61 remove_diacritics 2"
);
