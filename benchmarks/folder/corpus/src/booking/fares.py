"""Fares of the ferry: who pays what."""

from dataclasses import dataclass
from decimal import Decimal

CHILD_AGE = 14
RESIDENT_DISCOUNT = Decimal("0.35")
BICYCLE_FEE = Decimal("2.50")


@dataclass
class Passenger:
    age: int
    resident: bool = False


def fare_for(passenger: Passenger, base: Decimal) -> Decimal:
    """Return what one passenger pays.

    Children under CHILD_AGE travel free; residents of the island get their discount.
    """
    if passenger.age < CHILD_AGE:
        return Decimal("0")
    if passenger.resident:
        return (base * (1 - RESIDENT_DISCOUNT)).quantize(Decimal("0.01"))
    return base


def group_fare(passengers: list[Passenger], base: Decimal) -> Decimal:
    """Return the fare of a group; from ten on, the tenth travels free."""
    fares = sorted((fare_for(p, base) for p in passengers), reverse=True)
    free = len(fares) // 10
    return sum(fares[: len(fares) - free], Decimal("0"))


def vehicle_surcharge(length_cm: int, height_cm: int) -> Decimal:
    """Return the surcharge of a vehicle by the lane metres it takes."""
    metres = -(-length_cm // 100)
    surcharge = Decimal("4.20") * metres
    if height_cm > 210:
        surcharge *= 2
    return surcharge


def refund_share(hours_before: float) -> Decimal:
    """Return the share of the fare that is paid back on cancelling."""
    if hours_before >= 2:
        return Decimal("1")
    if hours_before >= 0.5:
        return Decimal("0.5")
    return Decimal("0")
