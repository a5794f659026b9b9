"""Signatures of locators: who holds one may read the block until it expires."""

import hmac
from dataclasses import dataclass
from enum import StrEnum

from graveler.keep.locators import Locator

_MOST_SECONDS = 0xFFFFFFFF


class Fault(StrEnum):
    """Why a signature gives no right."""

    MISSING = "missing"
    EXPIRED = "expired"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs locators for the holders of tokens, and checks signatures.

    Attributes:
        key: The key that all servers of a system share; b"" signs nothing.
        ttl: The life of a signature in seconds. Signatures of another life are invalid.
    """

    key: bytes
    ttl: int

    def sign(self, locator: Locator, token: str, expiry: int) -> Locator:
        """Return the locator with a signature, or unchanged without a key or a token.

        Args:
            expiry: When the signature ends, in seconds since 1970.
        """
        if not (self.key and token):
            return locator
        expiry = min(expiry, _MOST_SECONDS)
        return locator.signed(self._digest(locator.digest, token, expiry), expiry)

    def fault(self, locator: Locator, token: str, now: float) -> Fault | None:
        """Return why the holder of a token may not read the block by this locator, or None."""
        if locator.signature is None:
            return Fault.MISSING
        signature, expiry = locator.signature
        if expiry < now:
            return Fault.EXPIRED
        right = self._digest(locator.digest, token, expiry)
        return None if hmac.compare_digest(signature, right) else Fault.INVALID

    def _digest(self, digest: str, token: str, expiry: int) -> str:
        message = f"{digest}@{token}@{expiry:08x}@{self.ttl:x}"
        return hmac.digest(self.key, message.encode("utf-8", "surrogateescape"), "sha1").hex()
