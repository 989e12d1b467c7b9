"""The ledger: every payment is written once, whatever fails in between."""

import sqlite3
import time

BUSY_TIMEOUT_MS = 4_000


class LedgerBusy(Exception):
    """Another process holds the ledger."""


def open_ledger(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def record_payment(connection: sqlite3.Connection, booking: str, cents: int, key: str) -> bool:
    """Write a payment unless one with the same idempotency key is there; return whether it was written."""
    try:
        connection.execute(
            "INSERT INTO payment (booking, cents, key, at) VALUES (?, ?, ?, ?)",
            (booking, cents, key, time.time()),
        )
    except sqlite3.IntegrityError:
        return False
    return True


def balance(connection: sqlite3.Connection, booking: str) -> int:
    """Return what was paid for a booking, in cents."""
    row = connection.execute("SELECT COALESCE(SUM(cents), 0) FROM payment WHERE booking = ?", (booking,)).fetchone()
    return int(row[0])


def retry_busy(action, attempts: int = 6, pause: float = 0.25):
    """Call an action again while the ledger is busy, waiting twice as long each time."""
    for attempt in range(attempts):
        try:
            return action()
        except sqlite3.OperationalError:
            time.sleep(pause * 2**attempt)
    raise LedgerBusy(f"still busy after {attempts} attempts")
