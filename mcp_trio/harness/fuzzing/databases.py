"""Where Hypothesis keeps its examples, for a later run or another machine to start with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase

REDIS: Final = ("redis://", "rediss://", "unix://")


class NoDatabase(Exception):
    """The database cannot be had; the message says what is missing."""


def open_database(place: str) -> ExampleDatabase:
    """A folder, or Redis at a `redis://` URL, which many machines may share.

    Raises:
        NoDatabase: The package `redis` is not installed, the URL is none, or nobody answers there.
    """
    if not place.startswith(REDIS):
        return DirectoryBasedExampleDatabase(place)
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis, RedisError  # type: ignore[import-not-found, unused-ignore]
    except ImportError as exc:
        raise NoDatabase(
            f"--database {place.partition('@')[2] or place} needs the package redis: "
            "pip install redis"
        ) from exc
    shown = place.partition("@")[2] or place.partition("://")[2]  # without the password
    try:
        redis = Redis.from_url(place)
        redis.ping()
    except ValueError as exc:
        raise NoDatabase(f"this is no URL of Redis: {exc}") from exc
    except RedisError as exc:
        raise NoDatabase(f"no Redis answers at {shown}: {exc}") from exc
    return RedisExampleDatabase(redis)


class Shelf(ExampleDatabase):
    """The part of a database that belongs to one layer and revision of one target.

    Hypothesis tells tests apart by their code, and here all run the same.
    """

    def __init__(self, database: ExampleDatabase, name: str) -> None:
        super().__init__()
        self._database = database
        self._name = name.encode() + b"\0"

    def save(self, key: bytes, value: bytes) -> None:
        self._database.save(self._name + key, value)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return self._database.fetch(self._name + key)

    def delete(self, key: bytes, value: bytes) -> None:
        self._database.delete(self._name + key, value)
