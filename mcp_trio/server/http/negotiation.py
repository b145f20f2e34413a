"""What a client sends and what it takes: Content-Type and Accept, as far as this protocol needs.

Both are lists of media types in any capitals, with parameters, and Accept has wildcards and
weights besides (RFC 9110, sections 8.3 and 12.5.1). A weight of 0 says no.
"""

import re
from functools import lru_cache

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"

#: One element of a list; a comma inside quotes does not end it. Quotes that nobody closes go on to
#: the end: trying again behind each would take a header that is full of them seconds to read.
_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z))++', re.DOTALL)
_WEIGHT = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def is_json(content_type: str | None) -> bool:
    """Whether a body of this Content-Type is JSON. Its charset is not asked: JSON is UTF-8."""
    return content_type == JSON_TYPE or _media_type(content_type or "") == JSON_TYPE


@lru_cache(maxsize=64)
def accepts(accept: str | None, *media_types: str) -> bool:
    """Whether a client with this Accept takes every one of the media types.

    Without an Accept it takes anything; of the ranges that match, the most specific one counts.
    """
    if accept is None:
        return True
    weights = dict(filter(None, map(_weighted, _ELEMENT.findall(accept))))
    return all(_weight(media_type, weights) > 0 for media_type in media_types)


def _weight(media_type: str, weights: dict[str, float]) -> float:
    kind = media_type.partition("/")[0]
    for media_range in (media_type, f"{kind}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return 0.0


def _weighted(element: str) -> tuple[str, float] | None:
    """A media range and its weight; None for what is neither."""
    media_range, *parameters = element.split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            value = value.strip()
            return (_media_type(media_range), float(value)) if _WEIGHT.fullmatch(value) else None
    return _media_type(media_range), 1.0


def _media_type(value: str) -> str:
    return value.partition(";")[0].strip(" \t").lower()
