-- Bookings and payments

CREATE TABLE crossing (
    id TEXT PRIMARY KEY,
    boat TEXT NOT NULL CHECK (boat IN ('kittiwake', 'petrel')),
    departs INTEGER NOT NULL,
    capacity INTEGER NOT NULL DEFAULT 96
);

CREATE TABLE payment (
    key TEXT PRIMARY KEY,
    booking TEXT NOT NULL,
    cents INTEGER NOT NULL,
    at REAL NOT NULL
);

CREATE TABLE lost_item (
    id INTEGER PRIMARY KEY,
    found_on TEXT NOT NULL,
    shelf TEXT,
    described TEXT NOT NULL,
    claimed_by TEXT
);

CREATE INDEX lost_item_by_shelf ON lost_item (shelf);
