-- The catalog of an lmkrag index: the single source of truth. Format version 6.
-- A segment that no row names does not exist; a document whose row is gone is gone.
-- Every value a search reads is under a checksum: "packed" is 8 bytes of XXH3, then zlib (docs/index-format.md).

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
    first_sentence INTEGER NOT NULL,  -- id of its sentence 0; the others follow, and no id is used twice
    sentences      INTEGER NOT NULL,
    content_checksum TEXT NOT NULL,   -- of text and sentence borders
    row_checksum   BLOB NOT NULL      -- of the columns above
);

-- The documents again, by blocks of 512 ids and by field: what counts, filters and new states of readers read.
CREATE TABLE document_column (
    name       TEXT NOT NULL,         -- '' the documents; a field of all; or one of 32 that keys of front matter share
    block      INTEGER NOT NULL,      -- of ids 512 * block and following
    generation INTEGER NOT NULL,      -- of the commit that wrote it
    data       BLOB NOT NULL,         -- packed
    PRIMARY KEY (name, block)
) WITHOUT ROWID;

-- Blocks whose columns are to be written before the transaction ends.
CREATE TABLE stale_block (block INTEGER PRIMARY KEY);

CREATE TABLE text_block (
    document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    start    INTEGER NOT NULL,        -- character offset of its first character
    data     BLOB NOT NULL,           -- packed: UTF-8 (lone surrogates passed)
    PRIMARY KEY (document, start)
) WITHOUT ROWID;

CREATE TABLE sentence_block (
    document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    first    INTEGER NOT NULL,        -- ordinal of its first sentence
    data     BLOB NOT NULL,           -- packed: start, then the length of each, then the kind of each
    PRIMARY KEY (document, first)
) WITHOUT ROWID;

-- What the windows of a document held, so that those an edit leaves alone are not encoded again.
CREATE TABLE window_list (
    document INTEGER PRIMARY KEY REFERENCES document (id) ON DELETE CASCADE,
    data     BLOB NOT NULL            -- packed: of each window its hash, then the ordinal of its first own sentence
);

-- Row i of a segment is the vector of one sentence and its words; runs say of which.
CREATE TABLE segment (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT NOT NULL UNIQUE,      -- segments/NAME.faiss, NAME.words and NAME.structure
    facts  TEXT NOT NULL,             -- JSON: rows, recipe, size and checksum of each file
    runs   BLOB NOT NULL,             -- packed: row, first sentence and count of each run
    row_checksum BLOB NOT NULL        -- of name and facts
);

-- Files that can't be indexed as they are: not read again until their size, time or the reading version changes.
CREATE TABLE skipped_file (
    path     TEXT PRIMARY KEY,
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    version  TEXT NOT NULL            -- of the lmkrag that read it
) WITHOUT ROWID;

-- Behind the tables, as VACUUM orders them: a damaged first page is that of a new index.
CREATE INDEX changed_block ON document_column (generation) WHERE name = '';

CREATE TRIGGER document_added AFTER INSERT ON document BEGIN
    INSERT OR IGNORE INTO stale_block VALUES (new.id / 512);
END;
CREATE TRIGGER document_changed AFTER UPDATE ON document BEGIN
    INSERT OR IGNORE INTO stale_block VALUES (new.id / 512);
END;
CREATE TRIGGER document_removed AFTER DELETE ON document BEGIN
    INSERT OR IGNORE INTO stale_block VALUES (old.id / 512);
END;
