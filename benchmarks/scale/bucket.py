"""A token bucket, as AWS throttles: so many at once, and so many a second after that."""

from __future__ import annotations


class Bucket:
    """``size``: tokens that it holds, and has at 0 s; ``rate``: tokens a second that come back."""

    def __init__(self, size: float, rate: float) -> None:
        self._size, self._rate = size, rate
        self._tokens, self._at = size, 0.0

    def take(self, now: float) -> bool:
        """Whether there is a token at ``now``, in seconds, which is then gone."""
        self._refill(now)
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """When the next token that nobody has reserved is there: ``now``, or later."""
        self._refill(now)
        self._tokens -= 1
        return now if self._tokens >= -1e-9 else now - self._tokens / self._rate

    def _refill(self, now: float) -> None:
        self._tokens = min(self._size, self._tokens + (now - self._at) * self._rate)
        self._at = now
