"""Bodies that were packed for the way: unpacked piece by piece, and never more than is wanted.

A few kilobytes can unpack to gigabytes, so what comes out is handed over in pieces of bounded size;
whoever takes them can stop before the next one is made. A stream of events is packed too at times,
so each piece that comes in gives all that it can give at once.
"""

import zlib
from collections.abc import Iterator
from typing import Final

#: What a client offers, and what it then understands.
PACKINGS: Final = "gzip, deflate"
#: The most bytes that come out at once.
PIECE: Final = 64 * 1024

_ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


class BadPacking(ValueError):
    """A body cannot be unpacked."""


class Unpacker:
    """Unpacks one body.

    Args:
        packing: The Content-Encoding header, None if there is none.

    Raises:
        BadPacking: It is a packing that was not offered.
    """

    def __init__(self, packing: str | None) -> None:
        packing = (packing or "identity").strip().lower()
        if packing not in ("identity", "gzip", "x-gzip", "deflate"):
            raise BadPacking(f"the body is packed by {packing!r}, not by one of {PACKINGS}")
        self._unpack = None if packing == "identity" else zlib.decompressobj(_ZLIB_OR_GZIP)
        self._may_be_raw = packing == "deflate"
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what comes out for what came in.

        Raises:
            BadPacking: It is not packed as it says.
        """
        if self._unpack is None:
            yield data
            return
        self._begun = self._begun or bool(data)
        while data:
            piece, data = self._piece(data)
            if piece:
                yield piece

    def end(self) -> None:
        """Say that nothing more comes in.

        Raises:
            BadPacking: The end is missing.
        """
        if self._begun and self._unpack is not None and not self._unpack.eof:
            raise BadPacking("the packed body is incomplete")

    def _piece(self, data: bytes) -> tuple[bytes, bytes]:
        """One piece that comes out, and what has not gone in yet."""
        assert self._unpack is not None
        try:
            piece = self._unpack.decompress(data, PIECE)
        except zlib.error as error:
            if not self._may_be_raw:
                raise BadPacking(f"the body cannot be unpacked: {error}") from error
            # "deflate" means the zlib format, but some servers leave its frame out.
            self._may_be_raw = False
            self._unpack = zlib.decompressobj(_RAW)
            return self._piece(data)
        if self._unpack.eof:
            return piece, b""  # what follows the end means nothing
        self._may_be_raw = self._may_be_raw and not piece
        return piece, self._unpack.unconsumed_tail
