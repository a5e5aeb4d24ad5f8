"""Kubernetes resource quantities as exact integers.

A quantity is held in *nanos* (10**-9 of its unit), the finest step that Kubernetes itself keeps, so that sums are
exact and rounding happens once, where a whole number is needed. Grammar and rounding follow
`k8s.io/apimachinery/pkg/api/resource` of 1.37: Value and MilliValue give the same results for everything that fits into 64 bits.

Beyond that, Kubernetes caps quantities with a binary suffix at 2**63-1, but not the others, whose Value becomes 0 or whatever
remains of the overflow: a pod that asks for 10E bytes asks for nothing there. Here all quantities are capped, so a pod that asks
for more than can exist fits nowhere.
"""

import re
from functools import lru_cache

from schedcache.model.labels import parse_int

NANOS = 10**9
NANOS_PER_MILLI = 10**6
MAX_UNITS = 2**63 - 1
"""Kubernetes' largest amount, and that of a column."""

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<fraction>\d*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Longer texts are refused: no amount needs so many digits, and reading them takes quadratic time.
_MAX_LENGTH = 512
# Beyond this power of ten, every mantissa is either zero or over the cap; the limit keeps `1e999999999` from costing memory.
_MAX_EXPONENT = 64
# What Go's TrimSpace cuts off, without the control characters: JSON escapes those, and Quantity.UnmarshalJSON undoes no escapes.
_BLANKS = (
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity."""


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> int:
    """The quantity in nanos; finer fractions are rounded away from zero, values over 2**63-1 units are capped.

    Surrounding blanks are ignored, as by Quantity.UnmarshalJSON. Raises QuantityError for anything that the Kubernetes API
    would refuse, and for texts without digits: it takes some ("Mi", "E+2") for 0 and refuses others ("", "Pi"), but never
    stores them, and in a manifest they are a mistake.
    """
    if len(text) > _MAX_LENGTH:
        raise QuantityError(f"{text[:20]!r}... is too long for a quantity: {len(text)} characters")
    match = _GRAMMAR.fullmatch(text.strip(_BLANKS))
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(
            f"{text!r} {'is not a quantity' if match is None else 'has no digits'}; expected a number with an optional suffix "
            "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent (e3)"
        )
    fraction = match["fraction"] or ""
    mantissa = int((match["whole"] or "0") + fraction)
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        nanos = _scaled(mantissa << _BINARY[suffix], 9 - len(fraction))
    else:
        exponent = parse_int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
        if exponent is None:
            raise QuantityError(f"{text!r} is not a quantity; its exponent does not fit into 64 bits")
        nanos = _scaled(mantissa, 9 - len(fraction) + exponent)
    nanos = min(nanos, MAX_UNITS * NANOS)
    return -nanos if match["sign"] == "-" else nanos


def _scaled(mantissa: int, power: int) -> int:
    """Mantissa * 10**power, rounded up."""
    if power >= 0:
        return mantissa * int(10 ** min(power, _MAX_EXPONENT))
    if -power > len(str(mantissa)) + 1:
        return 1 if mantissa else 0
    return -(-mantissa // int(10**-power))


def to_milli(nanos: int) -> int:
    """Whole thousandths, rounded away from zero, as Quantity.MilliValue does."""
    return -(-nanos // NANOS_PER_MILLI) if nanos > 0 else nanos // NANOS_PER_MILLI


def to_units(nanos: int) -> int:
    """Whole units, rounded away from zero, as Quantity.Value does."""
    return -(-nanos // NANOS) if nanos > 0 else nanos // NANOS


def clamped(amount: int) -> int:
    """The amount within 0..MAX_UNITS: sums may be larger, and objects from files negative."""
    return amount if 0 <= amount <= MAX_UNITS else (MAX_UNITS if amount > 0 else 0)
